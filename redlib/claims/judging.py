"""How a conclusion is judged, and the tests that both tasks share. A test yields (section, claim, test, measured,
verdict)."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.reported import load
from redlib.results import cell, pick, select

SURVIVES = 0.1  # a range is kept by a method that gets more than this share of its rows right
OTHERS = ("global_head", "uniform_average", "red_uniform", "softmax_moe")  # the source's methods beside RED
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
VERDICT = ["section", "claim", "test", "measured", "verdict"]


def judge(low: float, high: float, border: float = 0.0) -> str:
    """Whether an interval lies above the border: holds, does not hold, or undecided where it reaches over it."""
    return HOLDS if low > border else FAILS if high < border else OPEN


def together(verdicts) -> str:
    """The verdict on a conclusion that needs all of these to hold."""
    found = set(verdicts)
    return FAILS if FAILS in found else OPEN if OPEN in found else HOLDS


def reported(claim_id: str) -> float:
    """The number of one claim."""
    return float(pick(load(), claim_id=claim_id)["number"])


def below_red(test: pd.DataFrame, methods, group="all") -> pd.DataFrame:
    """RED's value accuracy minus that of each method, on the same rows."""
    return select(test, metric="value_accuracy_below_red", group=group, method=methods)


def best_of_all(test: pd.DataFrame, section: str) -> Iterator[tuple]:
    """RED against the source's other methods (4.6.1, 4.7.1)."""
    gaps = below_red(test, OTHERS).sort_values("value")
    worst = gaps.iloc[0]
    verdict = FAILS if (gaps["high"] < 0).any() else HOLDS if (gaps["low"] > 0).all() else OPEN
    said = "RED minus the best of the source's other methods is above zero"
    yield section, "RED is the best of the source's methods", said, f"{cell(worst)} against {worst['method']}", verdict
    gap, stated = below_red(test, "softmax_moe").iloc[0], reported(f"{section}-07") - reported(f"{section}-05")
    said = f"RED minus the mixture is not measurably below the reported {stated:.3f}"
    yield (
        section,
        "RED gains on the mixture as much as reported",
        said,
        cell(gap),
        judge(gap["high"], gap["high"], stated),
    )


def routing(test: pd.DataFrame, claim_id: str) -> Iterator[tuple]:
    """The router, wrong routes and soft weights (4.6.4, 4.7.3); `claim_id` reports the router's test accuracy."""
    section = claim_id.partition("-")[0]
    router, stated = pick(test, method="red", metric="router_accuracy", group="all"), reported(claim_id)
    said = f"router accuracy is not measurably below the reported {stated:.3f}"
    yield section, "the router is right", said, cell(router), judge(router["high"], router["high"], stated)
    wrong = test[(test["method"] == "red") & (test["metric"] == "value_accuracy") & (test["group"] == "route=wrong")]
    said = "more than half of the wrongly routed texts get the right value"
    measured, verdict = "no wrong route", OPEN
    if len(wrong):
        measured, verdict = cell(wrong.iloc[0], n=True), judge(wrong["low"].iloc[0], wrong["high"].iloc[0], 0.5)
    yield section, "a wrong route does not unsettle RED", said, measured, verdict
    gap = below_red(test, "top1").iloc[0]
    said = "RED minus RED with its first choice only is above zero"
    yield section, "experts cooperate", said, cell(gap), judge(gap["low"], gap["high"])
