"""A program: its text, its meaning, and its execution with any step function."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from redlib.expressions import Expression
from redlib.programs.reading import scan
from redlib.programs.rules import SIGN, Step, fault_of, index, variables

StepFunction = Callable[[int, str, int], int]


def exact(a: int, operator: str, b: int) -> int:
    """The arithmetic result of one step: the step function that makes no mistakes."""
    return a + SIGN[operator] * b


class Executed(NamedTuple):
    """One step with the numbers that it got and the result that the step function gave."""

    a: int
    operator: str
    b: int
    result: int


@dataclass(frozen=True)
class Program:
    """Steps in order, of which step k defines xk, and the variable that is the answer.

    `==` compares programs by their text, `meaning` by what they add and subtract. Raises ValueError with one sentence
    for no steps, an unknown operator, an operand that is neither a whole number up to 999999999 nor a variable, and a
    variable that is undefined, used before it is defined or in need of its own result (a loop).
    """

    steps: tuple[Step, ...]
    answer: str

    def __post_init__(self) -> None:
        if fault := fault_of(self.steps, self.answer):
            raise ValueError(fault[1])

    @property
    def text(self) -> str:
        """The program in the source's format, without a newline at the end."""
        lines = [f"Step {k}: {s.left} {s.operator} {s.right} = x{k}" for k, s in enumerate(self.steps, start=1)]
        return "\n".join([*lines, f"Answer: {self.answer}"])

    @classmethod
    def read(cls, text: str, max_operations: int | None = None, largest: int | None = None) -> "Program":
        """The inverse of `text`, with `check` if limits are given.

        Raises ValueError "line 2, column 9: ..." for anything that `text` would not print.
        """
        steps, answer, places = scan(text)
        if fault := fault_of(steps, answer, max_operations, largest):
            line, column = places[fault[0]]
            raise ValueError(f"line {line}, column {column}: {fault[1]}")
        return cls(steps, answer)

    @classmethod
    def from_expression(cls, expression: Expression) -> "Program":
        """The chain's operations from left to right, one a step."""
        lefts = (expression.terms[0], *(f"x{k}" for k in range(1, len(expression.operators))))
        steps = tuple(map(Step, lefts, expression.operators, expression.terms[1:]))
        return cls(steps, f"x{len(steps)}")

    def to_expression(self) -> Expression:
        """The chain that this program computes; ValueError, naming the first fault, when it is none.

        In a chain, every step but the first continues the one before it with a number, and the answer is the last one.
        """
        for k, step in enumerate(self.steps):
            wanted = isinstance(step.left, int) if k == 0 else step.left == f"x{k}"
            if not wanted or isinstance(step.right, str):
                raise ValueError(
                    f"no chain: step {k + 1} does not continue {f'x{k}' if k else 'a number'} with a number"
                )
        if self.answer != f"x{len(self.steps)}":
            raise ValueError(f"no chain: the answer is {self.answer}, not the last step's x{len(self.steps)}")
        terms = (self.steps[0].left, *(step.right for step in self.steps))
        return Expression(terms, tuple(step.operator for step in self.steps))

    @cached_property
    def needed(self) -> tuple[bool, ...]:
        """For every step, whether the answer depends on it."""
        reached = [False] * len(self.steps)
        reached[index(self.answer)] = True
        for k in reversed(range(len(self.steps))):
            for operand in variables(self.steps[k]) if reached[k] else ():
                reached[index(operand)] = True
        return tuple(reached)

    @cached_property
    def meaning(self) -> tuple[tuple[str, int, int], ...]:
        """The signed multiset of numbers that makes the answer, as sorted (sign, number, times).

        Programs of one meaning have one exact answer, whatever the order of their steps; for a chain it says what
        `Expression.structure_key` says.
        """
        terms: list[Counter] = []
        for step in self.steps:
            left, right = (terms[index(o)] if isinstance(o, str) else Counter({("+", o): 1}) for o in step.operands)
            if step.operator == "-":
                right = Counter({("-" if sign == "+" else "+", n): times for (sign, n), times in right.items()})
            terms.append(left + right)
        return tuple(sorted((sign, n, times) for (sign, n), times in terms[index(self.answer)].items()))

    def trace(self, step: StepFunction = exact) -> tuple[Executed, ...]:
        """Every step in order with its numbers and its result; partial results are those before the last one."""
        done: list[Executed] = []
        for s in self.steps:
            a, b = (done[index(o)].result if isinstance(o, str) else o for o in s.operands)
            done.append(Executed(a, s.operator, b, step(a, s.operator, b)))
        return tuple(done)

    def execute(self, step: StepFunction = exact) -> int:
        """The answer when `step` does every step."""
        return self.trace(step)[index(self.answer)].result


def check(program: Program, max_operations: int | None = None, largest: int | None = None) -> None:
    """ValueError when a program has more than `max_operations` steps or a number above `largest` (None: any)."""
    if fault := fault_of(program.steps, program.answer, max_operations, largest):
        raise ValueError(fault[1])
