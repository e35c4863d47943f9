"""Answers of notebooks 21 to 25: cost, the smaller documents, and all claims."""

import pandas as pd

from redlib import claims, sparse
from redlib.claims.cost import SOURCE
from redlib.results import cell, difference, listed, pick, select
from redlib.study import task1
from redlib.study.answers.reading import Tables, hold
from redlib.study.cost_tables import ALL, BATCH, OWN, TOKENS

RIVALS = ("drop", "depths", "grouped", "grouped_weighted", "merge")  # of nested experts, that are no arm of theirs
FORMULA = "formula red/4.10"  # as the source's table of parameters has it
DENSE = {"dense_b": "times the speed of a dense model of its total size", "dense_a": "of one of its active size"}


def complexity(t: Tables) -> str:
    """RED's parameters beside the mixture's, and its work beside the backbone's."""
    labels, costs = task1.labels(t.profile), t.read("cost")
    counted = select(costs, variant=SOURCE, method=FORMULA, group=f"C={labels.C}")
    times = select(counted, metric="over_mixture").sort_values("rank")
    edge = pick(counted, metric="break_even_rank")["value"]
    every, _, whole = _work(t)
    shares = t.rows("cost_curves", curve="tokens", method="red", rank=t.profile.chosen.rank, x=1.0)
    shares = select(shares, variant=pick(costs, metric="tokens_median")["variant"]).set_index("group")["value"]
    depth = shares[OWN] / shares[ALL]
    peak = pick(costs, variant=SOURCE, method="training, float32", group="peak", metric="bytes")
    return (
        f"By the source's formula RED has {listed(f'{x:.2f}' for x in times['value'])} times the mixture's parameters "
        f"at its ranks {listed(times['rank'])}; it is the smaller one only below rank {edge:.1f}. "
        f"On a text of median length RED adds {every / whole:.3%} to the FLOPs of a pass through all layers of this "
        f"study's backbone, {every / whole * depth:.2%} to those of the layers that it reads; a training step of the "
        f"source's base holds tensors of {peak['value'] / 1e9:.2f} GB in 32 bits, {BATCH} texts of {TOKENS} tokens."
    )


def savings(t: Tables) -> str:
    """What the formula promises, what is left against a plain layer, and RED."""
    views = pd.concat([sparse.view(*example) for example in sparse.EXAMPLES])
    saved = [group["saved"].to_list() for _, group in views.groupby("comparison", sort=False)]
    every, one, whole = _work(t)
    K = task1.labels(t.profile).K
    red = sparse.sparse_savings(K, K, 1, 1)
    return (
        f"Router counted, the note's layers do {_percent(saved[1])} % less work than all their experts at once, and "
        f"{_percent([-share for share in saved[3]])} % more than one plain layer. "
        f"RED asks all experts and saves {red:.1f} %; its first choice alone would save {(every - one) / whole:.3%} of "
        "a pass through all layers of the backbone."
    )


def _work(t: Tables) -> tuple[float, float, float]:
    """FLOPs of RED, of its first choice alone, and of the profile's backbone, for a text of median length."""
    costs, at = t.read("cost"), {"group": f"C={task1.labels(t.profile).C}", "rank": t.profile.chosen.rank}
    place = pick(costs, metric="tokens_median")
    own = select(costs, variant=place["variant"])
    every = pick(own, **at, method="red", metric="extra_flops")["value"]
    one = pick(own, **at, method="top1", metric="extra_flops_skipping")["value"]
    return every, one, pick(own, method="backbone", metric="flops_per_token")["value"] * place["value"]


def _percent(saved: list[float]) -> str:
    return listed(f"{value:.1f}" for value in saved)


def sparse_dense(t: Tables) -> str:
    """How fast a mixture answers one request, and what it learned."""
    at = {"variant": "serving", "batch": 1, "prompt": t.profile.sparse.prompt, "method": "moe_top1"}
    fast = {name: t.row("sparse_serving", **at, metric=f"user_tokens_per_second_over_{name}") for name in DENSE}
    loss = t.row("sparse_quality", method="moe_top1", metric="loss_minus_dense_b", group="all", seed="all")
    size = fast["dense_b"]
    cheaper = (
        "cheaper" if size["low"] > 1 else "dearer" if size["high"] < 1 else "neither clearly cheaper nor clearly dearer"
    )
    words = [f"{cell(fast[name], 2)} {said}" for name, said in DENSE.items()]
    wide = t.rows("sparse_growth", curve="width", method="moe_top1", metric="user_tokens_per_second_over_dense_b")
    wide = wide.loc[wide["x"].idxmax()]
    return (
        f"One request at a time, `moe_top1` has {' and '.join(words)}. "
        f"So it is {cheaper} to serve than a dense model of its size at this width, and "
        f"{difference(loss, 'its loss on held-out documents', 'that of `dense_b`')}; "
        f"untrained, at width {wide['x']:.0f}, it has {cell(wide, 2)} times the speed of the one of its total size."
    )


def nested_experts(t: Tables) -> str:
    """Accuracy and time at a low budget, and how many statements hold."""
    budget = min(t.profile.nested.budgets, key=lambda b: abs(b - 0.3))
    scores = t.read("nested")
    at = {"method": "nested", "seed": "all", "x": budget}
    plain, lot = (pick(scores, **at, metric=f"accuracy_minus_{name}") for name in ("plain", "random"))
    rivals = select(scores, seed="all", x=budget, metric="accuracy_minus_nested")
    rivals = rivals[rivals["method"].isin(RIVALS) & (rivals["low"] > 0)].sort_values("value", ascending=False)
    ways = listed(f"`{row['method']}` ({cell(row)})" for _, row in rivals.iterrows())
    better = f"more accurate at that budget: {ways}; " if len(rivals) else ""
    wide = t.rows("nested_speed", method="nested", metric="speedup")
    wide = wide[wide["variant"] == f"D={t.profile.nested.dim}"]
    near = wide.loc[(wide["x"] - budget).abs().idxmin()]
    ratio = t.row("nested_clock", method="nested", metric="clock_ratio", x=budget)
    found = claims.nested_verdicts(scores, t.read("nested_routing"), t.read("nested_speed"), budget)
    return (
        f"At budget {budget:g} {difference(plain, 'the accuracy of nested experts', 'that of the plain model')}; they "
        f"take {cell(ratio, 2)} of its time. "
        f"Against the faster of two plain models, timed apart, they are {cell(near, 2)} times as fast; "
        f"{difference(lot, 'their accuracy', 'that with tokens placed by lot')}; {better}of the "
        f"document's {len(found)} statements {hold(found)}."
    )


def all_claims(t: Tables) -> str:
    """The counts of all verdicts."""
    checked = t.verdicts()
    count = claims.counts(checked).loc["all"]
    tested = count.drop("not testable here")
    itself = ((checked["kind"] == "contradiction") & (checked["verdict"] == claims.CONTRADICTED)).sum()
    return (
        f"Of {count.sum()} claims {tested.sum()} could be tested: "
        f"{listed(f'{verdict} {number}' for verdict, number in tested.items())}. "
        f"Of the contradicted ones {itself} are places where the source contradicts itself."
    )
