"""Verdict on what the source says of when its experts stop learning (4.5.2)."""

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, VERDICT
from redlib.results import pick


def epoch_verdicts(first: pd.DataFrame, second: pd.DataFrame, variant: str, recipe: str, split: str) -> pd.DataFrame:
    """Whether experts learn for longer on Task 1 than on Task 2: columns section, claim, test, measured, verdict.

    first, second: task1_epochs and task2_epochs; variant: of Task 2; recipe and split: of both. Means over experts and
    seeds, with the smallest and largest beside them, and no interval. LookupError for missing rows.
    """
    about = {"method": "experts", "metric": "best_epoch", "group": "all", "seed": "all", "split": split}
    one, two = pick(first, **about, variant=recipe), pick(second, **about, variant=variant)
    measured = "; ".join(
        f"{task}: epoch {row['value']:.1f}, {row['low']:.0f} to {row['high']:.0f}, of {int(row['n'])} experts"
        for task, row in (("Task 1", one), ("Task 2", two))
    )
    test = "the mean best epoch of Task 1's experts is later than that of Task 2's (no interval)"
    claim = "experts improve for longer on Task 1 than on Task 2"
    verdict = HOLDS if one["value"] > two["value"] else FAILS
    return pd.DataFrame([("4.5.2", claim, test, measured, verdict)], columns=VERDICT)
