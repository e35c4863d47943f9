"""One question solved: the program that a planner writes, every step as an executor does it, and the answer (the
source, 4.8). `solve` is a pure function; a `Solver` holds what it needs by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from redlib.datasets.steps import Domain
from redlib.decomposer import Plan
from redlib.execution.solution import Done, Said, Solution
from redlib.programs import SIGN, Program, exact

Executor = Callable[[int, str, int], Said]


class Decomposes(Protocol):
    """A planner: a text in, a plan out; ValueError in one sentence for a text that it refuses."""

    def decompose(self, text: str) -> Plan:
        """The plan for a text."""


def arithmetic(a: int, operator: str, b: int) -> Said:
    """The executor that computes every step: the ceiling."""
    return Said(exact(a, operator, b))


def solve(
    text: str,
    planner: Decomposes,
    executor: Executor,
    within: Domain | None = None,
    reference: Decomposes | None = None,
    about: Mapping[str, str] | None = None,
) -> Solution:
    """Plan a text and execute its program step by step, each with the numbers that the steps before it gave.

    within: the steps that the executor's experts know (None: all); reference: the planner whose program counts as what
    the text states; about: names of `planner`, `method` and `model`. Raises ValueError in one sentence for a text that
    the planner refuses or writes no program for.
    """
    plan = planner.decompose(text)
    program = plan.program
    if program is None:
        raise ValueError(f"the planner wrote no program for {text!r}: {plan.written!r}")
    said: list[Said] = []

    def step(a: int, operator: str, b: int) -> int:
        said.append(executor(a, operator, b))
        return said[-1].value

    executed = program.trace(step)
    trace = tuple(
        Done(f"x{k}", e.a, e.operator, e.b, s, within is None or within.holds(e.a, SIGN[e.operator], e.b), needed)
        for k, (e, s, needed) in enumerate(zip(executed, said, program.needed, strict=True), start=1)
    )
    stated, unread = _stated(text, reference or planner)
    return Solution(
        text=text, plan=plan, trace=trace, within=within, reference=stated, unread=unread, **_names(about or {})
    )


def _names(about: Mapping[str, str]) -> dict[str, str]:
    return {name: about.get(name, "") for name in ("planner", "method", "model")}


def _stated(text: str, reference: Decomposes) -> tuple[Program | None, str]:
    try:
        return reference.decompose(text).program, ""
    except ValueError as error:
        return None, str(error)


@dataclass(frozen=True, eq=False)
class Solver:
    """Planners and executors by name, the first of each being the default. `within`: the steps that the experts know;
    `exempt`: executors that know every step; `model`: where the experts come from, in words."""

    planners: Mapping[str, Decomposes]
    executors: Mapping[str, Executor]
    within: Domain
    reference: Decomposes
    model: str
    exempt: tuple[str, ...] = ()

    def solve(self, text: str, planner: str = "", method: str = "") -> Solution:
        """`solve` with what is called so (""  for the default); ValueError as there, and for an unknown name."""
        planner, method = planner or next(iter(self.planners)), method or next(iter(self.executors))
        for kind, name, known in (("planner", planner, self.planners), ("method", method, self.executors)):
            if name not in known:
                raise ValueError(f"unknown {kind} {name!r}; valid {kind}s: {', '.join(known)}")
        about = {"planner": planner, "method": method, "model": self.model}
        within = None if method in self.exempt else self.within
        return solve(text, self.planners[planner], self.executors[method], within, self.reference, about)
