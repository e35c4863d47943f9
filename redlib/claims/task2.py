"""Verdicts on what the source concludes from Task 2 (4.7)."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from redlib.claims.judging import (
    FAILS,
    HOLDS,
    OPEN,
    OTHERS,
    SURVIVES,
    Finding,
    apart,
    as_frame,
    behind,
    below_red,
    best_of_all,
    judge,
    minus,
    reaches,
    reported,
    routing,
    together,
    worst,
)
from redlib.claims.reported import METHODS, load
from redlib.evaluation import ACCURACY_LEVELS, level
from redlib.results import cell, listed, pick, select

KINDS = {  # the source's kinds of input (4.7.4) -> our groups of rows
    "addition_only": "pattern=addition",
    "subtraction_only": "pattern=subtraction",
    "multi_step": "ops>1",
    "boundary": "pattern=boundary",
}
WORDS = {  # its words -> levels of 4.6.2; it gives no thresholds of its own in 4.7.4
    "low": {"low"},
    "low-medium": {"low", "moderate"},
    "medium": {"moderate"},
    "high": {"high"},
}
DROP = 0.05  # how far accuracy at the boundaries may lie below that of all rows and still be called stable


def task2_verdicts(
    results: pd.DataFrame,
    labels,
    variant: str = "operations/chosen",
    split: str = "structure",
    numbers: bool = False,
) -> pd.DataFrame:
    """Whether each conclusion of 4.7 holds under one definition and recipe on one split: columns as in `verdicts`.

    results: tidy rows of Task 2. LookupError for missing rows.
    """
    test = select(results, seed="all", variant=variant, split=split, part="test")
    found = [*best_of_all(test, "4.7.1"), *_collapse(test), *_mixture(test, labels), *_by_range(test, labels)]
    found += [*routing(test, "4.7.3-05")]
    found += [*_every_kind(kinds(results, variant, split)), *_gains(test)]
    return as_frame(found, numbers)


def _gains(test: pd.DataFrame) -> Iterator[Finding]:
    gaps, measured, found, short = below_red(test, ("global_head", "softmax_moe")), [], [], []
    for claim, (_, gap) in zip(("4.7.1-01", "4.7.1-05"), gaps.sort_values("method").iterrows(), strict=True):
        stated = reported("4.7.1-07") - reported(claim)
        measured.append(f"{cell(gap)} on {gap['method']}, {stated:.3f} reported")
        found.append(reaches(gap, stated))
        short.append((gap["value"] - stated, gap))
    said = "RED minus each of the two is not measurably below the reported difference"
    claim = "RED is as far above the global head and the mixture as reported"
    verdict, beyond = together(verdict for verdict, _ in found), all(beyond for _, beyond in found)
    _, least = min(short, key=lambda pair: pair[0])
    yield Finding("4.7.5", claim, said, "; ".join(measured), verdict, **behind(least), beyond=beyond)


def _collapse(test: pd.DataFrame) -> Iterator[Finding]:
    row = pick(test, method="uniform_average", metric="value_accuracy", group="all")
    said = f"its value accuracy is below {SURVIVES:.0%}"
    verdict = judge(-row["high"], -row["low"], -SURVIVES)
    yield Finding("4.7.1", "uniform averaging collapses", said, cell(row), verdict, **behind(row))


def _mixture(test: pd.DataFrame, labels) -> Iterator[Finding]:
    mine = select(test, metric="value_accuracy")
    mixed, equal = (pick(mine, method=name, group="all") for name in ("softmax_moe", "uniform_average"))
    said = "its value accuracy lies above that of uniform averaging, interval against interval"
    gap = apart(mixed, equal)
    measured = f"{cell(gap)}: {cell(mixed)} against {cell(equal)}"
    verdict = judge(gap["low"], gap["high"])
    yield Finding("4.7.1", "the mixture improves on uniform averaging", said, measured, verdict, **behind(gap))
    yield _ambiguous(test, mixed)
    rows = select(mine, method="softmax_moe", group=labels.names).sort_values("value")
    low, best = rows.iloc[0], rows.iloc[-1]
    high, weak = ACCURACY_LEVELS["high"], ACCURACY_LEVELS["moderate"]
    said = f"its best range is above {high:.2f} and its worst below {weak:.2f}, the levels of 4.6.2"
    measured = f"best {best['group']}: {cell(best)}; worst {low['group']}: {cell(low)}"
    verdict = together([judge(best["low"], best["high"], high), judge(-low["high"], -low["low"], -weak)])
    decides = best if best["value"] - high < weak - low["value"] else low
    claim = "the mixture is high in some ranges and weak in others"
    yield Finding("4.7.2", claim, said, measured, verdict, **behind(decides))


def _ambiguous(test: pd.DataFrame, mixed: pd.Series) -> Finding:
    """Whether wrong routes are behind most of what the mixture gets wrong; `mixed` is its value accuracy."""
    claim = "the mixture is unstable because its routing is ambiguous"
    said = "more than half of its wrong values come with a first choice of the wrong expert, interval by interval"
    rows = select(test, method="softmax_moe")
    router = pick(rows, metric="router_accuracy", group="all")
    wrong = rows[(rows["metric"] == "value_accuracy") & (rows["group"] == "route=wrong")]
    if wrong.empty:
        return Finding("4.7.1", claim, said, "no wrong route", OPEN)
    wrong, other = wrong.iloc[0], {"value": "value", "low": "high", "high": "low"}
    share = pd.Series(
        {end: (1 - router[turned]) * (1 - wrong[turned]) / (1 - mixed[end]) for end, turned in other.items()}
    )
    measured = f"{cell(share)} of its wrong values; {cell(router)} of its first choices are right"
    return Finding("4.7.1", claim, said, measured, judge(share["low"], share["high"], 0.5), **behind(share))


def _by_range(test: pd.DataFrame, labels) -> Iterator[Finding]:
    head = select(test, method="global_head", metric="value_accuracy", group=labels.names).set_index("group")
    rows = [head.loc[name] for name in labels.names]
    steps = [apart(before, after) for before, after in pairwise(rows)]
    verdict = together(judge(step["low"], step["high"]) for step in steps)
    said, least = "its value accuracy falls from every range to the next", worst(steps)
    measured = f"{listed(map(cell, rows))}; smallest fall {cell(least)}"
    claim = "the global head degrades from range to range"
    yield Finding("4.7.2", claim, said, measured, verdict, **behind(least))
    gaps = below_red(test, OTHERS, labels.names)
    least = worst(gaps)
    verdict = together(judge(row["low"], row["high"]) for _, row in gaps.iterrows())
    said = "in every range, RED minus each of the source's other methods is above zero"
    measured = f"smallest: {cell(least)}, {least['method']} in {least['group']}"
    yield Finding("4.7.2", "RED is the best in every range", said, measured, verdict, **behind(least))


def _every_kind(found: pd.DataFrame) -> Iterator[Finding]:
    red = found[found["method"] == "red"]
    said = f"high for additions, subtractions and several steps; at the boundaries no more than {DROP} below all rows"
    measured = "; ".join(f"{row['input'].replace('_', ' ')}: {row['level']}, {cell(row)}" for _, row in red.iterrows())
    claim, verdict = "RED is high or stable for every kind of input", together(red["verdict"])
    yield Finding("4.7.4", claim, said, measured, verdict, **behind(worst(red)))


def kinds(results: pd.DataFrame, variant: str = "operations/chosen", split: str = "structure") -> pd.DataFrame:
    """The source's level for every kind of input and method (4.7.4) beside ours, by the thresholds of 4.6.2.

    Columns: claim_id, input (the source's kind), group (ours; `all` where every row has several operations), method,
    stated, level (a question mark where the interval reaches into another), value, low, high, n, verdict. *Stable*
    and *unstable* are judged by how far value accuracy at the boundaries lies below that of all rows (DROP), the two
    intervals added as if they were independent.
    """
    test = select(results, seed="all", variant=variant, split=split, part="test", metric="value_accuracy")
    lines = []
    for claim in load().query("section == '4.7.4'").to_dict("records"):
        group = KINDS[claim["group"]]
        group = "all" if group == "ops>1" and group not in set(test["group"]) else group
        method = METHODS[claim["method"]][0]
        row = pick(test, method=method, group=group)
        stated = claim["reported"]
        judged = (
            _word(row, stated) if stated in WORDS else _stability(row, pick(test, method=method, group="all"), stated)
        )
        about = {"claim_id": claim["claim_id"], "input": claim["group"], "group": group, "method": method}
        measured = row[["value", "low", "high", "n"]].to_dict()
        lines.append(about | {"stated": stated, "level": judged[0], **measured, "verdict": judged[1]})
    return pd.DataFrame(lines)


def _word(row: pd.Series, stated: str) -> tuple[str, str]:
    """Level and verdict of an accuracy against one of WORDS."""
    order = list(ACCURACY_LEVELS)  # from high to low
    best, worst = (order.index(level(row[end], "value_accuracy")) for end in ("high", "low"))
    reached = set(order[best : worst + 1])
    verdict = HOLDS if reached <= WORDS[stated] else OPEN if reached & WORDS[stated] else FAILS
    return level(row["value"], "value_accuracy") + (" ?" if len(reached) > 1 else ""), verdict


def _stability(row: pd.Series, whole: pd.Series, stated: str) -> tuple[str, str]:
    """What lies between the boundaries and all rows, and the verdict on `stable` or `unstable`."""
    gap = minus(row, whole)
    stable = judge(gap["low"], gap["high"], -DROP)
    opposite = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    return f"{cell(gap)} against all rows", stable if stated == "stable" else opposite[stable]
