"""The tables of nested experts: accuracy beside FLOPs, curves, routing, maps of single pictures."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import nested, routing
from redlib.config import Nested, Profile
from redlib.nested import flops
from redlib.study import nested as chapter
from redlib.study.nested import speed as nested_speed
from redlib.study.nested.answers import answers_stage, merge_ratio
from redlib.study.nested.routing import COLUMNS, grid, numbers, resampler, shown
from redlib.study.stage import Stage

ABOUT = {"task": "nested", "split": "digits", "part": "test"}


def nested_tables(profile: Profile) -> Stage:
    """nested.csv, nested_curves.csv, nested_routing.csv and nested_maps.csv; variant: digits/D=<features>.

    nested: by method and x (budget; the share of `width`, 1 of plain models) accuracy on held-out pictures, also as
    `_minus_plain`, `_minus_same_flops`, `_minus_nested` and `_minus_random` (paired; `_against`), flops and
    flops_ratio of one picture, and at x = 0 training_flops, epochs, training_seconds. nested_curves, by curve and x:
    training (loss by epoch), capacity (share of the tokens by budget, group width=<share>), flops (flops_ratio by
    budget). nested_routing: as `nested.maps.numbers`, by method (nested, gate, random, router_start: before the arms
    are trained) and budget x; baselines of mask_auc as methods of their own, x = 0. nested_maps: of single pictures
    (group picture=<i>) by budget x the width of every token, and for token -1 predicted, probability, flops_ratio;
    x = 0: matters (the mask) and label.
    """
    n = profile.nested
    inputs: dict[str, Stage] = {}
    for seed in range(n.seeds):
        answers = answers_stage(n, seed)
        inputs |= {f"answers {seed}": answers, f"train {seed}": chapter.clutter_stage(n, seed, "train")}
        inputs |= {f"{name} {seed}": made for name, made in answers.inputs.items()}
    config = {"resamples": profile.bootstrap, "nested": n.model_dump(include={"budgets", "seeds", "shown", "low"})}

    def make(stage: Stage, out: Path) -> None:
        about = {**ABOUT, "variant": f"{n.digits}/D={n.dim}"}
        frames = {
            "nested": pd.concat([_accuracy(profile, stage), _costs(profile, stage)]),
            "nested_curves": pd.concat([_training(profile, stage), _closed(profile)]),
            "nested_routing": numbers(profile, stage),
            "nested_maps": shown(profile.nested, stage),
        }
        chapter.save(profile, stage, out, {name: frame.assign(**about) for name, frame in frames.items()})

    return Stage("nested tables", 1, config, make, inputs, 30 + 30 * n.seeds)


# ---- accuracy and cost -------------------------------------------------------------------------------------------


def _accuracy(profile: Profile, stage: Stage) -> pd.DataFrame:
    each = [chapter.read(stage.inputs[f"answers {seed}"], "answers.npz") for seed in range(profile.nested.seeds)]
    seeds = np.concatenate([np.full(len(one["labels"]), seed) for seed, one in enumerate(each)])
    joined = {name: np.concatenate([one[name] for one in each]) for name in each[0]}
    resample = resampler(joined.pop("labels"), joined.pop("rows"), seeds, profile)
    columns = np.column_stack(list(joined.values()))
    found = dict(zip(joined, resample.ratio(columns, np.ones(columns.shape)), strict=True))
    statistics = {}
    for name, value in found.items():
        method, budget = name.split("@")
        key = (method, "all", float(budget))
        statistics[*key, "accuracy"] = value
        for metric, other in _against(profile.nested, method, budget).items():
            if other in found and other != name:
                statistics[*key, f"accuracy_minus_{metric}"] = value - found[other]
    return routing.tidy(statistics, COLUMNS, range(profile.nested.seeds))


def _against(n: Nested, method: str, budget: str) -> dict[str, str]:
    """What a method is set against, by the end of the metric: the plain model, the smallest plain model with at least
    as many FLOPs, and at the same budget nested experts and places by lot."""
    cost = image_flops(n, method, float(budget))
    plain = {f"plain_{dim}@1": image_flops(n, f"plain_{dim}", 1) for dim in n.narrow}
    plain |= {"plain@1": image_flops(n, "plain", 1)}
    enough = [name for name in plain if plain[name] >= cost] or ["plain@1"]
    found = {"plain": "plain@1", "same_flops": min(enough, key=plain.get)}
    return found | ({} if method == "width" else {"nested": f"nested@{budget}", "random": f"random@{budget}"})


def _costs(profile: Profile, stage: Stage) -> pd.DataFrame:
    n = profile.nested
    plain = flops.image(chapter.shape(n), "plain")
    lines = []
    for method, budget in names(n):
        value = image_flops(n, method, budget)
        for metric, number in (("flops", value), ("flops_ratio", value / plain)):
            lines.append({"method": method, "x": budget, "metric": metric, "value": number})
    train = len(chapter.read(stage.inputs["train 0"], "clutter.npz")["labels"])
    epochs = {"plain": n.epochs, **{f"plain_{dim}": n.epochs for dim in n.narrow}}
    epochs |= {arm: chapter.arm_epochs(n, arm) for arm in n.arms}
    for method, many in epochs.items():
        dim = int(method.partition("_")[2] or n.dim) if method.startswith("plain") else n.dim
        worth = 3 * train * n.epochs * flops.image(chapter.shape(n, dim), "plain")  # backward: twice the forward pass
        name = method.replace("_", " ") if method.startswith("plain_") else method
        seconds = np.mean(
            [sum(e["seconds"] for e in chapter.history(stage.inputs[f"{name} {seed}"])) for seed in range(n.seeds)]
        )
        for metric, number in (("training_flops", worth), ("epochs", many), ("training_seconds", seconds)):
            lines.append({"method": method, "x": 0.0, "metric": metric, "value": float(number)})
    return pd.DataFrame(lines).assign(seed="all", group="all")


def names(n: Nested) -> list[tuple[str, float]]:
    """Methods and budgets of the table `nested`, as `calls` has them."""
    shares = chapter.shape(n).shares
    found = [("plain", 1.0), *((f"plain_{dim}", 1.0) for dim in n.narrow), *(("width", share) for share in shares)]
    found += [("merge", e) for e in n.budgets if abs(merge_ratio(n, e) - e) < 0.1]
    for arm in n.arms:
        found += [(arm, e) for e in n.budgets] + ([("nested_by_lot", e) for e in n.budgets] if arm == "nested" else [])
    return found


def image_flops(n: Nested, method: str, budget: float) -> float:
    """FLOPs of one picture of a row of the table `nested`."""
    if method.startswith("plain"):
        dim = int(method.partition("_")[2] or n.dim)
        return flops.image(chapter.shape(n, dim), "plain")
    if method == "merge":
        return flops.image(chapter.shape(n), "merge", flops.per_block(chapter.shape(n), budget))
    return flops.image(chapter.shape(n), "nested" if method == "nested_by_lot" else method, budget)


def _training(profile: Profile, stage: Stage) -> pd.DataFrame:
    n, lines = profile.nested, []
    for seed in range(n.seeds):
        for name in ("plain", "warm", *n.arms):
            for epoch, line in enumerate(chapter.history(stage.inputs[f"{name} {seed}"]), 1):
                about = {"method": name, "seed": str(seed), "x": float(epoch), "metric": "loss", "value": line["loss"]}
                lines.append({**about, "curve": "training", "group": "all"})
    return pd.DataFrame(lines)


def _closed(profile: Profile) -> pd.DataFrame:
    """Capacities and FLOPs by budget: exact, without training."""
    n = profile.nested
    model = chapter.shape(n)
    lines = []
    for budget in grid(n):
        for share, c in zip(model.shares, nested.capacities(budget, model.shares), strict=True):
            lines.append(
                {"curve": "capacity", "method": "nested", "group": f"width={share:g}", "x": budget, "value": c}
            )
        for method in ("nested", "grouped", "drop", "depths"):
            ratio = flops.ratio(model, method, budget)
            lines.append({"curve": "flops", "method": method, "group": "all", "x": budget, "value": ratio})
    frame = pd.DataFrame(lines)
    return frame.assign(metric=np.where(frame["curve"] == "flops", "flops_ratio", "capacity"), seed="all")


TABLES: dict[str, Callable[[Profile], Stage]] = {
    **dict.fromkeys(("nested", "nested_curves", "nested_routing", "nested_maps"), nested_tables),
    **nested_speed.TABLES,
}
