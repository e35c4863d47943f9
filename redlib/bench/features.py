"""The feature pass (all layers, mean after the final norm) against this machine's rate of matrix products, and against
what a reader of the transformers documentation writes."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from redlib import backbone as backbones
from redlib import datasets, packing
from redlib.backbone import Backbone
from redlib.bench.measuring import Line, Taken, in_turns, rate, ratios, report, taken
from redlib.features import Point, compute, forward, shards, trunk
from redlib.features.trunk import Product

PEERS = ("padded_transformers", "pipeline")
RATIOS = (
    ("plain", "effective_over_matmul", "matmul"),
    ("packed", "effective_over_matmul", "matmul"),
    ("packed", "effective_over_matmul_onednn", "matmul_onednn"),
    *((peer, "effective_over_matmul", "matmul") for peer in PEERS),
    *((own, f"over_{peer}", peer) for own in ("plain", "packed") for peer in PEERS),
)
HALVES = (
    ("packed_bfloat16", "effective_over_matmul", "matmul"),
    ("packed_bfloat16", "over_packed", "packed"),
)
BATCH = 64  # of the peers
SECONDS = 3.0  # of products, a round
Ids = Sequence[Sequence[int]]


def run(
    rows: int = 16_000,
    task: str = "task1",
    backbone: str = "smollm2-135m",
    sample: int = 2_000,
    rounds: int = 3,
    texts: Sequence[str] | None = None,
    write: bool = False,
) -> pd.DataFrame:
    """Rates and ratios of the pass over `rows` texts of a task (or over given `texts`).

    Times `sample` of the texts a round, an eighth of them in the slow cases: packed ones out of the whole trie, so that
    they share as much as in a full pass. FLOPs are those that a pass without padding and without sharing needs;
    `matmul_onednn` is the product on weights laid out for oneDNN, which the packed pass uses. Where the CPU multiplies
    bf16, a backbone loaded so is timed too, and how far its features are from exact ones (`feature_error`). Cases are
    named `<task>, <rows> texts/<case>`.
    """
    model = backbones.load(backbone)
    texts = datasets.build(task, rows, 0)["text"].tolist() if texts is None else list(texts)
    ids = model.encode(texts)
    chosen = np.random.default_rng(0).permutation(len(ids))[: max(1, sample // 8)]
    few, words = [ids[i] for i in chosen], [texts[i] for i in chosen]
    some = neighbours(packing.sort(ids)[0], sample)
    by_length = sorted(few, key=len)
    extractor = transformers.pipeline(
        "feature-extraction", model=model.model, tokenizer=model.tokenizer, device=model.device, batch_size=BATCH
    )
    cases: dict[str, Callable[[], Taken]] = {
        "matmul": lambda: taken(lambda: _products(model, F.linear, lambda weight: weight)),
        "matmul_onednn": lambda: taken(lambda: _products(model, lambda x, product: product(x), Product)),
        "plain": lambda: taken(flops(model, by_length), lambda: _pass(model, by_length, packed=False)),
        "packed": lambda: taken(flops(model, some), lambda: _pass(model, some, packed=True)),
        "padded_transformers": lambda: taken(flops(model, few), lambda: padded(model, few)),
        "pipeline": lambda: taken(flops(model, few), lambda: _pipeline(extractor, words)),
    }
    half, halves = backbones.load(backbone, dtype="bfloat16"), ()
    if trunk.supports(half):
        cases["packed_bfloat16"] = lambda: taken(flops(model, some), lambda: _pass(half, some, packed=True))
        halves = HALVES
    turns = in_turns(cases, rounds, "GFLOP/s", 1e9)
    nodes = len(packing.pack(some, forward.STRIP).tokens) / sum(map(len, some))
    lines: list[Line] = [(case, "rate", rate(done) / 1e9, "GFLOP/s") for case, done in turns.items()]
    for case, metric, base in (*RATIOS, *halves):
        lines += ratios(case, metric, turns[case], turns[base])
    lines += [("packed", "nodes_per_token", nodes, "ratio")]
    lines += [("packed_bfloat16", "feature_error", _error(model, half, words), "ratio")] if halves else []
    lines += [("packed", "texts_per_second", rate(turns["packed"]) / flops(model, some) * len(some), "1/s")]
    return report("features", [(f"{task}, {len(texts):,} texts/{case}", *rest) for case, *rest in lines], write)


def neighbours(distinct: Ids, sample: int) -> list[Sequence[int]]:
    """About `sample` texts in packing order: whole runs of neighbours from all over the sorted texts."""
    run = min(100, sample)
    count = max(1, min(sample, len(distinct)) // run)
    starts = np.linspace(0, max(0, len(distinct) - run), count).astype(int)
    return [text for start in starts for text in distinct[start : start + run]]


def _error(model: Backbone, half: Backbone, words: list[str]) -> float:
    """How far features of a bf16 backbone are from exact ones: norm of the difference over norm of the spread."""
    exact, near = (compute(one, words, [Point(-1)])[Point(-1)] for one in (model, half))
    return float(
        np.linalg.norm((exact - exact.mean(0)) - (near - near.mean(0))) / np.linalg.norm(exact - exact.mean(0))
    )


def _pass(model: Backbone, distinct: Ids, packed: bool) -> None:
    for _ in shards(model, distinct, [Point(-1)], packed=packed):
        pass


@torch.no_grad()
def padded(model: Backbone, ids: Ids, batch: int = BATCH) -> None:
    """What a reader of the transformers documentation writes: padded batches in the order given, mean over tokens."""
    for start in range(0, len(ids), batch):
        inputs = model.tokenizer.pad({"input_ids": ids[start : start + batch]}, return_tensors="pt").to(model.device)
        states = model.model(**inputs, use_cache=False).last_hidden_state
        mask = inputs["attention_mask"][..., None]
        (states * mask).sum(1) / mask.sum(1)


def _pipeline(extractor: Any, words: list[str]) -> None:
    """transformers' own pipeline with the same batches; it hands out token states, padding included."""
    for states in extractor(words, return_tensors=True):
        states.mean(1)


def _products(model: Backbone, multiply: Callable[[Tensor, Any], Tensor], prepare: Callable[[Tensor], Any]) -> float:
    """FLOPs of some seconds of the products of one layer at the strip's rows, as many products at a time as threads."""
    layer = model.model.layers[0]
    weights = [module.weight for module in layer.modules() if isinstance(module, torch.nn.Linear)]
    inputs = {weight.shape[1]: torch.randn(forward.STRIP, weight.shape[1]).to(weight) for weight in weights}
    pairs = [(inputs[weight.shape[1]], prepare(weight)) for weight in weights]
    once = sum(2 * forward.STRIP * weight.numel() for weight in weights)

    def work(_: int) -> int:
        begin, done = perf_counter(), 0
        while perf_counter() - begin < SECONDS:
            for x, weight in pairs:
                multiply(x, weight)
            done += once
        return done

    return sum(sum(group) for group in forward.parallel(work, [range(torch.get_num_threads())], model.device))


def flops(model: Backbone, ids: Ids) -> float:
    """FLOPs of a causal pass of every text by itself, through all layers."""
    linear = [module for module in model.model.layers.modules() if isinstance(module, torch.nn.Linear)]
    heads = sum(layer.self_attn.q_proj.out_features for layer in model.model.layers)
    lengths = np.array([len(text) for text in ids], dtype=np.float64)
    products = 2 * sum(module.weight.numel() for module in linear) * lengths.sum()
    return float(products + 2 * heads * (lengths * (lengths + 1)).sum())
