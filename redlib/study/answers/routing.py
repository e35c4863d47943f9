"""Answers of notebooks 10 to 15: what the gap to the mixture is, and what routing does."""

from collections.abc import Iterator

import pandas as pd

from redlib import claims, evaluation, figures, routing
from redlib.figures.fair import LABELS
from redlib.models.arms import PATH
from redlib.phrasing import FIRST
from redlib.results import cell, difference, direction, listed, pick, select
from redlib.study import fair
from redlib.study.answers.reading import CHOSEN, NEW, ROUTER, UNSEEN, VALUE, Tables, begin
from redlib.study.arithmetic_tables import ADDITIONS, TENS, UNITS

HEAVY = "single_heavy/chosen"
PROBED = {TENS: "the tens digit", UNITS: "the units digit", "range": "the range"}
FOLLOWS = {
    0: "RED's errors do not measurably follow linear probes of {}",
    1: "RED's value is right more often where a linear probe is right about {}",
    -1: "RED's value is right less often where a linear probe is right about {}",
}
SMOOTHER = {-1: "RED is smoother", 1: "the mixture is smoother", 0: "no measurable difference"}


def fair_comparison(t: Tables) -> str:
    """Which step from RED to the mixture costs most, in how many settings."""
    scores = t.read("fair")
    found = dict(_steps(scores))
    changes = select(scores, seed="all", method="softmax_moe", reference="red", metric=f"{VALUE}_change")
    total = pick(changes, task="task1", split="structure")
    worst = found["chosen", "structure"]
    same = sum(step["method"] == worst["method"] and step["high"] < 0 for step in found.values())
    name = LABELS[worst["method"]].removeprefix("+ ")
    apart = select(scores, method=fair.SAME, metric="logit_difference")["value"].max()
    costs = (
        f"*{name}* cost most on the way to the mixture, in {same} of {len(found)} cases: "
        f"{cell(worst)} of {cell(total)} {NEW}"
        if worst["high"] < 0
        else f"no step to the mixture costs anything measurable {NEW}"
    )
    heavy = changes[changes["variant"] == HEAVY]
    known = "" if heavy.empty else _of_heavy(pick(heavy), found[HEAVY, "text"])
    return (
        f"In value accuracy {costs}. {known}RED's own experts and weights, mixed as logits, give its "
        f"logits but for a relative difference of {apart:.1e}."
    )


def _steps(scores: pd.DataFrame) -> Iterator[tuple[tuple[str, str], pd.Series]]:
    """The step of the way to the mixture that costs most, for each variant and split."""
    rows = scores[scores["split"].isin(fair.SPLITS)]
    for (variant, split), here in rows.groupby(["variant", "split"]):
        inside = figures.path_steps(here, here["task"].iloc[0], split)[1 : PATH.index("softmax_moe") + 1]
        yield (variant, split), inside.loc[inside["value"].idxmin()]


def _of_heavy(total: pd.Series, worst: pd.Series) -> str:
    """The step that costs most where most chains have one operation, the data of the source's gap on Task 2."""
    name = LABELS[worst["method"]].removeprefix("+ ")
    return (
        f"On chains of mostly one operation, the source's data for Task 2, *{name}* cost most: "
        f"{cell(worst)} of {cell(total)}; "
    )


def router(t: Tables) -> str:
    """How often the router is right, what becomes of wrong routes, and what forced ones cost."""
    right = t.row("routing", **UNSEEN, task="task1", method="red", metric=ROUTER)
    routes = t.rows("routing", **UNSEEN | {"group": ["all", "route=wrong"]}, task="task1", method="red", metric=VALUE)
    wrong = routes[routes["group"] == "route=wrong"]
    rescued = f"{cell(wrong.iloc[0])} of its wrong routes end in the right value" if len(wrong) else "it is never wrong"
    attacked = t.rows("robustness", task="task1", variant="chosen", split="structure")
    lost = select(routing.verdicts(attacked, metrics=(VALUE,)), corruption="wrong")
    worst = lost.loc[lost["strength"].idxmax()]
    start = pick(attacked, method="softmax_moe", corruption="wrong", strength=0.0, metric=VALUE)
    return (
        f"{begin(NEW)} RED's router is right on {cell(right)} of the texts; {rescued}. "
        f"With every route forced wrong, RED's loss of value accuracy minus the mixture's is {cell(worst)}: "
        f"{worst['verdict']}; the mixture has {cell(start)} to lose."
    )


def boundaries(t: Tables) -> str:
    """Ups and downs that an ideal step does not have, RED against the mixture."""
    kept = t.rows("boundary_smoothness", **CHOSEN | {"group": ["all", "unseen"], "part": "population"}, task="task1")
    kept = select(kept, split="structure", operator="addition")
    along, rows = (evaluation.held_back(kept[kept["metric"].str.startswith(name)]) for name in ("backtrack", "row_"))
    red, other = (pick(along, metric="backtrack", method=name) for name in ("red", "softmax_moe"))
    gap = pick(along, metric="backtrack_below_red", method="softmax_moe")
    flips = pick(rows, metric="row_extra_flips_below_red", method="softmax_moe")
    return (
        f"{begin(NEW)} RED's range probabilities turn back by {cell(red, 2)} along the values, the mixture's by "
        f"{cell(other, 2)} (ideal: 0): {SMOOTHER[direction(gap)]}. In needless flips of the most probable range along "
        f"rows of the operand map, {difference(flips, 'RED', 'the mixture', 2)}."
    )


def arithmetic(t: Tables) -> str:
    """What can be read from the state that RED reads, and whether its errors follow from it."""
    depth = t.profile.chosen.layer
    read = t.rows("arithmetic_probes", metric="accuracy", variant=ADDITIONS, layer=depth, site="pooled")
    operand, value = (pick(read, target=target, method="linear") for target in (FIRST, "value"))
    deep = pick(read, target="value", method="mlp")
    return (
        f"From RED's features a linear map reads the first operand in {cell(operand, 2)} and the value in "
        f"{cell(value, 2)}, a 2-layer probe the value in {cell(deep, 2)}. {_follow(t.read('arithmetic_agreement'))}."
    )


def _follow(linked: pd.DataFrame) -> str:
    """Whether RED's errors follow linear probes of both digits and of the range, on the same questions."""
    links = linked[linked["metric"] == "value_link"].set_index("target")
    found: dict[int, list[str]] = {sign: [] for sign in FOLLOWS}
    for target, name in PROBED.items():
        if target in links.index:
            row = links.loc[target]
            found[direction(row)].append(f"{name} ({cell(row)}, n = {row['n']:,.0f})")
    said = [words.format(listed(found[sign])) for sign, words in FOLLOWS.items() if found[sign]]
    if not said:
        return "RED's errors cannot be set beside linear probes, which are right or wrong everywhere"
    return (
        f"{'; '.join(said)}; in parentheses: value accuracy where the probe is right minus where not, n the rarer side"
    )


def case_studies(t: Tables) -> str:
    """How far the reported weights are from ours, and questions picked by rule."""
    told = select(claims.load(), section="4.11")
    told = told[told["metric"].str.startswith("alpha_")].set_index(["group", "metric"])["number"]
    ours = t.rows("cases", task="task1", variant="chosen", split="structure", seed="all", method="red")
    ours = ours.set_index(["group", "metric"]).loc[told.index]
    inside = int(told.between(ours["low"], ours["high"]).sum())
    first = [each.groupby("group").idxmax().map(lambda key: key[1]) for each in (told, ours["value"])]
    apart = (told - ours["value"]).abs().mean()
    picked = t.rows("case_picks", method="red", metric=VALUE)
    return (
        f"{inside} of the {len(told)} routing weights that the source reports lie in our intervals, {apart:.2f} is the "
        f"mean distance; the same expert is first in {int((first[0] == first[1]).sum())} of {len(first[0])} questions. "
        f"Of {len(picked)} more questions, picked by rule, RED answers {int(picked['value'].sum())} rightly."
    )


def inspector(t: Tables) -> str:
    """How much of the operand map is right, on pairs of training and on others."""
    maps = t.rows("operand_maps", task="task1", method="red", operator="addition")
    right = maps.assign(right=maps["value"] == 0).groupby("in_training")["right"].agg(["mean", "size"])
    parts = [
        f"{right.loc[known, 'mean']:.1%} of the {right.loc[known, 'size']:,} that training {verb}"
        for known, verb in ((1, "held"), (0, "did not hold"))
        if known in right.index
    ]
    by_range = (maps["value"] == 0).groupby(maps["group"]).mean()
    moved = t.rows("robustness", **UNSEEN, task="task1", method="red", corruption="dirichlet", metric=VALUE)
    kept, half, lot = (cell(pick(moved, strength=share)) for share in (0.0, 0.5, 1.0))
    return (
        f"In one wording RED of one seed answers {(maps['value'] == 0).mean():.1%} of the {len(maps):,} pairs rightly: "
        f"{' and '.join(parts)}. Most are right in {by_range.idxmax()}, {by_range.max():.1%}, fewest in "
        f"{by_range.idxmin()}, {by_range.min():.1%}; {NEW}, over all seeds, value accuracy is {kept} as routed, "
        f"{half} where half of every route is drawn by lot, and {lot} where all of it is."
    )
