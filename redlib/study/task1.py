"""Task 1, addition: its settings, the tables that answer its questions, and trained methods for new texts."""

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
    point = features.Point(r.layer, r.pooling)
    backbone = open_backbone(profile.backbone)
    texts = pool(profile)
    made = features_stage(
        texts, profile.backbone, () if r.tuned_layers else (point,), backbone.boundary if r.tuned_layers else None
    )
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
    tuned: bool

    def read(self, texts: list[str]) -> tuple[torch.Tensor, ...]:
        """What the method's base reads for the texts: pooled features, or token states and mask."""
        if self.tuned:
            return self.backbone.states(texts, self.backbone.boundary)
        return (torch.from_numpy(features.compute(self.backbone, texts, [self.point])[self.point]),)

    def predict(self, texts: list[str], ranges=None) -> pd.DataFrame:
        """A row a text: predicted_value, predicted_range, confidence, router_range, alpha_1..alpha_K."""
        if not texts:
            raise ValueError("no texts to predict")
        return evaluation.predict(self.method, self.read(texts), self.labels, ranges)


def predictor(
    profile: Profile, method: str, split: str = "structure", recipe: str = "chosen", seed: int = 0
) -> Predictor:
    """The trained method of a profile, trained now if it is not there. ValueError names what is unknown."""
    if method not in models.METHODS:
        raise ValueError(f"unknown method {method!r}; valid methods: {', '.join(models.METHODS)}")
    s = setting(profile, recipe, split)
    if not 0 <= seed < s.seeds:
        raise ValueError(
            f"seed {seed} is not trained for recipe {recipe}, split {split}; valid seeds: 0..{s.seeds - 1}"
        )
    backbone = open_backbone(profile.backbone)
    trained = methods.load_parts(s, seed, backbone)
    point = features.Point(s.recipe.layer, s.recipe.pooling)
    return Predictor(models.assemble(method, s.labels, trained), backbone, point, s.labels, bool(s.recipe.tuned_layers))
