"""One setting of the study (task, recipe, split, seeds) and the rows, targets and features that its stages share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from redlib import datasets, features, models, modules, paths, training
from redlib.config import PARTS, Profile, Recipe
from redlib.datasets import steps
from redlib.expressions import OPERATORS
from redlib.models import LabelSpace
from redlib.study.data import feature_set, features_stage, fingerprint, open_backbone, read_pool
from redlib.study.stage import Stage


@dataclass(frozen=True)
class Setting:
    """One split of one pool under one recipe. `definition`: what Task 2 calls steps, or the domain of single ones;
    `subset`: how many training rows, or `pairs` / `pairs_balanced`; `experts_by`: what an expert is for, a range of
    the result or an operation; `apart`: every part is trained in a process of its own;
    `final_rate`: what the learning rate of experts and routers falls to, as a share of it (None: it stays)."""

    task: str
    recipe: Recipe
    split: str
    seeds: int
    labels: LabelSpace
    pool: Stage
    features: Stage
    definition: str = ""
    subset: int | str | None = None
    methods: tuple[str, ...] = tuple(models.METHODS)
    experts_by: Literal["range", "operation"] = "range"
    apart: bool = False
    final_rate: float | None = None

    @property
    def K(self) -> int:
        """Number of experts."""
        return len(OPERATORS) if self.experts_by == "operation" else self.labels.K

    @property
    def rate(self) -> Callable[[float], float] | None:
        """The learning rate's factor by the share of a training that is done, or None."""
        return None if self.final_rate is None else partial(training.half_cosine, final=self.final_rate)

    def passport(self, seed: int) -> dict:
        """What a module file says about where its parts come from."""
        about = self.features.config
        return {
            "weights_id": about["weights_id"],
            "backbone": about["backbone"]["name"],
            "task": self.task,
            "definition": self.definition,
            "recipe": self.recipe.name,
            "layer": self.recipe.layer,
            "pooling": self.recipe.pooling,
            "labels": self.labels,
            "split": self.split,
            "subset": self.subset,
            "seed": seed,
            "training": self.recipe.model_dump(),
            "versions": dict(zip(("torch", "transformers"), about["versions"], strict=True)),
            "tokenizer": modules.tokenizer_id(open_backbone(self.features)),
            "dtype": about["backbone"]["dtype"],
            "data": {"fingerprint": fingerprint(self.pool.run()), "rows": self.pool.config["rows"]},
            "metrics": {},
            "licence": "Apache-2.0 for layers of the backbone, else MIT" if self.recipe.tuned_layers else "MIT",
        }

    def needs(self, *parts: str) -> list[str]:
        """Those of the parts that the setting's methods are built from."""
        needed = models.needs(self.methods)
        return [part for part in parts if part in needed]

    @property
    def name(self) -> str:
        """Definition, recipe, rows of a subset and split, as stages are called."""
        size = "" if self.subset is None else f"/rows={self.subset}"
        definition = f"{self.definition}/" if self.definition else ""
        return f"{definition}{self.recipe.name}{size}, {self.split}"


def compose(profile: Profile, texts: Stage, recipe: str, split: str, **fields) -> Setting:
    """A setting over the texts of a pool stage; `fields` are the setting's own, or replace fields of the recipe.

    `features`: a stage that has the recipe's point among others; by default one is made for this recipe alone.
    """
    r = profile.recipe(recipe)
    changes = {name: fields.pop(name) for name in list(fields) if name in type(r).model_fields}
    r = r.model_copy(update=changes)
    given = {name: value for name, value in fields.items() if value is not None}
    if "features" not in given:
        points = () if r.tuned_layers else (features.Point(r.layer, r.pooling),)
        states = -1 - r.tuned_layers if r.tuned_layers else None  # counted from the final state
        given["features"] = features_stage(texts, profile.backbone, points, states)
    return Setting(recipe=r, split=split, pool=texts, **given)


class Data:
    """Rows, targets and parts of a setting: `rows[part][seed]` are pool rows."""

    def __init__(self, s: Setting, base: Path | None = None):
        """`base`: the folder of the base stage, when h was computed by tuned layers."""
        self.setting, self.base = s, base if s.recipe.tuned_layers else None
        self.pool = read_pool(s.pool.run())
        self.value = torch.tensor(self.pool["value"].to_numpy() - s.labels.lo)
        self.range = torch.tensor(self.pool["range"].to_numpy())
        self.rows: dict[str, list[np.ndarray]] = {part: [] for part in PARTS}
        for seed in range(s.seeds):
            parts = (steps.split if s.task == "steps" else datasets.split)(self.pool, s.split, seed).to_numpy()
            for part in PARTS:
                self.rows[part].append(np.flatnonzero(parts == part))
            if s.subset is not None:
                self.rows["train"][-1] = self._subset(self.rows["train"][-1], seed)

    def _subset(self, rows: np.ndarray, seed: int) -> np.ndarray:
        """Fewer training rows: a number, stratified by range, or one text an operand pair."""
        subset = self.setting.subset
        if isinstance(subset, str):
            mask = np.isin(np.arange(len(self.pool)), rows)
            return np.flatnonzero(datasets.one_per_pair(self.pool, mask, subset == "pairs_balanced", seed))
        if subset > len(rows):
            raise ValueError(f"{subset} training rows asked of a training part of {len(rows)}")
        return self.by_range(rows, subset / len(rows), seed)

    def by_range(self, rows: np.ndarray, share: float, seed: int) -> np.ndarray:
        """A share of the rows (n,), the same from every range."""
        generator = np.random.default_rng([11, seed])
        ranges = self.range.numpy()[rows]
        chosen = [generator.permutation(rows[ranges == k]) for k in range(self.setting.labels.K)]
        return np.sort(np.concatenate([c[: max(1, round(len(c) * share))] for c in chosen]))

    def of_range(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Those of the rows (n,) whose value lies in range k."""
        return rows[self.range.numpy()[rows] == k]

    @cached_property
    def expert(self) -> Tensor:
        """The expert that every row of the pool belongs to, (N,): its range, or the operation of a single step."""
        return torch.tensor(steps.operation(self.pool)) if self.setting.experts_by == "operation" else self.range

    def of_expert(self, rows: np.ndarray, k: int) -> np.ndarray:
        """Those of the rows (n,) that belong to expert k."""
        return rows[self.expert.numpy()[rows] == k]

    @cached_property
    def x(self) -> Tensor:
        """What the base reads, or for a tuned base h itself: (N, d), or (seeds, N, d), where training runs."""
        s = self.setting
        if self.base is not None:
            read = np.stack([np.load(self.base / f"h-{seed}.npy") for seed in range(s.seeds)])
        else:
            read = np.array(feature_set(s.features).pooled(features.Point(s.recipe.layer, s.recipe.pooling)))
        return torch.from_numpy(read).to(training.device())

    @property
    def d(self) -> int:
        """Width of what the base reads."""
        return self.x.shape[-1]

    def training_rows(self, name: str, y: Tensor, train: Sequence, validation: Sequence, owner: Sequence[int]):
        """`Rows` for members whose seed is owner[m]; y (N,): a target for every row of the pool."""
        inputs = training.pooled_inputs(self.x, owner)
        return training.Rows(inputs, y, train, validation, name, member_seeds(name, owner))


def member_seeds(name: str, owner: Sequence[int]) -> list[int]:
    """A distinct random seed a member: from the study's seed, what is trained, and the member's turn in its seed."""
    turn: dict[int, int] = {}
    seeds = []
    for seed in owner:
        turn[seed] = turn.get(seed, -1) + 1
        seeds.append(int(paths.digest([name, seed, turn[seed]])[:7], 16))
    return seeds
