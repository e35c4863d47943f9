"""Task 1, addition: its settings, the tables that answer its questions, and trained methods for new texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from redlib import evaluation, features, models
from redlib.config import Profile
from redlib.models import LabelSpace
from redlib.study import methods
from redlib.study.data import features_stage, open_backbone, pool_stage
from redlib.study.settings import Setting
from redlib.study.stage import Stage


def labels(profile: Profile) -> LabelSpace:
    t = profile.task1
    return LabelSpace(t.lo, t.hi, t.edges)


def pool(profile: Profile, rows: int | None = None) -> Stage:
    """The pool of Task 1, or a smaller one of the same kind."""
    t = profile.task1
    return pool_stage("task1", rows or t.rows, t.pool_seed, t.operands, labels(profile))


def setting(profile: Profile, recipe: str, split: str, **changes) -> Setting:
    """One setting of Task 1; `changes` replace fields of the recipe (rank) or the setting (subset, seeds, methods)."""
    r = profile.recipe(recipe)
    seeds = (profile.task1.seeds if recipe == "chosen" else profile.task1.source_seeds).get(split, 0)
    fields = {name: changes.pop(name) for name in list(changes) if name in type(r).model_fields}
    points = () if r.tuned_layers else (features.Point(r.layer, r.pooling),)
    states = -1 - r.tuned_layers if r.tuned_layers else None  # counted from the final state
    texts = pool(profile)
    made = features_stage(texts, profile.backbone, points, states)
    return Setting(
        task="task1",
        recipe=r.model_copy(update=fields),
        split=split,
        seeds=changes.pop("seeds", seeds),
        labels=labels(profile),
        pool=texts,
        features=made,
        **{name: value for name, value in changes.items() if value is not None},
    )


def settings(profile: Profile) -> list[Setting]:
    """The settings behind the main table: every recipe on every split that has seeds."""
    wanted = [("chosen", split) for split, n in profile.task1.seeds.items() if n]
    wanted += [("source", split) for split, n in profile.task1.source_seeds.items() if n]
    return [setting(profile, recipe, split) for recipe, split in wanted]


# ---- trained methods ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Predictor:
    """A trained method with its backbone: texts in, predictions out."""

    method: models.Method
    backbone: object
    point: features.Point
    labels: LabelSpace
    tuned_layers: int

    def read(self, texts: list[str]) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """What the method's base reads for the texts: pooled features, or token states and mask."""
        if self.tuned_layers:
            states = features.token_states(self.backbone, texts, -1 - self.tuned_layers)
            return states.batch(range(len(texts)))
        return torch.from_numpy(features.compute(self.backbone, texts, [self.point])[self.point])

    def predict(self, texts: list[str], ranges: Sequence[int] | None = None, chunk: int = 256) -> pd.DataFrame:
        """A row a text: predicted_value, predicted_range, confidence, router_range, alpha_1..alpha_K."""
        if not texts:
            raise ValueError("no texts to predict")
        parts = [slice(first, first + chunk) for first in range(0, len(texts), chunk)]
        return pd.concat(
            [
                evaluation.predict(self.method, self.read(texts[part]), self.labels, ranges and ranges[part])
                for part in parts
            ],
            ignore_index=True,
        )


def predictor(
    profile: Profile, method: str, split: str = "structure", recipe: str = "chosen", seed: int = 0
) -> Predictor:
    """The trained method of a profile, trained now if it is not there.

    ValueError names what is unknown; a profile that reads a record trains nothing, and is refused.
    """
    if profile.reads:
        raise ValueError(f"profile {profile.name!r} never trains, so it has no trained methods; use {profile.reads!r}")
    if method not in models.METHODS:
        raise ValueError(f"unknown method {method!r}; valid methods: {', '.join(models.METHODS)}")
    open_backbone(profile.backbone)
    s = setting(profile, recipe, split)
    if not 0 <= seed < s.seeds:
        valid = ", ".join(map(str, range(s.seeds))) or "none"
        raise ValueError(f"seed {seed} is not trained for recipe {recipe}, split {split}; valid seeds: {valid}")
    backbone = open_backbone(profile.backbone)
    trained = methods.load_parts(s, seed, backbone)
    point = features.Point(s.recipe.layer, s.recipe.pooling)
    return Predictor(models.assemble(method, s.labels, trained), backbone, point, s.labels, s.recipe.tuned_layers)
