"""Answers of notebooks 16 to 20: programs, parts that are exchanged, parts that are changed, and our own form."""

import pandas as pd

from redlib import figures
from redlib.results import cell, difference, direction, pick, select
from redlib.study.ablations import TASKS
from redlib.study.answers.reading import AT, NEW, VALUE, Tables, begin, costliest
from redlib.study.planner import METHODS
from redlib.study.tables import available

FAULTS = {  # how an answer can be wrong (`execution.KINDS`)
    "planner": "a wrong program",
    "inside": "a wrong step inside the experts' domain",
    "outside": "a wrong step outside the experts' domain",
}
ROUNDED, ADDED = "replace_bf16", "add_minus_refit"  # the same expert in 16 bits; one for subtractions, and its column
PLACES = {"task1": NEW, "task2": "on unseen chains"}


def planner(t: Tables) -> str:
    """How many programs are exact, and what the grammar and the search are worth."""
    scores = t.rows("planner", seed="all", part="test", split="structure")
    best = METHODS[0]
    exact = select(scores, method=best, metric="program_exact").set_index("group")
    longest = max(name for name in exact.index if name.startswith("ops="))
    free = pick(scores, group="all", method="planner_unrestricted", metric="program_exact_below_planner")
    searched = pick(scores, group="all", method=best, metric="program_exact_below_planner")
    gaps = [
        difference(free, "the grammar", "no grammar"),
        difference(searched, "the grammar", "a search among programs about the question's numbers"),
    ]
    return (
        f"{begin(PLACES['task2'])} the planner writes {cell(exact.loc['all'])} of the programs exactly, "
        f"{cell(exact.loc[longest])} of those with {longest.removeprefix('ops=')} operations. "
        f"Of exact programs, {'; '.join(gaps)}."
    )


def execution(t: Tables) -> str:
    """Whole programs, and where wrong answers come from."""
    home = t.profile.operations.domains[0]
    at = AT | {"split": "structure", "variant": f"{home}/gold"}
    right = t.row("execution", **at, method="red", metric=VALUE)
    gap = t.row("execution", **at, method="softmax_moe", metric="value_accuracy_below_red")
    kinds = t.rows("execution_budget", split="structure", group="all", method="red", metric=list(FAULTS))
    planned = f"{home}/predicted" in set(kinds["variant"])
    kinds = select(kinds, variant=f"{home}/{'predicted' if planned else 'gold'}")
    worst = kinds.loc[kinds["value"].idxmax()]
    source = "a planner's" if planned else "the right"
    fault = f"the most frequent fault is {FAULTS[worst['metric']]}: {cell(worst)} of all answers"
    return (
        f"Given the right programs, with steps held out, RED gets {cell(right)} of the answers right: "
        f"{difference(gap, 'RED', 'the mixture')}. "
        f"With {source} programs {fault if worst['value'] > 0 else 'no answer is wrong'}."
    )


def modularity(t: Tables) -> str:
    """What it costs to take an expert away, to put another one in its place, and to add one."""
    changes = t.rows("modularity", seed="all", variant="chosen", split="structure", metric=f"{VALUE}_change")
    gone = changes[changes["method"].str.startswith("remove_") & (changes["group"] != "all")]
    own = gone["method"] == "remove_" + gone["group"]
    loses = gone["high"] < 0
    whole = changes[changes["group"] == "all"]
    swaps = whole[whole["method"].str.startswith("replace_") & (whole["method"] != ROUNDED)]
    new = {"seed": "all", "split": "structure", "variant": "chosen/questions=minus", "method": ADDED}
    gets = t.row("modularity", **new, group="all", metric=VALUE)
    costs = pick(whole, method=ADDED)
    signs = [direction(row) for _, row in swaps.iterrows()]
    return (
        f"{begin(NEW)} an expert that is removed costs its own range measurably in {(own & loses).sum()} of "
        f"{own.sum()} cases, another range in {(~own & loses).sum()} of {(~own).sum()}. "
        f"Of {len(signs)} other experts in the place of one, {_are(signs.count(-1))} measurably worse and "
        f"{_are(signs.count(1))} better; an expert that is added for subtractions gets {cell(gets)} of them right, and "
        f"changes the value accuracy on sums by {cell(costs)}."
    )


def _are(count: int) -> str:
    return f"{count or 'none'} {'is' if count < 2 else 'are'}"


def ablations(t: Tables) -> str:
    """Which single change costs most and which gains most, and how many make no difference, for both tasks; and one
    expert with more texts."""
    rows = t.rows("ablations", seed="all", split="structure")
    red = set(rows.loc[rows["x"] == 0, "variant"])
    said = []
    for task in TASKS:
        own = select(rows, task=task, metric=f"{VALUE}_change")
        own = own[own["reference"].isin(red)].drop_duplicates("variant")
        free = ((own["low"] <= 0) & (own["high"] >= 0)).sum()
        best = own.loc[own["value"].idxmax()]
        gains = f", {_changed(best)} gains most, {cell(best)}" if best["low"] > 0 else ""
        said.append(
            f"{PLACES[task]} {costliest(own, _changed)}{gains}; {free} of {len(own)} changes are not measurable"
        )
    first, second = said
    return f"With {t.profile.ablations.rows:,} texts, {first}. {begin(second)}{_one_expert(t)}."


def _one_expert(t: Tables) -> str:
    """How one expert for all sums stands with the texts of Task 1, where chapter 18 has asked."""
    if 1 not in t.profile.modularity.ranges or not available(t.profile, "modularity_ranges"):
        return ""
    at = {"seed": "all", "group": "all", "split": "structure", "variant": "chosen/same=rank", "method": "K=1"}
    change = t.row("modularity_ranges", **at, metric=f"{VALUE}_change")
    return (
        f"; {NEW} with {t.profile.task1.rows:,} texts (chapter 18), "
        f"{difference(change, 'one expert for everything', 'RED')}"
    )


def _changed(row: pd.Series) -> str:
    return f"*{figures.setting_name(row['changed'])}*"


def red_plus(t: Tables) -> str:
    """What experts and router add to their own base on both tasks, and how far the whole is above RED."""
    said = {"red_plus_base": [], "red": []}
    for task, where in PLACES.items():
        gaps = {other: _plus(t, task, method=other, metric="value_accuracy_below_red_plus") for other in said}
        own = _plus(t, task, method="red_plus", metric=VALUE)
        said["red_plus_base"].append(f"{_stands(gaps['red_plus_base'], 'its base')} {where}")
        said["red"].append(f"{cell(own)} {where}, {_stands(gaps['red'], 'RED')}")
    return (
        f"In value accuracy `red_plus` is {' and '.join(said['red_plus_base'])}. It gets {', and '.join(said['red'])}."
    )


def _stands(gap: pd.Series, other: str) -> str:
    """Where a method stands to another, of the difference first minus other."""
    level = f"level with {other} ({cell(gap)})"
    return difference(gap, "it", other).removeprefix("it is ") if direction(gap) else level


def _plus(t: Tables, task: str, **keys) -> pd.Series:
    return t.row("red_plus", **AT, task=task, split="structure", **keys)
