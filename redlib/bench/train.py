"""Base, experts and router from cached features against the usual ways to train them: the Hugging Face Trainer on the
same frozen model, and peft's LoRA experts under its X-LoRA router.

The usual ways pass every text through the backbone at every step. Some of their steps are timed after a warm-up, and
multiplied with the steps that our run took to converge: their totals are extrapolated. They are asked for nothing else:
no validation, no time to start, no layer above the one that recipe `chosen` reads. The Trainer trains our own modules
on the same rows, so that its accuracy is ours; LoRA adapts the layers below instead, with the Trainer's base, and its
accuracy is not looked at.

Where the time of our own loop goes (25 experts of rank 72 side by side, batch 64, one core of an AMD EPYC): 70 % matrix
products, 6 to 9 % AdamW (fused), 5 % standardising the features, 4 % gathering rows, 3 % the loss. Standardising once
instead of at every step would keep a copy of the features for every seed.
"""

from collections.abc import Callable
from functools import partial
from math import ceil

import numpy as np
import pandas as pd
from torch import nn

from redlib import config, features
from redlib.bench import peers
from redlib.bench.measuring import Line, Taken, rate, ratios, report, taken
from redlib.models import LinearBank, MLPBank, PooledBase, ResidualExperts
from redlib.study import methods, task1
from redlib.study.data import open_backbone
from redlib.study.parts import Frozen, ResidualHead
from redlib.study.settings import Data, Setting

PARTS = ("base", "experts", "routers")
WARM_UP = 10  # steps of a peer before its clock starts


def run(
    profile: str = "laptop", rows: int = 16_000, steps: int = 200, rounds: int = 1, write: bool = False
) -> pd.DataFrame:
    """Task 1, recipe `chosen`, split structure, one seed; `steps` of every part of a peer are timed in each turn.

    Cases `<rows> texts/<way>`, ways `ours` (features cached), `ours, feature pass`, `trainer`, `peft`. Metrics:
    `seconds` (a peer's are extrapolated), `<part>_steps` and `<part>_accuracy` (validation, best) of ours,
    `<part>_seconds_a_step` of peers, `over_trainer`, `over_peft`, each with `_cpu` (seconds of this process) and
    `_with_features` (our feature pass counted, as if for this one run).
    """
    peers.require_peft("train")
    changed = config.load(profile, {"task1.rows": rows})
    s = task1.setting(changed, "chosen", "structure", seeds=1, methods=("global_head", "red"))
    passed = _feature_pass(s)
    s.features.run()
    turns, a_step = _turns(s, steps, rounds)
    lines: list[Line] = [(way, "seconds", 1 / rate(done), "s") for way, done in turns.items()]
    lines += [("ours, feature pass", "seconds", passed.wall, "s")]
    lines += [("ours", f"{part}_steps", count, "steps") for part, count in steps_taken(s).items()]
    lines += [("ours", f"{part}_accuracy", value, "ratio") for part, value in accuracies(s).items()]
    lines += [(way, f"{part}_seconds_a_step", float(np.median(each)), "s") for (way, part), each in a_step.items()]
    whole = [Taken(1, done.wall + passed.wall, done.cpu + passed.cpu) for done in turns["ours"]]
    for way in ("trainer", "peft"):
        lines += ratios("ours", f"over_{way}", turns["ours"], turns[way])
        lines += ratios("ours", f"over_{way}_with_features", whole, turns[way])
    return report("train", [(f"{rows:,} texts/{case}", *rest) for case, *rest in lines], write)


def _turns(s: Setting, steps: int, rounds: int) -> tuple[dict[str, list[Taken]], dict[tuple[str, str], list[float]]]:
    """Whole trainings by way, turn by turn, and seconds of a step by peer and part."""
    stages = [methods.base_stage(s), methods.experts_stage(s), methods.routers_stage(s)]
    turns: dict[str, list[Taken]] = {"ours": [], "trainer": [], "peft": []}
    a_step: dict[tuple[str, str], list[float]] = {}
    for turn in range(1, rounds + 1):
        turns["ours"].append(taken(1, lambda: [stage.run(force=True) for stage in stages]))
        for way, calls in _peers(s, steps).items():
            parts = {part: call() for part, call in calls.items()}
            turns[way].append(_extrapolated(parts, steps_taken(s)))
            for part, done in parts.items():
                a_step.setdefault((way, part), []).append(1 / done.rate())
        said = ", ".join(f"{way} {1 / done[-1].rate():,.1f} s" for way, done in turns.items())
        print(f"turn {turn} of {rounds}: {said}", flush=True)
    return turns, a_step


def _feature_pass(s: Setting) -> Taken:
    """The one pass through the backbone that our run reads from the cache, timed without a cache."""
    texts, point = Data(s).pool["text"].tolist(), features.Point(s.recipe.layer, s.recipe.pooling)
    return taken(1, lambda: features.compute(open_backbone(s.features), texts, [point]))


def steps_taken(s: Setting) -> dict[str, int]:
    """Optimiser steps of each part on the cached run, summed over its models: epochs until it stopped x batches."""
    histories = methods.history(s).groupby(["stage", "member"])["epoch"].max()
    data = Data(s)
    steps = dict.fromkeys(PARTS, 0)
    for (part, member), epochs in histories.items():
        steps[part] += int(epochs) * ceil(len(_rows(s, data, part, int(member))) / getattr(s.recipe, part).batch)
    return steps


def accuracies(s: Setting) -> dict[str, float]:
    """Best validation accuracy of each part on what it is trained for, mean over its models."""
    best = methods.history(s).groupby(["stage", "member"])["valid_accuracy"].max()
    return {part: float(best[part].mean()) for part in PARTS}


def _rows(s: Setting, data: Data, part: str, member: int) -> np.ndarray:
    """Pool rows that one model of a part is trained on; of experts, `member` is the range."""
    rows = data.rows["train"][0]
    if part == "base":
        return data.by_range(rows, s.recipe.base_share, 0)
    return data.of_range(rows, member) if part == "experts" else rows


def _extrapolated(parts: dict[str, Taken], needed: dict[str, int]) -> Taken:
    """One training of all parts: seconds a step times steps."""
    wall = sum(needed[part] / done.rate("wall") for part, done in parts.items())
    return Taken(1, wall, sum(needed[part] / done.rate("cpu") for part, done in parts.items()))


def _peers(s: Setting, steps: int) -> dict[str, dict[str, Callable[[], Taken]]]:
    """For each peer and part, the call that times its steps; models are built when they are called."""
    data, backbone = Data(s), open_backbone(s.features)
    ids, value, place = backbone.encode(data.pool["text"].tolist()), data.value.numpy(), data.range.numpy()
    layers, K, C, hidden = backbone.layer(s.recipe.layer), s.labels.K, s.labels.C, s.recipe.router_hidden

    def timed(part: str, model: Callable[[], nn.Module], y: np.ndarray) -> Taken:
        rows, loop = _rows(s, data, part, 0), getattr(s.recipe, part)
        return peers.train_steps(model(), backbone, [ids[row] for row in rows], y[rows], loop, steps, WARM_UP)

    def online(make: Callable[[], nn.Module]) -> nn.Module:
        mean = PooledBase.fit([data.x[_rows(s, data, "base", 0)]]).cpu()
        part = Frozen(mean, make())
        return peers.Online(peers.lower(backbone, layers), part, s.recipe.pooling)

    def head() -> nn.Module:
        return LinearBank([0], data.d, C)

    ours = {
        "base": (head, value),
        "experts": (lambda: ResidualHead(ResidualExperts([0], data.d, s.recipe.rank), head()), value),
        "routers": (lambda: MLPBank([0], data.d, hidden, K), place),
    }
    trainer = {part: partial(timed, part, partial(online, make), y) for part, (make, y) in ours.items()}
    adapted = {
        "experts": partial(peers.lora, "train", backbone, layers, C),
        "routers": partial(peers.xlora, "train", backbone, layers, C, K, hidden),
    }
    lora = {part: partial(timed, part, model, value) for part, model in adapted.items()}
    return {"trainer": trainer, "peft": {"base": trainer["base"], **lora}}
