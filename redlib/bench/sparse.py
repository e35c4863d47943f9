"""Sparse mixtures against dense transformers in one run: the models trained, then measured as serving benchmarks do."""

import pandas as pd
import torch

from redlib import datasets, paths
from redlib.bench.measuring import Line, report
from redlib.sparse import corpus, designs, models, quantised, serving, training

ROWS, PROMPT, NEW = 4_000, 64, 16  # texts of each task; tokens of a prompt and of an answer
SIZES = {True: (64, 60, (1, 8), 3), False: (128, 600, (1, 8, 32), 5)}  # quick? -> width, steps, batches, repeats
UNITS = {**serving.MEASURED, "cost_per_million": "price", "bytes": "B", "loss": "nat", "exact": "share"}


def run(
    quick: bool = False, price: float = serving.PRICE, protocol: str = "serving", write: bool = False
) -> pd.DataFrame:
    """Cases `<model>, batch <n>` with the metrics of `protocol`, the rates over dense_a's and dense_b's and the cost
    per million tokens at a `price` of an hour; `<model>` with parameters, bytes and the held-out loss and exactness.

    `quick` trains smaller models for fewer steps (minutes). `write` puts the frame into data/results/bench/sparse.csv
    and sparse.json. ValueError for a price that is not positive or an unknown protocol, before anything is trained.
    """
    serving.cost_per_million(1.0, price)
    if protocol not in serving.PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; valid protocols: {', '.join(serving.PROTOCOLS)}")
    width, steps, batches, repeats = SIZES[quick]
    train, test, tokens = _documents()
    built = {}
    lines: list[Line] = []
    for name, design in designs.lineup(len(tokens), width, 2).items():
        serving.check_fits(name, design, max(batches), PROMPT + NEW)
        model = built[name] = models.build(design)
        last = training.train(model, train, steps, 64, 3e-3, 0.1, seed=0).iloc[-1]
        print(f"{name}: {last['tokens']:,} tokens, loss {last['loss']:.3f}, {last['seconds']:.0f} s", flush=True)
        lines += _sizes(name, design, model, training.score(model, test))
    for name, bits in quantised.OF_DENSE.items():
        small = built[name] = quantised.quantised(built["dense_b"], bits)
        lines += _sizes(name, designs.lineup(len(tokens), width, 2)["dense_b"], small, training.score(small, test))
    texts = (test.about["prompt"] + test.about["completion"]).tolist()
    for batch in batches if protocol == "serving" else (serving.SOURCE_PROMPTS,):
        lines += _timed(built, corpus.prompts(texts, tokens, batch, PROMPT), repeats, protocol, price)
    frame = report("sparse", lines, write)
    if write:
        paths.write_json(paths.results("bench") / "sparse.json", frame.to_dict("records"))
    return frame


def _documents() -> tuple[corpus.Corpus, corpus.Corpus, object]:
    """Documents to train on, held-out ones of unseen structures, and the tokenizer."""
    pools = [datasets.build(task, ROWS, 0) for task in ("task1", "task2")]
    parts = [datasets.split(pool, "structure", 0) for pool in pools]
    found = []
    for wanted in ("train", "test"):
        found.append(corpus.documents(*(pool[part == wanted] for pool, part in zip(pools, parts, strict=True))))
    tokens = corpus.tokenizer([*found[0]["prompt"], *found[0]["completion"]])
    shuffled = (frame.sample(frac=1, random_state=0) for frame in found)
    train, test = (corpus.Corpus.of(frame, tokens) for frame in shuffled)
    return train, test, tokens


def _sizes(name: str, design: designs.Design, model: torch.nn.Module, scores: pd.DataFrame) -> list[Line]:
    return [
        (name, "parameters", design.total, "count"),
        (name, "active_parameters", design.active_parameters, "count"),
        (name, "flops_per_token", design.flops(1, PROMPT), "FLOP"),
        (name, "stored_bytes", models.stored_bytes(model), "B"),
        (name, "loss", scores["loss"].sum() / scores["tokens"].sum(), "nat"),
        (name, "exact", scores["exact"].mean(), "share"),
    ]


def _timed(built: dict, ids: torch.Tensor, repeats: int, protocol: str, price: float) -> list[Line]:
    calls = {name: lambda model=model: serving.run(model, ids, NEW, protocol) for name, model in built.items()}
    turns = serving.in_turns(calls, repeats)
    tables = [serving.spread(turns)]
    if protocol == "serving":
        rates = ("user_tokens_per_second", "system_tokens_per_second")
        tables += [serving.ratios(turns, rate, other) for rate in rates for other in ("dense_a", "dense_b")]
    where = f"batch {len(ids)}" if protocol == "serving" else f"{protocol} protocol"
    lines = []
    for row in pd.concat(tables).itertuples():
        unit = "ratio" if "_over_" in row.metric else UNITS.get(row.metric, "1/s")
        lines.append((f"{row.case}, {where}", row.metric, row.value, unit))
        if row.metric in ("system_tokens_per_second", "tokens_per_second"):
            cost = serving.cost_per_million(row.value, price)
            lines.append((f"{row.case}, {where}", "cost_per_million", cost, "price"))
    return lines
