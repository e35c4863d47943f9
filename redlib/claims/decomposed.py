"""Verdicts on what the source concludes from modular execution (4.5.5, 4.8 and 4.9.2)."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, OPEN, VERDICT, judge, reported, together
from redlib.claims.reported import METHODS, load
from redlib.results import cell, listed, pick, select

ALL_FIXED = METHODS["all_fixed"]
SECTIONS = ("4.8.3", "4.8.4", "4.8.5")
MEASURED = {"accuracy": ("value_accuracy", "range_accuracy"), "macro_f1": ("macro_f1",)}
EASY = 0.99  # what the source calls easy (4.8.6)
ALIKE = 0.01  # accuracies no further apart than this are called the same


def executed_beside(results: pd.DataFrame) -> pd.DataFrame:
    """The source's numbers of 4.8.3 to 4.8.5 beside ours, one row a claim, method, metric, variant and split.

    results: execution. Columns: claim_id, section, group (all or ops=<number>), reported, reported_metric, method,
    metric, variant, split, measured, low, high, n. LookupError naming a method or group that the results lack.
    """
    measured = select(results, seed="all", part="test")
    measured = measured[measured["split"].isin(["text", "structure"])]
    rows = []
    for claim in load().query("section in @SECTIONS").to_dict("records"):
        group = claim["group"]
        group = "all" if group == "all" else f"ops={group.removesuffix('_step')}"
        for method in METHODS[claim["method"]]:
            ours = select(measured, method=method, group=group, metric=MEASURED[claim["metric"]])
            named = ours[["method", "metric", "variant", "split", "value", "low", "high", "n"]]
            about = {"claim_id": claim["claim_id"], "section": claim["section"], "group": group}
            about |= {"reported": claim["number"], "reported_metric": claim["metric"]}
            rows.append(named.rename(columns={"value": "measured"}).assign(**about))
    frame = pd.concat(rows, ignore_index=True)
    first = ["claim_id", "section", "group", "reported", "reported_metric"]
    return frame[[*first, *(name for name in frame if name not in first)]]


def decomposed_verdicts(
    results: pd.DataFrame, assembly: pd.DataFrame, domain: str = "closed", split: str = "text"
) -> pd.DataFrame:
    """Whether each conclusion of 4.5.5, 4.8 and 4.9.2 holds for the experts of one domain on one split: columns as in
    `verdicts`. results: execution, assembly: execution_assembly, whose conclusions are those of the domain and split
    that it was made in, and are absent elsewhere. LookupError for missing rows."""
    test = select(results, seed="all", part="test", split=split, metric=["value_accuracy", "value_accuracy_below_red"])
    gold = select(test, variant=f"{domain}/gold")
    predicted = test[test["variant"] == f"{domain}/predicted"]
    assembly = assembly[assembly["variant"].str.startswith(f"{domain}/") & (assembly["split"] == split)]
    found = [*_assembled(assembly), *_easy(gold), *_all_fixed(gold), *_mixture(gold), *_structure(gold, predicted)]
    return pd.DataFrame([*found, *_number(gold)], columns=VERDICT)


def _assembled(assembly: pd.DataFrame) -> Iterator[tuple]:
    if assembly.empty:
        return
    whole = select(assembly, group="all")
    ends = {name: whole[whole["variant"].str.endswith(name)] for name in ("/single", "/separate", "/router=bfloat16")}
    equal = pick(ends["/separate"], metric="equal")["value"] == 1
    said = "parts from processes of their own are those of one process, bit for bit"
    yield "4.5.5", "parts trained apart combine", said, "equal" if equal else "not equal", HOLDS if equal else FAILS
    one, cast = (pick(ends[name], metric="value_accuracy")["value"] for name in ("/single", "/router=bfloat16"))
    changed = pick(ends["/router=bfloat16"], metric="changed")["value"]
    said = f"with the router in bfloat16 the accuracy of single steps moves by no more than {ALIKE}"
    measured = f"{cast - one:+.4f}; {changed:.2%} of all steps get another value"
    yield "4.5.5", "parts in other precisions combine", said, measured, HOLDS if abs(cast - one) <= ALIKE else FAILS
    if (assembly["group"] == "questions").any():
        yield _with_planner(assembly)


def _with_planner(assembly: pd.DataFrame) -> tuple:
    asked = select(assembly, group="questions", metric="value_accuracy")
    one, cast = (pick(asked[asked["variant"].str.endswith(end)]) for end in ("/single", ",planner=bfloat16"))
    equal = pick(assembly, group="planner", metric="equal")["value"] == 1
    said = "a planner trained apart is that of one process, bit for bit, and with planner and router in bfloat16 the "
    said += f"share of questions answered right moves by no more than {ALIKE}"
    measured = f"{'equal' if equal else 'not equal'}; {one['value']:.3f} and {cast['value']:.3f} of {one['n']:.0f}"
    kept = equal and abs(cast["value"] - one["value"]) <= ALIKE
    return "4.5.5", "the whole system combines, planner included", said, measured, HOLDS if kept else FAILS


def _lengths(rows: pd.DataFrame, method: str) -> list[pd.Series]:
    """Value accuracy of a method by number of operations."""
    mine = select(rows, method=method, metric="value_accuracy")
    mine = mine[mine["group"].str.startswith("ops=")].sort_values("group")
    return [row for _, row in mine.iterrows()]


def _values(rows: list[pd.Series]) -> str:
    return listed(f"{row['value']:.3f}" for row in rows)


def _falls(rows: list[pd.Series]) -> str:
    return together(judge(a["low"] - b["high"], a["high"] - b["low"]) for a, b in pairwise(rows))


def _easy(gold: pd.DataFrame) -> Iterator[tuple]:
    red, stated = pick(gold, method="red", group="all", metric="value_accuracy"), reported("4.8.3-01")
    said = f"RED's value accuracy with gold programs is not measurably below the reported {stated:.3f}"
    yield "4.8.3", "execution is nearly perfect", said, cell(red, n=True), judge(red["high"], red["high"], stated)
    by_length = _lengths(gold, "red")
    verdict = together(judge(row["low"], row["high"], EASY) for row in by_length)
    said = f"at every number of operations it is above {EASY}"
    yield "4.8.3", "execution does not depend on depth", said, _values(by_length), verdict


def _all_fixed(gold: pd.DataFrame) -> Iterator[tuple]:
    gaps = select(gold, method=list(ALL_FIXED), group="all", metric="value_accuracy_below_red")
    verdict = together(judge(row["low"], row["high"]) for _, row in gaps.iterrows())
    worst = gaps.loc[gaps["value"].idxmin()]
    said = "RED minus either form of equal weights is above zero"
    yield "4.8.4", "routing is essential", said, f"smallest: {cell(worst)}, {worst['method']}", verdict
    both = {name: _lengths(gold, name) for name in ALL_FIXED}
    said = "its value accuracy falls with every further operation"
    measured = "; ".join(f"{name}: {_values(rows)}" for name, rows in both.items())
    yield "4.8.4", "equal weights get worse with depth", said, measured, together(map(_falls, both.values()))


def _mixture(gold: pd.DataFrame) -> Iterator[tuple]:
    gap = pick(gold, method="softmax_moe", group="all", metric="value_accuracy_below_red")
    mixture = pick(gold, method="softmax_moe", group="all", metric="value_accuracy")
    fixed = select(gold, method=list(ALL_FIXED), group="all", metric="value_accuracy")
    above = [judge(mixture["low"] - row["high"], mixture["high"] - row["low"]) for _, row in fixed.iterrows()]
    said = "RED is above it, and it is above equal weights"
    measured = f"RED minus the mixture {cell(gap)}; mixture {cell(mixture)}; equal weights {_values(_rows(fixed))}"
    yield "4.8.5", "the mixture lies between", said, measured, together([judge(gap["low"], gap["high"]), *above])
    by_length = _lengths(gold, "softmax_moe")
    said = "its value accuracy falls with every further operation"
    yield "4.8.5", "the mixture's errors compound with depth", said, _values(by_length), _falls(by_length)


def _rows(frame: pd.DataFrame) -> list[pd.Series]:
    return [row for _, row in frame.iterrows()]


def _structure(gold: pd.DataFrame, predicted: pd.DataFrame) -> Iterator[tuple]:
    claim, said = "execution is easy, structure is hard", "the planner loses more programs than execution does"
    if predicted.empty:
        yield "4.8.6", claim, said, "no predicted programs", OPEN
        return
    known, planned = (pick(rows, method="red", group="all", metric="value_accuracy") for rows in (gold, predicted))
    # lost by the planner: gold minus predicted; lost by execution: one minus gold
    low = 2 * known["low"] - planned["high"] - 1
    high = 2 * known["high"] - planned["low"] - 1
    measured = f"gold programs {cell(known)}, predicted {cell(planned)}"
    yield "4.8.6", claim, said, measured, judge(low, high)


def _number(gold: pd.DataFrame) -> Iterator[tuple]:
    red, stated = pick(gold, method="red", group="all", metric="value_accuracy"), reported("4.9.2-02")
    said = f"with an expert an operation, value accuracy is at least {stated:.2f}"
    yield "4.9.2", "two experts are enough", said, cell(red, n=True), judge(red["low"], red["high"], stated)
    gap = pick(gold, method="red_by_range", group="all", metric="value_accuracy_below_red")
    inside, outside = max(abs(gap["low"]), abs(gap["high"])) <= ALIKE, gap["low"] > ALIKE or gap["high"] < -ALIKE
    said = f"experts of operations minus experts of ranges, on the same steps, is within {ALIKE} of zero"
    verdict = HOLDS if inside else FAILS if outside else OPEN
    yield "4.9.2", "the number of experts does not matter", said, cell(gap), verdict
