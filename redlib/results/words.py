"""Result rows as clauses, so that what a text says follows from the numbers."""

from collections.abc import Iterable

import pandas as pd

from redlib.results.show import cell

DIRECTIONS = {1: "above", -1: "below", 0: "undecided"}


def direction(row: pd.Series) -> int:
    """1 if the interval of a difference lies above zero, -1 if below, 0 if it contains zero (or is that point)."""
    return int(row["low"] > 0) - int(row["high"] < 0)


def difference(row: pd.Series, first: str, second: str, digits: int = 3) -> str:
    """What a difference first minus second says: `A is above B by 0.120 [0.100, 0.140]`, the same with `below`, or
    `A and B do not differ measurably (0.004 [-0.010, 0.018])` where the interval contains zero. A difference that would
    be rounded to zero gets the digits that show it, with six at most, as many as tables keep."""
    sign = direction(row)
    if sign == 0:
        return f"{first} and {second} do not differ measurably ({cell(row, digits)})"
    ends = sorted((abs(row["low"]), abs(row["high"])))
    by = {"value": abs(row["value"]), "low": ends[0], "high": ends[1]}
    if round(by["value"], digits) == 0:
        digits = next((more for more in range(digits, 6) if round(min(by.values()), more) > 0), 6)
    return f"{first} is {DIRECTIONS[sign]} {second} by {cell(pd.Series(by), digits)}"


def listed(names: Iterable[object], none: str = "none") -> str:
    """`a`, `a and b`, `a, b and c`; `none` for nothing."""
    words = [str(name) for name in names]
    if len(words) < 2:
        return words[0] if words else none
    return f"{', '.join(words[:-1])} and {words[-1]}"


def standing(frame: pd.DataFrame, digits: int = 3, **keys) -> str:
    """Where the one row with these keys stands among all rows by value, in words: the best, within reach of the best
    (its `high` is at or above the best's `low`), behind the best, or not among them. Both are given as cells.

    ValueError when the keys fit several rows.
    """
    mine = frame[(frame[list(keys)].astype(str) == pd.Series(keys).astype(str)).all(axis=1)]
    if mine.empty:
        return f"not among the {len(frame)} tried"
    if len(mine) > 1:
        raise ValueError(f"{len(mine)} rows match {keys}")
    own, best = mine.iloc[0], frame.loc[frame["value"].idxmax()]
    if own["value"] >= best["value"]:
        return f"the best of {len(frame)}, {cell(own, digits)}"
    place = int((frame["value"] > own["value"]).sum()) + 1
    named = ", ".join(f"{name} {best[name]}" for name in keys)
    reach = "within reach of" if own["high"] >= best["low"] else "behind"
    return f"number {place} of {len(frame)}, {cell(own, digits)}, {reach} the best ({named}: {cell(best, digits)})"
