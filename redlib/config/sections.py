"""The sections of a profile: what can be set, of which type, and what it means."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
    """Linear and small non-linear probes by depth and pooling, on validation rows only."""

    rows: int = Field(8_000, gt=0)
    layers: tuple[int, ...] = (0, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, -1)
    poolings: tuple[Pooling, ...] = ("mean", "mean_skip_first", "last")
    hidden: int = Field(256, gt=0)
    seeds: int = Field(2, gt=0)
    training: Training = Training(lr=2e-3, weight_decay=0.3, batch=128, max_epochs=20, patience=20, monitor="accuracy")


class Selection(Config):
    """RED itself at other depths, poolings and ranks than the profile's, one changed at a time, on validation rows of
    the structure split: how `chosen` was chosen. No single change may be measurably better."""

    layers: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    poolings: tuple[Pooling, ...] = ("mean", "mean_skip_first", "last")
    ranks: tuple[int, ...] = (36, 72, 144, 288)
    seeds: int = Field(2, gt=0)


class Population(Config):
    """Every pair of operands, in a few wordings: sweeps along the value axis and operand maps (the source, 4.6.5)."""

    wordings: int = Field(4, gt=0, le=10, description="the canonical one, and others drawn from other wording groups")
    seeds: int = Field(3, gt=0, description="seeds swept, at most those of the split")


class Arithmetic(Config):
    """Where the arithmetic is: probes at named tokens by depth, on validation rows of the structure split only."""

    rows: int = Field(6_000, gt=0, description="texts of Task 1")
    operator_rows: int = Field(5_000, gt=0, description="texts of Task 2 (single_heavy); of one operation are used")
    layers: tuple[int, ...] = Field((0, 1, 2, 4, 6, 8, 12, 16, 20, 24, 28, -1), description="and the recipe's own")
    periods: tuple[int, ...] = Field((2, 5, 10, 50, 100), description="of Fourier components")
    network_sites: tuple[str, ...] = Field(("pooled", "last_token"), description="where 2-layer probes read, too")
    hidden: int = Field(256, gt=0)
    seeds: int = Field(2, gt=0)
    training: Training = Training(lr=2e-3, weight_decay=0.3, batch=128, max_epochs=20, patience=20, monitor="accuracy")


class Profile(Config):
    name: str
    evidence: bool = Field(True, description="False: machinery only, never a result")
    reads: str | None = Field(None, description="set for `record`: the profile whose committed results are read")
    backbone: BackboneConfig = BackboneConfig()
    task1: Task1 = Task1()
    task2: Task2
    probe: Probe = Probe()
    selection: Selection = Selection()
    population: Population = Population()
    arithmetic: Arithmetic = Arithmetic()
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
