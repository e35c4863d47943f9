"""Verdicts on the source's tables of cost (4.10), cell by cell."""

from collections.abc import Iterator

import pandas as pd

from redlib.claims.judging import FAILS, HOLDS, Finding, as_frame, behind, judge, reported, together, worst
from redlib.cost import with_cost
from redlib.results import cell, listed, pick, select

SOURCE = "qwen3-0.6b"  # its backbone
ORDER = {  # its methods: their parameters (4.10.1) and the words for their extra FLOPs (4.10.2)
    "global_head": ("dC", "negligible"),
    "uniform_average": ("KdC", "very low"),
    "softmax_moe": ("KdC + Kd", "low"),
    "red": ("K(dr + rC) + Kd", "low–medium"),
}
MULTI = ("uniform_average", "red_uniform", "softmax_moe")  # its multi-expert models beside RED
PLAIN = ("global_head_full_data", "mlp_full_data", "fourier_full_data")
SAME = 1.1  # a formula is right about real modules that have at most this many times as many parameters
CLOSE = 2.0  # times the mixture's FLOPs: what "close to" is taken to mean
SMALL = 0.01  # of the backbone's FLOPs: what "small" and "negligible" are taken to mean
CARD = 8.0  # GB of its card


def cost_verdicts(
    costs: pd.DataFrame,
    curves: pd.DataFrame,
    scores: pd.DataFrame,
    space,
    rank: int,
    split: str = "structure",
    numbers: bool = False,
) -> pd.DataFrame:
    """A verdict on every statement of 4.10: counts at the source's backbone and ranks (4.9.3), accuracies at ours.

    costs, curves: the tables cost and cost_curves; scores: task1, of which recipe `chosen` on one split is read, with
    experts of `rank`. Columns: section, claim, test, measured, verdict, with `numbers` those of a Finding. Counts have
    no interval; of several ranks the one that decides is kept. LookupError for missing rows.
    """
    here = select(costs, variant=SOURCE)
    found = [*_formulas(here, space), *_smaller(here, space), *_flops(here, curves, space, _shortest(costs, curves))]
    found += [*_memory(here, curves), *_balance(costs, scores, rank, split)]
    return as_frame(found, numbers).sort_values("section", kind="stable", ignore_index=True)


def _formulas(costs: pd.DataFrame, space) -> Iterator[Finding]:
    for name, (formula, _) in ORDER.items():
        real = select(costs, method=name, group=f"C={space.C}", metric="parameters_linear_router").set_index("rank")
        form = "red/4.10" if name == "red" else name
        said = select(costs, method=f"formula {form}", group=f"C={space.C}", metric="parameters").set_index("rank")
        ratio = real["value"] / (said["value"] if name == "red" else said["value"].iloc[0])
        test = f"the real modules, with a linear router, have at most {SAME:g} times as many"
        claim = f"parameters of {name}: {formula}"
        yield Finding("4.10.1", claim, test, _span(ratio), _holds(ratio.max() <= SAME), value=ratio.max())
    alone, head = (
        select(costs, method=name, metric="parameters").set_index("rank") for name in ("router_only", "global_head")
    )
    d = pick(costs, method="backbone", group="norm", metric="parameters")["value"]
    ratio = (alone["value"] - head["value"]) / (space.K * d)
    test = f"the router that 4.5.3 describes has at most {SAME:g} times as many"
    claim = "parameters of the router: Kd"
    yield Finding("4.10.1", claim, test, _span(ratio), _holds(ratio.max() <= SAME), value=ratio.max())


def _smaller(costs: pd.DataFrame, space) -> Iterator[Finding]:
    for C in sorted({space.C, space.K}, reverse=True):
        for form in ("red/4.10", "red/4.4"):
            ratio = select(costs, method=f"formula {form}", group=f"C={C}", metric="experts_over_heads")["value"]
            claim = f"experts are one to two orders of magnitude smaller ({form[4:]}, {C} classes)"
            test = f"by the formula of {form[4:]}, experts have at most a tenth of the heads' parameters"
            yield Finding("4.10.1", claim, test, _span(ratio), _holds(ratio.max() <= 0.1), value=ratio.max())
    wide = _by_method(costs, space, "parameters_counted")
    ratio = wide["red"] / wide["softmax_moe"]
    test = "RED's real modules have fewer parameters than the mixture's"
    for section, claim in {
        "4.10.1": "RED is the most parameter-efficient multi-expert design",
        "4.10.4": "low-rank experts reduce the parameter count against the mixture",
    }.items():
        yield Finding(section, claim, test, _span(ratio), _holds(ratio.max() < 1), value=ratio.max())


def _flops(costs: pd.DataFrame, curves: pd.DataFrame, space, shortest: float) -> Iterator[Finding]:
    wide = _by_method(costs, space, "extra_flops_counted")
    token, before = pick(costs, method="backbone", metric="flops_per_token")["value"], None
    for name, (_, word) in ORDER.items():
        share = wide[name].max() / token
        test = f"more than {before}" if before else f"below {SMALL:.0%}"
        fits = (wide[name] > wide[before]).all() if before else share < SMALL
        measured = f"at most {share:.3%} of the backbone's for one token"
        yield Finding("4.10.2", f"extra FLOPs of {name}: {word}", test, measured, _holds(fits), value=share)
        before = name
    ratio = select(costs, method="formula red/4.4", group=f"C={space.C}", metric="experts_over_heads")["value"]
    test = "a residual expert needs fewer FLOPs than a full-rank head"
    claim = "low-rank projections are much cheaper than heads"
    yield Finding("4.10.2", claim, test, _span(ratio), _holds(ratio.max() < 1), value=ratio.max())
    yield from _beside(wide, curves, costs, space, shortest)


def _beside(wide: pd.DataFrame, curves: pd.DataFrame, costs: pd.DataFrame, space, shortest: float) -> Iterator[Finding]:
    """RED's extra FLOPs beside its router's, the mixture's and the backbone's."""
    at = {"group": f"C={space.C}", "metric": "extra_flops_counted"}
    alone = select(costs, method="router_only", **at).set_index("rank")["value"]
    share = 1 - alone / wide["red"]  # RED without its experts is the router with the global head
    test = "the experts are more than half of RED's extra FLOPs"
    said = f"{share.min():.0%} to {share.max():.0%}, by rank"
    claim = "RED's extra cost is mostly that of its projections"
    yield Finding("4.10.2", claim, test, said, _holds(share.min() > 0.5), value=share.min())
    ratio = wide["red"] / wide["softmax_moe"]
    test = f"RED's extra FLOPs are at most {CLOSE:g} times the mixture's"
    claim = "inference overhead of RED is close to the mixture's"
    yield Finding("4.10.4", claim, test, _span(ratio), _holds(ratio.max() <= CLOSE), value=ratio.max())
    shares = select(curves, variant=SOURCE, curve="tokens", group="all layers")
    for section, claim, method, border, tokens in (
        ("4.10.2", "the router costs next to nothing", "router", reported("4.10.2-01"), 1),
        ("4.10.4", "inference overhead of RED is small", "red", SMALL, shortest),
    ):
        most = select(shares, method=method, x=float(tokens))["value"].max()
        test = f"below {border:.1%} of the backbone's FLOPs, for a text of {tokens:.0f} tokens"
        test = test.replace(" 1 tokens", " 1 token")
        yield Finding(section, claim, test, f"{most:.3%}", _holds(most < border), value=most)


def _shortest(costs: pd.DataFrame, curves: pd.DataFrame) -> float:
    """The length on the curve that is nearest below the shortest text of Task 1."""
    lengths = select(curves, curve="tokens")["x"]
    return lengths[lengths <= pick(costs, metric="tokens_min")["value"]].max()


def _memory(costs: pd.DataFrame, curves: pd.DataFrame) -> Iterator[Finding]:
    border = reported("4.10.3-01")
    peak = pick(costs, method="training, float32", group="peak", metric="bytes")["value"] / 1e9
    lengths = select(curves, variant=SOURCE, curve="length", method="training, float32")
    beyond = lengths.loc[lengths["value"] / 1e9 >= border, "x"]
    said = f"{peak:.2f} GB" + (f"; not with {beyond.min():.0f} tokens a text" if len(beyond) else "")
    test = f"counted peak of a training step, batch 16 in 32 bits, below {border:g} GB"
    yield Finding("4.10.3", "training fits", test, said, _holds(peak < border), value=peak)
    test = f"the same below the {CARD:g} GB of the source's card"
    yield Finding("4.10.4", "memory fits a common card", test, f"{peak:.2f} GB", _holds(peak < CARD), value=peak)


def _balance(costs: pd.DataFrame, scores: pd.DataFrame, rank: int, split: str) -> Iterator[Finding]:
    where = {"variant": "chosen", "split": split, "part": "test", "seed": "all", "group": "all"}
    level = select(scores, **where, metric="value_accuracy", method="red")
    size = with_cost(level, costs, rank)["parameters"].iloc[0]
    gaps = with_cost(select(scores, **where, metric="value_accuracy_below_red", method=[*MULTI, *PLAIN]), costs, rank)
    test = f"RED minus each of those with at most {SAME:g} times its parameters is above zero"
    for claim, names in {
        "RED has the best balance of accuracy and cost of all multi-expert models": MULTI,
        "and none of the plain networks on the same features has a better one": PLAIN,
    }.items():
        rows = gaps[gaps["method"].isin(names) & (gaps["parameters"] <= SAME * size)]
        verdict = together(judge(row.low, row.high) for row in rows.itertuples())
        measured = listed(f"{cell(row)} against {row['method']}" for _, row in rows.iterrows())
        yield Finding("4.10.4", claim, test, measured, verdict, **behind(worst(rows)))


def _by_method(costs: pd.DataFrame, space, metric: str) -> pd.DataFrame:
    rows = select(costs, method=list(ORDER), group=f"C={space.C}", metric=metric)
    return rows.pivot(index="rank", columns="method", values="value")


def _span(ratio: pd.Series) -> str:
    low, high = ratio.min(), ratio.max()
    same = high - low < 0.005 * high
    return f"{_digits(high)} times" if same else f"{_digits(low)} to {_digits(high)} times, by rank"


def _digits(number: float) -> str:
    return f"{number:#.3g}".rstrip(".")


def _holds(condition: bool) -> str:
    return HOLDS if condition else FAILS
