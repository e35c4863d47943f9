"""How parts are trained and what a recipe is: the sections that other sections are made of."""

from typing import Literal

from pydantic import Field

from redlib.config.base import Config

Split = Literal["text", "structure", "phrasing"]
Pooling = Literal["mean", "mean_skip_first", "last"]


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


class PlusForm(Recipe):
    """One task's `red_plus`: a recipe whose base is a network with a Fourier readout, at an early layer."""

    name: Literal["chosen", "source"] = "chosen"
    layer: int = Field(8, description="index into the hidden states where the trunk ends")
    width: int = Field(gt=0, description="dimension of h")
    layers: int = Field(0, ge=0, description="light layers over token states; 0: a small network on pooled features")
    heads: int = Field(6, gt=0, description="attention heads of a light layer")
    positions: int = Field(128, gt=0, description="tokens of a text, at most, that light layers read")
    periods: tuple[int, ...] = Field((2, 5, 10, 20, 50, 100, 200), description="of the Fourier readout")
    foreign_share: float = Field(0.25, ge=0, lt=1, description="share of an expert's rows that are of other ranges")
    seeds: dict[Split, int] = Field({"structure": 5, "text": 1, "phrasing": 2})


class RedPlus(Config):
    """RED over a base that says a value as points on circles: on pooled features for Task 1, on token states for
    Task 2 (steps `operations`)."""

    task1: PlusForm
    task2: PlusForm
