"""What a program must be: the first fault of its steps and its answer, and where it stands."""

import re
from dataclasses import dataclass

from redlib.expressions import OPERATORS

SIGN = {"+": 1, "-": -1}
VARIABLE = r"x[1-9][0-9]{0,8}(?![0-9])"
NUMBER = r"(?:0|[1-9][0-9]{0,8})(?![0-9])"
LARGEST = 999_999_999  # the largest number that can be read
Operand = int | str  # a number, or the name of a variable: "x1"
Place = tuple[int, str]  # step (0-based; their number stands for the answer's line) and what of it


@dataclass(frozen=True)
class Step:
    """left operator right; what it defines follows from its place in the program."""

    left: Operand
    operator: str
    right: Operand

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """Left and right."""
        return self.left, self.right


def variables(step: Step) -> list[str]:
    """The variables among a step's operands."""
    return [operand for operand in step.operands if isinstance(operand, str)]


def index(variable: str) -> int:
    """0-based step that defines a variable."""
    return int(variable[1:]) - 1


def fault_of(
    steps: tuple[Step, ...], answer: str, max_operations: int | None = None, largest: int | None = None
) -> tuple[Place, str] | None:
    """Where the first fault stands and what it is; None when there is none.

    Limits are no more than `max_operations` steps and no number above `largest` (None: any).
    """
    end = (len(steps), "variable")
    if not steps:
        return end, "the program has no steps"
    for k, step in enumerate(steps):
        if max_operations is not None and k >= max_operations:
            return (k, "line"), f"the program has {len(steps)} operations, more than {max_operations}"
        if step.operator not in OPERATORS:
            return (k, "operator"), f"unknown operator {step.operator!r}; valid operators: {', '.join(OPERATORS)}"
        for side, operand in (("left", step.left), ("right", step.right)):
            if sentence := _operand_fault(steps, k, operand, largest):
                return (k, side), sentence
    if not isinstance(answer, str) or not re.fullmatch(VARIABLE, answer):
        return end, f"answer {answer!r} is no variable such as x1"
    return None if index(answer) < len(steps) else (end, _undefined(answer, steps))


def _operand_fault(steps: tuple[Step, ...], k: int, operand: Operand, largest: int | None) -> str:
    """What is wrong with an operand of step k, or nothing."""
    if type(operand) is int and 0 <= operand <= LARGEST:
        return f"number {operand} is above {largest}" if largest is not None and operand > largest else ""
    if not isinstance(operand, str) or not re.fullmatch(VARIABLE, operand):
        return f"operand {operand!r} is neither a number from 0 to {LARGEST} nor a variable such as x1"
    defined = index(operand)
    if defined >= len(steps):
        return _undefined(operand, steps)
    if defined < k:
        return ""
    if _needs(steps, defined, k):
        return f"x{k + 1} needs its own result: a loop"
    return f"{operand} is used in step {k + 1} before step {defined + 1} defines it"


def _undefined(variable: str, steps: tuple[Step, ...]) -> str:
    return f"{variable} is not defined; the program defines {', '.join(f'x{k + 1}' for k in range(len(steps)))}"


def _needs(steps: tuple[Step, ...], start: int, wanted: int) -> bool:
    """Whether step `start` is step `wanted` or needs its result."""
    open_, seen = [start], set()
    while open_:
        k = open_.pop()
        if k == wanted:
            return True
        if k not in seen and k < len(steps):
            seen.add(k)
            open_ += [index(v) for v in variables(steps[k]) if re.fullmatch(VARIABLE, v)]
    return False
