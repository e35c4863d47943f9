"""How cost grows with rows, experts, rank and tokens: measured seconds, and the exponent of a fitted power law."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from scipy import stats

from redlib import backbone as backbones
from redlib import datasets, models, packing
from redlib.backbone import Backbone
from redlib.bench.experts import drawn
from redlib.bench.measuring import Line, in_turns, repeated, report
from redlib.features import Point, shards
from redlib.models import MLPBank, ResidualExperts

ROWS, BATCH = 256, 64  # rows that experts answer at a time; rows of a training step
SIZES = {
    "rows, feature pass": (250, 500, 1000, 2000, 4000),
    "rows, one epoch of the router": (1000, 2000, 4000, 8000, 16000),
    "experts K": (2, 4, 8, 16, 32, 64),
    "rank r": (9, 18, 36, 72, 144, 288, 576),
    "tokens T": (8, 16, 32, 64, 128, 256, 512),
}
SECONDS = 0.05  # of calls, a turn


def run(
    rounds: int = 5,
    backbone: str = "smollm2-135m",
    task: str = "task1",
    layer: int = 4,
    sizes: dict[str, Sequence[int]] = SIZES,
    write: bool = False,
) -> pd.DataFrame:
    """Cases `<axis>=<size>` with `seconds`, and `<axis>` with `exponent`, `exponent_low` and `exponent_high`.

    The exponent is the slope of log seconds over log size, with its 95 % interval by Student's t over the sizes. Rows
    share beginnings, so that a pass over more of them costs less than in proportion; the features are read at `layer`,
    as recipe `chosen` does.
    """
    model = backbones.load(backbone)
    makers: dict[str, Callable[[int], Callable[[], object]]] = {
        "rows, feature pass": lambda rows: _features(model, task, rows, layer),
        "rows, one epoch of the router": lambda rows: _epoch(model.hidden_size, rows),
        "experts K": lambda K: _mixed(drawn(K, model.hidden_size)),
        "rank r": lambda r: _mixed(ResidualExperts(range(5), model.hidden_size, r)),
        "tokens T": lambda tokens: _text(model, tokens),
    }
    lines: list[Line] = []
    for axis, values in sizes.items():
        calls = {f"{axis}={size}": makers[axis](size) for size in values}
        turns = in_turns(
            {name: lambda call=call: repeated(1, call, SECONDS) for name, call in calls.items()}, rounds, "calls/s"
        )
        seconds = {name: float(np.median([1 / turn.rate() for turn in done])) for name, done in turns.items()}
        lines += [(name, "seconds", value, "s") for name, value in seconds.items()]
        lines += [(axis, *row) for row in exponent(values, list(seconds.values()))]
    return report("growth", lines, write)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> list[tuple[str, float, str]]:
    """(metric, value, unit) of the slope in log-log coordinates and its 95 % interval; at least three sizes."""
    if len(sizes) < 3:
        raise ValueError(f"an exponent with an interval needs at least three sizes, got {len(sizes)}")
    fit = stats.linregress(np.log(sizes), np.log(seconds))
    reach = stats.t.ppf(0.975, len(sizes) - 2) * fit.stderr
    values = {"exponent": fit.slope, "exponent_low": fit.slope - reach, "exponent_high": fit.slope + reach}
    return [(metric, float(value), "exponent") for metric, value in values.items()]


def _features(model: Backbone, task: str, rows: int, layer: int) -> Callable[[], object]:
    distinct = packing.sort(model.encode(datasets.build(task, rows, 0)["text"].tolist()))[0]
    return lambda: list(shards(model, distinct, [Point(layer)]))


def _epoch(d: int, rows: int) -> Callable[[], object]:
    """One epoch of the router at its batch of the study: forward, backward and AdamW."""
    x, y = torch.randn(rows, d), torch.randint(5, (rows,))
    router = MLPBank([0], d, 256, 5)
    optimiser = torch.optim.AdamW(router.parameters(), fused=True)

    def epoch() -> None:
        for batch in torch.randperm(rows).split(BATCH):
            optimiser.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(router(x[batch])[0], y[batch]).backward()
            optimiser.step()

    return epoch


def _mixed(bank: ResidualExperts) -> Callable[[], object]:
    K, d, _ = bank.down.weight.shape
    h, alpha = torch.randn(ROWS, d), torch.softmax(torch.randn(ROWS, K), -1)
    return torch.no_grad()(lambda: models.mix(alpha, bank(h)))


def _text(model: Backbone, tokens: int) -> Callable[[], object]:
    """One text of random tokens through all layers."""
    ids = torch.randint(model.model.config.vocab_size, (1, tokens)).to(model.device)
    return torch.no_grad()(lambda: model.run(ids))
