"""Answers of notebooks 21 to 25: cost, the smaller documents, and all claims."""

import pandas as pd

from redlib import claims, sparse
from redlib.claims.cost import SOURCE
from redlib.claims.judging import judge
from redlib.results import cell, difference, listed, pick, select
from redlib.study import task1
from redlib.study.answers.reading import Tables, hold
from redlib.study.cost_tables import ALL, BATCH, OWN, TOKENS

RIVALS = ("drop", "depths", "grouped", "grouped_weighted", "merge")  # of nested experts, that are no arm of theirs
DEFINED, FORMULA = "formula red/4.4", "formula red/4.10"  # the method, and the source's table of parameters
DENSE = {"dense_b": "times the speed of a dense model of its total size", "dense_a": "of one of its active size"}


def complexity(t: Tables) -> str:
    """RED's parameters beside the mixture's, and its work beside the backbone's."""
    labels, costs = task1.labels(t.profile), t.read("cost")
    counted = select(costs, variant=SOURCE, group=f"C={labels.C}")
    own, formula = (select(counted, method=name, metric="over_mixture") for name in (DEFINED, FORMULA))
    edge = select(counted, metric="break_even_rank").set_index("method")["value"]
    every, _, whole = _work(t)
    shares = t.rows("cost_curves", curve="tokens", method="red", rank=t.profile.chosen.rank, x=1.0)
    shares = select(shares, variant=pick(costs, metric="tokens_median")["variant"]).set_index("group")["value"]
    depth = shares[OWN] / shares[ALL]
    peak = pick(costs, variant=SOURCE, method="training, float32", group="peak", metric="bytes")
    return (
        f"RED as the source defines it (4.4) has {_by_rank(own)} times the mixture's parameters at its ranks "
        f"{listed(sorted(own['rank']))}; it is the smaller one only below rank {edge[DEFINED]:.1f}. "
        f"By the formula of 4.10, which is of experts that answer and do not correct, it has {_by_rank(formula)} times "
        f"as many and is the smaller one only below rank {edge[FORMULA]:.1f}; "
        f"on a text of median length RED adds {every / whole:.3%} to the FLOPs of a pass through all layers of this "
        f"study's backbone, {every / whole * depth:.2%} to those of the layers that it reads; a training step of the "
        f"source's base holds tensors of {peak['value'] / 1e9:.2f} GB in 32 bits, {BATCH} texts of {TOKENS} tokens."
    )


def _by_rank(times: pd.DataFrame) -> str:
    return listed(f"{x:.3g}" for x in times.sort_values("rank")["value"])


def savings(t: Tables) -> str:
    """What the formula promises, what is left against a plain layer, and RED."""
    views = pd.concat([sparse.view(*example) for example in sparse.EXAMPLES])
    saved = [group["saved"].to_list() for _, group in views.groupby("comparison", sort=False)]
    every, one, whole = _work(t)
    K = task1.labels(t.profile).K
    red = sparse.sparse_savings(K, K, 1, 1)
    return (
        f"Router counted, the layers of the savings note do {_percent(saved[1])} % less work than all their experts at "
        f"once, and {_percent([-share for share in saved[3]])} % more than one plain layer. "
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
    """Time and accuracy at a low budget, what the router tells, and how many statements hold."""
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
    accuracy = difference(plain, "nested experts' accuracy", "that of the plain model")
    return (
        f"At budget {budget:g} {accuracy}, and they take {cell(ratio, 2)} of our plain blocks' time in one batch. "
        f"They are {cell(near, 2)} times as fast as the faster of two plain models; "
        f"{difference(lot, 'their accuracy', 'that with tokens placed by lot')}; {better}"
        f"{_digit(t.read('nested_routing'), budget)}; "
        f"of the nested document's {len(found)} statements {hold(found)}."
    )


def _digit(routes: pd.DataFrame, budget: float) -> str:
    """What the width of a token tells of the digit: at a budget beside its patch, at low ones beside chance."""
    rows = select(routes, method="nested", group="all", seed="all", metric="mask_auc_width").sort_values("x")
    here = pick(rows, x=budget)
    words = {claims.HOLDS: "better than", claims.FAILS: "worse than", claims.OPEN: "no better than"}
    stands = rows.assign(word=[words[judge(row.low, row.high, 0.5)] for row in rows.itertuples()])
    least = stands[(stands["x"] == rows["x"].min()) | (stands["low"] <= 0.5)]
    chance = (f"at budget {row['x']:g} {row['word']} chance ({cell(row)})" for _, row in least.iterrows())
    stand = claims.beside_patch(routes, here)
    return f"the width of a token tells the digit (AUC {cell(here)}) {stand}, {listed(chance)}"


def all_claims(t: Tables) -> str:
    """The counts of all verdicts."""
    checked = t.verdicts()
    count = claims.counts(checked).loc["all"]
    tested = count.drop("not testable here")
    itself = ((checked["kind"] == "contradiction") & (checked["verdict"] == claims.CONTRADICTED)).sum()
    return (
        f"Of {count.sum()} claims {tested.sum()} could be tested: "
        f"{listed(f'{verdict} {number}' for verdict, number in tested.items())}. "
        f"Of the contradicted ones {itself} are places where a document contradicts itself; "
        f"{(checked['document'] == 'main').sum()} of all are the source's, on RED."
    )
