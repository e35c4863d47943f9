"""Maps of single steps, short enough to store for every executor: steps that differ in nothing but their second operand
share a line, which says of each in how many seeds it is right."""

from collections.abc import Sequence

import numpy as np
import pandas as pd


def as_lines(steps: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """A row a step (`keys`, first, second, right, n: right in so many of n seeds) as a row a line of steps.

    A line has the same keys and first operand throughout, and second operands without a gap from `second` on. Columns:
    keys, first, second, right (the counts of the line's steps, apart by spaces), value (the share that is right of
    the line's steps in all seeds) and n (how many those are).
    """
    ordered = steps.sort_values([*keys, "first", "second"], ignore_index=True)
    start = ordered["second"] - ordered.groupby([*keys, "first"], sort=False).cumcount()  # one number a gapless stretch
    lines = ordered.groupby([*keys, "first", start.rename("start")], sort=False)
    found = lines.agg(second=("second", "first"), value=("right", "sum"), n=("n", "sum"))
    found["right"] = lines["right"].agg(lambda counts: " ".join(map(str, counts)))
    return found.assign(value=found["value"] / found["n"]).reset_index().drop(columns="start")


def as_steps(lines: pd.DataFrame) -> pd.DataFrame:
    """The steps of lines (`as_lines`), a row each: `value` is the share of its n seeds that are right."""
    counts = lines["right"].str.split()
    seeds = (lines["n"] // counts.str.len()).astype(int)
    steps = lines.assign(right=counts, n=seeds, line=np.arange(len(lines))).explode("right", ignore_index=True)
    second = steps["second"] + steps.groupby("line").cumcount()
    return steps.assign(second=second, value=steps["right"].astype(int) / steps["n"]).drop(columns=["right", "line"])
