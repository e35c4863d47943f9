"""The finite population of a task: every pair of operands in a few wordings, and what trained methods say of it."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

from redlib import datasets, evaluation, features, models
from redlib.config import Domain, PlusForm, Profile
from redlib.models import LabelSpace
from redlib.study import methods, red_plus
from redlib.study.data import feature_set, features_stage, read_pool
from redlib.study.red_plus import parts as red_plus_parts
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage


def population_stage(task: str, domain: Domain, labels: LabelSpace, wordings: int) -> Stage:
    """The population of a task as a pool of texts (`datasets.population`)."""
    operands = tuple(domain.operands)
    rows = len(datasets.pairs(task, operands, labels)) * wordings
    config = {"task": task, "operands": list(operands), "labels": asdict(labels), "wordings": wordings, "rows": rows}
    return Stage("population", 1, config, _make, seconds=2 + rows * 1e-4, bytes=rows * 60)


def _make(stage: Stage, out: Path) -> None:
    c = stage.config
    labels = LabelSpace(**c["labels"])
    datasets.save(datasets.population(c["task"], tuple(c["operands"]), labels, c["wordings"]), out / "pool.parquet")


def population_features(profile: Profile, population: Stage) -> Stage:
    """Features of a population at the point that recipe `chosen` reads; ValueError where it tunes layers of its own."""
    r = profile.chosen
    if r.tuned_layers:
        raise ValueError(f"recipe {r.name} tunes {r.tuned_layers} layers; a population is read by frozen features only")
    return features_stage(population, profile.backbone, (features.Point(r.layer, r.pooling),), None)


def read_population(stage: Stage) -> pd.DataFrame:
    """The texts of a features stage, with columns first, second and operator."""
    return datasets.with_operands(read_pool(stage.inputs["pool"].folder))


def answers(s: Setting, read: Stage, seeds: int, names: Sequence[str] = ()) -> dict[str, list[pd.DataFrame]]:
    """What methods of a setting (all, or those with these names) say of the population behind the features stage
    `read`, a frame a seed."""
    ranges = read_pool(read.inputs["pool"].folder)["range"].tolist()
    said: dict[str, list[pd.DataFrame]] = {name: [] for name in names or s.methods}
    for seed in range(seeds):
        trained, x = _opened(s, read, seed)
        for name, frames in said.items():
            method = models.assemble(name, s.labels, trained, s.K)
            frames.append(evaluation.predict(method, x, s.labels, ranges, probabilities=True))
    return said


def _opened(s: Setting, read: Stage, seed: int) -> tuple[dict[str, nn.Module], torch.Tensor]:
    """The trained parts of a seed, and what they read of all texts: pooled features (N, d), or of `red_plus` h (N, w),
    which its base has made of them."""
    if isinstance(s.recipe, PlusForm):
        trained = red_plus.load_parts(s, seed)
        h = red_plus_parts.read_by(trained["base"], s, read)
        return trained | {"base": nn.Identity()}, torch.from_numpy(h)
    point = features.Point(s.recipe.layer, s.recipe.pooling)
    return methods.load_parts(s, seed), torch.from_numpy(np.array(feature_set(read).pooled(point)))


def seen_pairs(s: Setting, population: pd.DataFrame, seeds: int) -> list[np.ndarray]:
    """For each seed, whether a training row has the pair of a text, commuted or not: (N,) each."""
    data = Data(s)
    keys = [set(data.pool["structure"].iloc[rows]) for rows in data.rows["train"][:seeds]]
    return [population["structure"].isin(known).to_numpy() for known in keys]
