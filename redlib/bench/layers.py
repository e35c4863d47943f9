"""One training step of layers over tokens: what end-to-end tokens and narrow products are worth.

The same layers, from the same weights, on the same texts of Task 2; steps are forward, backward and AdamW. `padded` are
the decoder's own layers on rows of equal length, as transformers trains them.
"""

from collections.abc import Callable, Sequence
from itertools import cycle

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import backbone as backbones
from redlib import config, datasets, training
from redlib.backbone import Backbone, Top
from redlib.bench.measuring import Line, Taken, in_turns, rate, ratios, repeated, report
from redlib.models import FourierBank, LabelSpace, LightBase, LinearBank, TokenBase
from redlib.study.parts import Tuned

LABELS = LabelSpace()
FULL = config.load("full")
SOURCE, PLUS = FULL.source, FULL.red_plus.task2
BATCHES = 4
SECONDS = 1.0  # of steps, a turn
Batch = tuple[Tensor, Tensor, Tensor]  # states (B, T, d), mask (B, T), values (B,)


class Padded(nn.Module):
    """A `TokenBase` by the decoder's own layers: states (B, T, d), mask (B, T) -> h (1, B, d)."""

    def __init__(self, top: Top):
        super().__init__()
        self.top = top

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        rotary = self.top.rotary(states, torch.arange(states.shape[1], device=states.device)[None])
        for layer in self.top.layers:
            states = layer(states, attention_mask=None, position_embeddings=rotary)
        return ((self.top.norm(states) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))[None]


def run(
    rounds: int = 3,
    backbone: str = "smollm2-135m",
    steps: Sequence[str] = ("operations", "single_heavy"),
    write: bool = False,
) -> pd.DataFrame:
    """Seconds and ratios of one training step, by what Task 2 calls steps.

    Cases `operations, 64 texts/top layers` (the backbone's last two and a classifier, as recipe `source` trains them)
    and `operations, 128 texts/light layers` (the base of `red_plus`). Metrics: `seconds_padded` of top layers,
    `seconds_float32`, `seconds_bfloat16` (products of matrices, attention of light layers left out); `over_padded` and
    `bfloat16_over_float32`.
    """
    model, device = backbones.load(backbone), training.device()
    kinds = {  # texts of a batch, layer that is read, base and classifier of every way
        "top layers": (SOURCE.base.batch, model.layers - SOURCE.tuned_layers, _top(model)),
        "light layers": (PLUS.base.batch, min(PLUS.layer, model.boundary), _light(model)),
    }
    lines: list[Line] = []
    for definition in steps:
        pool = datasets.build("task2", 1_000, 0, steps=definition)
        for kind, (size, layer, parts) in kinds.items():
            batches = [_read(model, layer, pool.iloc[first::BATCHES][:size]) for first in range(BATCHES)]
            batches = [tuple(part.to(device) for part in batch) for batch in batches]
            ways = {way: _stepping(Tuned(*made).to(device), batches, way == "bfloat16") for way, made in parts.items()}
            lines += _compared(f"{definition}, {size} texts/{kind}", ways, rounds)
    return report("layers", lines, write)


def _top(model: Backbone) -> dict[str, tuple[nn.Module, nn.Module]]:
    bases = {"padded": Padded, "float32": TokenBase, "bfloat16": TokenBase}
    tuned = {way: base(model.top(SOURCE.tuned_layers)) for way, base in bases.items()}
    return {way: (base, LinearBank([0], model.hidden_size, LABELS.C)) for way, base in tuned.items()}


def _light(model: Backbone) -> dict[str, tuple[nn.Module, nn.Module]]:
    shape = model.hidden_size, PLUS.width, PLUS.layers, PLUS.heads, PLUS.positions, PLUS.ending
    ways = ("float32", "bfloat16")
    return {way: (LightBase([0], *shape), FourierBank([0], PLUS.width, 0, LABELS, PLUS.periods)) for way in ways}


@torch.no_grad()
def _read(model: Backbone, layer: int, texts: pd.DataFrame) -> Batch:
    ids = model.encode(texts["text"])
    table = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
    mask = torch.arange(table.shape[1]) < torch.tensor([len(row) for row in ids])[:, None]
    states = model.run(table.to(model.device), mask.to(model.device), keep=[layer])[layer]
    return states, mask, torch.tensor(texts["value"].to_numpy() - LABELS.lo)


def _stepping(head: nn.Module, batches: Sequence[Batch], narrow: bool) -> Callable[[], None]:
    """One optimiser step a call, on the batches in turn."""
    optimiser = torch.optim.AdamW(head.parameters(), lr=1e-4, fused=True)
    turns = cycle(batches)

    def step() -> None:
        states, mask, values = next(turns)
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(states.device.type, torch.bfloat16, enabled=narrow):
            logits = head(states, mask)[0]
        F.cross_entropy(logits, values).backward()
        optimiser.step()

    return step


def _compared(case: str, ways: dict[str, Callable[[], None]], rounds: int) -> list[Line]:
    cases: dict[str, Callable[[], Taken]] = {way: lambda s=step: repeated(1, s, SECONDS) for way, step in ways.items()}
    turns = in_turns(cases, rounds)
    lines: list[Line] = [(case, f"seconds_{way}", 1 / rate(done), "s") for way, done in turns.items()]
    if "padded" in turns:
        lines += ratios(case, "over_padded", turns["float32"], turns["padded"])
    return lines + ratios(case, "bfloat16_over_float32", turns["bfloat16"], turns["float32"])
