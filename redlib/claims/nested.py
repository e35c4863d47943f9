"""Verdicts on what the nested document says: its table of advantages, line by line, and its summary."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, OPEN, Finding, apart, as_frame, behind, judge, together, worst
from redlib.results import cell, listed, pick, select

WITHIN = 0.01  # "preserved accuracy": at most this much below the plain model
PATCH = {"brightness": "the brightness of its patch", "contrast": "its contrast"}  # what a router has to tell more than
STANDS = {HOLDS: "better than", FAILS: "worse than", OPEN: "neither measurably better nor worse than"}
ADVANTAGES = {  # property: the document's explanation
    "Conditional Computation": "activates only a subset of model parameters per input",
    "Increased Capacity": "larger effective model size (more experts) without higher per-sample cost",
    "Dynamic Adaptation": "different images/patches activate different computation paths",
    "Memory Efficiency": "reduces redundant activations for uninformative tokens",
    "Improved Throughput": "allows larger models to be used under same FLOPs budget",
}
DEPARTURES = (  # what the document says, and what the method of the paper does
    ("three experts: all, half and a quarter of the weights", "four: D, D/2, D/4 and D/8; any increasing divisors do"),
    ("each expert processes only its assigned tokens independently", "attention is over all tokens, at full width"),
    ("tokens of high, medium and low importance go to different experts", "the budget fixes how many go where"),
    ("router, experts, output, then the next layer", "one router before the first block; its choice holds for all"),
    ("tokens not used by large experts are downsampled or merged", "no token is merged; each keeps its place"),
    ("attention costs O(Nr^2 + Ns^2 + Nt^2)", "attention costs O(N^2), whatever the budget"),
    ("more experts, larger effective capacity", "nested weights: no parameter more than the plain model, but a router"),
    ("a smaller memory footprint", "the same weights; activations are another matter, and are counted here"),
)


def nested_verdicts(
    scores: pd.DataFrame, routes: pd.DataFrame, speeds: pd.DataFrame, budget: float, numbers: bool = False
) -> pd.DataFrame:
    """A verdict on every advantage that the document names, at one budget, and on its summary.

    scores, routes, speeds: the tables nested, nested_routing and nested_speed. Columns: section, claim, test, measured,
    verdict, with `numbers` those of a Finding. Counts are exact. LookupError for missing rows.
    """
    found = [
        *_conditional(routes, budget),
        *_capacity(scores, budget),
        *_dynamic(routes, budget),
        *_memory(speeds),
        *_throughput(speeds, budget),
        *_quadratic(scores, budget),
        *_summary(scores),
    ]
    return as_frame(found, numbers)


def _claim(name: str) -> tuple[str, str]:
    return "advantages", f"{name}: {ADVANTAGES[name]}"


def _conditional(routes: pd.DataFrame, budget: float) -> Iterator[Finding]:
    full = at(routes, budget, method="nested", group="width=1", metric="load")
    said = "no token of a picture goes to the largest expert, which holds all parameters"
    measured = f"{full['value']:.1%} of the tokens of every picture go there"
    verdict = HOLDS if full["value"] == 0 else FAILS
    yield Finding(*_claim("Conditional Computation"), said, measured, verdict, **behind(full))


def _capacity(scores: pd.DataFrame, budget: float) -> Iterator[Finding]:
    gap = at(scores, budget, method="nested", metric="accuracy_minus_same_flops")
    said = f"at budget {budget:g}, more accurate than the smallest plain model of at least the same FLOPs"
    verdict = judge(gap["low"], gap["high"])
    yield Finding(*_claim("Increased Capacity"), said, cell(gap), verdict, **behind(gap))


def _dynamic(routes: pd.DataFrame, budget: float) -> Iterator[Finding]:
    row, patch = at(routes, budget, method="nested", metric="mask_auc_width"), _patch(routes)
    said = "the width of a token says whether it belongs to the digit: AUC above 0.5, and above those of the "
    said += "brightness and the contrast of its patch (intervals apart); all pictures cost the same"
    measured = f"{cell(row)}; {listed(f'{name} {cell(other)}' for name, other in patch.items())}"
    found = [judge(row["low"], row["high"], 0.5), *(_apart(row, other) for other in patch.values())]
    yield Finding(*_claim("Dynamic Adaptation"), said, measured, together(found), **behind(row))


def beside_patch(routes: pd.DataFrame, row: pd.Series) -> str:
    """How a router's AUC against the mask stands beside those of a patch alone, whose intervals are of the same
    pictures: `worse than the brightness of its patch (0.741 [0.740, 0.743]) and better than its contrast (...)`."""
    rows = _patch(routes).items()
    return listed(f"{STANDS[_apart(row, other)]} {PATCH[name]} ({cell(other)})" for name, other in rows)


def _patch(routes: pd.DataFrame) -> dict[str, pd.Series]:
    return {name: pick(routes, method=name, metric="mask_auc", seed="all") for name in PATCH}


def _apart(row: pd.Series, other: pd.Series) -> str:
    """`judge` for two numbers without a paired difference: one is above where the intervals are apart."""
    gap = apart(row, other)
    return judge(gap["low"], gap["high"])


def _memory(speeds: pd.DataFrame) -> Iterator[Finding]:
    rows = select(speeds, method="nested", metric="activation_ratio")
    said = "activations of a training step, by the plain model's, are below 1 at every width and budget"
    measured = f"{rows['value'].min():.2f} to {rows['value'].max():.2f}"
    most, name = rows["value"].max(), _claim("Memory Efficiency")
    yield Finding(*name, said, measured, HOLDS if most < 1 else FAILS, value=most)


def _throughput(speeds: pd.DataFrame, budget: float) -> Iterator[Finding]:
    rows = select(speeds, method="nested", metric="speedup")
    rows = rows[np.isclose(rows["x"], budget)]
    said = f"at budget {budget:g}, faster than the plain model of the same width, at every width"
    measured = listed(f"{row['variant']}: {cell(row, 2)}" for _, row in rows.iterrows())
    verdict = together(judge(row.low, row.high, 1.0) for row in rows.itertuples())
    yield Finding(*_claim("Improved Throughput"), said, measured, verdict, **behind(worst(rows)))


def _quadratic(scores: pd.DataFrame, budget: float) -> Iterator[Finding]:
    claim = "merging, and attention inside groups, save attention"
    if "grouped" not in set(scores["method"]):
        yield Finding("token downsizing", claim, "the variant `grouped`", "not trained at this profile", OPEN)
        return
    own, joint = (at(scores, budget, method=name, metric="flops_ratio")["value"] for name in ("grouped", "nested"))
    gap = at(scores, budget, method="grouped", metric="accuracy_minus_nested")
    said = f"at budget {budget:g}, fewer FLOPs than with attention over all tokens, and not less accurate"
    measured = f"{own:.2f} against {joint:.2f} of the plain model; accuracy {cell(gap)}"
    kept = FAILS if gap["high"] < 0 else HOLDS if gap["low"] > -WITHIN else OPEN
    yield Finding("token downsizing", claim, said, measured, kept if own < joint else FAILS, **behind(gap))


def _summary(scores: pd.DataFrame) -> Iterator[Finding]:
    half = 0.5
    gap = at(scores, half, method="nested", metric="accuracy_minus_plain")
    cost = at(scores, half, method="nested", metric="flops_ratio")["value"]
    said = f"at budget {half:g} and equal training FLOPs, at most {WITHIN:g} below the plain model"
    measured = f"{cell(gap)} at {cost:.0%} of its FLOPs"
    claim = "preserved accuracy and lower inference cost"
    yield Finding("summary", claim, said, measured, judge(gap["low"], gap["high"], -WITHIN), **behind(gap))


def at(frame: pd.DataFrame, budget: float, **keys) -> pd.Series:
    """The one row over all seeds at a budget; LookupError naming the budgets that there are."""
    rows = select(frame, seed="all", **keys)
    here = rows[np.isclose(rows["x"], budget)]
    if here.empty:
        there = ", ".join(f"{x:g}" for x in sorted(set(rows["x"])))
        raise LookupError(f"no row at budget {budget:g} for {keys}; budgets: {there}")
    return pick(here, **keys)
