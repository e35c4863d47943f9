"""What a small network can read from frozen features at each depth and pooling: linear and non-linear probes."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from redlib import training
from redlib.config import Training
from redlib.features import Point
from redlib.models import MLPBank, PooledBase, take

PROBES = ("linear", "mlp")


class _Probe(nn.Module):
    def __init__(self, base: PooledBase, bank: MLPBank):
        super().__init__()
        self.base, self.bank = base.requires_grad_(False), bank

    def forward(self, x: Tensor) -> Tensor:
        return self.bank(self.base(x))


def probe(
    pooled: Mapping[Point, np.ndarray],
    targets: Mapping[str, np.ndarray],
    train: Sequence[np.ndarray],
    validation: Sequence[np.ndarray],
    hidden: int,
    loop: Training,
) -> pd.DataFrame:
    """Validation accuracy of a linear and a 2-layer probe (hidden units) for every point, target and seed.

    pooled: features (N, d) by point; targets: class numbers (N,) by name; train, validation: row numbers by seed. All
    points and seeds of a probe and target are trained as one batched product. The probe stops on the validation rows
    that it is scored on: the numbers compare points, they are no test results. Columns: layer, pooling, probe, target,
    seed, correct, n.
    """
    points, seeds = list(pooled), len(train)
    x = torch.from_numpy(np.stack([pooled[point] for point in points])).to(training.device())  # (P, N, d)
    group = [p for p in range(len(points)) for _ in range(seeds)]
    own = [seed for _ in points for seed in range(seeds)]
    base = PooledBase.fit([x[p, train[seed]] for p, seed in zip(group, own, strict=True)])
    frames = []
    for target, y in targets.items():
        classes = int(y.max()) + 1
        for kind in PROBES:
            rows = training.Rows(
                training.pooled_inputs(x, group),
                torch.tensor(np.array(y, np.int64)),
                [train[seed] for seed in own],
                [validation[seed] for seed in own],
                f"{kind} probe of {target}",
                [1000 + seed for seed in own],
            )

            def make(members: list[int], kind=kind, rows=rows, classes=classes) -> nn.Module:
                init = [rows.seeds[m] for m in members]
                return _Probe(take(base, members), MLPBank(init, x.shape[-1], hidden * (kind == "mlp"), classes))

            _, history = training.fit_members(make, rows, loop)
            best = history[history["best"]].groupby("member").last()
            n = [len(validation[seed]) for seed in own]
            frames.append(
                pd.DataFrame(
                    {
                        "layer": [points[p].layer for p in group],
                        "pooling": [points[p].pooling for p in group],
                        "probe": kind,
                        "target": target,
                        "seed": own,
                        "correct": (best["valid_accuracy"].to_numpy() * n).round().astype(int),
                        "n": n,
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)
