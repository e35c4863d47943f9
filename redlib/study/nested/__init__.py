"""Stages of the chapter on nested experts: pictures, models and what they answer, each by seed and resumable."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from redlib import nested, paths, results
from redlib.config import Nested, Profile
from redlib.nested import digits, flops, learning
from redlib.study.stage import Stage

WEIGHTS, HISTORY = "model.safetensors", "history.json"
GATED = ("nested", "gate", "random", "grouped", "grouped_weighted")  # arms that start with the nested router
FIXED = (
    "nested",
    "random",
    "grouped",
    "grouped_weighted",
    "drop",
)  # and keep it; in the others, the gate goes on training it
SPEED = 2.5e10  # FLOPs a second of training on one core, for estimates


def shape(n: Nested, dim: int | None = None, plain: bool = False) -> nested.Shape:
    """The model of a profile; `plain`: with full width only."""
    shares = (1.0,) if plain else tuple(1 / divisor for divisor in n.divisors)
    return nested.Shape(n.canvas, n.patch, dim or n.dim, n.layers, n.heads, 10, shares)


# ---- pictures ----------------------------------------------------------------------------------------------------


def digits_stage(n: Nested) -> Stage:
    """The digits themselves, as uint8."""

    def make(stage: Stage, out: Path) -> None:
        found = digits.load(n.digits)
        np.savez(out / "digits.npz", images=found.images, labels=found.labels)

    return Stage(f"nested digits {n.digits}", 1, {"digits": n.digits}, make, seconds=5, bytes=4_000_000)


def clutter_stage(n: Nested, seed: int, part: str) -> Stage:
    """Digits in clutter: images (V, n, canvas, canvas) uint8, mask (V, n, N), labels and rows (n,) of one part.

    Of the views to learn from, the first has few distractors and the last as many as there are in the other parts:
    without easy pictures among them, networks of this size take very long to begin to learn.
    """
    views = {"train": n.views, "test": n.test_views}.get(part, 1)
    config = n.model_dump(include={"canvas", "patch", "distractors", "limit"}) | {"views": views}
    config |= {"seed": seed, "part": part}

    def make(stage: Stage, out: Path) -> None:
        source = read(stage.inputs["digits"], "digits.npz")
        rows = digits.split(source["labels"], seed, n.limit)[part]
        turn = ("train", "validation", "test").index(part)
        many = [n.distractors] * views
        if part == "train":
            many = [round(n.distractors * (view + 1) / views) for view in range(views)]
        drawn = [
            digits.clutter(
                source["images"][rows], n.canvas, n.patch, count, np.random.default_rng([17, seed, turn, view])
            )
            for view, count in enumerate(many)
        ]
        images, ink = (np.stack(each) for each in zip(*drawn, strict=True))
        mask = np.stack([digits.token_mask(one, n.patch) for one in ink])
        np.savez(out / "clutter.npz", images=images, mask=mask, labels=source["labels"][rows], rows=rows)

    count = (n.limit or 5_000) * views * {"train": 0.72, "test": 0.2}.get(part, 0.08)
    return Stage(
        f"nested clutter {part}, seed {seed}", 1, config, make, {"digits": digits_stage(n)},
        seconds=1 + count * 1e-3, bytes=int(count * n.canvas**2),
    )  # fmt: skip


def read(stage: Stage, name: str) -> Mapping[str, np.ndarray]:
    """The arrays of a file that a stage made."""
    with np.load(stage.folder / name) as arrays:
        return dict(arrays)


def pictures(profile: Profile) -> Mapping[str, np.ndarray]:
    """The held-out pictures whose maps are shown: images (n, canvas, canvas), mask (n, N), labels (n,); seed 0."""
    stage = clutter_stage(profile.nested, 0, "test")
    stage.run()
    found = read(stage, "clutter.npz")
    few = slice(profile.nested.shown)
    return {"images": found["images"][0, few], "mask": found["mask"][0, few], "labels": found["labels"][few]}


# ---- models ------------------------------------------------------------------------------------------------------


def plain_stage(n: Nested, seed: int, dim: int | None = None) -> Stage:
    """A plain model of `dim` features, trained for the profile's epochs."""
    model = shape(n, dim, plain=True)
    cost = n.epochs * flops.image(model, "plain")

    def train(stage: Stage) -> tuple[nn.Module, list[dict]]:
        network = nested.NestedViT(model)
        used = [p for name, p in network.named_parameters() if not _of_route(name)]
        return network, _fit(stage, n, network, learning.plain, n.epochs, seed, used)

    return _model_stage(f"nested plain D={model.dim}", n, seed, {"dim": model.dim, "epochs": n.epochs}, train, cost)


def warm_stage(n: Nested, seed: int) -> Stage:
    """The nested warm start: all widths trained together, without a router; then the router alone."""
    model = shape(n)
    config = {"dim": n.dim, "divisors": n.divisors, "epochs": n.warm_epochs, "low": n.low}
    config |= {"router": n.router_epochs, "router_lr": n.router_lr}

    def train(stage: Stage) -> tuple[nn.Module, list[dict]]:
        network = nested.NestedViT(model)
        used = [p for name, p in network.named_parameters() if not _of_route(name)]
        history = _fit(stage, n, network, learning.joint, n.warm_epochs, seed, used)
        if n.router_epochs:
            router = list(network.router.parameters())
            loop = n.model_copy(update={"lr": n.router_lr, "weight_decay": 0.0})
            history += _fit(stage, loop, network, learning.straight(n.low), n.router_epochs, 1000 + seed, router)
        return network, history

    return _model_stage("nested warm start", n, seed, config, train, _warm_cost(n))


def arm_stage(n: Nested, arm: str, seed: int) -> Stage:
    """One arm, from the warm start on, adaptive: a budget is drawn every step. ValueError for an unknown arm."""
    if arm not in nested.ARMS:
        raise ValueError(f"unknown arm {arm!r}; valid arms: {', '.join(nested.ARMS)}")
    epochs = arm_epochs(n, arm)
    config = {"arm": arm, "epochs": round(epochs, 4), "gain": n.gain, "low": n.low}

    def train(stage: Stage) -> tuple[nn.Module, list[dict]]:
        network = started(load(stage.inputs["warm"], nested.NestedViT(shape(n))), arm, n.gain)
        loss = learning.adaptive(n.low, random=arm == "random")
        fixed = arm in FIXED and n.router_epochs > 0
        used = [p for name, p in network.named_parameters() if not (fixed and name.startswith("router"))]
        return network, _fit(stage, n, network, loss, epochs, 2000 + seed, used)

    cost = epochs * _mean_cost(n, arm)
    return _model_stage(f"nested {arm}", n, seed, config, train, cost, {"warm": warm_stage(n, seed)})


def started(warm: nested.NestedViT, arm: str, gain: float) -> nested.NestedViT:
    """An arm with the warm model's weights and, in its own form, the warm model's router."""
    network = nested.ARMS[arm](warm.shape)
    weights = warm.state_dict()
    if arm not in GATED:
        weights = {name: value for name, value in weights.items() if not name.startswith("router")}
    network.load_state_dict(weights, strict=False)
    with torch.no_grad():
        for block in network.blocks:
            block.gain.fill_(0.0 if arm == "depths" else gain)
        ends = [0, -1]  # of the smallest and of the largest expert
        if arm == "drop":
            network.router.weight.copy_(warm.router.weight[ends])
            network.router.bias.copy_(warm.router.bias[ends])
        if arm == "depths":
            for router in network.router:
                router.weight.copy_(0.1 * warm.router.weight[ends])
    return network


def arm_epochs(n: Nested, arm: str) -> float:
    """Epochs that an arm has left after the warm start, at the plain model's training FLOPs.

    ValueError where the warm start leaves nothing.
    """
    left = n.epochs * flops.image(shape(n), "plain") - _warm_cost(n)
    if left <= 0:
        raise ValueError(
            f"a warm start of {n.warm_epochs:g} epochs, and {n.router_epochs:g} of the router, leave nothing of the "
            f"training FLOPs of {n.epochs:g} plain epochs; give nested.epochs more"
        )
    return left / _mean_cost(n, arm)


def _warm_cost(n: Nested) -> float:
    """FLOPs of forward passes, by training picture."""
    model = shape(n)
    full, smaller = flops.image(model, "plain"), model.shares[:-1] or (1.0,)
    both = full + float(np.mean([flops.image(model, "width", share) for share in smaller]))
    return n.warm_epochs * both + n.router_epochs * full


def _mean_cost(n: Nested, arm: str) -> float:
    drawn = np.linspace(n.low, 1, 101)
    return float(np.mean([flops.image(shape(n), arm, float(budget)) for budget in drawn]))


def _of_route(name: str) -> bool:
    return name.startswith("router") or name.endswith("gain")


Train = Callable[[Stage], tuple[nn.Module, list[dict]]]


def _model_stage(
    name: str,
    n: Nested,
    seed: int,
    config: Mapping[str, Any],
    train: Train,
    cost: float,
    more: Mapping[str, Stage] = {},
) -> Stage:
    common = n.model_dump(include={"layers", "heads", "lr", "weight_decay", "batch"})

    def make(stage: Stage, out: Path) -> None:
        torch.manual_seed(31 * seed + 7)
        model, history = train(stage)
        save_file({name: value.contiguous() for name, value in model.state_dict().items()}, out / WEIGHTS)
        paths.write_json(out / HISTORY, history)

    config = {**common, **config, "seed": seed, "threads": torch.get_num_threads()}
    inputs = {"clutter": clutter_stage(n, seed, "train"), **more}
    seconds = 2 + 3 * cost * 0.72 * rows(n) / SPEED
    return Stage(f"{name}, seed {seed}", 1, config, make, inputs, seconds, 2_000_000)


def rows(n: Nested) -> int:
    """Digits of the profile, all parts together."""
    return n.limit or {"mnist": 5_000, "sklearn": 1_797}[n.digits]


def _fit(stage: Stage, n: Nested, network: nn.Module, loss, epochs: float, seed: int, parameters) -> list[dict]:
    train = read(stage.inputs["clutter"], "clutter.npz")
    return learning.fit(network, train["images"], train["labels"], loss, n, epochs, seed, parameters)


def load(stage: Stage, network: nested.NestedViT) -> nested.NestedViT:
    """A model with the weights of its stage."""
    network.load_state_dict(load_file(stage.folder / WEIGHTS))
    return network.eval()


def history(stage: Stage) -> list[dict]:
    """Epochs of a model's training: epoch, loss, seconds."""
    return json.loads((stage.folder / HISTORY).read_text())


def save(profile: Profile, stage: Stage, out: Path, frames: Mapping[str, pd.DataFrame]) -> None:
    """Tables with the provenance of a run in which no backbone has a part."""
    seconds = stage.spent()
    run, about = results.provenance(None, sum(seconds.values()), stage.key)
    about |= {"profile": profile.name, "evidence": profile.evidence, "stages": seconds}
    for name, frame in frames.items():
        lacking = {key: value for key, value in EMPTY.items() if key not in frame}
        results.save(out, name, frame.assign(**lacking, run=run), {run: about})


EMPTY = {"seed": "all", "group": "all", "n": pd.NA, "low": np.nan, "high": np.nan}
