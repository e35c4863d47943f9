"""How parts are trained and what a recipe is: the sections that other sections are made of."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from redlib.config.base import Config, Share

Split = Literal["text", "structure", "phrasing"]
Pooling = Literal["mean", "mean_skip_first", "last", "mean_two_depths"]
Readout = Literal["fourier", "digits", "linear"]
RouterTarget = Literal["range", "value", "both"]
Adapter = Literal["gelu", "linear"]
Ending = Literal["mean", "turns"]
Optimiser = Literal["adamw", "muon"]
PlusTask = Literal["task1", "task2"]
PlusQuestion = Literal[
    *("readout", "depth", "pooling", "token_layers", "ending", "optimiser", "weight_decay", "data", "base_share"),
    *("noise", "foreign_share", "rank", "adapter", "router_target", "experts"),
]


class Training(Config):
    """Hyper-parameters of one run of the training loop (the source, 4.5.2)."""

    lr: float = Field(1e-3, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    batch: int = Field(64, gt=0, description="rows per optimiser step (the source's virtual batch)")
    micro_batch: int | None = Field(None, gt=0, description="rows per backward pass; None: the whole batch at once")
    max_epochs: int = Field(60, gt=0)
    patience: int = Field(3, gt=0, description="epochs without a better validation score before stopping")
    monitor: Literal["loss", "accuracy"] = Field("loss", description="the validation score")

    @property
    def narrow(self) -> bool:
        """Whether products of matrices are made in bfloat16; weights and sums of gradients stay float32."""
        return False

    @property
    def by_muon(self) -> bool:
        """Whether matrices of hidden layers are trained by Muon, and only the rest by AdamW."""
        return False


class LongTraining(Training):
    """Training of layers over tokens: long enough for the precision of its products and its optimiser to matter."""

    products: Literal["float32", "bfloat16"] = Field(
        "float32", description="of matrices, while training; bfloat16 (the source, 4.5.5) needs a processor that has it"
    )
    optimiser: Optimiser = Field(
        "adamw", description="muon: of matrices of hidden layers; the rest has AdamW, and no decay"
    )

    @property
    def narrow(self) -> bool:
        return self.products == "bfloat16"

    @property
    def by_muon(self) -> bool:
        return self.optimiser == "muon"


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
    ending: Ending = Field("mean", description="how light layers end: the mean over tokens, or points that tokens turn")
    positions: int = Field(128, gt=0, description="tokens of a text, at most, that light layers read")
    readout: Readout = Field("fourier", description="how the classifier says a value")
    periods: tuple[int, ...] = Field((2, 5, 10, 20, 50, 100, 200), description="of the Fourier readout")
    groups: int | None = Field(None, gt=1, description="experts, each for as many texts; None: one a range")
    base: LongTraining = LongTraining()
    noise: float = Field(
        0.0, ge=0, description="on what base, experts and router read in training, as a share of its standard deviation"
    )
    adapter: Adapter = Field("gelu", description="form of an expert: with a GELU in its bottleneck, or linear")
    foreign_share: float = Field(0.25, ge=0, lt=1, description="share of an expert's rows that are of other ranges")
    router_target: RouterTarget = Field(
        "range", description="of the router: the expert's range; the answer, through the frozen experts; both"
    )
    seeds: dict[Split, int] = Field({"structure": 5, "text": 1, "phrasing": 2})


class PlusParts(Config):
    """What each part of `red_plus` is worth: which questions are asked of which task on the structure split, and the
    values that are tried beside the form's own, one at a time. Questions of Task 2 but the last five train its base
    again: minutes a value and seed."""

    rows: dict[PlusTask, PositiveInt] = Field({"task1": 16_000, "task2": 16_000}, description="texts of a task")
    seeds: int = Field(3, gt=0)
    epochs: dict[PlusTask, PositiveInt] = Field({"task1": 60, "task2": 12}, description="of the base")
    questions: dict[PlusTask, tuple[PlusQuestion, ...]] = Field(
        {
            "task1": (
                *("readout", "depth", "pooling", "data", "base_share", "noise"),
                *("foreign_share", "rank", "adapter", "router_target", "experts"),
            ),
            "task2": (
                *("readout", "depth", "token_layers", "ending", "optimiser", "weight_decay", "data", "base_share"),
                *("foreign_share", "rank", "adapter", "router_target", "experts"),
            ),
        }
    )
    readouts: tuple[Readout, ...] = ("linear", "digits")
    depths: dict[PlusTask, tuple[int, ...]] = Field({"task1": (0, 2, 4, 8, 12, 16), "task2": (0, 4, 12)})
    poolings: tuple[Pooling, ...] = ("mean",)
    token_layers: tuple[NonNegativeInt, ...] = (0, 1)
    endings: tuple[Ending, ...] = ("mean", "turns")
    optimisers: tuple[Optimiser, ...] = ("adamw", "muon")
    weight_decays: tuple[Annotated[float, Field(ge=0)], ...] = Field((0.01, 0.1), description="of the base")
    data: tuple[PositiveInt, ...] = Field((1_600, 3_200, 6_400), description="training rows of all parts")
    base_shares: tuple[Share, ...] = (0.1, 0.5, 1.0)
    noises: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 0.25, 1.0)
    foreign_shares: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = (0.0, 0.25, 0.5)
    ranks: tuple[PositiveInt, ...] = (8, 24, 72, 144)
    adapters: tuple[Adapter, ...] = ("gelu", "linear")
    router_targets: tuple[RouterTarget, ...] = ("range", "value", "both")
    experts: tuple[PositiveInt, ...] = (2, 10, 20)


class PlusWordings(Config):
    """What noise and depths do for unseen wordings of Task 1: groups of operator words that training lacks, one at a
    time, and what is tried beside the form's own."""

    groups: tuple[NonNegativeInt, ...] = (4, 5, 6, 7, 8)
    reads: tuple[tuple[int, Pooling], ...] = ((4, "mean"), (8, "mean"))
    noises: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 1.0)


class PlusBeyond(Config):
    """Beyond the training domain of `red_plus`: longer chains and larger numbers than it was trained on."""

    longer_rows: int = Field(4_000, gt=0, description="chains of five and six operations, none of them in training")
    wide_rows: int = Field(16_000, gt=0, description="additions of larger operands")
    operands: tuple[int, int] = (2, 99)
    hi: int = Field(200, description="the largest value that the readout is asked for")
    edges: tuple[int, ...] = (40, 80, 120, 160)
    data: tuple[PositiveInt, ...] = Field(
        (1_600, 12_800), description="wide training rows, where all parts are trained anew"
    )
    seeds: int = Field(3, gt=0, description="at most those of the structure split")
    widths: tuple[PositiveInt, ...] = Field(
        (5, 10, 20, 25, 33, 50), description="values of a range, of other partitions"
    )
    shifts: int = Field(4, gt=0, description="places of the first boundary, of every width")


class RedPlus(Config):
    """RED over a base that says a value as points on circles: on pooled features for Task 1, on token states for
    Task 2 (steps `operations`), and on pooled features for single steps, whose experts belong to operations."""

    task1: PlusForm
    task2: PlusForm
    steps: PlusForm
    parts: PlusParts = PlusParts()
    wordings: PlusWordings = PlusWordings()
    beyond: PlusBeyond = PlusBeyond()
