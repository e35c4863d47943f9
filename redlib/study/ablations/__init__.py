"""What an ablation is: one description of a run, and the runs that answer each question of 4.9.

A `Run` says what a system does otherwise than RED under its recipe; every field that is not set is the recipe's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from redlib.config import Ablations, Config, Pooling, Profile, Recipe, Split
from redlib.expressions import LabelSpace
from redlib.features import Point
from redlib.models.arms import ARMS
from redlib.study import task1, task2
from redlib.study.data import features_stage, open_backbone
from redlib.study.fair import BUILT_FROM
from redlib.study.settings import Setting, compose
from redlib.study.stage import Stage

TASKS = {"task1": task1, "task2": task2}
STEPS = "operations"  # what Task 2 calls steps here
OF_RECIPE = ("rank", "router_hidden", "base_share", "layer", "pooling", "tuned_layers")
JOINT = ("joint", "joint_after")


class Run(Config):
    """One trained system of one task and split."""

    task: Literal["task1", "task2"] = "task1"
    split: Split = "structure"
    recipe: Literal["chosen", "source"] = "chosen"
    seeds: int = Field(1, gt=0)
    rank: int | None = Field(None, gt=0)
    router_hidden: int | None = Field(None, ge=0)
    base_share: float | None = Field(None, gt=0, le=1)
    layer: int | None = None
    pooling: Pooling | None = None
    tuned_layers: int | None = Field(None, ge=0)
    experts: int | None = Field(None, gt=0, description="how many, each for a range of values with as many texts")
    expert_share: float = Field(1.0, gt=0, le=1, description="share of the training rows that experts see")
    readout_hidden: int = Field(0, ge=0, description="hidden units of the shared classifier; 0: linear")
    mixing: Literal["states", "logits"] = "states"
    top: int | None = Field(None, gt=0, description="how many of the largest weights count")
    balance: float = Field(0.0, ge=0, description="weight of the loss that asks for equal loads")
    order: Literal["sequential", "joint", "joint_after"] = Field(
        "sequential", description="router after experts; both together; both together on from there"
    )
    arm: str = Field("red", description="of the fair comparison")

    @property
    def changes(self) -> dict[str, Any]:
        """What this run does otherwise than RED under its recipe, by field."""
        plain = Run(task=self.task, split=self.split, recipe=self.recipe, seeds=self.seeds)
        return {name: value for name, value in self if value != getattr(plain, name)}

    @property
    def changed(self) -> str:
        """`rank=4,top=1`: what it changes and to what, or `nothing`."""
        return ",".join(f"{name}={value}" for name, value in self.changes.items()) or "nothing"

    @property
    def variant(self) -> str:
        """Slash-joined: definition of steps, recipe, what is changed."""
        parts = [STEPS] if self.task == "task2" else []
        return "/".join([*parts, self.recipe, *([self.changed] if self.changes else [])])

    @property
    def name(self) -> str:
        """Task, variant and split, as stages are called."""
        return f"{self.task}, {self.variant}, {self.split}"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """ValueError naming two settings that exclude each other."""
        if self.arm not in ARMS:
            raise ValueError(f"unknown arm {self.arm!r}; valid arms: {', '.join(ARMS)}")
        if self.tuned_layers is not None and self.recipe != "source":
            raise ValueError("tuned_layers needs recipe 'source': the recipe 'chosen' tunes no layer")
        if self.recipe == "source" and self.tuned_layers != 0 and (self.layer, self.pooling) != (None, None):
            raise ValueError("layer and pooling cannot be changed under tuned layers, whose h is the mean")
        joint = self.order in JOINT
        alone = {"arm": self.arm != "red", "expert_share": self.expert_share < 1, "balance": self.balance > 0}
        for name in (name for name, there in alone.items() if there and joint):
            raise ValueError(f"order {self.order!r} trains experts and router together, {name} cannot be changed too")
        if self.mixing == "logits" and not ARMS[self.arm].corrects:
            raise ValueError(f"arm {self.arm!r} mixes logits anyway; mixing='logits' changes nothing")
        return self


def check(profile: Profile, run: Run) -> None:
    """ValueError naming what in the run is impossible under the profile: too many experts, no such layer, no steps."""
    space = TASKS[run.task].labels(profile)
    if run.task == "task2":
        task2.definition(profile, STEPS)
    if (run.experts or 1) > space.C:
        raise ValueError(f"{run.name}: {run.experts} experts cannot share {space.C} values")
    if run.top is not None and run.top > (run.experts or space.K):
        raise ValueError(f"{run.name}: top {run.top} of {run.experts or space.K} weights do not exist")
    backbone = open_backbone(profile.backbone)
    if run.layer is not None:
        backbone.layer(run.layer)
    if (run.tuned_layers or 0) > backbone.layers:
        raise ValueError(f"{run.name}: {backbone.display} has {backbone.layers} layers to tune, not {run.tuned_layers}")


def groups(labels: LabelSpace, values: np.ndarray, K: int) -> LabelSpace:
    """The same label space in K ranges that hold as many of the values (N,) each, as far as equal values allow.

    Ranges of equal width would leave experts without a row: few sums are small. ValueError where N values cannot be
    told apart into K ranges.
    """
    edges = np.quantile(values, np.arange(1, K) / K, method="inverted_cdf")
    return LabelSpace(labels.lo, labels.hi, tuple(edges.astype(int).tolist()))


def setting(profile: Profile, run: Run) -> Setting:
    """The setting that a run trains in: the recipe with the run's changes of it, on the ablations' own pool."""
    room, changes = TASKS[run.task], {name: getattr(run, name) for name in OF_RECIPE}
    changes = {name: value for name, value in changes.items() if value is not None}
    pool = room.pool(profile, rows=profile.ablations.rows)
    fields = {"task": run.task, "labels": room.labels(profile), "seeds": run.seeds}
    fields |= {"definition": STEPS} if run.task == "task2" else {}
    fields |= {"methods": ("red",) if changes else BUILT_FROM}
    if run.recipe == "source":
        base = profile.source.base
        epochs = min(base.max_epochs, profile.ablations.tuned_epochs)
        fields |= {"base": base.model_copy(update={"max_epochs": epochs})}
    fields |= {"features": stage} if (stage := _depths(profile, run, pool)) else {}
    return compose(profile, pool, run.recipe, run.split, **fields, **changes)


def _depths(profile: Profile, run: Run, pool: Stage) -> Stage | None:
    """Features at every depth and pooling of the question, computed in one pass, for a run that reads one of them."""
    own, wanted = profile.chosen, profile.ablations
    r = profile.recipe(run.recipe)
    points = {Point(layer, own.pooling) for layer in wanted.layers} | {Point(own.layer, p) for p in wanted.poolings}
    layer, pooling = (r.layer if run.layer is None else run.layer), run.pooling or r.pooling
    reads = (run.layer, run.pooling, run.tuned_layers) != (None, None, None)
    if not reads or run.tuned_layers or Point(layer, pooling) not in points:
        return None
    return features_stage(pool, profile.backbone, sorted(points), None)


# ---- the questions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A run under a question, and the run that it is compared with."""

    question: str
    run: Run
    reference: Run


Change = tuple[dict, dict]  # fields of the run, and of its reference


def _values(field: str, values: Callable[[Ablations], tuple], own: str = "") -> Callable[[Profile, Recipe], list]:
    """One field at the profile's values but for the recipe's own."""

    def changes(profile: Profile, recipe: Recipe) -> list[Change]:
        tried = (value for value in values(profile.ablations) if not own or value != getattr(recipe, own))
        return [({field: value}, {}) for value in tried]

    return changes


def _residual(profile: Profile, recipe: Recipe) -> list[Change]:
    return [({"mixing": "logits"}, {}), *(({"arm": a}, {}) for a in ("base_dropped", "base_never", "softmax_moe"))]


def _ranks(profile: Profile, recipe: Recipe) -> list[Change]:
    """Every rank against the recipe's own and against the largest (the source, 4.9.3, counts from d/2 down)."""
    ranks = sorted({*profile.ablations.ranks, recipe.rank}, reverse=True)
    fields = {rank: {} if rank == recipe.rank else {"rank": rank} for rank in ranks}
    largest = fields[ranks[0]]
    again = [(fields[rank], largest) for rank in ranks[1:]] if largest else []
    return [*((fields[rank], {}) for rank in ranks if fields[rank]), *again]


def _depth(profile: Profile, recipe: Recipe) -> list[Change]:
    layers = _values("layer", lambda a: a.layers, "layer")
    return [*layers(profile, recipe), *_values("pooling", lambda a: a.poolings, "pooling")(profile, recipe)]


def _readout(profile: Profile, recipe: Recipe) -> list[Change]:
    bent = {"readout_hidden": profile.ablations.readout_hidden}
    return [(bent, {}), ({**bent, "mixing": "logits"}, bent)]


def _weights(profile: Profile, recipe: Recipe) -> list[Change]:
    return [*_values("top", lambda a: a.top)(profile, recipe), ({"arm": "weights_uniform"}, {})]


def _balance(profile: Profile, recipe: Recipe) -> list[Change]:
    answer, weights = {"arm": "router_answer"}, profile.ablations.balance
    alone = [({"balance": weight}, {}) for weight in weights]
    return [*alone, (answer, {}), *(({**answer, "balance": weight}, answer) for weight in weights)]


QUESTIONS: dict[str, Callable[[Profile, Recipe], list[Change]]] = {
    "residual": _residual,
    "experts": _values("experts", lambda a: a.experts),
    "rank": _ranks,
    "router": _values("router_hidden", lambda a: a.router_hidden, "router_hidden"),
    "base_share": _values("base_share", lambda a: a.base_shares, "base_share"),
    "depth": _depth,
    "expert_share": _values("expert_share", lambda a: a.expert_shares),
    "readout": _readout,
    "weights": _weights,
    "balance": _balance,
    "order": lambda profile, recipe: [({"order": order}, {}) for order in JOINT],
    "tuned_layers": _values("tuned_layers", lambda a: a.tuned_layers, "tuned_layers"),
    "tuned_share": _values("base_share", lambda a: a.base_shares, "base_share"),
}
TUNED = ("tuned_layers", "tuned_share")  # they train layers of the backbone


def entries(profile: Profile, tuned: bool = False) -> list[Entry]:
    """Every question that the profile asks, in order: RED first, then each run with what it is set against.

    tuned: the questions TUNED instead, which take hours and are asked apart.
    """
    made = []
    for split, questions in ({"structure": TUNED} if tuned else profile.ablations.questions).items():
        for task in TASKS:
            for question in questions:
                made += _entries(profile, question, task, split)
    return made


def _entries(profile: Profile, question: str, task: str, split: str) -> list[Entry]:
    recipe, tuned = ("source" if question in TUNED else "chosen"), question in TUNED
    seeds = profile.ablations.tuned_seeds if tuned else profile.ablations.seeds
    own = Run(task=task, split=split, recipe=recipe, seeds=seeds)
    changed = own.model_copy(update={"seeds": 1}) if tuned else own
    found = [Entry(question, own, own)]
    for fields, against in QUESTIONS[question](profile, profile.recipe(recipe)):
        run = Run(**(changed if fields else own).model_dump(exclude_unset=True) | fields)
        reference = Run(**own.model_dump(exclude_unset=True) | against)
        found.append(Entry(question, run, reference))
    return found


def runs(profile: Profile, tuned: bool = False) -> list[Run]:
    """Every run behind the ablations of a profile, each once."""
    return list(dict.fromkeys(run for entry in entries(profile, tuned) for run in (entry.reference, entry.run)))
