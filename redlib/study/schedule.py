"""Recipe `chosen` at a steady learning rate, which the source has, and trained longer at one that falls, also on
another layer of the backbone."""

import zlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from redlib.config import Profile
from redlib.evaluation.predictions import align, variant
from redlib.statistics import Resampler, Statistic
from redlib.study import methods, task1, task2
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

METHODS = ("red", "softmax_moe", "mlp_full_data", "fourier_full_data")
METRICS = ("value_accuracy", "range_accuracy")
STEADY, FALLING = "steady", "falling"


def settings(profile: Profile) -> list[dict[str, Setting]]:
    """Those of the main tables that are trained again, each by configuration, the one at a steady rate first."""
    return [_configurations(profile, name, split) for name, split in profile.schedule.settings]


def _configurations(profile: Profile, name: str, split: str) -> dict[str, Setting]:
    """`steady`, `falling`, and `falling, layer L` where the profile reads another layer for these steps."""

    def of(**changes) -> Setting:
        if name == "task1":
            return task1.setting(profile, "chosen", split, **changes)
        return task2.setting(profile, "chosen", split, steps=name, **changes)

    steady, layer = of(), profile.schedule.layers.get(name)
    made = {STEADY: steady, FALLING: falling(profile, steady)}
    return made | ({} if layer is None else {f"{FALLING}, layer {layer}": falling(profile, of(layer=layer))})


def falling(profile: Profile, s: Setting) -> Setting:
    """The setting with a rate that falls along half a cosine, all epochs run and the best one kept: experts for longer,
    routers and controls for as many epochs as they may run at a steady rate."""
    f = profile.schedule
    loops = {name: getattr(s.recipe, name) for name in ("experts", "routers", "controls")}
    epochs = {name: loop.max_epochs for name, loop in loops.items()} | {"experts": f.epochs}
    longer = {
        name: loop.model_copy(update={"max_epochs": epochs[name], "patience": epochs[name]})
        for name, loop in loops.items()
    }
    recipe, seeds = s.recipe.model_copy(update=longer), min(f.seeds, s.seeds)
    return replace(s, recipe=recipe, seeds=seeds, methods=METHODS, final_rate=f.final_rate)


def schedule_tables(profile: Profile) -> Stage:
    """schedule.csv: both accuracies on test rows in each `configuration`, over the same seeds and rows.

    <metric>_change: this configuration minus the steady one, paired; <metric>_below_red: RED minus the method in the
    same configuration, paired.
    """
    inputs, stages = {}, []
    for by_name in settings(profile):
        s = by_name[FALLING]
        stages.append((s, {name: f"{s.task}, {s.name}, {name}" for name in by_name}))
        inputs |= {f"{s.task}, {s.name}, {name}": methods.predictions_stage(one) for name, one in by_name.items()}

    def make(stage: Stage, out: Path) -> None:
        frames = [
            tidy({name: stage.inputs[read].folder for name, read in by_name.items()}, s, profile.bootstrap)
            for s, by_name in stages
        ]
        save(profile, stage, out, {"schedule": pd.concat(frames, ignore_index=True)})

    return Stage("schedule tables", 1, {"resamples": profile.bootstrap}, make, inputs, 10)


def tidy(folders: dict[str, Path], s: Setting, resamples: int) -> pd.DataFrame:
    """The rows of one setting, from the predictions in each configuration."""
    frames = []
    for name, folder in folders.items():
        made = pd.read_parquet(folder / "predictions.parquet")
        asked = (made["part"] == "test") & (made["recipe"] == s.recipe.name) & (made["seed"] < s.seeds)
        made = made[asked & made["method"].isin(METHODS)]
        frames.append(made.assign(method=f"{name}/" + made["method"]))
    block = align(pd.concat(frames, ignore_index=True))
    stream = zlib.crc32(f"{s.task}/{s.name}".encode())
    resampler = Resampler(block.seeds, block.structures, block.range, resamples, stream)
    rows = []
    for metric in METRICS:
        found = {name: _accuracy(m, block, metric, resampler) for name, m in block.methods.items()}
        for name, number in found.items():
            configuration, method = name.split("/")
            asked = {metric: number}
            if method != "red":
                asked[f"{metric}_below_red"] = found[f"{configuration}/red"] - number
            if configuration != STEADY:
                asked[f"{metric}_change"] = number - found[f"{STEADY}/{method}"]
            rows += [
                {"method": method, "configuration": configuration, "metric": asks, **asdict(statistic.overall())}
                for asks, statistic in asked.items()
            ]
    about = {"task": s.task, "variant": variant(s.definition, s.recipe.name), "split": s.split, "part": "test"}
    return fill(pd.DataFrame(rows), **about, group="all", seed="all")


def _accuracy(method, block, metric: str, resampler: Resampler) -> Statistic:
    what = metric.partition("_")[0]
    hit = getattr(method, f"predicted_{what}") == getattr(block, what)
    return resampler.ratio(hit, np.ones(len(block.rows)))[0]


TABLES: dict[str, Callable[[Profile], Stage]] = {"schedule": schedule_tables}
