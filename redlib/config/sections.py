"""The sections of a profile: what can be set, of which type, and what it means."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from redlib.config.base import Config, Share
from redlib.config.pictures import Nested
from redlib.config.recipes import LongTraining, Pooling, Recipe, RedPlus, Split, Training

PARTS = ("train", "validation", "test")
Width = Annotated[int, Field(gt=0, multiple_of=8)]  # four heads, each of an even number of features


class BackboneConfig(Config):
    """The frozen language model, and where training may begin."""

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
    curve_rows: tuple[PositiveInt, ...] = Field((1_000, 4_000, 16_000), description="training rows of learning curves")


class Definition(Config):
    """How much is trained under one definition of "two, three and four steps"."""

    rows: int = Field(80_000, gt=0)
    seeds: dict[Split, int] = Field({}, description="seeds of recipe chosen")
    source_seeds: dict[Split, int] = Field({}, description="seeds of recipe source")


class Task2(Domain):
    """Chains of additions and subtractions (the source, 4.1 and 4.2.3); `definitions` by the name of the steps."""

    definitions: dict[str, Definition]


class Operations(Domain):
    """Single additions and subtractions that operation experts are trained on, one pool a domain of steps, and the
    chains that they execute (the source, 4.2.6 and 4.8)."""

    rows: int = Field(20_000, gt=0, description="rows of each operation")
    domains: tuple[Literal["closed", "source"], ...] = ("closed", "source")
    seeds: dict[Split, int] = Field({"text": 5, "structure": 5}, description="seeds of each domain")
    chains: int = Field(5_000, gt=0, description="chains of two, three and four operations of each domain")
    rank: int = Field(144, gt=0, description="bottleneck r of an operation expert; the rest is recipe chosen's")
    experts: Training = Training(lr=3e-3, weight_decay=0.1, batch=128, max_epochs=40, patience=40, monitor="accuracy")
    final_rate: float = Field(0.02, gt=0, le=1, description="share of the learning rate that is left at the end")


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
    ranks: tuple[PositiveInt, ...] = (36, 72, 144, 288)
    seeds: int = Field(2, gt=0)


class Population(Config):
    """Every pair of operands, in a few wordings: sweeps along the value axis and operand maps (the source, 4.6.5)."""

    wordings: int = Field(4, gt=0, le=10, description="the canonical one, and others drawn from other wording groups")
    seeds: int = Field(3, gt=0, description="seeds swept, at most those of the split")


class Fair(Config):
    """The arms between RED and the softmax mixture."""

    seeds: int = Field(3, gt=0, description="seeds compared, at most those of the split")


class Hardness(Config):
    """What makes Task 2 hard: one seed of recipe `chosen` with other wordings and signs, on validation rows."""

    rows: int = Field(16_000, gt=0, description="texts of each arm")


class Schedule(Config):
    """Recipe `chosen` trained longer at a falling learning rate, beside its own steady one."""

    settings: tuple[tuple[str, Split], ...] = Field(
        (("task1", "structure"), ("operations", "structure"), ("single_heavy", "text")),
        description="`task1` or what Task 2 calls steps, and a split that the profile trains",
    )
    seeds: int = Field(3, gt=0, description="at most: those that the main table has")
    epochs: int = Field(80, gt=0, description="of experts; routers and controls run all that a steady rate may")
    final_rate: float = Field(0.02, gt=0, le=1, description="share of the learning rate that is left at the end")
    layers: dict[str, int] = Field(
        {"single_heavy": 6}, description="another layer that these steps are read at too, chosen on validation rows"
    )

    @model_validator(mode="after")
    def _trained_again(self) -> Self:
        """ValueError naming steps that are read at another layer and not trained again at all."""
        there = [name for name, _ in self.settings]
        for name in (name for name in self.layers if name not in there):
            raise ValueError(f"schedule.layers names {name!r}; schedule.settings has: {', '.join(there)}")
        return self


class Arithmetic(Config):
    """Where the arithmetic is: probes at named tokens by depth, on validation rows of the structure split only."""

    rows: int = Field(6_000, gt=0, description="texts of Task 1")
    operator_rows: int = Field(5_000, gt=0, description="texts of Task 2 (single_heavy); of one operation are used")
    layers: tuple[int, ...] = Field((0, 1, 2, 4, 6, 8, 12, 16, 20, 24, 28, -1), description="and the recipe's own")
    periods: tuple[PositiveInt, ...] = Field((2, 5, 10, 50, 100), description="of Fourier components")
    network_sites: tuple[str, ...] = Field(("pooled", "last_token"), description="where 2-layer probes read, too")
    hidden: int = Field(256, gt=0)
    seeds: int = Field(2, gt=0)
    training: Training = Training(lr=2e-3, weight_decay=0.3, batch=128, max_epochs=20, patience=20, monitor="accuracy")


Question = Literal[
    "residual",
    "experts",
    "rank",
    "router",
    "base_share",
    "depth",
    "expert_share",
    "readout",
    "weights",
    "balance",
    "order",
    "tuned_layers",
    "tuned_share",
]


class Ablations(Config):
    """RED with one thing changed at a time (the source, 4.9): which questions are asked on which split, and the values
    that are tried beside the recipe's own. `tuned_layers` and `tuned_share` train layers of the backbone, for hours:
    they are asked apart, on split `structure` (`python -m redlib sweep tuned`)."""

    rows: int = Field(16_000, gt=0, description="texts of each task")
    seeds: int = Field(5, gt=0)
    tuned_seeds: int = Field(3, gt=0, description="seeds of the tuned base as it is; one where it is changed")
    questions: dict[Split, tuple[Question, ...]] = Field(
        {
            "structure": (
                *("residual", "experts", "rank", "router", "base_share", "depth", "expert_share", "readout"),
                *("weights", "balance", "order"),
            ),
            "text": ("residual", "experts", "rank"),
        }
    )
    experts: tuple[PositiveInt, ...] = Field(
        (1, 2, 10, 20), description="numbers of experts, for ranges of as many texts"
    )
    ranks: tuple[PositiveInt, ...] = (288, 144, 72, 36, 18, 9, 4, 2, 1)
    router_hidden: tuple[NonNegativeInt, ...] = (0, 16, 64, 1024)
    base_shares: tuple[Share, ...] = (0.01, 0.05, 0.5, 1.0)
    layers: tuple[int, ...] = (1, 2, 8, 16, -1)
    poolings: tuple[Pooling, ...] = ("mean_skip_first", "last")
    expert_shares: tuple[Share, ...] = (0.01, 0.05, 0.1, 0.5)
    readout_hidden: int = Field(256, gt=0, description="hidden units of the classifier that is not linear")
    top: tuple[PositiveInt, ...] = Field((1, 2, 3), description="how many of the weights count")
    balance: tuple[NonNegativeFloat, ...] = Field(
        (0.1, 1.0), description="weights of the loss that asks for equal loads"
    )
    tuned_layers: tuple[NonNegativeInt, ...] = (0, 1, 3)
    tuned_epochs: int = Field(6, gt=0, description="of a base that tunes layers, at most: all of them in three hours")


class PlannerTraining(LongTraining):
    """Training of a planner: batches are of programs, and the learning rate falls to a tenth along half a cosine."""

    batch: int = Field(16, gt=0)
    micro_batch: int | None = Field(16, gt=0, description="also the batch of a validation pass")


class Decomposer(Domain):
    """The step decomposer (the source, 4.2.7 and 4.5.4): its records, its training and the programs it may write."""

    chains: Literal["closed", "source"] = Field("closed", description="which partial results its chains have")
    rows: int = Field(24_000, gt=0)
    seeds: dict[Split, int] = Field({"text": 1, "structure": 1, "phrasing": 1}, description="planners by split")
    max_operations: int = Field(4, gt=0, description="steps of a program, at most")
    largest: int = Field(100, gt=0, description="the largest number that a program may hold")
    training: PlannerTraining = PlannerTraining(lr=1e-3, max_epochs=6, patience=6, monitor="accuracy")


class Sparse(Config):
    """Sparse mixtures against dense transformers: the models, their training, and what is measured of them."""

    width: Width = 128
    layers: int = Field(2, gt=0)
    experts: int = Field(4, gt=1, description="experts of a layer; twice as many of half the size in the top-2 model")
    specialists: tuple[PositiveInt, ...] = (3, 4)
    steps: int = Field(600, gt=0, description="of training, equal for all")
    training: Training = Training(lr=3e-3, weight_decay=0.1, batch=64)
    balance: float = Field(0.1, ge=0, description="weight of the load-balance loss")
    seeds: int = Field(3, gt=0)
    test_rows: int = Field(1_000, gt=0, description="held-out documents of a kind that quality is measured on")
    prompt: int = Field(64, gt=0, description="tokens of a prompt")
    prompts: tuple[PositiveInt, ...] = Field((16, 256), description="further lengths, with one request at a time")
    new: int = Field(16, gt=1, description="tokens of an answer")
    batches: tuple[PositiveInt, ...] = Field((1, 8, 32), min_length=1)
    repeats: int = Field(5, gt=0)
    widths: tuple[Width, ...] = Field(
        (128, 256, 512, 1024), min_length=1, description="of untrained models, for growth"
    )
    expert_counts: tuple[PositiveInt, ...] = Field(
        (2, 4, 8, 16), min_length=1, description="of untrained models, for growth"
    )
    pretrained: tuple[str, ...] = Field(("smollm2-135m", "qwen3-0.6b"), description="those at hand are measured")
    price: float = Field(0.526, gt=0, description="of an hour of the machine; set your own")


class Modularity(Config):
    """Robustness of RED on Task 1 to changes of its experts (the source, 4.4.4), and how many ranges there are."""

    seeds: int = Field(3, gt=0, description="at most those of the split")
    ranges: tuple[PositiveInt, ...] = Field(
        tuple(range(1, 11)), min_length=1, description="numbers of ranges of equal width"
    )


class Profile(Config):
    """How much is computed and on which backbone, chapter by chapter."""

    name: str
    evidence: bool = Field(True, description="False: machinery only, never a result")
    reads: str | None = Field(None, description="set for `record`: the profile whose committed results are read")
    backbone: BackboneConfig = BackboneConfig()
    task1: Task1 = Task1()
    task2: Task2
    operations: Operations = Operations()
    probe: Probe = Probe()
    selection: Selection = Selection()
    population: Population = Population()
    arithmetic: Arithmetic = Arithmetic()
    fair: Fair = Fair()
    hardness: Hardness = Hardness()
    schedule: Schedule = Schedule()
    nested: Nested = Nested()
    decomposer: Decomposer = Decomposer()
    ablations: Ablations = Ablations()
    modularity: Modularity = Modularity()
    sparse: Sparse = Sparse()
    red_plus: RedPlus
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
