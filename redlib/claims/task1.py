"""Verdicts on what the source concludes from Task 1 (4.6, and 4.11 on bias)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from redlib.claims.judging import (
    FAILS,
    HOLDS,
    OPEN,
    OTHERS,
    SURVIVES,
    Finding,
    as_frame,
    behind,
    best_of_all,
    judge,
    minus,
    over_values,
    routing,
    together,
    worst,
)
from redlib.evaluation import level, levels
from redlib.results import cell, listed, select

OVER = "(interval over the true values)"
LEAN, DRIFT, BIAS, STEADY = 0.01, 1.0, 0.1, 0.01  # what is called a lean, a drift, less biased, steadier


def verdicts(
    results: pd.DataFrame,
    bias: pd.DataFrame,
    labels,
    variant: str = "chosen",
    split: str = "structure",
    numbers: bool = False,
) -> pd.DataFrame:
    """Whether each conclusion holds on one split under one recipe, by a test that is written beside it.

    results: tidy rows of Task 1; bias: rows of `bias_by_value`. Columns: section, claim, test, measured, verdict
    (holds, does not hold, or undecided where an interval reaches over the border), with `numbers` those of a Finding.
    LookupError for missing rows.
    """
    rows = select(results, seed="all", variant=variant, split=split)
    test = select(rows, part="test")
    drawn = select(bias, variant=variant, split=split, part="test")
    found = [*best_of_all(test, "4.6.1"), *_uniform(test, labels), *_levels(test, labels), *routing(test, "4.6.4-03")]
    found += [*_shapes(drawn, labels), *_boundaries(drawn, labels), *_bias(drawn, labels)]
    return as_frame(found, numbers)


def _uniform(test: pd.DataFrame, labels) -> Iterator[Finding]:
    rows = select(test, metric="value_accuracy", method="uniform_average", group=labels.names).set_index("group")
    outer = rows.index.isin([labels.names[0], labels.names[-1]])
    kept, lost = rows["low"] > SURVIVES, rows["high"] < SURVIVES
    wrong = (outer & lost) | (~outer & kept)
    verdict = FAILS if wrong.any() else HOLDS if (kept[outer].all() and lost[~outer].all()) else OPEN
    margin = np.where(outer, 1, -1) * (rows["value"] - SURVIVES)
    least = rows.iloc[int(margin.argmin())]
    said = f"only the first and the last range have more than {SURVIVES:.0%} of their rows right"
    measured = f"kept: {listed(rows.index[kept])}; {least.name}: {cell(least)}"
    claim = "uniform averaging keeps the outer ranges only"
    yield Finding("4.6.2", claim, said, measured, verdict, **behind(least))


def _levels(test: pd.DataFrame, labels) -> Iterator[Finding]:
    for section, metric in (("4.6.2", "value_accuracy"), ("4.6.3", f"macro_f1_{labels.C}")):
        rows = levels(select(test, group=labels.names, method=("red", *OTHERS)), metric)
        high = rows[rows["level"] == "high"].groupby("method").size().reindex(["red", *OTHERS], fill_value=0)
        red = rows[rows["method"] == "red"]
        rivals = [name for name in OTHERS if high[name] == labels.K]
        beyond = _out_of_reach(test, labels, metric)
        sunk = ((red["level"] != "high") & red["sure"]).any()
        sure = high["red"] == labels.K and red["sure"].all()
        verdict = OPEN if beyond else FAILS if sunk or rivals else HOLDS if sure else OPEN
        said = "RED's level is high in every range, and no other method's is"
        least = worst(red)
        measured = f"RED high in {high['red']} of {labels.K}, {least['group']}: {cell(least)}"
        measured += f"; every range high: {listed(rivals)}"
        measured += f"; no method can be high in {listed(beyond)}" if beyond else ""
        claim = f"only RED is high in all ranges ({metric})"
        yield Finding(section, claim, said, measured, verdict, **behind(least))


def _out_of_reach(test: pd.DataFrame, labels, metric: str) -> list[str]:
    """Ranges where too few labels occur for the level `high`, whoever answers; none for an accuracy."""
    if metric.endswith("accuracy"):
        return []
    ceilings = select(test, metric=f"{metric}_ceiling", method="red", group=labels.names)
    return [row.group for row in ceilings.itertuples() if level(row.value, metric) != "high"]


def _by_value(rows: pd.DataFrame, columns: str) -> pd.DataFrame:
    """One number a true value (down) and method or metric (across)."""
    return rows.pivot(index="true_value", columns=columns, values="value")


def _shapes(drawn: pd.DataFrame, labels) -> Iterator[Finding]:
    """4.6.5 on the global head and on uniform averaging."""
    middle = [name for name in labels.names if name not in (labels.names[0], labels.names[-1])]
    shares = drawn[(drawn["method"] == "global_head") & drawn["group"].isin(middle)]
    shares = _by_value(shares, "metric").reindex(columns=["predicted_share", "true_share"]).fillna(0.0)
    each = over_values(shares["predicted_share"] - shares["true_share"])
    excess = pd.Series({name: each[name] * each["n"] for name in ("value", "low", "high")} | {"n": each["n"]})
    said = f"middle ranges are predicted more often than they occur, by more than {LEAN:g} of all rows {OVER}"
    verdict = judge(excess["low"], excess["high"], LEAN)
    yield Finding("4.6.5", "the global head leans to the middle", said, cell(excess), verdict, **behind(excess))
    sizes = _sizes(drawn)
    own, more = (over_values(sizes["uniform_average"] - other) for other in (0.0, sizes["red"]))
    said = f"mean error of a true value, sign dropped: more than {DRIFT:g}, and more than RED's {OVER}"
    measured = f"{cell(own)}, {cell(more)} more than RED's"
    verdict = together([judge(own["low"], own["high"], DRIFT), judge(more["low"], more["high"])])
    yield Finding("4.6.5", "uniform averaging drifts", said, measured, verdict, **behind(own))


def _sizes(drawn: pd.DataFrame) -> pd.DataFrame:
    """The mean error of every true value (down) and method (across), its sign dropped."""
    return _by_value(select(drawn, metric="signed_error"), "method").abs()


def _beside(values: pd.Index, labels) -> np.ndarray:
    """Which values lie on either side of a boundary, as `evaluation.near_boundaries` takes them."""
    return values.isin([edge + step for _, edge in labels.bounds[:-1] for step in (0, 1)])


def _bias(drawn: pd.DataFrame, labels) -> Iterator[Finding]:
    """How far RED's systematic errors lie below the global head's: beside boundaries, there and elsewhere, at all."""
    sizes = _sizes(drawn)
    less, near = sizes["global_head"] - sizes["red"], _beside(sizes.index, labels)
    what = "mean error of a true value, sign dropped: the global head's minus RED's"
    beside, elsewhere, every = (over_values(rows) for rows in (less[near], less[~near], less))
    red, head = (sizes[name][near].mean() for name in ("red", "global_head"))
    said = f"{what}, of values beside a boundary, is above {BIAS:g} {OVER}"
    measured = f"{cell(beside)} (RED {red:.2f}, global head {head:.2f})"
    verdict = judge(beside["low"], beside["high"], BIAS)
    claim = "residual paths correct systematic bias near boundaries"
    yield Finding("4.11", claim, said, measured, verdict, **behind(beside))
    gap = minus(beside, elsewhere)
    said = f"{what}, is larger beside a boundary than elsewhere {OVER}"
    measured = f"{cell(gap)}: {cell(beside)} and {cell(elsewhere)}"
    claim = "and near boundaries more than elsewhere"
    yield Finding("4.11", claim, said, measured, judge(gap["low"], gap["high"]), **behind(gap))
    said, verdict = f"{what}, is above {BIAS:g} {OVER}", judge(every["low"], every["high"], BIAS)
    yield Finding("4.11", "residual paths correct systematic bias", said, cell(every), verdict, **behind(every))


def _boundaries(drawn: pd.DataFrame, labels) -> Iterator[Finding]:
    rows = select(drawn, method=("red", "softmax_moe"), metric="same_range")
    share, count = _by_value(rows, "method"), select(rows, method="red").set_index("true_value")["n"].astype(float)
    share = share.assign(more=share["red"] - share["softmax_moe"])
    near = _beside(share.index, labels)
    beside = {name: over_values(share[name][near], count[near]) for name in share}
    elsewhere = over_values(share["more"][~near], count[~near])
    said = f"share of answers in the right range, RED's minus the mixture's, beside a boundary: above {STEADY:g} {OVER}"
    red, other, more = (beside[name] for name in ("red", "softmax_moe", "more"))
    measured = f"{cell(more)}: RED {red['value']:.3f}, mixture {other['value']:.3f}; elsewhere {cell(elsewhere)}"
    verdict = judge(more["low"], more["high"], STEADY)
    claim = "RED is steadier at boundaries than the mixture"
    yield Finding("4.6.5", claim, said, measured, verdict, **behind(more))
