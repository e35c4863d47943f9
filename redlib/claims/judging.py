"""How a conclusion is judged, and the tests that both tasks share. A test yields a Finding."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from redlib.claims.reported import load
from redlib.results import cell, pick, select
from redlib.statistics import LEVEL

SURVIVES = 0.1  # a range is kept by a method that gets more than this share of its rows right
OTHERS = ("global_head", "uniform_average", "red_uniform", "softmax_moe")  # the source's methods beside RED
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
DIGITS = 5e-5  # the source's numbers have four digits


class Finding(NamedTuple):
    """A conclusion that was judged: what a chapter shows of it (VERDICT), and the number behind the words, which is the
    worst where several have to hold. `margin` says how far that one lies on the claim's side of the border, `beyond`
    whether its interval lies above the gain that the claim states."""

    section: str
    claim: str
    test: str
    measured: str
    verdict: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: float = math.nan
    margin: float = math.nan
    beyond: bool = False


VERDICT = list(Finding._fields[:5])


def as_frame(found: Iterable[tuple], numbers: bool = False) -> pd.DataFrame:
    """Findings, one a row: the columns VERDICT, with `numbers` all of Finding."""
    frame = pd.DataFrame([Finding(*one) for one in found], columns=list(Finding._fields))
    return frame if numbers else frame[VERDICT]


def behind(row: pd.Series) -> dict[str, float]:
    """A table row's value, low, high and n, as a Finding keeps them; NaN for what it does not have."""
    numbers = {name: row.get(name, math.nan) for name in ("value", "low", "high", "n")}
    return {name: math.nan if pd.isna(number) else float(number) for name, number in numbers.items()}


def judge(low: float, high: float, border: float = 0.0) -> str:
    """Whether an interval lies above the border: holds, does not hold, or undecided where it reaches over it."""
    return HOLDS if low > border else FAILS if high < border else OPEN


def together(verdicts) -> str:
    """The verdict on a conclusion that needs all of these to hold."""
    found = set(verdicts)
    return FAILS if FAILS in found else OPEN if OPEN in found else HOLDS


def reaches(row: pd.Series, stated: float) -> tuple[str, bool]:
    """Whether a stated number is reached: it is not measurably above our interval; and whether all of that lies beyond
    it."""
    return judge(row["high"], row["high"], stated), bool(row["low"] - DIGITS > stated)


def alike(row: pd.Series, within: float) -> str:
    """Whether a difference is no larger than `within`: its interval lies inside, outside, or reaches over an end."""
    inside = max(abs(row["low"]), abs(row["high"])) <= within
    return HOLDS if inside else FAILS if row["low"] > within or row["high"] < -within else OPEN


def worst(rows: pd.DataFrame | Iterable[pd.Series]) -> pd.Series:
    """The row of the lowest value."""
    each = [row for _, row in rows.iterrows()] if isinstance(rows, pd.DataFrame) else list(rows)
    return min(each, key=lambda row: row["value"])


def apart(first: pd.Series, second: pd.Series) -> pd.Series:
    """First minus second where no paired difference was measured: above zero only where the intervals are apart."""
    ends = {"low": first["low"] - second["high"], "high": first["high"] - second["low"]}
    return pd.Series({"value": first["value"] - second["value"], **ends})


def minus(first: pd.Series, second: pd.Series) -> pd.Series:
    """First minus second, the two intervals added as if they were independent."""
    gap = first["value"] - second["value"]
    low = gap - np.hypot(first["value"] - first["low"], second["high"] - second["value"])
    return pd.Series(
        {
            "value": gap,
            "low": low,
            "high": gap + np.hypot(first["high"] - first["value"], second["value"] - second["low"]),
        }
    )


def over_values(numbers: pd.Series, weights: pd.Series | float = 1.0) -> pd.Series:
    """The weighted mean of one number a true value, with Student's interval over the values: for tables by value, which
    have no interval of their own. numbers: (V,); weights: (V,) or one for all."""
    from scipy.stats import t  # slow to import, and most claims do not need it

    count = len(numbers)
    if not count:
        return pd.Series({"value": math.nan, "low": math.nan, "high": math.nan, "n": 0})
    share = weights / (numbers * 0 + weights).sum()
    mean = (share * numbers).sum()
    spread = (share**2 * (numbers - mean) ** 2).sum()
    half = t.ppf((1 + LEVEL) / 2, count - 1) * math.sqrt(count / (count - 1) * spread) if count > 1 else math.nan
    return pd.Series({"value": mean, "low": mean - half, "high": mean + half, "n": count})


def reported(claim_id: str) -> float:
    """The number of one claim."""
    return float(pick(load(), claim_id=claim_id)["number"])


def below_red(test: pd.DataFrame, methods, group="all") -> pd.DataFrame:
    """RED's value accuracy minus that of each method, on the same rows."""
    return select(test, metric="value_accuracy_below_red", group=group, method=methods)


def best_of_all(test: pd.DataFrame, section: str) -> Iterator[Finding]:
    """RED against the source's other methods (4.6.1, 4.7.1)."""
    gaps = below_red(test, OTHERS)
    least = worst(gaps)
    verdict = FAILS if (gaps["high"] < 0).any() else HOLDS if (gaps["low"] > 0).all() else OPEN
    said = "RED minus the best of the source's other methods is above zero"
    measured = f"{cell(least)} against {least['method']}"
    yield Finding(section, "RED is the best of the source's methods", said, measured, verdict, **behind(least))
    gap, stated = below_red(test, "softmax_moe").iloc[0], reported(f"{section}-07") - reported(f"{section}-05")
    said = f"RED minus the mixture is not measurably below the reported {stated:.3f}"
    verdict, beyond = reaches(gap, stated)
    claim = "RED gains on the mixture as much as reported"
    yield Finding(section, claim, said, cell(gap), verdict, **behind(gap), beyond=beyond)


def routing(test: pd.DataFrame, claim_id: str) -> Iterator[Finding]:
    """The router, wrong routes and soft weights (4.6.4, 4.7.3); `claim_id` reports the router's test accuracy."""
    section = claim_id.partition("-")[0]
    router, stated = pick(test, method="red", metric="router_accuracy", group="all"), reported(claim_id)
    said = f"router accuracy is not measurably below the reported {stated:.3f}"
    verdict, beyond = reaches(router, stated)
    yield Finding(section, "the router is right", said, cell(router), verdict, **behind(router), beyond=beyond)
    wrong = test[(test["method"] == "red") & (test["metric"] == "value_accuracy") & (test["group"] == "route=wrong")]
    claim = "a wrong route does not unsettle RED"
    said = "more than half of the wrongly routed texts get the right value"
    if wrong.empty:
        yield Finding(section, claim, said, "no wrong route", OPEN)
    else:
        row = wrong.iloc[0]
        yield Finding(section, claim, said, cell(row, n=True), judge(row["low"], row["high"], 0.5), **behind(row))
    gap = below_red(test, "top1").iloc[0]
    said = "RED minus RED with its first choice only is above zero"
    yield Finding(section, "experts cooperate", said, cell(gap), judge(gap["low"], gap["high"]), **behind(gap))
