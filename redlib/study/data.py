"""Stages for the pool of texts and for the frozen backbone's features over it."""

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import torch
import transformers

from redlib import backbone, datasets, features, paths
from redlib.config import BackboneConfig
from redlib.datasets import decomposer
from redlib.models import LabelSpace
from redlib.study.stage import RECORD, Stage


def pool_stage(
    task: str,
    rows: int,
    seed: int,
    operands: tuple[int, int],
    labels: LabelSpace,
    steps: str | None = None,
    chains: str | None = None,
) -> Stage:
    """The one pool of texts of a task, of Task 2 under one definition of its steps (the source, 4.2).

    `chains`: the pool is that of the decomposer's records, whose chains are `closed` or of the `source`.
    """
    config = {"task": task, "rows": rows, "seed": seed, "operands": list(operands), "labels": asdict(labels)}
    config |= {"steps": steps} if steps else {}
    config |= {"chains": chains} if chains else {}
    return Stage("pool", 1, config, _make_pool, seconds=2 + rows * 1e-4, bytes=rows * 60)


def _make_pool(stage: Stage, out: Path) -> None:
    c = stage.config
    domain = {"operands": tuple(c["operands"]), "labels": LabelSpace(**c["labels"])}
    if "chains" in c:
        pool = decomposer.build(c["rows"], c["seed"], c["chains"], **domain)
    else:
        pool = datasets.build(c["task"], c["rows"], c["seed"], steps=c.get("steps"), **domain)
    datasets.save(pool, out / "pool.parquet")


@lru_cache(maxsize=2)
def read_pool(folder: Path):
    """The pool in a pool stage's folder, checked against the labels that it was made for."""
    made = json.loads((folder / RECORD).read_text())["config"]
    return datasets.load(folder / "pool.parquet", LabelSpace(**made["labels"]))


@lru_cache(maxsize=8)
def fingerprint(folder: Path) -> str:
    """Hex sha256 of the texts and values of a pool, in their order."""
    pool = read_pool(folder)
    return paths.digest([pool["text"].tolist(), pool["value"].tolist()])


def features_stage(pool: Stage, spec: BackboneConfig, points: tuple[features.Point, ...], states: int | None) -> Stage:
    """Pooled features at `points` and, if `states` is a layer, token states there, for every text of the pool.

    Where the backbone still has to be fetched the stage can be planned, not run: its key is not the final one.
    """
    config = {
        "backbone": spec.model_dump(),
        "weights_id": weights_id(spec),
        "points": [asdict(point) for point in points],
        "states": states,
        "threads": torch.get_num_threads(),
        "versions": [torch.__version__, transformers.__version__],
    }
    layers = [point.layer for point in points] + ([] if states is None else [states])
    rows, depth = pool.config["rows"], max(layer if layer >= 0 else 30 for layer in layers)  # from the end: about all
    return Stage(
        "features",
        1,
        config,
        lambda stage, out: paths.write_json(out / "features.json", {"key": feature_set(stage).key}),
        {"pool": pool},
        seconds=5 + rows * max(0.003, 6e-4 * depth),
        bytes=rows * (2304 * len(points) + (6000 if states is not None else 0)),
    )


def feature_set(stage: Stage) -> features.FeatureSet:
    """The features of a features stage, computed if they are missing."""
    return features_of(stage).ensure()


def features_of(stage: Stage) -> features.FeatureSet:
    """The features of a features stage, as they are: nothing is computed."""
    c = stage.config
    points = [features.Point(**point) for point in c["points"]]
    texts = read_pool(stage.inputs["pool"].run())["text"].tolist()
    return features.FeatureSet(open_backbone(stage), texts, points, c["states"])


def weights_id(spec: BackboneConfig) -> str:
    """The identity of a profile's backbone, for keys: it need not be opened for them where it lies on disk."""
    if not backbone.present(spec.name):
        return "not fetched yet"
    return _recorded_id(spec.name) or open_backbone(spec).weights_id


@lru_cache(maxsize=2)
def _recorded_id(name: str) -> str | None:
    return backbone.recorded_id(name)


def fetch_backbone(spec: BackboneConfig) -> None:
    """Download a profile's backbone where it is missing: what is computed from it is named after its identity."""
    if not backbone.present(spec.name):
        open_backbone(spec)


def open_backbone(stage_or_spec: Stage | BackboneConfig) -> backbone.Backbone:
    """The backbone of a profile's configuration or of a features stage, loaded once a process."""
    spec = stage_or_spec
    if isinstance(spec, Stage):
        spec = BackboneConfig(**spec.config["backbone"])
    return _load_backbone(spec)


@lru_cache(maxsize=2)
def _load_backbone(spec: BackboneConfig) -> backbone.Backbone:
    return backbone.load(spec.name, dtype=spec.dtype, top_layers=spec.top_layers)
