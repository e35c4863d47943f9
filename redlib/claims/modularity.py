"""Verdicts on what the source says of experts as modules (4.4.4, 4.5.5): without a number, so each test states one."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import SURVIVES, Finding, as_frame, behind, judge, together, worst
from redlib.results import cell, pick, select

LOSS = 0.02  # share of questions; what a change may cost and still be without consequence


def modularity_verdicts(
    table: pd.DataFrame, split: str = "structure", metric: str = "value_accuracy", numbers: bool = False
) -> pd.DataFrame:
    """A verdict on every statement, from the table modularity on one split, in one of the two accuracies.

    Columns: section, claim, test, measured, verdict, with `numbers` those of a Finding. LookupError for missing rows.
    """
    rows = select(table, split=split, seed="all")
    changes = select(rows, metric=f"{metric}_change")
    levels, above = select(rows, metric=metric), select(rows, metric=f"{metric}_above_base", variant="chosen")
    found = [*_anchoring(above, changes), *_replaced(changes), *_augmented(levels, changes), *_precision(changes)]
    return as_frame(found, numbers).sort_values("section", kind="stable", ignore_index=True)


def _known(changes: pd.DataFrame) -> pd.DataFrame:
    return select(changes, variant="chosen")


def _keeps(row: pd.Series) -> str:
    """Whether a change costs less than LOSS."""
    return judge(row["low"], row["high"], -LOSS)


def _anchoring(above: pd.DataFrame, changes: pd.DataFrame) -> Iterator[Finding]:
    known = _known(changes)
    removed = known[known["method"].str.startswith("remove_") & (known["group"] != "all")]
    others = removed[removed["method"] != "remove_" + removed["group"]]
    least = worst(others)
    test = f"without an expert, the questions of every other range lose less than {LOSS:g}"
    said = f"{cell(least)}, {least['group']} after {least['method']}, of {len(others)}"
    verdict, claim = (
        together(_keeps(row) for _, row in others.iterrows()),
        "(1) experts do not interfere with one another",
    )
    yield Finding("4.4.4", claim, test, said, verdict, **behind(least))
    own = above[above["method"] == "remove_" + above["group"]]
    least = worst(own)
    test = f"without its expert, a range is answered at most {LOSS:g} worse than by the base alone"
    said = f"{cell(least)} in {least['group']}, the worst of {len(own)}"
    verdict = together(_keeps(row) for _, row in own.iterrows())
    claim = "(2) wrong weights do not destabilise: the other experts carry on"
    yield Finding("4.4.4", claim, test, said, verdict, **behind(least))


def _replaced(changes: pd.DataFrame) -> Iterator[Finding]:
    known = _known(changes)
    ranges = sorted((name for name in known["group"].unique() if name != "all"), key=lambda name: int(name[1:]))
    middle = ranges[len(ranges) // 2]
    known = select(known, group=middle)
    for method, claim in {
        "replace_start": "(3) an expert trained in isolation can replace another",
        "replace_rows": "(3) also one trained on a tenth of the questions",
        "replace_task2": "(3) also one trained on another task",
        "replace_seed": "(3) also one from another RED, with a classifier of its own",
        "split_refit": "(3) two narrower experts can replace a wider one",
    }.items():
        if method in set(known["method"]):
            row = pick(known, method=method)
            test = f"the questions of its range, {middle}, lose less than {LOSS:g}"
            yield Finding("4.4.4", claim, test, cell(row), _keeps(row), **behind(row))


def _augmented(levels: pd.DataFrame, changes: pd.DataFrame) -> Iterator[Finding]:
    known = select(_known(changes), group="all")
    for method, kind, what in (("add_minus_refit", "minus", "an operation"), ("add_beyond_refit", "beyond", "a range")):
        row = pick(known, method=method)
        claim = f"(3) {what} can be added without harm to the rest"
        test = f"the old questions lose less than {LOSS:g}"
        yield Finding("4.4.4", claim, test, cell(row), _keeps(row), **behind(row))
        level = pick(levels, method=method, variant=f"chosen/questions={kind}")
        test = f"more than {SURVIVES:g} of the new questions are answered right"
        verdict = judge(level["low"], level["high"], SURVIVES)
        yield Finding("4.4.4", f"(3) {what} that is added is of use", test, cell(level), verdict, **behind(level))


def _precision(changes: pd.DataFrame) -> Iterator[Finding]:
    known = select(_known(changes), group="all")
    for method, claim in {
        "replace_bf16": "an expert of another precision integrates seamlessly",
        "all_bf16": "so do parts that all have another precision",
    }.items():
        row = pick(known, method=method)
        test = f"all questions together lose less than {LOSS:g}"
        yield Finding("4.5.5", claim, test, cell(row), _keeps(row), **behind(row))
