"""The source's reported numbers as data, and our measurements beside them."""

import pandas as pd

from redlib import paths
from redlib.evaluation import level
from redlib.results import select

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
    "router_macro_f1": ("router_macro_f1",),
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
    """The source's numbers of a task beside ours, one row a claim, method, metric, variant, split.

    results: tidy rows; those over seeds (seed `all`) are used, of the part that the claim names where it is about a
    router (4.6.4, 4.7.3, whose part `all` is all rows together), else of test.
    Columns: claim_id, section, group, reported, reported_metric, then method, metric, variant, split, part,
    measured, low, high, n of our row. LookupError naming a claim's method, metric or part that the results lack.
    """
    measured = select(results, seed="all")
    ours = {metric for metrics in METRICS.values() for metric in metrics}
    measured = measured[measured["split"].isin(["text", "structure", "phrasing"]) & measured["metric"].isin(ours)]
    rows = []
    for claim in load().query("section in @sections").to_dict("records"):
        part, group = "test", claim["group"]
        if claim["method"] == "red_router":
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
