"""The one dial: a `Profile` says how much is computed, on which backbone, with which settings.

`load("laptop", {"task1.rows": 8000})` returns an immutable profile; an unknown profile, field or type is an error
that names the valid ones. A stage hashes only the parts of the profile that it reads.
"""

import json
import os
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Split = Literal["text", "structure", "phrasing"]
Pooling = Literal["mean", "mean_skip_first", "last"]
PARTS = ("train", "validation", "test")


class Config(BaseModel):
    """Base of every configuration: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Training(Config):
    """Hyper-parameters of one run of the training loop (the source, 4.5.2)."""

    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    batch: int = Field(64, gt=0, description="rows per optimiser step (the source's virtual batch)")
    micro_batch: int | None = Field(None, gt=0, description="rows per backward pass; None: the whole batch at once")
    max_epochs: int = Field(60, gt=0)
    patience: int = Field(3, gt=0, description="epochs without a better validation score before stopping")
    monitor: Literal["loss", "accuracy"] = Field("loss", description="the validation score")


class Recipe(Config):
    """How features, base, experts and routers are made (design of a run; the source's own is recipe `source`)."""

    name: Literal["chosen", "source"]
    layer: int = Field(description="index into the hidden states: 0 embeddings, -1 after the final norm")
    pooling: Pooling = "mean"
    tuned_layers: int = Field(0, ge=0, description="top layers trained with the base classifier, then frozen")
    base_share: float = Field(0.1, gt=0, le=1, description="share of the training rows that the base sees")
    rank: int = Field(gt=0, description="bottleneck r of a residual expert")
    router_hidden: int = Field(256, ge=0, description="hidden units of the router; 0 is a linear router")
    base: Training = Training()
    experts: Training = Training()
    routers: Training = Training()
    controls: Training = Training()


class BackboneConfig(Config):
    name: str = Field("smollm2-135m", description="qwen3-0.6b, smollm2-135m, tiny, or a local folder")
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    top_layers: int = Field(2, ge=0, description="layers above the freeze boundary")


class Domain(Config):
    """What a task's texts are drawn from and what its answers are."""

    pool_seed: int = 0
    operands: tuple[int, int] = (2, 50)
    lo: int = 2
    hi: int = 100
    edges: tuple[int, ...] = Field((20, 40, 60, 80), description="last value of every range but the last")


class Task1(Domain):
    """Single-step addition (the source, 4.1 and 4.2.2)."""

    rows: int = Field(80_000, gt=0)
    seeds: dict[Split, int] = Field({"text": 5, "structure": 5, "phrasing": 2}, description="seeds of recipe chosen")
    source_seeds: dict[Split, int] = Field({"text": 2, "structure": 2}, description="seeds of recipe source")
    curve_seeds: int = Field(3, gt=0, description="seeds of learning curves, at most those of the split")
    curve_rows: tuple[int, ...] = Field((1_000, 4_000, 16_000), description="training rows of learning curves")


class Definition(Config):
    """How much is trained under one definition of "two, three and four steps"."""

    rows: int = Field(80_000, gt=0)
    seeds: dict[Split, int] = Field({}, description="seeds of recipe chosen")
    source_seeds: dict[Split, int] = Field({}, description="seeds of recipe source")


class Task2(Domain):
    """Chains of additions and subtractions (the source, 4.1 and 4.2.3); `definitions` by the name of the steps."""

    definitions: dict[str, Definition]


class Probe(Config):
    """Probes by depth and pooling, on validation rows only (choice of depth, pooling and rank)."""

    rows: int = Field(8_000, gt=0)
    layers: tuple[int, ...] = (0, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, -1)
    poolings: tuple[Pooling, ...] = ("mean", "mean_skip_first", "last")
    ranks: tuple[int, ...] = (36, 72, 144, 288)
    hidden: int = Field(256, gt=0)
    seeds: int = Field(2, gt=0)
    training: Training = Training(lr=2e-3, weight_decay=0.3, batch=128, max_epochs=20, patience=20, monitor="accuracy")


_TASK2 = Task2(
    definitions={
        "operations": Definition(seeds={"text": 5, "structure": 5}, source_seeds={"text": 1, "structure": 1}),
        "single_heavy": Definition(seeds={"text": 3}, source_seeds={"text": 1}),
        "operands": Definition(rows=16_000, seeds={"text": 1, "structure": 1}),
    }
)


class Profile(Config):
    name: str
    evidence: bool = Field(True, description="False: machinery only, never a result")
    reads: str | None = Field(None, description="set for `record`: the profile whose committed results are read")
    backbone: BackboneConfig = BackboneConfig()
    task1: Task1 = Task1()
    task2: Task2 = _TASK2
    probe: Probe = Probe()
    chosen: Recipe
    source: Recipe
    bootstrap: int = Field(1_000, gt=0, description="resamples behind an interval")

    @property
    def measured(self) -> str:
        """The profile whose numbers are shown: for `record`, the one that it reads."""
        return self.reads or self.name

    def recipe(self, name: str) -> Recipe:
        """The recipe called `chosen` or `source`; ValueError for another name."""
        if name not in ("chosen", "source"):
            raise ValueError(f"unknown recipe {name!r}; valid recipes: chosen, source")
        return getattr(self, name)


_CHOSEN = Recipe(
    name="chosen",
    layer=4,
    rank=144,
    base=Training(lr=2e-3, batch=64, max_epochs=60, patience=8, monitor="accuracy"),
    experts=Training(lr=3e-3, weight_decay=0.1, batch=64, max_epochs=40, patience=8, monitor="accuracy"),
    routers=Training(lr=1e-3, weight_decay=0.1, batch=256, max_epochs=30, patience=5, monitor="accuracy"),
    controls=Training(lr=1e-3, weight_decay=0.3, batch=256, max_epochs=20, patience=6, monitor="accuracy"),
)
_SOURCE_LOOP = Training(lr=1e-4, batch=64, max_epochs=60, patience=3)
_SOURCE = Recipe(
    name="source",
    layer=-1,
    rank=144,
    tuned_layers=2,
    base=_SOURCE_LOOP,
    experts=_SOURCE_LOOP,
    routers=_SOURCE_LOOP,
    controls=_CHOSEN.controls,
)


def _shorter(recipe: Recipe, **max_epochs: int) -> Recipe:
    """The recipe with fewer epochs at most, by loop."""
    loops = {name: getattr(recipe, name).model_copy(update={"max_epochs": n}) for name, n in max_epochs.items()}
    return recipe.model_copy(update=loops)


def _tiny(recipe: Recipe, layer: int) -> Recipe:
    short = {"max_epochs": 2, "lr": 2e-3}
    stages = ("base", "experts", "routers", "controls")
    loops = {name: getattr(recipe, name).model_copy(update=short) for name in stages}
    return recipe.model_copy(update={"layer": layer, "rank": 8, "router_hidden": 16, **loops})


def _profiles() -> dict[str, Profile]:
    full = Profile(name="full", chosen=_CHOSEN, source=_SOURCE)
    laptop = full.model_copy(
        update={
            "name": "laptop",
            "task1": Task1(
                rows=16_000,
                seeds={"text": 3, "structure": 3, "phrasing": 1},
                source_seeds={"text": 1, "structure": 1},
                curve_seeds=1,
                curve_rows=(4_000,),
            ),
            "task2": Task2(definitions={"operations": Definition(rows=16_000, seeds={"text": 3, "structure": 3})}),
            "probe": Probe(rows=3_000, layers=(0, 2, 4, 6, 8, 12, 20, -1), ranks=(72, 144, 288), seeds=1),
            "chosen": _shorter(_CHOSEN, experts=24, routers=15, controls=12),
            "source": _shorter(_SOURCE, base=6, experts=30, routers=8, controls=12),
        }
    )
    smoke = full.model_copy(
        update={
            "name": "smoke",
            "evidence": False,
            "backbone": BackboneConfig(name="tiny"),
            "task1": Task1(
                rows=500,
                seeds={"text": 2, "structure": 2, "phrasing": 1},
                source_seeds={"text": 1, "structure": 1},
                curve_rows=(200,),
            ),
            "task2": Task2(
                definitions={
                    "operations": Definition(rows=500, seeds={"text": 2, "structure": 2}, source_seeds={"text": 1}),
                    "single_heavy": Definition(rows=500, seeds={"text": 1}),
                }
            ),
            "probe": Probe(
                rows=250,
                layers=(0, 2, -1),
                ranks=(4, 8),
                hidden=16,
                seeds=1,
                training=Training(batch=128, max_epochs=2),
            ),
            "chosen": _tiny(_CHOSEN, layer=2),
            "source": _tiny(_SOURCE, layer=-1),
            "bootstrap": 50,
        }
    )
    paper = full.model_copy(
        update={
            "name": "paper",
            "backbone": BackboneConfig(name="qwen3-0.6b"),
            "chosen": _CHOSEN.model_copy(update={"rank": 512}),
            "source": _SOURCE.model_copy(update={"rank": 512}),
        }
    )
    record = full.model_copy(update={"name": "record", "reads": "full"})
    return {p.name: p for p in (smoke, laptop, full, paper, record)}


PROFILES = _profiles()


def load(profile: str = "auto", overrides: dict[str, Any] | None = None) -> Profile:
    """The named profile with dotted fields replaced, e.g. `load("laptop", {"task1.rows": 8000})`.

    `auto` reads $REDLIB_PROFILE and falls back to `smoke`. Raises ValueError for an unknown profile or field and for
    a value of the wrong type, naming the valid choices.
    """
    name = os.environ.get("REDLIB_PROFILE") or "smoke" if profile == "auto" else profile
    if name not in PROFILES:
        raise ValueError(f"unknown profile {name!r}; valid profiles: {', '.join(PROFILES)} (or auto)")
    if not isinstance(overrides, dict | None):
        raise ValueError(f"overrides must be a dict of dotted fields, got {type(overrides).__name__}")
    tree = PROFILES[name].model_dump()
    for dotted, value in (overrides or {}).items():
        _replace(tree, PROFILES[name], str(dotted), value)
    try:
        return Profile.model_validate_json(_to_json(tree))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"invalid value {first['input']!r} for field {where!r}: {first['msg']}") from None


def _to_json(tree: dict) -> str:
    try:
        return json.dumps(tree)
    except TypeError as error:
        raise ValueError(f"an override is not plain data: {error}") from None


def _replace(tree: dict, model: Any, dotted: str, value: Any) -> None:
    """Set one dotted field of the dumped profile; `model` is the profile that says which fields are sections."""
    parent: dict = {}
    node: Any = tree
    for part in dotted.split("."):
        if not isinstance(node, dict) or part not in node:
            valid = ", ".join(sorted(node)) if isinstance(node, dict) else "none (it is a plain value)"
            raise ValueError(f"unknown field {dotted!r} (no {part!r}); valid fields there: {valid}")
        parent, node = node, node[part]
        model = model[part] if isinstance(model, dict) else getattr(model, part)
    if dotted in ("name", "reads", "evidence"):
        raise ValueError(f"field {dotted!r} of a profile cannot be overridden; choose another profile")
    if isinstance(model, Config):
        raise ValueError(f"field {dotted!r} is a section; override its fields: {', '.join(sorted(node))}")
    parent[part] = value
