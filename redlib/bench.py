"""Benchmarks side by side in one run: rates of this machine, of our way and of the usual way, and their ratios.

Cases take turns, round after round, so that a machine that slows down slows all of them; a ratio is the median of the
ratios of the rounds.
"""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from redlib import backbone as backbones
from redlib import datasets, packing, paths
from redlib.backbone import Backbone
from redlib.features import Point, forward, shards
from redlib.features.trunk import Product

COLUMNS = ["bench", "case", "metric", "value", "unit", "machine"]
RATIOS = (
    ("plain", "effective_over_matmul", "matmul"),
    ("packed", "effective_over_matmul", "matmul"),
    ("packed", "effective_over_matmul_onednn", "matmul_onednn"),
    ("padded_transformers", "effective_over_matmul", "matmul"),
    ("plain", "over_padded_transformers", "padded_transformers"),
    ("packed", "over_padded_transformers", "padded_transformers"),
)
SECONDS = 3.0  # of products, a round
Ids = Sequence[Sequence[int]]


def features(
    rows: int = 16_000,
    task: str = "task1",
    backbone: str = "smollm2-135m",
    sample: int = 2_000,
    rounds: int = 3,
    texts: Sequence[str] | None = None,
    write: bool = False,
) -> pd.DataFrame:
    """The feature pass (all layers, mean after the final norm) against this machine's rate of matrix products.

    Times `sample` of the `rows` texts of a task (or of given `texts`) a round, an eighth of them in the slow cases:
    packed ones out of the whole trie, so that they share as much as in a full pass. FLOPs are those that a pass without
    padding and without sharing needs; `matmul_onednn` is the product on weights laid out for oneDNN, which the packed
    pass uses. Cases are named `<task>, <rows> texts/<case>`. `write` puts the frame (bench, case, metric, value, unit,
    machine) into data/results/bench/features.csv, beside what other tasks and sizes have there.
    """
    model = backbones.load(backbone)
    texts = datasets.build(task, rows, 0)["text"].tolist() if texts is None else list(texts)
    ids = model.encode(texts)
    few = [ids[i] for i in np.random.default_rng(0).permutation(len(ids))[: max(1, sample // 8)]]
    some = _neighbours(packing.sort(ids)[0], sample)
    by_length = sorted(few, key=len)
    cases: dict[str, Callable[[], float]] = {
        "matmul": lambda: _products(model, F.linear, lambda weight: weight),
        "matmul_onednn": lambda: _products(model, lambda x, product: product(x), Product),
        "plain": lambda: _rate(model, by_length, lambda: _pass(model, by_length, packed=False)),
        "packed": lambda: _rate(model, some, lambda: _pass(model, some, packed=True)),
        "padded_transformers": lambda: _rate(model, few, lambda: _padded(model, few)),
    }
    rates = _rounds(cases, rounds)
    nodes = len(packing.pack(some, forward.STRIP).tokens) / sum(map(len, some))
    lines = [(case, "rate", median(values) / 1e9, "GFLOP/s") for case, values in rates.items()]
    lines += [(case, metric, _ratio(rates[case], rates[base]), "ratio") for case, metric, base in RATIOS]
    lines += [("packed", "nodes_per_token", nodes, "ratio")]
    lines += [("packed", "texts_per_second", median(rates["packed"]) / _flops(model, some) * len(some), "1/s")]
    named = [(f"{task}, {len(texts):,} texts/{case}", *rest) for case, *rest in lines]
    return _report("features", named, write)


def _neighbours(distinct: Ids, sample: int) -> list[Sequence[int]]:
    """About `sample` texts in packing order: whole runs of neighbours from all over the sorted texts."""
    run = min(100, sample)
    count = max(1, min(sample, len(distinct)) // run)
    starts = np.linspace(0, max(0, len(distinct) - run), count).astype(int)
    return [text for start in starts for text in distinct[start : start + run]]


def _pass(model: Backbone, distinct: Ids, packed: bool) -> None:
    for _ in shards(model, distinct, [Point(-1)], packed=packed):
        pass


@torch.no_grad()
def _padded(model: Backbone, ids: Ids, batch: int = 64) -> None:
    """What a reader of the transformers documentation writes: padded batches in the order given, mean over tokens."""
    for start in range(0, len(ids), batch):
        padded = model.tokenizer.pad({"input_ids": ids[start : start + batch]}, return_tensors="pt").to(model.device)
        states = model.model(**padded, use_cache=False).last_hidden_state
        mask = padded["attention_mask"][..., None]
        (states * mask).sum(1) / mask.sum(1)


def _products(model: Backbone, multiply: Callable[[Tensor, Any], Tensor], prepare: Callable[[Tensor], Any]) -> float:
    """FLOPs a second of the products of one layer at the strip's rows, as many products at a time as threads."""
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

    begin = perf_counter()
    done = sum(sum(group) for group in forward.parallel(work, [range(torch.get_num_threads())], model.device))
    return done / (perf_counter() - begin)


def _rate(model: Backbone, ids: Ids, work: Callable[[], None]) -> float:
    """FLOPs a second that the texts need without padding and without sharing."""
    begin = perf_counter()
    work()
    return _flops(model, ids) / (perf_counter() - begin)


def _flops(model: Backbone, ids: Ids) -> float:
    """FLOPs of a causal pass of every text by itself, through all layers."""
    linear = [module for module in model.model.layers.modules() if isinstance(module, torch.nn.Linear)]
    heads = sum(layer.self_attn.q_proj.out_features for layer in model.model.layers)
    lengths = np.array([len(text) for text in ids], dtype=np.float64)
    products = 2 * sum(module.weight.numel() for module in linear) * lengths.sum()
    return float(products + 2 * heads * (lengths * (lengths + 1)).sum())


def _rounds(cases: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Every case once to warm up, then `rounds` times in turn; a line says how each went."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, case in cases.items():
            rate = case()
            print(f"{f'round {turn} of {rounds}' if turn else 'warm-up'}, {name}: {rate / 1e9:.1f} GFLOP/s", flush=True)
            if turn:
                taken[name].append(rate)
    return taken


def _ratio(values: list[float], others: list[float]) -> float:
    return median(value / other for value, other in zip(values, others, strict=True))


def _report(bench: str, lines: list[tuple[str, str, float, str]], write: bool) -> pd.DataFrame:
    frame = pd.DataFrame([(bench, *line, machine()) for line in lines], columns=COLUMNS)
    print(frame.drop(columns=["bench", "machine"]).to_string(index=False, float_format="%.3f"))
    print(machine())
    if write:
        file = paths.results("bench") / f"{bench}.csv"
        others = pd.read_csv(file) if file.is_file() else frame[:0]
        kept = pd.concat([others[~others["case"].isin(frame["case"])], frame], ignore_index=True)
        paths.write_text(file, kept.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    return frame


def machine() -> str:
    """CPU (and GPU) model, threads and torch version, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    parts = [names[0] if names else platform.processor() or platform.machine()]
    parts += [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    return ", ".join([*parts, f"{torch.get_num_threads()} threads", f"torch {torch.__version__}"])
