"""A trained method with its backbone, for texts that no pool holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch

from redlib import evaluation, features, models
from redlib.config import Profile
from redlib.models import LabelSpace
from redlib.study import methods
from redlib.study.data import open_backbone
from redlib.study.settings import Setting


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


def trained(profile: Profile, s: Setting, method: str, seed: int) -> Predictor:
    """The trained method of a setting, trained now if it is not there.

    ValueError names what is unknown; a profile that reads a record trains nothing, and is refused.
    """
    if profile.reads:
        raise ValueError(f"profile {profile.name!r} never trains, so it has no trained methods; use {profile.reads!r}")
    if method not in models.METHODS:
        raise ValueError(f"unknown method {method!r}; valid methods: {', '.join(models.METHODS)}")
    backbone = open_backbone(profile.backbone)
    if not 0 <= seed < s.seeds:
        valid = ", ".join(map(str, range(s.seeds))) or "none"
        raise ValueError(
            f"seed {seed} is not trained for recipe {s.recipe.name}, split {s.split}; valid seeds: {valid}"
        )
    parts = methods.load_parts(s, seed, backbone)
    point = features.Point(s.recipe.layer, s.recipe.pooling)
    return Predictor(models.assemble(method, s.labels, parts), backbone, point, s.labels, s.recipe.tuned_layers)
