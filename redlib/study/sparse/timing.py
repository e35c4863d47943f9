"""The tables of speed, memory and time of sparse against dense, measured on the trained models of seed 0."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor, nn

from redlib.config import Profile
from redlib.sparse import corpus, models, quantised, serving, spent
from redlib.study import sparse
from redlib.study.stage import Stage
from redlib.study.writing import save

FEW = 8  # requests at a time that pretrained models are measured with, at most
NOTHING = {"task": "sparse", "split": "none", "part": "none", "seed": "0", "group": "all"}
RATES = ("user_tokens_per_second", "system_tokens_per_second")
AGAINST = ("dense_a", "dense_b")
SHARED = ("dense_a", "dense_b", "moe_top1")  # of the models that grow


def timing_tables(profile: Profile) -> Stage:
    """sparse_serving.csv, sparse_growth.csv and sparse_time.csv; low and high are the smallest and the largest repeat.

    sparse_serving, by batch and prompt: variant serving (metrics of serving.MEASURED, cost_per_million, the rates over
    those of dense_a and dense_b, and bytes, group weights, cache, activations), variant no cache (every step reads all
    again) and variant source (its protocol).
    sparse_growth, by curve and x: width and experts (untrained models), batch (variant backend=...). sparse_time: group
    a part of spent.PARTS, metric seconds (of this process) and share.
    """
    c = profile.sparse
    there = sparse.at_hand(profile)
    inputs = {name: sparse.model_stage(profile, name) for name in sparse.names(profile)}
    config = {
        "pretrained": there,
        "measured": c.model_dump(exclude={"training", "balance", "steps", "seeds", "test_rows", "pretrained"}),
    }

    def make(stage: Stage, out: Path) -> None:
        bench = _Bench(profile, stage)
        cold = _as_source(bench)  # first, because this protocol warms nothing up
        frames = {
            "sparse_serving": pd.concat([_served(bench, there), _uncached(bench), cold]),
            "sparse_growth": pd.concat([_widths(bench), _experts(bench), _backends(bench)]),
            "sparse_time": _parts(bench),
        }
        save(profile, stage, out, {name: _whole(frame) for name, frame in frames.items()})

    seconds = 0.1 * c.repeats * len(inputs) * (len(c.batches) + len(c.prompts) + 2) + 20 * len(there)
    return Stage("sparse timing tables", 2, config, make, inputs, seconds)


def _whole(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the columns that it lacks, and `all` where no group is named."""
    return frame.assign(
        **{name: frame[name].fillna(value) if name in frame else value for name, value in NOTHING.items()}
    )


class _Bench:
    """The trained models of seed 0, and prompts of real text."""

    def __init__(self, profile: Profile, stage: Stage):
        self.c, self.profile, self.stages = profile.sparse, profile, stage.inputs
        self.source = next(iter(stage.inputs.values())).inputs["corpus"]
        self.tokens = sparse.read_corpus(self.source.folder)[1]
        self.texts = sparse.texts(self.source)
        self.designs = sparse.lineup(profile, len(self.tokens))
        self.models = {name: sparse.load(made, profile) for name, made in stage.inputs.items()}

    def ids(self, batch: int, prompt: int) -> Tensor:
        return corpus.prompts(self.texts, self.tokens, batch, prompt)

    def fits(self, designs: Mapping, batch: int, prompt: int) -> None:
        for name, design in designs.items():
            serving.check_fits(name, design, batch, prompt + self.c.new)

    def turns(self, cases: Mapping[str, nn.Module], ids: Mapping[str, Tensor] | Tensor) -> pd.DataFrame:
        """The repeats of answering ids (or each model's own) by every model in turn."""
        calls: dict[str, Callable] = {}
        for name, model in cases.items():
            own = ids if isinstance(ids, Tensor) else ids[name]
            calls[name] = lambda model=model, own=own: serving.run(model, own, self.c.new)
        return serving.in_turns(calls, self.c.repeats)


def _served(bench: _Bench, there: Iterable[str]) -> pd.DataFrame:
    c = bench.c
    settings = [(batch, c.prompt) for batch in c.batches] + [(1, prompt) for prompt in c.prompts]
    small = {name: quantised.quantised(bench.models["dense_b"], bits) for name, bits in quantised.OF_DENSE.items()}
    cases = bench.models | small
    opened = {name: sparse.open_pretrained(bench.profile, name) for name in there}
    others = {name: models.pretrained(made) for name, made in opened.items()}
    found = []
    for batch, prompt in settings:
        bench.fits(bench.designs, batch, prompt)
        here = cases | (others if batch <= FEW and prompt == c.prompt else {})
        ids = dict.fromkeys(cases, bench.ids(batch, prompt))
        ids |= {n: corpus.prompts(bench.texts, made.tokenizer, batch, prompt) for n, made in opened.items()}
        turns = bench.turns(here, ids)
        tables = [_costed(serving.spread(turns), c.price)]
        tables += [serving.ratios(turns, rate, name) for rate in RATES for name in AGAINST]
        tables += [_memory(name, model, ids[name], c.new) for name, model in here.items()]
        found.append(pd.concat(tables).assign(batch=batch, prompt=prompt))
    return pd.concat(found).rename(columns={"case": "method"}).assign(variant="serving")


def _uncached(bench: _Bench) -> pd.DataFrame:
    ids = bench.ids(1, bench.c.prompt)
    calls = {
        name: lambda model=model: serving.answer(model, ids, bench.c.new, cache=False).metrics()
        for name, model in bench.models.items()
    }
    rows = serving.spread(serving.in_turns(calls, bench.c.repeats)).rename(columns={"case": "method"})
    return rows.assign(variant="no cache", batch=1, prompt=bench.c.prompt)


def _costed(rows: pd.DataFrame, price: float) -> pd.DataFrame:
    """The rows and, for the system's rate, what a million tokens cost (the fastest repeat costs least)."""
    rates = rows[rows["metric"].isin(["system_tokens_per_second", "tokens_per_second"])]
    one = serving.cost_per_million(1.0, price)
    costs = {name: one / rates[of] for name, of in (("value", "value"), ("low", "high"), ("high", "low"))}
    return pd.concat([rows, rates.assign(metric="cost_per_million", **costs)])


def _memory(name: str, model: nn.Module, ids: Tensor, new: int) -> pd.DataFrame:
    parts = serving.memory(model, ids, new)
    lines = [(name, "bytes", part, value) for part, value in {**parts, "all": sum(parts.values())}.items()]
    frame = pd.DataFrame(lines, columns=["case", "metric", "group", "value"])
    return frame.assign(n=pd.NA, low=np.nan, high=np.nan)


def _as_source(bench: _Bench) -> pd.DataFrame:
    ids = bench.ids(serving.SOURCE_PROMPTS, serving.SOURCE_TOKENS)
    lines = []
    for name, model in bench.models.items():  # the first pass of all is not warmed up, so that nothing is repeated
        found = serving.run(model, ids, bench.c.new, "source")
        lines += [{"method": name, "metric": metric, "value": value} for metric, value in found.items()]
    frame = _costed(pd.DataFrame(lines).assign(low=np.nan, high=np.nan, n=1), bench.c.price)
    return frame.assign(variant="source", batch=1, prompt=serving.SOURCE_TOKENS)


def _widths(bench: _Bench) -> pd.DataFrame:
    c, found = bench.c, []
    ids = bench.ids(1, c.prompt)
    for width in c.widths:
        designs = {name: sparse.lineup(bench.profile, len(bench.tokens), width)[name] for name in SHARED}
        bench.fits(designs, 1, c.prompt)
        turns = bench.turns({name: models.build(design) for name, design in designs.items()}, ids)
        tables = [serving.spread(turns), *(serving.ratios(turns, RATES[0], name) for name in AGAINST)]
        found.append(pd.concat(tables).assign(curve="width", x=float(width)))
    return _grown(found, "untrained", 1, c.prompt)


def _experts(bench: _Bench) -> pd.DataFrame:
    c, found = bench.c, []
    one = bench.designs["moe_top1"]
    for batch in (1, max(c.batches)):
        for count in c.expert_counts:
            design = replace(one, experts=count)
            bench.fits({"moe_top1": design}, batch, c.prompt)
            turns = bench.turns({"moe_top1": models.build(design)}, bench.ids(batch, c.prompt))
            found.append(serving.spread(turns).assign(curve="experts", x=float(count), batch=batch))
    return _grown(found, "untrained", None, c.prompt)


def _backends(bench: _Bench) -> pd.DataFrame:
    c, found = bench.c, []
    for batch in c.batches:
        made = {
            (name, backend): sparse.load(bench.stages[name], bench.profile, backend=backend)
            for name in ("moe_top1", "moe_top2")
            for backend in models.BACKENDS
        }
        turns = bench.turns(made, bench.ids(batch, c.prompt))
        rows = serving.spread(turns)
        rows["variant"] = [f"backend={case[1]}" for case in rows["case"]]
        rows["case"] = [case[0] for case in rows["case"]]
        found.append(rows.assign(curve="batch", x=float(batch), batch=batch))
    return _grown(found, None, None, c.prompt)


def _grown(found: list[pd.DataFrame], variant: str | None, batch: int | None, prompt: int) -> pd.DataFrame:
    frame = pd.concat(found).rename(columns={"case": "method"}).assign(prompt=prompt)
    frame = frame if variant is None else frame.assign(variant=variant)
    return frame if batch is None else frame.assign(batch=batch)


def _parts(bench: _Bench) -> pd.DataFrame:
    c, found = bench.c, []
    for batch in sorted({1, max(c.batches)}):
        ids = bench.ids(batch, c.prompt)
        calls = {
            name: lambda model=model, ids=ids: spent.time_parts(model, ids, c.new)
            for name, model in bench.models.items()
        }
        rows = serving.spread(serving.in_turns(calls, c.repeats)).rename(columns={"metric": "group"})
        whole = rows.groupby("case")["value"].transform("sum")
        shares = rows.assign(value=rows["value"] / whole, low=np.nan, high=np.nan, metric="share")
        found.append(pd.concat([rows.assign(metric="seconds"), shares]).assign(batch=batch, prompt=c.prompt))
    return pd.concat(found).rename(columns={"case": "method"}).assign(variant="serving")
