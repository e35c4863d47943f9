"""What every model of nested experts answers on held-out pictures, under every budget."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from redlib import nested
from redlib.config import Nested
from redlib.nested import arms, flops, learning
from redlib.study import nested as chapter
from redlib.study.stage import Stage


def answers_stage(n: Nested, seed: int) -> Stage:
    """What every model of a seed answers on held-out pictures: `<method>@<budget>`, right or not, (V * n,).

    ValueError, before anything is trained, for a budget that no capacities have.
    """
    for budget in n.budgets:
        nested.capacities(budget, chapter.shape(n).shares)
    inputs = {
        "clutter": chapter.clutter_stage(n, seed, "test"),
        "warm": chapter.warm_stage(n, seed),
        "plain": chapter.plain_stage(n, seed),
    }
    inputs |= {f"plain {dim}": chapter.plain_stage(n, seed, dim) for dim in n.narrow}
    inputs |= {arm: chapter.arm_stage(n, arm, seed) for arm in n.arms}
    config = {"budgets": list(n.budgets), "seed": seed}

    def make(stage: Stage, out: Path) -> None:
        test = chapter.read(stage.inputs["clutter"], "clutter.npz")
        images = test["images"].reshape(-1, *test["images"].shape[2:])
        labels = np.tile(test["labels"], len(test["images"]))
        said = {
            name: learning.answer(lambda x, call=call: call(x).argmax(-1), images) == labels
            for name, call in calls(stage, n, seed).items()
        }
        np.savez(out / "answers.npz", **said, labels=labels, rows=np.tile(test["rows"], len(test["images"])))

    pictures = 0.2 * chapter.rows(n) * n.test_views
    forward = pictures * flops.image(chapter.shape(n), "plain") / chapter.SPEED
    seconds = 2 + forward * (len(n.budgets) * (len(n.arms) + 2) + 6)
    return Stage(f"nested answers, seed {seed}", 1, config, make, inputs, seconds, 1_000_000)


def calls(stage: Stage, n: Nested, seed: int) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Everything that is compared, by `<method>@<budget>`; of `width` and `merge` the number is share and FLOPs."""
    made = stage.inputs
    plain = chapter.load(made["plain"], nested.NestedViT(chapter.shape(n, plain=True)))
    warm = chapter.load(made["warm"], nested.NestedViT(chapter.shape(n)))
    found: dict[str, Callable] = {"plain@1": plain.plain}
    for dim in n.narrow:
        found[f"plain_{dim}@1"] = chapter.load(
            made[f"plain {dim}"], nested.NestedViT(chapter.shape(n, dim, plain=True))
        ).plain
    for j, share in enumerate(warm.shape.shares):
        alone = tuple(float(i == j) for i in range(len(warm.shape.shares)))
        found[f"width@{share:g}"] = lambda x, alone=alone: warm(x, alone)
    for budget in n.budgets:
        if abs(merge_ratio(n, budget) - budget) < 0.1:
            per_block = flops.per_block(chapter.shape(n), budget)
            found[f"merge@{budget:g}"] = lambda x, r=per_block: arms.merging(plain, x, r)
    for arm in n.arms:
        model = chapter.load(made[arm], nested.ARMS[arm](chapter.shape(n)))
        for budget in n.budgets:
            if arm == "random":
                found[f"random@{budget:g}"] = by_lot(model, budget, seed)
                continue
            found[f"{arm}@{budget:g}"] = lambda x, model=model, e=budget: model(x, e)
            if arm == "nested":
                found[f"nested_by_lot@{budget:g}"] = by_lot(model, budget, seed)
    return found


def merge_ratio(n: Nested, budget: float) -> float:
    """The share of the plain model's FLOPs that merging reaches where `budget` is asked of it."""
    return flops.ratio(chapter.shape(n), "merge", flops.per_block(chapter.shape(n), budget))


def by_lot(model: nested.NestedViT, budget: float, seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A model whose tokens are placed by lot."""
    rng = np.random.default_rng([19, seed])
    return lambda x: model(x, budget, learning.lot(model, len(x), rng))
