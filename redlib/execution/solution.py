"""What `solve` returns: a question, its plan, what was said of every step, and the answer, as card, tables or JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from redlib.datasets.steps import Domain, canonical
from redlib.decomposer import Plan
from redlib.programs import Program, exact
from redlib.programs.rules import index


@dataclass(frozen=True)
class Said:
    """What an executor says of one step: a value and its probability, the range with the largest sum of probabilities
    ("" for none), and the weight of every expert by name (empty without a router)."""

    value: int
    probability: float = 1.0
    range: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Done:
    """One executed step: variable = a operator b, what was said of it, whether the experts know such a step (`inside`)
    and whether the answer depends on it."""

    variable: str
    a: int
    operator: str
    b: int
    said: Said
    inside: bool
    needed: bool

    @property
    def text(self) -> str:
        """The step as its experts were asked it: `12 + 5`."""
        return canonical((self.a, self.operator, self.b))

    @property
    def exact(self) -> int:
        """The step's exact result."""
        return exact(self.a, self.operator, self.b)

    @property
    def right(self) -> bool:
        """Whether the exact result was said."""
        return self.said.value == self.exact


@dataclass(frozen=True)
class Solution:
    """A text, its plan, the trace of the plan's program and the answer. `within`: the steps that the experts know
    (None: all); `reference`: the program that the text states, None with the reason in `unread` where it is not read.
    """

    text: str
    planner: str
    method: str
    model: str
    plan: Plan
    trace: tuple[Done, ...]
    within: Domain | None
    reference: Program | None
    unread: str = ""

    @property
    def lines(self) -> list[tuple[str, float]]:
        """The lines of the program and their probabilities; the last one is the answer's."""
        return list(zip(self.plan.written.split("\n"), self.plan.probabilities, strict=True))

    @property
    def said(self) -> Said:
        """What was said of the step that gives the answer."""
        return self.trace[index(self.plan.program.answer)].said

    @property
    def answer(self) -> int:
        """The value that was said of the step that gives the answer."""
        return self.said.value

    @property
    def true_value(self) -> int | None:
        """The exact value of the text; None where it is not read."""
        return None if self.reference is None else self.reference.execute()

    @property
    def right(self) -> bool | None:
        """Whether the answer is the exact value; None where the text is not read."""
        return None if self.reference is None else self.answer == self.true_value

    @property
    def same_program(self) -> bool | None:
        """Whether the plan adds and subtracts the numbers that the text does; None where the text is not read."""
        return None if self.reference is None else self.plan.program.meaning == self.reference.meaning

    @property
    def out_of_domain(self) -> bool:
        """Whether a step that the answer depends on is outside the experts' domain: nobody vouches for the answer."""
        return any(step.needed and not step.inside for step in self.trace)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: steps outside the domain, a program that says something else, a text not read."""
        outside = [f"{step.variable} = {step.text}" for step in self.trace if step.needed and not step.inside]
        found = []
        if outside:
            known = f"the experts know {_words(self.within)}"
            found.append(f"out of domain, so that nobody vouches for the answer: {', '.join(outside)} ({known})")
        if self.same_program is False:
            found.append(f"the text states another program, which gives {self.true_value}: {_in_line(self.reference)}")
        if self.unread:
            found.append(f"no true value known ({self.unread})")
        return tuple(found)

    def plan_table(self) -> pd.DataFrame:
        """Probability of every line that the planner wrote."""
        return pd.DataFrame(self.lines, columns=["line", "probability"]).set_index("line")

    def trace_table(self) -> pd.DataFrame:
        """A row a step, by variable: step, weights by expert (if any), answered, probability, exact, right, domain."""
        rows = {
            step.variable: {
                "step": step.text,
                **{f"weight of {name}": weight for name, weight in step.said.weights.items()},
                "answered": step.said.value,
                "probability": step.said.probability,
                "exact": step.exact,
                "right": step.right,
                "domain": "inside" if step.inside else "outside",
            }
            for step in self.trace
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("result")

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what `to_json` writes."""
        return {
            "text": self.text,
            "model": self.model,
            "planner": self.planner,
            "method": self.method,
            "plan": {
                "program": self.plan.written,
                "probability": round(self.plan.probability, 6),
                "lines": [{"line": line, "probability": round(p, 6)} for line, p in self.lines],
            },
            "stated_program": None if self.reference is None else self.reference.text,
            "same_program": self.same_program,
            "trace": [_plain(step) for step in self.trace],
            "answer": self.answer,
            "range": self.said.range or None,
            "true_value": self.true_value,
            "right": self.right,
            "out_of_domain": self.out_of_domain,
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """JSON of `to_dict`."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)

    def card(self, width: int = 80) -> str:
        """A readable card for a terminal."""
        from redlib.execution.card import card

        return card(self, width)

    def code(self) -> str:
        """The call behind this solution, as Python."""
        return f"solver.solve({self.text!r}, planner={self.planner!r}, method={self.method!r})"


def _plain(step: Done) -> dict[str, Any]:
    said = asdict(step.said)
    said |= {"probability": round(step.said.probability, 6), "range": step.said.range or None}
    said["weights"] = {name: round(weight, 6) for name, weight in step.said.weights.items()} or None
    about = {"variable": step.variable, "a": step.a, "operator": step.operator, "b": step.b}
    return about | said | {name: getattr(step, name) for name in ("exact", "right", "inside", "needed")}


def _words(within: Domain) -> str:
    named = {"first operand": within.first, "second": within.second, "result": within.result}
    return ", ".join(f"{name} {ends[0]}..{ends[1]}" for name, ends in named.items() if ends)


def _in_line(program: Program) -> str:
    return "; ".join(program.text.split("\n"))
