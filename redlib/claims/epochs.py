"""Verdicts on what the source says of when its experts stop learning (4.5.2)."""

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, Finding, as_frame
from redlib.results import pick

LATE = 0.5  # of the epochs that are allowed: training that ends after this share of them is called late


def epoch_verdicts(
    first: pd.DataFrame,
    second: pd.DataFrame,
    variant: str,
    recipe: str,
    split: str,
    limit: int,
    numbers: bool = False,
) -> pd.DataFrame:
    """Whether experts of Task 1 stop late, those of Task 2 early, and the former learn for longer: columns section,
    claim, test, measured, verdict.

    first, second: task1_epochs and task2_epochs; variant: of Task 2; recipe and split: of both; limit: the epochs that
    an expert may train. Means over experts and seeds, the smallest and largest beside them, and no interval.
    LookupError for missing rows.
    """
    about = {"method": "experts", "group": "all", "seed": "all", "split": split}
    found = {}
    for metric in ("epochs_run", "best_epoch"):
        found[metric] = (
            pick(first, **about, metric=metric, variant=recipe),
            pick(second, **about, metric=metric, variant=variant),
        )
    one, two = found["epochs_run"]
    best, other = found["best_epoch"]
    border = LATE * limit
    ends = f"training ends, in the mean, {{}} {border:g} of {limit} epochs (no interval)"
    lines = [
        ("experts of Task 1 stop late", ends.format("after"), _said("Task 1", one), one, one["value"] > border),
        ("experts of Task 2 stop early", ends.format("before"), _said("Task 2", two), two, two["value"] < border),
        (
            "experts improve for longer on Task 1 than on Task 2",
            "the mean best epoch of Task 1's experts is later than that of Task 2's (no interval)",
            f"{_said('Task 1', best)}; {_said('Task 2', other)}",
            {"value": best["value"] - other["value"], "n": best["n"]},
            best["value"] > other["value"],
        ),
    ]
    verdicts = [
        Finding("4.5.2", claim, test, said, HOLDS if fits else FAILS, value=row["value"], n=float(row["n"]))
        for claim, test, said, row, fits in lines
    ]
    return as_frame(verdicts, numbers)


def _said(task: str, row: pd.Series) -> str:
    return f"{task}: epoch {row['value']:.1f}, {row['low']:.0f} to {row['high']:.0f}, of {int(row['n'])} experts"
