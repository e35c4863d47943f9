"""An explainer of made-up models, and its reading of one question."""

import pytest
from explainers import LABELS, QUERY, model

from redlib import backbone, explain, features


@pytest.fixture(scope="module")
def explainer():
    bone = backbone.load("tiny")
    opened = {split: lambda seed=seed: model(bone, seed) for seed, split in enumerate(("structure", "text"))}
    return explain.Explainer(bone, "task1", LABELS, (2, 50), features.Point(2), 0, opened)


@pytest.fixture(scope="module")
def reading(explainer):
    return explainer.read([QUERY])[0]
