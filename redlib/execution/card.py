"""A solution as plain text for a terminal."""

import textwrap
from collections.abc import Iterator

from redlib.execution.solution import Done, Solution

INDENT = " " * 9


def card(s: Solution, width: int = 80) -> str:
    """Question, plan with the probability of each line, trace with weights and exact values, answer, notes."""
    lines = [s.text, *_plan(s), *_trace(s), *_answer(s)]
    for note in s.notes:
        lines += textwrap.wrap(f"note: {note}", width, subsequent_indent="      ")
    return "\n".join(lines)


def _plan(s: Solution) -> Iterator[str]:
    yield from (f"model    {s.model}", "")
    yield f"plan     by the {s.planner} planner, probability {s.plan.probability:.3f}"
    widest = max(len(line) for line, _ in s.lines)
    for line, probability in s.lines:
        yield f"{INDENT}{line:{widest}}  {probability:.3f}"
    stated = {True: "the same numbers and signs", False: "another program", None: "not read"}[s.same_program]
    yield from (f"{INDENT}as the text states it: {stated}", "")


def _trace(s: Solution) -> Iterator[str]:
    yield f"trace    by {s.method}"
    rows = [_cells(step) for step in s.trace]
    head = ("", "weights", "says", "exact", "")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        yield (INDENT + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))).rstrip()
    yield ""


def _cells(step: Done) -> tuple[str, ...]:
    weights = "  ".join(f"{name} {weight:.3f}" for name, weight in step.said.weights.items()) or "none"
    remarks = [] if step.right else ["wrong"]
    remarks += [] if step.inside else ["outside the domain"]
    remarks += [] if step.needed else ["not needed"]
    says = f"{step.said.value} ({step.said.probability:.3f})"
    return f"{step.variable} = {step.text}", weights, says, f"{step.exact}", ", ".join(remarks)


def _answer(s: Solution) -> Iterator[str]:
    verdict = {True: "right", False: "wrong", None: "no true value known"}[s.right]
    truth = "" if s.true_value is None else f"{s.true_value} is exact; "
    range_ = f", range {s.said.range}" if s.said.range else ""
    flag = "  OUT OF DOMAIN" if s.out_of_domain else ""
    yield f"answer   {s.answer}{range_}  ({truth}{verdict}){flag}"
