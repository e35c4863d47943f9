"""What the robustness experiments train besides the study's own parts: experts of other rows, values and questions.

Shapes: S seeds, N rows, d hidden size, C value classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from redlib import datasets, modules, training
from redlib.config import Profile
from redlib.datasets import steps
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts, stack, take
from redlib.study import task1, task2
from redlib.study.data import pool_stage
from redlib.study.parts import Frozen, ResidualHead
from redlib.study.settings import Data, Setting, compose, member_seeds
from redlib.study.stage import Stage

PART_OF_ROWS = 0.1  # of the training rows, for an expert with fewer of them
FEWEST = 400  # subtractions, so that every part of every range has some
Bank = dict[str, nn.Module]  # parts by name; members are the seeds, of `experts` K a seed


def wider(labels: LabelSpace) -> tuple[LabelSpace, LabelSpace]:
    """The label space with one more range as wide as its last, and that range alone, in two halves with about equally
    many pairs of operands."""
    first, last = labels.bounds[-1]
    width = last - first + 1
    if width < 3:
        raise ValueError(f"the last range {first}..{last} is too narrow for one like it above {last}")
    wide = LabelSpace(labels.lo, labels.hi + width, (*labels.edges, labels.hi))
    return wide, LabelSpace(last + 1, last + width, (last + max(1, round(0.3 * width)),))


def elsewhere(profile: Profile, split: str, seeds: int) -> dict[str, Setting]:
    """The questions that RED was not trained on, a setting each: `beyond` its largest value, `minus` (single
    subtractions over its own values), `task2` (chains)."""
    t, labels = profile.task1, task1.labels(profile)
    wide, beyond = wider(labels)
    share = t.rows // labels.K
    pools = {
        "beyond": pool_stage("task1", share // 20 * 20, t.pool_seed, (t.operands[0], (wide.hi + 1) // 2), beyond),
        "minus": _subtractions(profile, max(share, FEWEST)),
    }
    about = {"task": "task1", "seeds": seeds}
    made = {
        name: compose(profile, pool, "chosen", split, labels=beyond if name == "beyond" else labels, **about)
        for name, pool in pools.items()
    }
    return made | {"task2": task2.setting(profile, "chosen", split, seeds=seeds)}


def _subtractions(profile: Profile, rows: int) -> Stage:
    """A pool of single subtractions whose first operand is any label, all ranges among its results."""
    t, labels = profile.task1, task1.labels(profile)
    space = {"lo": labels.lo, "hi": labels.hi, "edges": list(labels.edges)}
    config = {"rows": rows, "seed": t.pool_seed, "operands": list(t.operands), "labels": space}

    def make(stage: Stage, out: Path) -> None:
        within = steps.domain("closed", t.operands, labels)
        datasets.save(steps.build("-", rows, t.pool_seed, within, labels), out / "pool.parquet")

    return Stage("subtractions", 1, config, make, seconds=2 + rows * 1e-4, bytes=rows * 60)


@dataclass(frozen=True)
class Questions:
    """Rows of some pool as RED's own parts read them: x (N, d), y (N,) classes of its label space, rows by part."""

    data: Data
    x: Tensor
    y: Tensor
    values: np.ndarray

    @classmethod
    def of(cls, data: Data, labels: LabelSpace) -> "Questions":
        """A setting's own rows, with the classes that `labels` give their values."""
        shift = data.setting.labels.lo - labels.lo
        return cls(data, data.x, data.value + shift, data.value.numpy() + data.setting.labels.lo)

    def rows(self, part: str, seed: int, bounds: tuple[int, int] | None = None) -> np.ndarray:
        """Rows of a part, with values within the bounds."""
        rows = self.data.rows[part][seed]
        if bounds is None:
            return rows
        return rows[(self.values[rows] >= bounds[0]) & (self.values[rows] <= bounds[1])]


def reused(stage: Stage, seeds: int) -> Bank:
    """Base, classifier, experts and router that the study trained."""
    files = {"base": ("base", "classifier"), "experts": ("experts",), "routers": ("router",)}
    bank: Bank = {}
    for name, wanted in files.items():
        folder = stage.inputs[name].folder
        loaded = [modules.load(folder / f"{name}-{seed}.safetensors")[0] for seed in range(seeds)]
        bank |= {part: stack([parts[part] for parts in loaded]) for part in wanted}
    return bank


def own(bank: Bank, seed: int) -> Bank:
    """The parts of one seed."""
    seeds = len(bank["classifier"].weight)
    each = {name: len(next(iter(part.state_dict().values()))) // seeds for name, part in bank.items()}
    return {name: take(part, range(seed * each[name], (seed + 1) * each[name])) for name, part in bank.items()}


def experts(
    s: Setting,
    bank: Bank,
    name: str,
    questions: Questions,
    rows: Sequence[tuple[np.ndarray, np.ndarray]],
    owner: Sequence[int],
    rank: int | None = None,
) -> ResidualExperts:
    """One residual expert a member on its training and validation rows (n,), behind its seed's base and classifier.

    Members of equal size are one product. `name` decides the initial weights: `experts` those of the study.
    """
    train, validation = zip(*rows, strict=True)
    inputs = training.pooled_inputs(questions.x)
    all_rows = training.Rows(inputs, questions.y, train, validation, name, member_seeds(name, owner))
    d = questions.x.shape[-1]

    def make(members: list[int]) -> nn.Module:
        owners = [owner[m] for m in members]
        fresh = ResidualExperts([all_rows.seeds[m] for m in members], d, rank or s.recipe.rank)
        return Frozen(take(bank["base"], owners), ResidualHead(fresh, take(bank["classifier"], owners)))

    return training.fit_members(make, all_rows, s.recipe.experts)[0].bank.experts


def router(s: Setting, bank: Bank, data: Data, target: Tensor, K: int) -> MLPBank:
    """A router for K experts, a member a seed, trained on the expert (N,) of every row."""
    seeds = range(len(bank["classifier"].weight))
    parts = ([data.rows[part][seed] for seed in seeds] for part in ("train", "validation"))
    rows = data.training_rows("router", target, *parts, seeds)

    def make(members: list[int]) -> nn.Module:
        fresh = MLPBank([rows.seeds[m] for m in members], data.d, s.recipe.router_hidden, K)
        return Frozen(take(bank["base"], members), fresh)

    return training.fit_members(make, rows, s.recipe.routers)[0].bank


class Grown(nn.Module):
    """A frozen classifier with new columns beside the old: h (S, B, d) -> logits (S, B, C + new)."""

    def __init__(self, old: LinearBank, new: LinearBank):
        super().__init__()
        self.old, self.new = old.requires_grad_(False), new

    def forward(self, h: Tensor) -> Tensor:
        return torch.cat([self.old(h), self.new(h)], -1)

    def whole(self) -> LinearBank:
        """Old and new columns as one classifier, the old ones bit for bit."""
        made = LinearBank([0] * len(self.old.weight), self.old.shape["d_in"], 1)
        made.weight.data, made.bias.data = (
            torch.cat([getattr(bank, name).detach() for bank in (self.old, self.new)], -1)
            for name in ("weight", "bias")
        )
        made.shape["d_out"] = made.weight.shape[-1]
        return made


def grown_classifier(s: Setting, bank: Bank, known: Questions, beyond: Questions, values: int) -> LinearBank:
    """The shared classifier with columns for `values` more values, only these trained, on the recipe's share of both
    kinds of rows."""
    both, seeds = joined(known, beyond), range(len(bank["classifier"].weight))
    n, share = len(known.x), s.recipe.base_share
    train = [
        np.concatenate(
            [
                known.data.by_range(known.rows("train", seed), share, seed),
                n + beyond.data.by_range(beyond.rows("train", seed), share, seed),
            ]
        )
        for seed in seeds
    ]
    validation = [np.concatenate([known.rows("validation", i), n + beyond.rows("validation", i)]) for i in seeds]
    name = "classifier, grown"
    rows = training.Rows(training.pooled_inputs(both[0]), both[1], train, validation, name, member_seeds(name, seeds))

    def make(members: list[int]) -> nn.Module:
        new = LinearBank([rows.seeds[m] for m in members], both[0].shape[-1], values)
        return Frozen(take(bank["base"], members), Grown(take(bank["classifier"], members), new))

    return training.fit_members(make, rows, s.recipe.base)[0].bank.whole()


def joined(first: Questions, second: Questions) -> tuple[Tensor, Tensor]:
    """x and y of both, the second's rows after the first's."""
    return torch.cat([first.x, second.x]), torch.cat([first.y, second.y])
