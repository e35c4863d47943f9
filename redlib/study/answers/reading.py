"""What an answer reads, and the few phrases that answers share."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from redlib import claims
from redlib.config import Profile
from redlib.results import cell, listed, pick, select

NEW, KNOWN = "on unseen sums", "on new combinations of known sums and wordings"
VALUE, RANGE, ROUTER, BELOW = "value_accuracy", "range_accuracy", "router_accuracy", "value_accuracy_below_red"
AT = {"seed": "all", "part": "test", "group": "all"}
CHOSEN = AT | {"variant": "chosen"}
UNSEEN = CHOSEN | {"split": "structure"}
CHAINS = UNSEEN | {"variant": "operations/chosen"}


@dataclass(frozen=True)
class Tables:
    """Where answers get their numbers: `read` gives a table of the profile by name, `verdicts` the judged claims."""

    profile: Profile
    read: Callable[[str], pd.DataFrame]
    verdicts: Callable[[], pd.DataFrame]

    def row(self, name: str, **keys) -> pd.Series:
        """The one row of table `name` with these keys; LookupError where there is none."""
        return pick(self.read(name), **keys)

    def rows(self, name: str, **keys) -> pd.DataFrame:
        """All rows of table `name` with these keys; LookupError where there is none."""
        return select(self.read(name), **keys)


def begin(text: str) -> str:
    """A clause as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def best(rows: pd.DataFrame, *without: str) -> pd.Series:
    """The row of the highest value, whose method is none of `without`; LookupError where none is left."""
    rows = rows[~rows["method"].isin(without)]
    if rows.empty:
        raise LookupError(f"no row of a method other than {listed(without)}")
    return rows.loc[rows["value"].idxmax()]


def beside(first: pd.Series, second: pd.Series, above: str, below: str) -> str:
    """How two numbers without a paired difference stand: `above` or `below` where the first one's interval is apart
    from the second's, otherwise that the intervals overlap."""
    if first["low"] > second["high"]:
        return above
    return below if first["high"] < second["low"] else "the intervals overlap"


def costliest(changes: pd.DataFrame, name: Callable[[pd.Series], str]) -> str:
    """Which of several changes costs most, and how much: `<name> costs most, -0.660 [-0.709, -0.613]`; or that none
    costs anything measurable."""
    worst = changes.loc[changes["value"].idxmin()]
    return f"{name(worst)} costs most, {cell(worst)}" if worst["high"] < 0 else "none costs anything measurable"


def hold(found: pd.DataFrame) -> str:
    """How often each verdict was given: `3 hold, 8 do not and 1 is undecided`."""
    count = found["verdict"].value_counts()
    holds, fails, open_ = (int(count.get(name, 0)) for name in (claims.HOLDS, claims.FAILS, claims.OPEN))
    verbs = ("holds" if holds == 1 else "hold", "does not" if fails == 1 else "do not", "is" if open_ == 1 else "are")
    return f"{holds} {verbs[0]}, {fails} {verbs[1]} and {open_} {verbs[2]} undecided"
