"""Verdicts that set experiments of the source beside each other: chains beside sums (4.1), chains answered at once
beside chains whose steps are given (4.9.2, 4.12), and how RED and the mixture use their experts (4.9.1)."""

import pandas as pd

from redlib.claims.judging import VERDICT, judge
from redlib.results import cell, pick

AT = {"seed": "all", "part": "test", "group": "all", "method": "red", "metric": "value_accuracy"}
CHAINS = "operations/chosen"


def harder_verdicts(first: pd.DataFrame, second: pd.DataFrame, variant: str, split: str) -> pd.DataFrame:
    """Whether RED is less accurate on Task 2 than on Task 1 (4.1), in one variant of Task 2, whose recipe Task 1 has,
    and split. first, second: task1 and task2. LookupError for missing rows."""
    one = pick(first, **AT, variant=variant.rpartition("/")[2], split=split)
    two = pick(second, **AT, variant=variant, split=split)
    said = "RED's value accuracy on Task 1 is above that on Task 2, interval against interval"
    verdict = judge(one["low"] - two["high"], one["high"] - two["low"])
    found = ("4.1", "Task 2 is harder than Task 1", said, f"{cell(one)} and {cell(two)}", verdict)
    return pd.DataFrame([found], columns=VERDICT)


def bottleneck_verdicts(chains: pd.DataFrame, results: pd.DataFrame, variant: str, split: str) -> pd.DataFrame:
    """Whether structure is what RED fails at when it answers chains at once (4.9.2, 4.12): most of its errors are gone
    where the steps are given.

    chains: task2; results: execution, in one variant of gold programs and split. The chains are not the same ones.
    LookupError for missing rows.
    """
    whole = pick(chains, **AT, variant=CHAINS, split=split)
    given = pick(results, **AT, variant=variant, split=split)
    low = (1 - whole["high"]) / 2 - (1 - given["low"])
    high = (1 - whole["low"]) / 2 - (1 - given["high"])
    said = "with the steps given, RED has less than half of the wrong values that it has at once, interval by interval"
    claim = "most errors of RED at once are gone where the steps are given"
    measured = f"value accuracy at once {cell(whole)}, with given steps {cell(given)}"
    return pd.DataFrame([("4.9.2", claim, said, measured, judge(low, high))], columns=VERDICT)


def usage_verdicts(routing: pd.DataFrame, variant: str, split: str) -> pd.DataFrame:
    """Whether RED's weights follow the shares of the ranges more closely than the mixture's (4.9.1). routing: the table
    of that name. LookupError for missing rows."""
    at = {"seed": "all", "part": "test", "group": "all", "metric": "load_kl_true", "variant": variant, "split": split}
    red, mixture = (pick(routing, **at, method=name) for name in ("red", "softmax_moe"))
    said = "the divergence of its mean weights from the true shares is below the mixture's, interval against interval"
    verdict = judge(mixture["low"] - red["high"], mixture["high"] - red["low"])
    claim = "RED uses its experts more evenly than the mixture"
    return pd.DataFrame([("4.9.1", claim, said, f"{cell(red)} and {cell(mixture)}", verdict)], columns=VERDICT)
