"""What comes before any model: pools of questions, their splits, reading texts, and executing programs from a table."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from redlib import datasets, phrasing
from redlib.bench.measuring import Line, in_turns, rate, ratio, report, taken
from redlib.datasets import steps
from redlib.execution import StepTable, encode
from redlib.execution import run as execute
from redlib.expressions import SOURCE_LABELS, Expression
from redlib.programs import Program, exact

TENTH = 10


def run(rows: int = 80_000, rounds: int = 3, write: bool = False) -> pd.DataFrame:
    """Seconds of this process for `rows` of everything, and how many times those of a tenth that is.

    Cases `80,000 rows/<what>`: a task's `pool` and its `structure split`, the pool's texts `parsed`, and its chains
    `executed` by look-ups. Metrics: `seconds` and `over_a_tenth` (10: cost in proportion to the rows).
    """
    lines: list[Line] = []
    whole, tenth = _calls(rows), _calls(rows // TENTH)
    for what in whole:
        sizes = {rows: whole[what], rows // TENTH: tenth[what]}
        turns = in_turns({f"{what}, {n:,} rows": lambda c=c: taken(1, c) for n, c in sizes.items()}, rounds, "/s")
        large, small = turns.values()
        case = f"{rows:,} rows/{what}"
        lines.append((case, "seconds", 1 / rate(large, "cpu"), "s"))
        lines.append((case, "over_a_tenth", ratio(small, large, "cpu"), "ratio"))
    return report("data", lines, write)


def _calls(rows: int) -> dict[str, Callable[[], Any]]:
    calls: dict[str, Callable[[], Any]] = {}
    for task in datasets.TASKS:
        pool = datasets.build(task, rows, 0)
        calls[f"{task} pool"] = lambda task=task: datasets.build(task, rows, 0)
        calls[f"{task} structure split"] = lambda pool=pool: datasets.split(pool, "structure", 0)
        calls[f"{task} parsed"] = lambda pool=pool: [phrasing.parse(text) for text in pool["text"]]
    programs = [Program.from_expression(Expression.read(text)) for text in pool["expression"]]
    table, domain = StepTable.tabulate(steps.reachable(), {"exact": exact}, SOURCE_LABELS), steps.domain("closed")
    calls["task2 executed"] = lambda: execute(encode(programs), table.look("exact"), domain)
    return calls
