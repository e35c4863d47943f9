"""The source's reported numbers as data, our measurements beside them, and verdicts on what it concludes."""

from collections.abc import Iterator

import pandas as pd

from redlib import paths
from redlib.evaluation import level, levels, near_boundaries
from redlib.results import cell, listed, pick, select

COLUMNS = ("claim_id", "section", "task", "method", "group", "metric", "reported", "note")
METHODS = {  # the source's names -> the methods here that answer for them
    "global_head": ("global_head",),
    "uniform_average": ("uniform_average", "red_uniform"),  # its AllFix is described both ways
    "all_fixed": ("uniform_average", "red_uniform"),
    "softmax_moe": ("softmax_moe",),
    "moe_no_residual": ("softmax_moe",),
    "red": ("red",),
    "red_router": ("red",),
}
METRICS = {  # its metrics -> ours; it never says whether accuracy means the value or the range, so both stand beside it
    "accuracy": ("value_accuracy", "range_accuracy"),
    "macro_f1": ("macro_f1", "range_macro_f1"),
    "macro_f1_99": ("macro_f1_99",),
    "router_accuracy": ("router_accuracy",),
}
STATED_LEVELS = {  # the source's own level tables (4.6.2, 4.6.3), R1..R5
    "4.6.2": {
        "global_head": ("high", "low", "low", "low", "moderate"),
        "uniform_average": ("high", "low", "low", "low", "low"),
        "softmax_moe": ("high", "moderate", "moderate", "moderate", "high"),
        "red": ("high", "high", "high", "high", "high"),
    },
    "4.6.3": {
        "global_head": ("moderate", "low", "low", "low", "moderate"),
        "uniform_average": ("moderate", "low", "low", "low", "low"),
        "softmax_moe": ("high", "high", "moderate", "high", "high"),
        "red": ("high", "high", "high", "high", "high"),
    },
}


def path():
    """The file of claims, one reported number a row."""
    return paths.root() / "data" / "claims.csv"


def load() -> pd.DataFrame:
    """All claims (text columns COLUMNS, and `number`: `reported` as a float, NaN where it is a word).

    ValueError when the file's columns are wrong or a claim_id is missing or double.
    """
    frame = pd.read_csv(path(), dtype=str, keep_default_na=False)
    if tuple(frame.columns) != COLUMNS:
        raise ValueError(f"{path().name} must have the columns {', '.join(COLUMNS)}, it has {', '.join(frame.columns)}")
    wrong = frame["claim_id"].duplicated() | (frame["claim_id"] == "") | (frame["reported"] == "")
    if wrong.any():
        raise ValueError(f"{path().name}: claim {frame['claim_id'][wrong].iloc[0]!r} is double or reports nothing")
    return frame.assign(number=pd.to_numeric(frame["reported"], errors="coerce"))


def beside(results: pd.DataFrame, sections: tuple[str, ...] = ("4.6.1", "4.6.2", "4.6.3", "4.6.4")) -> pd.DataFrame:
    """The source's numbers of Task 1 beside ours, one row a claim, method, metric, variant, split.

    results: tidy rows; those over seeds (seed `all`) are used, of the part that the claim names (4.6.4; else test).
    Columns: claim_id, section, group, reported, reported_metric, then method, metric, variant, split, part,
    measured, low, high, n of our row. LookupError naming a claim's method, metric or part that the results lack.
    """
    measured = select(results, seed="all")
    ours = {metric for metrics in METRICS.values() for metric in metrics}
    measured = measured[measured["split"].isin(["text", "structure", "phrasing"]) & measured["metric"].isin(ours)]
    rows = []
    for claim in load().query("section in @sections").to_dict("records"):
        part, group = "test", claim["group"]
        if group in ("train", "validation", "test"):
            part, group = group, "all"
        for method in METHODS[claim["method"]]:
            for metric in METRICS[claim["metric"]]:
                ours = select(measured, method=method, metric=metric, group=group, part=part)
                named = ours[["method", "metric", "variant", "split", "part", "value", "low", "high", "n"]]
                rows.append(
                    named.rename(columns={"value": "measured"}).assign(
                        claim_id=claim["claim_id"],
                        section=claim["section"],
                        group=group,
                        reported=claim["number"],
                        reported_metric=claim["metric"],
                    )
                )
    if not rows:
        raise LookupError(f"no claim in section {', '.join(sections)}")
    frame = pd.concat(rows, ignore_index=True)
    first = ["claim_id", "section", "group", "reported", "reported_metric"]
    return frame[[*first, *(name for name in frame if name not in first)]]


def stated_levels() -> pd.DataFrame:
    """The source's level tables against its own thresholds and numbers.

    Columns: section, method, group, metric, reported, stated, level (by its thresholds), agrees.
    """
    frame = load().query("section in ['4.6.2', '4.6.3']").copy()
    frame["metric"] = frame["metric"].replace({"accuracy": "value_accuracy"})
    frame["stated"] = [
        STATED_LEVELS[row.section][row.method][int(row.group.removeprefix("R")) - 1] for row in frame.itertuples()
    ]
    frame["level"] = [level(row.number, row.metric) for row in frame.itertuples()]
    frame["agrees"] = frame["stated"] == frame["level"]
    columns = ["section", "method", "group", "metric", "number", "stated", "level", "agrees"]
    return frame[columns].rename(columns={"number": "reported"}).reset_index(drop=True)


# ---- verdicts on what the source concludes from Task 1 (4.6) -----------------------------------------------------

SURVIVES = 0.1  # a range is kept by a method that gets more than this share of its rows right
OTHERS = ("global_head", "uniform_average", "red_uniform", "softmax_moe")  # the source's methods beside RED
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"


def verdicts(
    results: pd.DataFrame, bias: pd.DataFrame, labels, variant: str = "chosen", split: str = "structure"
) -> pd.DataFrame:
    """Whether each conclusion of 4.6 holds on one split under one recipe, by a test that is written beside it.

    results: tidy rows of Task 1; bias: rows of `bias_by_value`. Columns: section, claim, test, measured, verdict
    (holds, does not hold, or undecided where an interval reaches over the border). LookupError for missing rows.
    """
    rows = select(results, seed="all", variant=variant, split=split)
    test = select(rows, part="test")
    drawn = select(bias, variant=variant, split=split, part="test")
    found = [*_accuracy(test), *_uniform(test, labels), *_levels(test, labels), *_routing(test)]
    found += [*_shapes(drawn, labels), *_boundaries(drawn, labels)]
    return pd.DataFrame(found, columns=["section", "claim", "test", "measured", "verdict"])


def _judge(low: float, high: float, border: float = 0.0) -> str:
    return HOLDS if low > border else FAILS if high < border else OPEN


def _reported(claim_id: str) -> float:
    return float(pick(load(), claim_id=claim_id)["number"])


def _below_red(test: pd.DataFrame, methods) -> pd.DataFrame:
    return select(test, metric="value_accuracy_below_red", group="all", method=methods)


def _accuracy(test: pd.DataFrame) -> Iterator[tuple]:
    gaps = _below_red(test, OTHERS).sort_values("value")
    worst = gaps.iloc[0]
    verdict = FAILS if (gaps["high"] < 0).any() else HOLDS if (gaps["low"] > 0).all() else OPEN
    said = "RED minus the best of the source's other methods is above zero"
    yield "4.6.1", "RED is the best of the source's methods", said, f"{cell(worst)} against {worst['method']}", verdict
    gap, stated = _below_red(test, "softmax_moe").iloc[0], _reported("4.6.1-07") - _reported("4.6.1-05")
    said = f"RED minus the mixture reaches the reported {stated:.3f}"
    yield (
        "4.6.1",
        "RED gains on the mixture as much as reported",
        said,
        cell(gap),
        _judge(gap["high"], gap["high"], stated),
    )


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


def _routing(test: pd.DataFrame) -> Iterator[tuple]:
    router, stated = pick(test, method="red", metric="router_accuracy", group="all"), _reported("4.6.4-03")
    said = f"router accuracy reaches the reported {stated:.3f}"
    yield "4.6.4", "the router is right", said, cell(router), _judge(router["high"], router["high"], stated)
    wrong = test[(test["method"] == "red") & (test["metric"] == "value_accuracy") & (test["group"] == "route=wrong")]
    said = "more than half of the wrongly routed texts get the right value"
    measured, verdict = "no wrong route", OPEN
    if len(wrong):
        measured, verdict = cell(wrong.iloc[0], n=True), _judge(wrong["low"].iloc[0], wrong["high"].iloc[0], 0.5)
    yield "4.6.4", "a wrong route does not unsettle RED", said, measured, verdict
    gap = _below_red(test, "top1").iloc[0]
    said = "RED minus RED with its first choice only is above zero"
    yield "4.6.4", "experts cooperate", said, cell(gap), _judge(gap["low"], gap["high"])


def _shapes(drawn: pd.DataFrame, labels) -> Iterator[tuple]:
    """4.6.5 on the global head and on uniform averaging; shares and mean errors, without an interval."""
    middle = [name for name in labels.names if name not in (labels.names[0], labels.names[-1])]
    head = drawn[(drawn["method"] == "global_head") & drawn["group"].isin(middle)].groupby("metric")["value"].sum()
    excess = head.get("predicted_share", 0.0) - head.get("true_share", 0.0)
    said = "middle ranges are predicted more often than they occur (by more than 0.01, no interval)"
    yield "4.6.5", "the global head leans to the middle", said, f"{excess:+.3f}", HOLDS if excess > 0.01 else FAILS
    errors = select(drawn, metric="signed_error", method=("uniform_average", "red"))
    drift = errors.assign(size=errors["value"].abs()).groupby("method")["size"].mean()
    said = "mean error of a true value, sign dropped: more than 1, and more than RED's (no interval)"
    measured = f"{drift['uniform_average']:.1f}, RED {drift['red']:.1f}"
    holds = drift["uniform_average"] > max(1.0, drift["red"])
    yield "4.6.5", "uniform averaging drifts", said, measured, HOLDS if holds else FAILS


def _boundaries(drawn: pd.DataFrame, labels) -> Iterator[tuple]:
    places = near_boundaries(select(drawn, method=("red", "softmax_moe")), labels)
    share = places.pivot(index="method", columns="place", values="same_range")
    red, other = share.loc["red"], share.loc["softmax_moe"]
    said = "beside a boundary RED keeps more answers in the right range than the mixture, by 0.01 (no interval)"
    measured = " and ".join(f"{place}: RED {red[place]:.3f}, mixture {other[place]:.3f}" for place in share)
    holds = red["boundary"] - other["boundary"] > 0.01
    yield "4.6.5", "RED is steadier at boundaries than the mixture", said, measured, HOLDS if holds else FAILS
