"""What `red_plus` was to reach, set before it was measured, and how far it and its base came."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from redlib.results import cell, select

METHODS = {"red_plus": "red_plus", "red_plus_base": "its base alone"}
AT = {"seed": "all", "part": "test"}


@dataclass(frozen=True)
class Goal:
    """A number on test rows: in words, at least how much, and which rows of which table say it."""

    words: str
    least: float
    table: str
    rows: Mapping[str, str] = field(default_factory=dict)


def _of_task(words: str, least: float, task: str, split: str, metric: str = "value_accuracy") -> Goal:
    return Goal(words, least, "red_plus", {"task": task, "split": split, "metric": metric, "group": "all"})


_STEPS = {"variant": "closed/gold", "split": "structure", "metric": "value_accuracy", "group": "unseen=some"}
GOALS: dict[str, tuple[Goal, ...]] = {
    "full": (
        _of_task("Task 1, value, unseen sums", 0.985, "task1", "structure"),
        _of_task("Task 2, value, unseen chains", 0.95, "task2", "structure"),
        _of_task("Task 2, range, unseen chains", 0.99, "task2", "structure", "range_accuracy"),
        Goal("given programs, value, some steps unseen", 0.98, "red_plus_execution", _STEPS),
        _of_task("Task 1, value, unseen wordings", 0.95, "task1", "phrasing"),
        _of_task("Task 2, value, unseen wordings", 0.80, "task2", "phrasing"),
    ),
    "laptop": (_of_task("Task 1, value, unseen sums", 0.97, "task1", "structure"),),
}


def reached(profile: str, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Every goal that a profile has, with what was measured: columns goal, at least, METHODS by their words, reached
    (yes, no, or not measured) and short by (of `red_plus`). A profile without goals has no rows."""
    lines = [_line(goal, tables) for goal in GOALS.get(profile, ())]
    return pd.DataFrame(lines, columns=["goal", "at least", *METHODS.values(), "reached", "short by"])


def _line(goal: Goal, tables: Mapping[str, pd.DataFrame]) -> list:
    found = {}
    for method in METHODS:
        try:
            found[method] = select(tables[goal.table], **AT, **goal.rows, method=method).iloc[0]
        except LookupError:  # a split without seeds
            continue
    said = [cell(found[method], n=True) if method in found else "–" for method in METHODS]
    if "red_plus" not in found:
        return [goal.words, goal.least, *said, "not measured", "–"]
    short = goal.least - found["red_plus"]["value"]
    return [goal.words, goal.least, *said, "no" if short > 0 else "yes", f"{short:.3f}" if short > 0 else "–"]
