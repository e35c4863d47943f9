"""Ten questions worth a look, chosen from the test rows of one seed by rules that are stated beforehand."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from redlib.expressions import LabelSpace

EACH = 2  # questions a rule
RULES = {
    "most uncertain": "largest entropy of the value probabilities",
    "worst regret": "most log-probability of the true value lost against the best single expert",
    "rescued misroute": "the right value although the router's first choice is wrong, least weight on the true range",
    "boundary pair": "the last value of one range and the first of the next, least weight together on their own ranges",
    "far from training": "the nearest training structure is furthest away",
}


def choose(rows: pd.DataFrame, labels: LabelSpace) -> pd.DataFrame:
    """The rows that the rules choose, in the order of RULES, with a column `case` such as "worst regret 1".

    rows: test rows with columns row, structure, value, range (0-based), right, first (router's first choice), own
    (weight on the true range), entropy, regret, distance. No row is chosen twice, nor two of one structure by one rule;
    ties go to the smaller `row`. A rule that few rows satisfy gives fewer.
    """
    rows = rows.sort_values("row", kind="stable")
    chosen: list[pd.DataFrame] = []
    taken: set[int] = set()
    for rule, find in _FIND.items():
        left = rows[~rows["row"].isin(taken)]
        found = find(left, labels).drop_duplicates("structure").head(EACH)
        taken |= set(found["row"])
        chosen.append(found.assign(case=[f"{rule} {turn}" for turn in range(1, len(found) + 1)]))
    return pd.concat(chosen, ignore_index=True)


def _largest(column: str) -> Callable[[pd.DataFrame, LabelSpace], pd.DataFrame]:
    return lambda rows, labels: rows.sort_values(column, ascending=False, kind="stable")


def _rescued(rows: pd.DataFrame, labels: LabelSpace) -> pd.DataFrame:
    return rows[rows["right"] & (rows["first"] != rows["range"])].sort_values("own", kind="stable")


def _boundary(rows: pd.DataFrame, labels: LabelSpace) -> pd.DataFrame:
    pairs = list(_pairs(rows.sort_values("own", kind="stable"), labels))
    return min(pairs, key=lambda pair: pair["own"].sum(), default=rows.iloc[:0])


def _pairs(rows: pd.DataFrame, labels: LabelSpace) -> Iterator[pd.DataFrame]:
    """Of every boundary the row on each side with the least weight on its own range."""
    for _, last in labels.bounds[:-1]:
        sides = [np.flatnonzero(rows["value"] == value)[:1] for value in (last, last + 1)]
        if all(len(side) for side in sides):
            yield rows.iloc[np.concatenate(sides)]


_FIND: dict[str, Callable[[pd.DataFrame, LabelSpace], pd.DataFrame]] = {
    "most uncertain": _largest("entropy"),
    "worst regret": _largest("regret"),
    "rescued misroute": _rescued,
    "boundary pair": _boundary,
    "far from training": _largest("distance"),
}
