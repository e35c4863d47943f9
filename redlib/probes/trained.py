"""Probes trained by gradient descent: all points and seeds of a target as one batched product."""

from collections.abc import Mapping, Sequence
from typing import Any

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


class _Points:
    """Features (N, d) by point, and a member for every point and seed."""

    def __init__(self, features: Mapping[Any, np.ndarray], train: Sequence[np.ndarray], stop: Sequence[np.ndarray]):
        """train, stop: the rows that a seed trains on, and those that choose its best epoch."""
        seeds = range(len(train))
        self.x = torch.from_numpy(np.stack(list(features.values()))).to(training.device())  # (P, N, d)
        self.group = [p for p in range(len(features)) for _ in seeds]
        self.own = [seed for _ in features for seed in seeds]
        self.train, self.stop = [train[seed] for seed in self.own], [stop[seed] for seed in self.own]
        self.base = PooledBase.fit([self.x[p, rows] for p, rows in zip(self.group, self.train, strict=True)])

    def fit(self, target: str, y: np.ndarray, hidden: int, loop: Training) -> tuple[_Probe, pd.DataFrame]:
        """A probe with `hidden` units (0: linear) a member, and the history of training."""
        kind = "mlp" if hidden else "linear"
        rows = training.Rows(
            training.pooled_inputs(self.x, self.group),
            torch.tensor(np.array(y, np.int64)),
            self.train,
            self.stop,
            f"{kind} probe of {target}",
            [1000 + seed for seed in self.own],
        )

        def make(members: list[int]) -> nn.Module:
            init = [rows.seeds[m] for m in members]
            return _Probe(take(self.base, members), MLPBank(init, self.x.shape[-1], hidden, int(y.max()) + 1))

        return training.fit_members(make, rows, loop)


def probe(
    pooled: Mapping[Point, np.ndarray],
    targets: Mapping[str, np.ndarray],
    train: Sequence[np.ndarray],
    validation: Sequence[np.ndarray],
    hidden: int,
    loop: Training,
) -> pd.DataFrame:
    """What a linear and a 2-layer probe (hidden units) say of every validation row, by point, target and seed.

    pooled: features (N, d) by point; targets: class numbers (N,) by name; train, validation: row numbers by seed. All
    points and seeds of a probe and target are trained as one batched product. The probe stops on the validation rows
    that it is scored on: the numbers compare points, they are no test results. Columns: layer, pooling, probe, target,
    seed, row, right (whether the probe says the row's class).
    """
    frames = []
    for kind in PROBES:
        said = network(pooled, targets, train, validation, validation, hidden * (kind == "mlp"), loop)
        for (point, target), of_seed in said.items():
            about = {"layer": point.layer, "pooling": point.pooling, "probe": kind, "target": target}
            for seed, (rows, classes) in enumerate(zip(validation, of_seed, strict=True)):
                right = classes == np.asarray(targets[target])[rows]
                frames.append(pd.DataFrame({"row": rows, "right": right}).assign(**about, seed=seed))
    return pd.concat(frames, ignore_index=True)


def network(
    features: Mapping[Any, np.ndarray],
    targets: Mapping[str, np.ndarray],
    train: Sequence[np.ndarray],
    stop: Sequence[np.ndarray],
    scored: Sequence[np.ndarray],
    hidden: int,
    loop: Training,
) -> dict[tuple[Any, str], list[np.ndarray]]:
    """The class that a probe with `hidden` units (0: linear) says of every scored row: {(point, target): one (n,) array
    a seed}.

    features: (N, d) by point; targets: class numbers (N,) by name; train, stop, scored: row numbers by seed, of which
    `stop` choose the best epoch.
    """
    points, members = list(features), _Points(features, train, stop)
    said: dict[tuple[Any, str], list[np.ndarray]] = {(point, target): [] for target in targets for point in points}
    for target, y in targets.items():
        fitted, _ = members.fit(target, y, hidden, loop)
        for member, (p, seed) in enumerate(zip(members.group, members.own, strict=True)):
            with torch.no_grad():
                logits = take(fitted, [member])(members.x[p, scored[seed]].cpu())[0]
            said[points[p], target].append(logits.argmax(-1).numpy())
    return said
