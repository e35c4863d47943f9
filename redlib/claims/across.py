"""Verdicts that set experiments of the source beside each other: chains beside sums (4.1), single operations of Task 2
beside Task 1 (4.7), chains at once beside chains whose steps are given (4.9.2, 4.12), and how RED and the mixture use
their experts (4.9.1)."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import Finding, alike, apart, as_frame, behind, judge, minus
from redlib.results import cell, pick

AT = {"seed": "all", "part": "test", "group": "all", "method": "red"}
VALUE = "value_accuracy"
CHAINS = "operations/chosen"
SAME = 0.02  # accuracies no further apart than this are nearly identical


def harder_verdicts(
    first: pd.DataFrame, second: pd.DataFrame, variant: str, split: str, numbers: bool = False
) -> pd.DataFrame:
    """Whether RED is less accurate on Task 2 than on Task 1 (4.1), in one variant of Task 2, whose recipe Task 1 has,
    and split. first, second: task1 and task2. LookupError for missing rows."""
    one = pick(first, **AT, metric=VALUE, variant=variant.rpartition("/")[2], split=split)
    two = pick(second, **AT, metric=VALUE, variant=variant, split=split)
    said = "RED's value accuracy on Task 1 is above that on Task 2, interval against interval"
    gap = apart(one, two)
    measured, verdict = f"{cell(gap)}: {cell(one)} and {cell(two)}", judge(gap["low"], gap["high"])
    found = Finding("4.1", "Task 2 is harder than Task 1", said, measured, verdict, **behind(gap))
    return as_frame([found], numbers)


def single_verdicts(
    first: pd.DataFrame, second: pd.DataFrame, variant: str, split: str, metric: str = VALUE, numbers: bool = False
) -> pd.DataFrame:
    """Whether single operations of Task 2 are as hard as Task 1 and carry its accuracy (4.7), for RED in one variant of
    them, whose recipe Task 1 has, on one split. first, second: task1 and task2. LookupError for missing rows.
    """
    sums = pick(first, **AT, metric=metric, variant=variant.rpartition("/")[2], split=split)
    at = AT | {"metric": metric, "variant": variant, "split": split}
    single, several = (pick(second, **at | {"group": name}) for name in ("ops=1", "ops>1"))
    return as_frame([*_as_hard(sums, single), *_carried(single, several)], numbers)


def _as_hard(sums: pd.Series, single: pd.Series) -> Iterator[Finding]:
    gap = minus(sums, single)
    said = f"RED's accuracy on Task 1 minus that on the single operations of Task 2 is within {SAME:g} of zero"
    measured = f"{cell(gap)}: {cell(sums)} and {cell(single)}"
    yield Finding("4.7", "single operations are as hard as Task 1", said, measured, alike(gap, SAME), **behind(gap))


def _carried(single: pd.Series, several: pd.Series) -> Iterator[Finding]:
    turned = {"value": "value", "low": "high", "high": "low"}
    right = {end: (single["n"] * single[end], several["n"] * several[other]) for end, other in turned.items()}
    share = pd.Series({end: one / (one + more) for end, (one, more) in right.items()} | {"n": single["n"]})
    said = "more than half of what RED answers rightly on Task 2 are single operations, interval by interval"
    rows = single["n"] / (single["n"] + several["n"])
    measured = f"{cell(share)} of the right answers, with {rows:.1%} of the rows: {cell(single)} of these are right, "
    measured += f"and {cell(several)} of the longer ones"
    claim, verdict = "single operations carry most of Task 2's accuracy", judge(share["low"], share["high"], 0.5)
    yield Finding("4.7", claim, said, measured, verdict, **behind(share))


def bottleneck_verdicts(
    chains: pd.DataFrame, results: pd.DataFrame, variant: str, split: str, numbers: bool = False
) -> pd.DataFrame:
    """Whether structure is what RED fails at when it answers chains at once (4.9.2, 4.12): most of its errors are gone
    where the steps are given.

    chains: task2; results: execution, in one variant of gold programs and split. The chains are not the same ones.
    LookupError for missing rows.
    """
    whole = pick(chains, **AT, metric=VALUE, variant=CHAINS, split=split)
    given = pick(results, **AT, metric=VALUE, variant=variant, split=split)
    turned = {"value": "value", "low": "high", "high": "low"}
    fewer = {end: (1 - whole[other]) / 2 - (1 - given[end]) for end, other in turned.items()}
    said = "with the steps given, RED has less than half of the wrong values that it has at once, interval by interval"
    claim = "most errors of RED at once are gone where the steps are given"
    measured = f"value accuracy at once {cell(whole)}, with given steps {cell(given)}"
    measured += f"; half of the wrong values at once minus those with given steps {cell(pd.Series(fewer))}"
    verdict = judge(fewer["low"], fewer["high"])
    return as_frame([Finding("4.9.2", claim, said, measured, verdict, **fewer)], numbers)


def usage_verdicts(routing: pd.DataFrame, variant: str, split: str, numbers: bool = False) -> pd.DataFrame:
    """Whether RED's weights follow the shares of the ranges more closely than the mixture's (4.9.1). routing: the table
    of that name. LookupError for missing rows."""
    at = {"seed": "all", "part": "test", "group": "all", "metric": "load_kl_true", "variant": variant, "split": split}
    red, mixture = (pick(routing, **at, method=name) for name in ("red", "softmax_moe"))
    said = "the divergence of its mean weights from the true shares is below the mixture's, interval against interval"
    gap = apart(mixture, red)
    claim = "RED uses its experts more evenly than the mixture"
    measured = f"mixture minus RED {cell(gap)}: {cell(red)} and {cell(mixture)}"
    found = Finding("4.9.1", claim, said, measured, judge(gap["low"], gap["high"]), **behind(gap))
    return as_frame([found], numbers)
