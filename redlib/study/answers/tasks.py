"""Answers of notebooks 00 to 09: the data, the backbone, and every method of Task 1 and Task 2."""

import pandas as pd

from redlib import claims, datasets, figures
from redlib.results import cell, difference, listed, standing
from redlib.study import task1, task2
from redlib.study.answers.reading import (
    BELOW,
    CHAINS,
    CHOSEN,
    KNOWN,
    NEW,
    RANGE,
    ROUTER,
    UNSEEN,
    VALUE,
    Tables,
    begin,
    beside,
    best,
    hold,
)

SUBTRACTING = ["pattern=subtraction", "pattern=mixed"]


def start_here(t: Tables) -> str:
    """The headline: RED on both splits, and who is best."""
    new, known = _both_splits(t, "red")
    rival = best(t.rows("task1", **UNSEEN, metric=VALUE), "red", "oracle_experts")
    gap = t.row("task1", **UNSEEN, method=rival["method"], metric=BELOW)
    return (
        f"RED gets {cell(new)} of the values right {NEW}, and {cell(known)} {KNOWN}. "
        f"The best other method that is not told the range is `{rival['method']}` with {cell(rival)} {NEW}: "
        f"{difference(gap, 'RED', 'it')}."
    )


def data(t: Tables) -> str:
    """What the splits keep apart, and how few pairs there are for the texts."""
    text, structure = (
        t.row("data_checks", split=split, part="train & test", group="all", metric="seen_structures")["value"]
        for split in ("text", "structure")
    )
    rows = int(t.row("data_checks", split="pool", part="all", group="all", metric="rows")["value"])
    there = datasets.budget(rows, t.profile.task1.operands, task1.labels(t.profile)).loc["all", "unordered_pairs"]
    return (
        f"Training holds the pair of numbers of {text:.1%} of the test's texts on split `text`, and of "
        f"{structure:.1%} on `structure`. "
        f"There are {there:,.0f} pairs for {rows:,} texts, so {'no' if rows > there else 'a'} set of as many texts can "
        "ask each pair only once."
    )


def backbone(t: Tables) -> str:
    """Where a probe reads the value best, and where the setting of the study stands."""
    read = t.rows("probes", seed="all", metric=VALUE, method="mlp")
    most = read.loc[read["value"].idxmax()]
    where = "the final norm" if most["layer"] == -1 else f"layer {most['layer']}"
    own = {name: getattr(t.profile.chosen, name) for name in ("layer", "pooling", "rank")}
    found = standing(t.rows("selection", seed="all", metric=VALUE), **own)
    return (
        f"A 2-layer probe reads the value best after {where}, pooling `{most['pooling']}`: {cell(most)} of unseen "
        f"validation sums. The study's own setting of RED ({', '.join(f'{k} {v}' for k, v in own.items())}) is {found}."
    )


def global_head(t: Tables) -> str:
    """How far one linear classifier gets."""
    value, reach = (t.row("task1", **UNSEEN, method="global_head", metric=metric) for metric in (VALUE, RANGE))
    gap = t.row("task1", **CHOSEN, split="text-structure", method="global_head", metric=f"{VALUE}_gap")
    return (
        f"{begin(NEW)} one linear classifier gets {cell(value)} of the values and {cell(reach)} of the ranges right. "
        f"Its {difference(gap, f'value accuracy {KNOWN}', f'that {NEW}')}."
    )


def oracle(t: Tables) -> str:
    """The right expert, and RED without being told."""
    new, known = _both_splits(t, "oracle_experts")
    gap = t.row("task1", **UNSEEN, method="oracle_experts", metric=BELOW)
    return (
        f"The right expert, always asked, gets {cell(new)} of the values right {NEW}, and {cell(known)} {KNOWN}. "
        f"{begin(NEW)}, {difference(gap, 'RED, which is not told the range,', 'this oracle')}."
    )


def averaging(t: Tables) -> str:
    """What equal weights cost RED and the heads."""
    gap = t.row("task1", **UNSEEN, method="red_uniform", metric=BELOW)
    average, told = (t.row("task1", **UNSEEN, method=m, metric=RANGE) for m in ("uniform_average", "oracle_experts"))
    return (
        f"{begin(NEW)}, {difference(gap, 'RED with its router', 'RED with equal weights')} in value accuracy. "
        f"Averaged heads name the right range in {cell(average)}, the same heads with an oracle in {cell(told)}."
    )


def mixture(t: Tables) -> str:
    """The gate's choice against the value that comes of it."""
    gate, router = (t.row("task1", **UNSEEN, method=method, metric=ROUTER) for method in ("softmax_moe", "red"))
    value = t.row("task1", **UNSEEN, method="softmax_moe", metric=VALUE)
    stands = beside(router, gate, "more often than the gate", "less often than the gate")
    return (
        f"{begin(NEW)} the gate asks the right expert first in {cell(gate)} of the texts, and the value is right in "
        f"{cell(value)}. RED's router, trained on the range, finds the expert in {cell(router)}: {stands}."
    )


def red(t: Tables) -> str:
    """What experts and router are worth, and the best control."""
    gaps = t.rows("task1", **UNSEEN, metric=BELOW).set_index("method")
    values = t.rows("task1", **UNSEEN, metric=VALUE)
    control = best(values[values["method"].str.endswith("_full_data")])
    return (
        f"{begin(NEW)} {difference(gaps.loc['router_only'], 'RED', 'its router alone')} in value accuracy; "
        f"{difference(gaps.loc['red_uniform'], 'RED', 'its experts at equal weights')}. "
        f"The best plain network on all rows, `{control['method']}`, gets {cell(control)}: "
        f"{difference(gaps.loc[control['method']], 'RED', 'it')}."
    )


def task1_claims(t: Tables) -> str:
    """How many conclusions on Task 1 hold."""
    scores, bias, labels = t.read("task1"), t.read("task1_bias"), task1.labels(t.profile)
    found = {split: claims.verdicts(scores, bias, labels, "chosen", split) for split in ("structure", "text")}
    return (
        f"Of the source's {len(found['structure'])} conclusions about Task 1, {hold(found['structure'])} {NEW}"
        f". {begin(KNOWN)}, {hold(found['text'])}."
    )


def task2_claims(t: Tables) -> str:
    """How many conclusions on Task 2 hold, RED on chains, and RED that has seen additions alone."""
    found = claims.task2_verdicts(t.read("task2"), task2.labels(t.profile), CHAINS["variant"], CHAINS["split"])
    values = t.rows("task2", **CHAINS, metric=VALUE)
    own, rival = best(values[values["method"] == "red"]), best(values, "red", "oracle_experts")
    gap = t.row("task2", **CHAINS, method=rival["method"], metric=BELOW)
    return (
        f"Of the source's {len(found)} conclusions about Task 2, {hold(found)} on unseen chains. "
        f"RED gets {cell(own)} of their values right; the best other method is `{rival['method']}`: "
        f"{difference(gap, 'RED', 'it')}; {_carried_over(t)}."
    )


def _carried_over(t: Tables) -> str:
    """What RED of Task 1, experts and router, does with chains that subtract."""
    at = CHAINS | {"variant": f"{CHAINS['variant']}/experts=task1,router=task1"}
    rows = t.rows("task2_transfer", **at | {"group": SUBTRACTING}, method="red", metric=VALUE).set_index("group")
    parts = (f"{cell(row, n=True)} of those with {figures.kind_name(group)}" for group, row in rows.iterrows())
    return f"RED of Task 1, whose experts saw additions alone, gets right {listed(parts)}"


def _both_splits(t: Tables, method: str) -> tuple[pd.Series, pd.Series]:
    """Value accuracy on unseen sums, and on new combinations of known sums and wordings."""
    new, known = (t.row("task1", **CHOSEN, split=split, method=method, metric=VALUE) for split in ("structure", "text"))
    return new, known
