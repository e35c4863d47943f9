"""The study's own code at the shapes of Qwen3-0.6B, weights random: throughput and peak memory of the feature pass, of
the base stage, of decomposer training and of padded transformers batches, in 32 bits, under bf16 autocast, in bf16,
and compiled.

On CUDA where there is one. Without it the same code runs at tiny shapes, which proves that it runs and no more: the
record of this benchmark then has nothing to say about a GPU.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
import transformers
from torch import nn

from redlib import backbone as backbones
from redlib import cost, datasets, packing, training
from redlib.backbone import Backbone
from redlib.bench.decode import LARGEST, MAX_OPERATIONS
from redlib.bench.features import padded
from redlib.bench.measuring import Line, Taken, in_turns, rate, report, taken
from redlib.config import Training
from redlib.cost.measured import peak_bytes
from redlib.decomposer import Grammar, Writer
from redlib.features import Point, sent, shards
from redlib.models import LinearBank, TokenBase
from redlib.study.parts import Tuned

SHAPE = "qwen3-0.6b"
TEXTS, ROWS = 20_000, 2_048  # on CUDA: of the feature pass, and of the base stage
TINY_TEXTS, TINY_ROWS = 100, 32
TOKENS, PROGRAM, CLASSES, BATCH = 16, 32, 99, 64
Call = Callable[[], float]


def run(rounds: int = 3, write: bool = False) -> pd.DataFrame:
    """Cases `<shape> on <device>, <what>/<how>`; metrics `tokens_per_second` or `rows_per_second`, and on CUDA
    `peak_bytes`, the most that tensors took in one turn, weights included.

    what: `feature pass` (packed, all layers), `padded transformers`, `base stage` (two top layers and a classifier,
    AdamW, batch 64), `decomposer training` (two top layers and a readout of program tokens, the same); how: `float32`,
    `bfloat16` (weights too), `autocast` (products in bf16, weights in 32 bits), `compiled` (bf16 weights, layers by
    torch.compile, on CUDA).
    """
    device = training.device()
    cuda = device.type == "cuda"
    shape = SHAPE if cuda else "tiny"
    lines: list[Line] = []
    for dtype in (torch.float32, torch.bfloat16):
        backbone = random_backbone(shape, device, dtype)
        for name, unit, make in _cases(backbone, cuda, dtype):
            case = f"{shape} on {device.type}, {name}"
            done, most = _measured(case, make, rounds, device)
            lines += [(case, f"{unit}_per_second", rate(done), f"{unit}/s")]
            lines += [(case, "peak_bytes", most, "B")] if cuda else []
    if not cuda:
        print("no CUDA device here: what a GPU does is not yet measured; these are tiny shapes on the CPU")
    return report("gpu", lines, write)


def random_backbone(shape: str, device: torch.device, dtype: torch.dtype) -> Backbone:
    """A backbone of a shape (cost.SHAPES, or tiny), weights random, tokenizer of the tiny one: no download."""
    tiny = backbones.load("tiny", device=device, dtype=dtype)
    if shape == "tiny":
        return tiny
    with device:
        model = transformers.AutoModel.from_config(cost.configuration(shape), dtype=dtype)
    return Backbone(model.eval().requires_grad_(False), tiny.tokenizer, shape, shape, "random", evidence=False)


def _cases(backbone: Backbone, cuda: bool, dtype: torch.dtype) -> Iterator[tuple[str, str, Call]]:
    """(name, unit, call that says how many of them it did) of one dtype of the weights."""
    texts = datasets.build("task1", TEXTS if cuda else TINY_TEXTS, 0)["text"].tolist()
    ids = backbone.encode(texts)
    half = dtype == torch.bfloat16
    name = str(dtype).removeprefix("torch.")
    yield f"feature pass/{name}", "tokens", lambda: _feature_pass(backbone, ids)
    yield f"padded transformers/{name}", "tokens", lambda: _padded(backbone, ids)
    trained = {} if half else {"base stage": _base_stage, "decomposer training": _decomposer_training}
    for what, make in trained.items():
        epoch = make(backbone, ROWS if cuda else TINY_ROWS)
        yield f"{what}/{name}", "rows", epoch
        yield f"{what}/autocast", "rows", _halved(epoch, backbone.device)
    if half and cuda:
        for layer in backbone.model.layers:
            layer.compile(dynamic=True)
        yield "feature pass/compiled", "tokens", lambda: _feature_pass(backbone, ids)


def _measured(case: str, call: Call, rounds: int, device: torch.device) -> tuple[list[Taken], float]:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    done = in_turns({case: lambda: taken(call)}, rounds, "/s")[case]
    return done, peak_bytes(device)


def _halved(call: Call, device: torch.device) -> Call:
    """The call with its products in bf16, weights and sums in 32 bits."""

    def inside() -> float:
        with torch.autocast(device.type, torch.bfloat16):
            return call()

    return inside


def _feature_pass(backbone: Backbone, ids: Sequence[Sequence[int]]) -> float:
    for _ in shards(backbone, packing.sort(ids)[0], [Point(-1)]):
        pass
    return sum(map(len, ids))


def _padded(backbone: Backbone, ids: Sequence[Sequence[int]]) -> float:
    few = ids[: max(1, len(ids) // 8)]
    padded(backbone, few)
    return sum(map(len, few))


def _base_stage(backbone: Backbone, rows: int) -> Call:
    """One epoch of recipe `source`'s base, and its validation, on random token states."""
    part = Tuned(TokenBase(backbone.top(2)), LinearBank([0], backbone.hidden_size, CLASSES))
    return _epoch(backbone, part, torch.randint(CLASSES, (rows,)), TOKENS)


def _decomposer_training(backbone: Backbone, rows: int) -> Call:
    """One epoch of the planner's writer, and its validation, on random token states and programs."""
    grammar = Grammar.of(backbone, MAX_OPERATIONS, LARGEST)
    y = torch.full((rows, grammar.longest), training.NO_TARGET)
    y[:, :PROGRAM] = torch.randint(len(grammar.tokens), (rows, PROGRAM))
    starts = torch.full((rows,), TOKENS)
    return _epoch(backbone, Writer.of(backbone, grammar), y, TOKENS + PROGRAM, starts)


def _epoch(backbone: Backbone, part: nn.Module, y: torch.Tensor, tokens: int, *more: torch.Tensor) -> Call:
    """A call that trains a part for one epoch on random states (N, T, d), their mask and whatever else it reads."""
    rows, some = len(y), np.arange(len(y))
    read = (torch.randn(rows, tokens, backbone.hidden_size), torch.ones(rows, tokens, dtype=torch.bool), *more)

    def inputs(index: np.ndarray, _: np.ndarray) -> tuple[torch.Tensor, ...]:
        return tuple(sent(each[index[0]], backbone.device) for each in read)

    tables = training.Rows(inputs, y, [some], [some[: max(1, rows // 8)]], "part of a benchmark")
    loop = Training(batch=BATCH, max_epochs=1)

    def epoch() -> float:
        training.fit(part, tables, loop)
        return rows

    return epoch
