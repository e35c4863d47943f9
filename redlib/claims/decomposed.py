"""Verdicts on what the source concludes from modular execution (4.5.5, 4.8 and 4.9.2)."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from redlib.claims.judging import (
    FAILS,
    HOLDS,
    OPEN,
    Finding,
    alike,
    apart,
    as_frame,
    behind,
    judge,
    reaches,
    reported,
    together,
    worst,
)
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
    results: pd.DataFrame,
    assembly: pd.DataFrame,
    domain: str = "closed",
    split: str = "text",
    numbers: bool = False,
) -> pd.DataFrame:
    """Whether each conclusion of 4.5.5, 4.8 and 4.9.2 holds for the experts of one domain on one split: columns as in
    `verdicts`. results: execution, assembly: execution_assembly, whose conclusions are those of the domain and split
    that it was made in, and are absent elsewhere. LookupError for missing rows."""
    test = select(results, seed="all", part="test", split=split, metric=["value_accuracy", "value_accuracy_below_red"])
    gold = select(test, variant=f"{domain}/gold")
    predicted = test[test["variant"] == f"{domain}/predicted"]
    assembly = assembly[assembly["variant"].str.startswith(f"{domain}/") & (assembly["split"] == split)]
    found = [*_assembled(assembly), *_easy(gold), *_all_fixed(gold), *_mixture(gold), _structure(gold, predicted)]
    return as_frame([*found, *_number(gold)], numbers)


def _assembled(assembly: pd.DataFrame) -> Iterator[Finding]:
    if assembly.empty:
        return
    whole = select(assembly, group="all")
    ends = {name: whole[whole["variant"].str.endswith(name)] for name in ("/single", "/separate", "/router=bfloat16")}
    equal = pick(ends["/separate"], metric="equal")["value"] == 1
    said = "parts from processes of their own are those of one process, bit for bit"
    measured, verdict = ("equal", HOLDS) if equal else ("not equal", FAILS)
    yield Finding("4.5.5", "parts trained apart combine", said, measured, verdict)
    one, cast = (pick(ends[name], metric="value_accuracy")["value"] for name in ("/single", "/router=bfloat16"))
    changed = pick(ends["/router=bfloat16"], metric="changed")["value"]
    said = f"with the router in bfloat16 the accuracy of single steps moves by no more than {ALIKE}"
    measured = f"{cast - one:+.4f}; {changed:.2%} of all steps get another value"
    verdict = HOLDS if abs(cast - one) <= ALIKE else FAILS
    yield Finding("4.5.5", "parts in other precisions combine", said, measured, verdict, value=cast - one)
    if (assembly["group"] == "questions").any():
        yield _with_planner(assembly)


def _with_planner(assembly: pd.DataFrame) -> Finding:
    asked = select(assembly, group="questions", metric="value_accuracy")
    one, cast = (pick(asked[asked["variant"].str.endswith(end)]) for end in ("/single", ",planner=bfloat16"))
    equal, moved = pick(assembly, group="planner", metric="equal")["value"] == 1, cast["value"] - one["value"]
    said = "a planner trained apart is that of one process, bit for bit, and with planner and router in bfloat16 the "
    said += f"share of questions answered right moves by no more than {ALIKE}"
    measured = f"{'equal' if equal else 'not equal'}; {one['value']:.3f} and {cast['value']:.3f} of {one['n']:.0f}"
    verdict = HOLDS if equal and abs(moved) <= ALIKE else FAILS
    claim = "the whole system combines, planner included"
    return Finding("4.5.5", claim, said, measured, verdict, value=moved, n=float(one["n"]))


def _lengths(rows: pd.DataFrame, method: str) -> list[pd.Series]:
    """Value accuracy of a method by number of operations."""
    mine = select(rows, method=method, metric="value_accuracy")
    mine = mine[mine["group"].str.startswith("ops=")].sort_values("group")
    return [row for _, row in mine.iterrows()]


def _values(rows: list[pd.Series]) -> str:
    return listed(cell(row) for row in rows)


def _steps(rows: list[pd.Series]) -> list[pd.Series]:
    """By how much accuracy falls with every further operation."""
    return [apart(before, after) for before, after in pairwise(rows)]


def _falls(claim: str, section: str, by_method: dict[str, list[pd.Series]]) -> Finding:
    """Whether accuracy falls with every further operation, for every one of the methods."""
    steps = [step for rows in by_method.values() for step in _steps(rows)]
    least, names = worst(steps), len(by_method) > 1
    measured = "; ".join(f"{name}: {_values(rows)}" if names else _values(rows) for name, rows in by_method.items())
    verdict = together(judge(step["low"], step["high"]) for step in steps)
    said = "its value accuracy falls with every further operation"
    return Finding(section, claim, said, f"{measured}; smallest fall {cell(least)}", verdict, **behind(least))


def _easy(gold: pd.DataFrame) -> Iterator[Finding]:
    red, stated = pick(gold, method="red", group="all", metric="value_accuracy"), reported("4.8.3-01")
    said = f"RED's value accuracy with gold programs is not measurably below the reported {stated:.3f}"
    verdict, beyond = reaches(red, stated)
    claim = "execution is nearly perfect"
    yield Finding("4.8.3", claim, said, cell(red, n=True), verdict, **behind(red), beyond=beyond)
    by_length = _lengths(gold, "red")
    verdict = together(judge(row["low"], row["high"], EASY) for row in by_length)
    said = f"at every number of operations it is above {EASY}"
    claim = "execution does not depend on depth"
    yield Finding("4.8.3", claim, said, _values(by_length), verdict, **behind(worst(by_length)))


def _all_fixed(gold: pd.DataFrame) -> Iterator[Finding]:
    gaps = select(gold, method=list(ALL_FIXED), group="all", metric="value_accuracy_below_red")
    verdict = together(judge(row["low"], row["high"]) for _, row in gaps.iterrows())
    least = worst(gaps)
    said, measured = "RED minus either form of equal weights is above zero", f"smallest: {cell(least)}"
    yield Finding("4.8.4", "routing is essential", said, f"{measured}, {least['method']}", verdict, **behind(least))
    yield _falls("equal weights get worse with depth", "4.8.4", {name: _lengths(gold, name) for name in ALL_FIXED})


def _mixture(gold: pd.DataFrame) -> Iterator[Finding]:
    gap = pick(gold, method="softmax_moe", group="all", metric="value_accuracy_below_red")
    mixture = pick(gold, method="softmax_moe", group="all", metric="value_accuracy")
    fixed = [row for _, row in select(gold, method=list(ALL_FIXED), group="all", metric="value_accuracy").iterrows()]
    gaps = [gap, *(apart(mixture, row) for row in fixed)]
    said, verdict = "RED is above it, and it is above equal weights", together(judge(g["low"], g["high"]) for g in gaps)
    measured = f"RED minus the mixture {cell(gap)}; mixture {cell(mixture)}; equal weights {_values(fixed)}"
    yield Finding("4.8.5", "the mixture lies between", said, measured, verdict, **behind(worst(gaps)))
    yield _falls("the mixture's errors compound with depth", "4.8.5", {"": _lengths(gold, "softmax_moe")})


def _structure(gold: pd.DataFrame, predicted: pd.DataFrame) -> Finding:
    claim, said = "execution is easy, structure is hard", "the planner loses more programs than execution does"
    if predicted.empty:
        return Finding("4.8.6", claim, said, "no predicted programs", OPEN)
    known, planned = (pick(rows, method="red", group="all", metric="value_accuracy") for rows in (gold, predicted))
    lost = apart(known, planned)  # by the planner; by execution: one minus gold
    more = lost + known[["value", "low", "high"]].astype(float) - 1
    measured = f"gold programs {cell(known)}, predicted {cell(planned)}; lost by the planner minus lost by execution "
    return Finding("4.8.6", claim, said, measured + cell(more), judge(more["low"], more["high"]), **behind(more))


def _number(gold: pd.DataFrame) -> Iterator[Finding]:
    red, stated = pick(gold, method="red", group="all", metric="value_accuracy"), reported("4.9.2-02")
    said = f"with an expert an operation, value accuracy is at least {stated:.2f}"
    verdict = judge(red["low"], red["high"], stated)
    yield Finding("4.9.2", "two experts are enough", said, cell(red, n=True), verdict, **behind(red))
    gap = pick(gold, method="red_by_range", group="all", metric="value_accuracy_below_red")
    said = f"experts of operations minus experts of ranges, on the same steps, is within {ALIKE} of zero"
    claim = "the number of experts does not matter"
    yield Finding("4.9.2", claim, said, cell(gap), alike(gap, ALIKE), **behind(gap))
