"""Verdicts on what the source concludes from Task 1 (4.6, and 4.11 on bias)."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, OPEN, OTHERS, SURVIVES, VERDICT, best_of_all, routing
from redlib.evaluation import level, levels, near_boundaries
from redlib.results import listed, select


def verdicts(
    results: pd.DataFrame, bias: pd.DataFrame, labels, variant: str = "chosen", split: str = "structure"
) -> pd.DataFrame:
    """Whether each conclusion holds on one split under one recipe, by a test that is written beside it.

    results: tidy rows of Task 1; bias: rows of `bias_by_value`. Columns: section, claim, test, measured, verdict
    (holds, does not hold, or undecided where an interval reaches over the border). LookupError for missing rows.
    """
    rows = select(results, seed="all", variant=variant, split=split)
    test = select(rows, part="test")
    drawn = select(bias, variant=variant, split=split, part="test")
    found = [*best_of_all(test, "4.6.1"), *_uniform(test, labels), *_levels(test, labels), *routing(test, "4.6.4-03")]
    found += [*_shapes(drawn, labels), *_boundaries(drawn, labels), *_bias(drawn)]
    return pd.DataFrame(found, columns=VERDICT)


def _uniform(test: pd.DataFrame, labels) -> Iterator[tuple]:
    rows = select(test, metric="value_accuracy", method="uniform_average", group=labels.names).set_index("group")
    outer = rows.index.isin([labels.names[0], labels.names[-1]])
    kept, lost = rows["low"] > SURVIVES, rows["high"] < SURVIVES
    wrong = (outer & lost) | (~outer & kept)
    verdict = FAILS if wrong.any() else HOLDS if (kept[outer].all() and lost[~outer].all()) else OPEN
    said = f"only the first and the last range have more than {SURVIVES:.0%} of their rows right"
    measured = f"kept: {listed(rows.index[kept])}"
    yield "4.6.2", "uniform averaging keeps the outer ranges only", said, measured, verdict


def _levels(test: pd.DataFrame, labels) -> Iterator[tuple]:
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
        measured = f"RED high in {high['red']} of {labels.K}; every range high: {listed(rivals)}"
        measured += f"; no method can be high in {listed(beyond)}" if beyond else ""
        yield section, f"only RED is high in all ranges ({metric})", said, measured, verdict


def _out_of_reach(test: pd.DataFrame, labels, metric: str) -> list[str]:
    """Ranges where too few labels occur for the level `high`, whoever answers; none for an accuracy."""
    if metric.endswith("accuracy"):
        return []
    ceilings = select(test, metric=f"{metric}_ceiling", method="red", group=labels.names)
    return [row.group for row in ceilings.itertuples() if level(row.value, metric) != "high"]


def _shapes(drawn: pd.DataFrame, labels) -> Iterator[tuple]:
    """4.6.5 on the global head and on uniform averaging; shares and mean errors, without an interval."""
    middle = [name for name in labels.names if name not in (labels.names[0], labels.names[-1])]
    head = drawn[(drawn["method"] == "global_head") & drawn["group"].isin(middle)].groupby("metric")["value"].sum()
    excess = head.get("predicted_share", 0.0) - head.get("true_share", 0.0)
    said = "middle ranges are predicted more often than they occur (by more than 0.01, no interval)"
    yield "4.6.5", "the global head leans to the middle", said, f"{excess:+.3f}", HOLDS if excess > 0.01 else FAILS
    drift = _drift(drawn)
    said = "mean error of a true value, sign dropped: more than 1, and more than RED's (no interval)"
    measured = f"{drift['uniform_average']:.1f}, RED {drift['red']:.1f}"
    holds = drift["uniform_average"] > max(1.0, drift["red"])
    yield "4.6.5", "uniform averaging drifts", said, measured, HOLDS if holds else FAILS


def _drift(drawn: pd.DataFrame) -> pd.Series:
    """By method: the mean error of a true value without its sign, mean over the values."""
    errors = select(drawn, metric="signed_error")
    return errors.assign(size=errors["value"].abs()).groupby("method")["size"].mean()


def _bias(drawn: pd.DataFrame) -> Iterator[tuple]:
    drift = _drift(drawn)
    said = "mean error of a true value, sign dropped: RED's is below the global head's by more than 0.1 (no interval)"
    measured = f"RED {drift['red']:.2f}, global head {drift['global_head']:.2f}"
    holds = drift["global_head"] - drift["red"] > 0.1
    yield "4.11", "residual paths correct systematic bias", said, measured, HOLDS if holds else FAILS


def _boundaries(drawn: pd.DataFrame, labels) -> Iterator[tuple]:
    places = near_boundaries(select(drawn, method=("red", "softmax_moe")), labels)
    share = places.pivot(index="method", columns="place", values="same_range")
    red, other = share.loc["red"], share.loc["softmax_moe"]
    said = "beside a boundary RED keeps more answers in the right range than the mixture, by 0.01 (no interval)"
    measured = " and ".join(f"{place}: RED {red[place]:.3f}, mixture {other[place]:.3f}" for place in share)
    holds = red["boundary"] - other["boundary"] > 0.01
    yield "4.6.5", "RED is steadier at boundaries than the mixture", said, measured, HOLDS if holds else FAILS
