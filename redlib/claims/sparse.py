"""The serving document's table of sparse against dense, line by line, its root causes and its decisions."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, OPEN, VERDICT, Finding, as_frame, behind, judge
from redlib.claims.reported import load
from redlib.results import cell, pick, select
from redlib.sparse.recommend import recommend

TABLE = "sparse.results"
MODELS = ("dense_120m", "dense_300m", "alchemist_moe")
KEPT, CHANGED, UNKNOWN = "kept", "changed", "not decidable here"
LARGE = 0.1  # of a step: from here on a part of it is called a cost
DECISION = ["recommendation", *VERDICT[2:]]


def source_table() -> pd.DataFrame:
    """The document's fifteen numbers as a frame, a model a row."""
    rows = select(load(), section=TABLE)
    return rows.pivot(index="method", columns="metric", values="number").loc[list(MODELS)]


def implied_price(table: pd.DataFrame) -> pd.DataFrame:
    """The price of an hour that each model's rate and cost per million tokens imply: price, and low and high where
    the cost is known to half of its last digit only."""
    per = table["tokens_per_second"] * 3600 / 1e6
    half = 0.0005
    columns = {"price": 0.0, "low": -half, "high": half}
    return pd.DataFrame({name: (table["cost_per_million"] + shift) * per for name, shift in columns.items()})


def corrections(table: pd.DataFrame) -> pd.DataFrame:
    """What the table says of itself: columns line, reported, arithmetic, reading."""
    dense, medium, moe = (table.loc[name] for name in MODELS)
    rate, size = "tokens_per_second", "active_parameters_millions"
    once = table[rate] * table["first_token_ms"] / 1e3
    weights = table[size] * 4e-3
    found = [
        (
            "tokens per second",
            _each(table[rate], "{:,.0f}"),
            "times the first-token latency: " + _each(once, "{:.1f} tokens"),
            "about one prompt of 16 tokens in the time of one pass: prompts were read, nothing was written",
        ),
        (
            "first-token latency, called similar",
            _each(table["first_token_ms"], "{:g} ms"),
            f"largest over smallest: {table['first_token_ms'].max() / table['first_token_ms'].min():.1f}",
            "not similar: the fastest model is the fastest in both columns",
        ),
        (
            "VRAM",
            _each(table["vram_gb"], "{:g} GB"),
            "parameters at 4 bytes: " + _each(weights, "{:.3f} GB"),
            "the weights in 32 bits and little else: no cache, one request",
        ),
        (
            "Dense-300M",
            f"{medium[size]:g} M parameters",
            f"{300 / medium[size]:.1f} times fewer than its name says",
            f"smaller than Dense-120M ({dense[size]:g} M), hence faster",
        ),
        (
            "active parameters of Alchemist-MoE",
            f"{moe[size]:g} M",
            f"{moe['vram_gb'] * 1e3 / 4:.1f} M fit its memory at 4 bytes",
            "its forward pass runs all specialists: none of the parameters rest",
        ),
        (
            "cost per million tokens ($)",
            _each(table["cost_per_million"], "{:g}"),
            "price of an hour ($): " + _each(implied_price(table)["price"], "{:.3f}"),
            "one price for all: throughput written in another unit, no measurement of its own",
        ),
    ]
    return pd.DataFrame(found, columns=["line", "reported", "arithmetic", "reading"])


def _each(values: pd.Series, form: str) -> str:
    return ", ".join(form.format(value) for value in values)


def percentages(table: pd.DataFrame) -> pd.DataFrame:
    """The percentages of the document's analysis beside what its table gives: claim_id, what, reported, computed."""
    dense, medium, moe = (table.loc[name] for name in MODELS)
    rate, memory, cost = "tokens_per_second", "vram_gb", "cost_per_million"
    computed = {
        "sparse.analysis-01": 100 * (1 - moe[rate] / dense[rate]),
        "sparse.analysis-02": 100 * (1 - moe[rate] / medium[rate]),
        "sparse.analysis-03": 100 * (1 - moe[memory] / dense[memory]),
        "sparse.analysis-04": 100 * (moe[cost] / dense[cost] - 1),
        "sparse.decision-01": medium[memory] / moe[memory],
        "sparse.decision-02": dense[memory] / moe[memory],
    }
    rows = load().set_index("claim_id").loc[list(computed)]
    frame = rows[["metric", "group", "number"]].rename(columns={"number": "reported"})
    return frame.assign(computed=pd.Series(computed))


def root_causes(serving: pd.DataFrame, time: pd.DataFrame, numbers: bool = False) -> pd.DataFrame:
    """The document's four root causes against the measurement (sparse_serving, sparse_time): columns of a verdict.

    One request at a time, at the profile's prompt. Intervals are the smallest and largest repeat; shares of the time
    have none.
    """
    prompt = time["prompt"].iloc[0]
    one = select(serving, variant="serving", batch=1, prompt=prompt)
    shares = select(time, metric="share", batch=1)
    soft = sorted(name for name in set(one["method"]) if name.startswith("alchemist_soft"))
    thin = sorted(name for name in set(one["method"]) if name.startswith("alchemist_sparse"))
    found = [*_parts(shares, [*soft, *thin, "moe_top1", "moe_top2"])]
    for claim, names, dense, said in (
        (
            "2. expert coordination",
            (*soft, *thin),
            "dense_a",
            "writes fewer tokens a second than dense_a, a single pass",
        ),
        (
            "4. fewer active parameters, no speed",
            ("moe_top1", *thin),
            "dense_b",
            "is no faster than dense_b, which has its total parameters",
        ),
    ):
        for name in names:
            gap = pick(one, method=name, metric=f"user_tokens_per_second_over_{dense}")
            verdict, margin = judge(-gap["high"], -gap["low"], -1.0), 1.0 - gap["value"]
            test, measured = f"{name} {said}", f"{cell(gap)} times"
            found.append(Finding("sparse.analysis", claim, test, measured, verdict, **behind(gap), margin=margin))
    return as_frame(found, numbers).sort_values("claim", kind="stable", ignore_index=True)


def _parts(shares: pd.DataFrame, names: list[str]) -> Iterator[Finding]:
    for part, claim in (("router", "1. router overhead"), ("dispatch", "3. memory access of sparse routing")):
        for name in names:
            row = pick(shares, method=name, group=part)
            test, margin = f"{part} takes at least {LARGE:.0%} of the time of {name}", row["value"] - LARGE
            measured, verdict = f"{row['value']:.1%}", HOLDS if margin >= 0 else FAILS
            yield Finding("sparse.analysis", claim, test, measured, verdict, **behind(row), margin=margin)


def main_prompt(serving: pd.DataFrame) -> int:
    """The length of prompt that every batch was measured at."""
    return int(select(serving, variant="serving")["prompt"].mode().iloc[0])


def options(quality: pd.DataFrame, serving: pd.DataFrame) -> pd.DataFrame:
    """What `recommend` chooses from: the measured models at every batch of the main prompt, and their losses.

    Columns model, batch, memory_bytes, tokens_per_second, loss, loss_low, loss_high (NaN for models that were not
    trained here), and `above_<other>` for every other model that has one: the low end of the loss minus that one's.
    """
    rows = select(serving, variant="serving", prompt=main_prompt(serving)).set_index(["method", "batch"])
    loss = select(quality, metric="loss", group="all", seed="all").set_index("method")
    made = pd.DataFrame(
        {
            "memory_bytes": rows[(rows["metric"] == "bytes") & (rows["group"] == "all")]["value"],
            "tokens_per_second": rows[rows["metric"] == "system_tokens_per_second"]["value"],
        }
    ).reset_index()
    made = made.rename(columns={"method": "model"})
    for name, of in {"loss": "value", "loss_low": "low", "loss_high": "high"}.items():
        made[name] = made["model"].map(loss[of])
    return made.join(_paired(quality), on="model")


def _paired(quality: pd.DataFrame) -> pd.DataFrame:
    """Low ends of paired differences of the loss, model minus other, and the same read the other way round."""
    rows = select(quality, group="all", seed="all")
    rows = rows[rows["metric"].str.startswith("loss_minus_")]
    rows = rows.assign(other=rows["metric"].str.removeprefix("loss_minus_"))
    turned = rows.assign(method=rows["other"], other=rows["method"], low=-rows["high"])
    both = pd.concat([rows, turned]).drop_duplicates(["method", "other"])
    return both.pivot(index="method", columns="other", values="low").add_prefix("above_")


def decisions(
    quality: pd.DataFrame, serving: pd.DataFrame, growth: pd.DataFrame, price: float, numbers: bool = False
) -> pd.DataFrame:
    """The document's recommendations with a verdict each: kept, changed or not decidable here. Columns DECISION, with
    `numbers` also value, low, high and n of what was measured."""
    table = options(quality, serving)
    tight = table[table["batch"] == table["batch"].min()].set_index("model")["memory_bytes"]
    found = [_cost(quality, serving), _benefit(quality), _larger(growth), *_memory(table, tight, price)]
    found += [_quantised(tight), _rather(quality, tight), _fourth(quality)]
    found += [
        _advice("test edge devices", "needs such a device", "none at hand", UNKNOWN),
        _advice("reconsider at multi-GPU scale", "needs several GPUs", "none at hand", UNKNOWN),
    ]
    made = as_frame(found, numbers=True).rename(columns={"claim": "recommendation"})
    return made.drop(columns="section") if numbers else made[DECISION]


def _advice(recommendation: str, test: str, measured: str, verdict: str, **numbers: float) -> Finding:
    return Finding("sparse.decision", recommendation, test, measured, verdict, **numbers)


def _cost(quality: pd.DataFrame, serving: pd.DataFrame) -> Finding:
    rows = select(serving, variant="serving", prompt=main_prompt(serving))
    rows = rows[rows["batch"] == rows["batch"].max()]
    over = {
        other: select(rows, metric=f"system_tokens_per_second_over_{other}").set_index("method")
        for other in ("dense_a", "dense_b")
    }
    thin = over["dense_a"].index.str.startswith(("moe", "alchemist_sparse"))
    name = over["dense_a"][thin]["value"].idxmax()
    small, large = over["dense_a"].loc[name], over["dense_b"].loc[name]
    gap = pick(quality, method=name, metric="loss_minus_dense_a", group="all", seed="all")
    cheaper = (small["low"] > 1 and gap["low"] <= 0) or (large["low"] > 1 and gap["high"] < 0)
    test = (
        f"{rows['batch'].max()} requests: the fastest sparse model is cheaper than dense_a and not worse, or cheaper "
    )
    test += "than dense_b and better than dense_a"
    measured = f"{name}: {cell(small)} times the tokens a second of dense_a, {cell(large)} of dense_b; "
    measured += f"loss minus that of dense_a {cell(gap)}"
    claim, verdict = "for most uses reject the mixture: it costs more", CHANGED if cheaper else KEPT
    return _advice(claim, test, measured, verdict, **behind(small))


def _larger(growth: pd.DataFrame) -> Finding:
    grown = select(growth, curve="width", metric="user_tokens_per_second_over_dense_b", method="moe_top1")
    wide = grown.loc[grown["x"].idxmax()]
    test = f"moe_top1 is slower than dense_b of equal total: untrained, width {wide['x']:.0f}, one request"
    verdict = {HOLDS: CHANGED, FAILS: KEPT, OPEN: UNKNOWN}[judge(wide["low"], wide["high"], 1.0)]
    claim, measured = "larger dense models perform better than a mixture", f"{cell(wide)} times the tokens a second"
    return _advice(claim, test, measured, verdict, **behind(wide))


def _benefit(quality: pd.DataFrame) -> Finding:
    gap = pick(quality, method="moe_top1", metric="loss_minus_dense_a", group="all", seed="all")
    test = "moe_top1 has no lower held-out loss than dense_a, at equal active parameters and equal tokens"
    verdict = {HOLDS: KEPT, FAILS: CHANGED, OPEN: UNKNOWN}[judge(gap["low"], gap["high"])]
    claim, measured = "the router adds overhead without benefits", f"loss minus that of dense_a {cell(gap)}"
    return _advice(claim, test, measured, verdict, **behind(gap))


def _memory(table: pd.DataFrame, tight: pd.Series, price: float) -> Iterator[Finding]:
    one = table["batch"].min()
    ratio = tight["moe_top1"] / tight["dense_a"]
    yield _advice(
        "consider the mixture where memory is short (3 to 5 times less)",
        "moe_top1 needs less memory than dense_a of equal active parameters",
        f"{ratio:.2f} times: all experts are stored, whichever act",
        CHANGED if ratio > 1 else KEPT,
        value=ratio,
    )
    limit = (tight["dense_b"] + tight["dense_a"]) / 2e9
    chosen = recommend(table, one, limit, price)
    names = list(chosen.loc[chosen["choice"], "model"])
    yield _advice(
        "the mixture may be the only viable option under a tight limit",
        f"it is the choice at {limit * 1e3:.3g} MB, half way between dense_a and dense_b",
        f"the choice: {', '.join(names) or 'nothing fits'}",
        KEPT if names and names[0].startswith(("moe", "alchemist")) else CHANGED,
    )


def _quantised(tight: pd.Series) -> Finding:
    eight, four, mixture = (tight[name] / tight["dense_b"] for name in ("dense_b_int8", "dense_b_int4", "moe_top1"))
    measured = f"{four:.2f} times the memory of dense_b (8 bits: {eight:.2f}; moe_top1: {mixture:.2f})"
    test = "dense_b with 4-bit weights needs less memory than the mixture"
    verdict = KEPT if four < mixture else CHANGED
    return _advice("profile int4 quantised dense models", test, measured, verdict, value=four)


def _rather(quality: pd.DataFrame, tight: pd.Series) -> Finding:
    gap = pick(quality, method="dense_b_int4", metric="loss_minus_moe_top1", group="all", seed="all")
    less = tight["dense_b_int4"] / tight["moe_top1"]
    test = "dense_b with 4-bit weights needs less memory than moe_top1, and its held-out loss is not measurably higher"
    measured = f"{less:.2f} times the memory; loss minus that of moe_top1 {cell(gap)}"
    verdict = KEPT if less < 1 and gap["low"] <= 0 else CHANGED
    return _advice("optimise memory rather than use sparsity", test, measured, verdict, **behind(gap))


def _fourth(quality: pd.DataFrame) -> Finding:
    claim, test = "profile 4 experts", "4 specialists have a lower held-out loss than 3, one of them running"
    rows = quality[(quality["method"] == "alchemist_sparse_4") & (quality["metric"] == "loss_minus_alchemist_sparse_3")]
    rows = rows[(rows["group"] == "all") & (rows["seed"] == "all")]
    if rows.empty:
        return _advice(claim, test, "not both were trained at this profile", UNKNOWN)
    gap = rows.iloc[0]
    verdict = {HOLDS: KEPT, FAILS: CHANGED, OPEN: UNKNOWN}[judge(-gap["high"], -gap["low"])]
    return _advice(claim, test, f"loss minus that of 3 {cell(gap)}", verdict, **behind(gap))
