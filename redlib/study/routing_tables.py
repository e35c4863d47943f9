"""The tables of routing: what the router does, how far it can be believed, and what happens when it is wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import models, routing
from redlib.config import Profile
from redlib.evaluation.predictions import variant
from redlib.statistics import Resampler
from redlib.study import methods, task1, task2
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

STEPS = "operations"  # the definition of Task 2 that is looked into
SPLITS = ("text", "structure")
ROUTED = ("red", "softmax_moe")
SAME = "moe_same_experts"
POINT = ["method", "corruption", "strength", "metric"]


def settings(profile: Profile) -> list[Setting]:
    """Every recipe of Task 1 and of Task 2 (`operations`) on the splits text and structure, where it has seeds."""
    wanted = []
    for recipe, of_task1, of_task2 in (
        ("chosen", profile.task1.seeds, task2.definition(profile, STEPS).seeds),
        ("source", profile.task1.source_seeds, task2.definition(profile, STEPS).source_seeds),
    ):
        wanted += [task1.setting(profile, recipe, x, methods=ROUTED) for x in SPLITS if of_task1.get(x)]
        wanted += [task2.setting(profile, recipe, x, STEPS, methods=ROUTED) for x in SPLITS if of_task2.get(x)]
    return wanted


def routing_tables(profile: Profile) -> Stage:
    """routing.csv: load, agreement, calibration, rescue, regret; routing_curves.csv: reliability, selective accuracy,
    distance to a boundary, regret; robustness.csv: accuracy under corrupted weights. Test rows."""
    wanted = settings(profile)
    inputs = {f"{s.task} {s.name}, {part}": made for s in wanted for part, made in methods.part_stages(s).items()}
    config = {"resamples": profile.bootstrap, "corruptions": {k: list(v) for k, v in routing.CORRUPTIONS.items()}}
    seconds = 3 + sum(s.seeds * s.pool.config["rows"] for s in wanted) * 1.5e-4

    def make(stage: Stage, out: Path) -> None:
        parts = [_analyse(profile, s) for s in wanted]
        save(profile, stage, out, {name: pd.concat([part[name] for part in parts]) for name in parts[0]})

    return Stage("routing tables", 1, config, make, inputs, seconds)


def definition_tables(profile: Profile) -> Stage:
    """routing_definitions.csv: the numbers of routing.csv for every definition of Task 2's steps, recipe chosen."""
    wanted = [
        task2.setting(profile, "chosen", x, steps, methods=ROUTED)
        for steps, d in profile.task2.definitions.items()
        for x in SPLITS
        if d.seeds.get(x)
    ]
    inputs = {f"{s.name}, {part}": made for s in wanted for part, made in methods.part_stages(s).items()}
    seconds = 3 + sum(s.seeds * s.pool.config["rows"] for s in wanted) * 4e-5

    def make(stage: Stage, out: Path) -> None:
        frames = [numbers for s in wanted for numbers in _numbers(profile, s, _read_all(s, attacked=False)).values()]
        save(profile, stage, out, {"routing_definitions": fill(pd.concat(frames))})

    return Stage("routing by definition", 1, {"resamples": profile.bootstrap}, make, inputs, seconds)


@dataclass(frozen=True)
class _Read:
    """One method on the test rows of every seed, one seed after another: predictions, regret, and what is right when
    its weights are corrupted (`hits`, by the name of the method that uses them)."""

    frame: pd.DataFrame
    regret: routing.Regret
    hits: dict[str, routing.Hits]


def _analyse(profile: Profile, s: Setting) -> dict[str, pd.DataFrame]:
    read, about = _read_all(s), _about(s)
    resample, curves = _resampler(profile, s, read), []
    for name, method in read.items():
        lines = routing.curves(resample, method.frame, s.labels) | routing.exceedance(resample, method.regret)
        curves.append(routing.tidy(lines, ["curve", "x", "metric"], method=name, group="all", **about))
    points = routing.robustness(
        resample, {name: hits for method in read.values() for name, hits in method.hits.items()}
    )
    made = {"routing": pd.concat(_numbers(profile, s, read).values()), "routing_curves": pd.concat(curves)}
    made["robustness"] = routing.tidy(points, POINT, group="all", **about)
    return {name: fill(frame) for name, frame in made.items()}


def _numbers(profile: Profile, s: Setting, read: dict[str, _Read]) -> dict[str, pd.DataFrame]:
    """By method: everything that is no curve, of each seed and over seeds."""
    resample, made = _resampler(profile, s, read), {}
    for name, method in read.items():
        routed = (method.frame["router_range"] == method.frame["range"]).to_numpy()
        numbers = routing.summary(resample, method.frame, s.labels) | routing.regrets(resample, method.regret, routed)
        made[name] = routing.tidy(numbers, ["group", "metric"], range(s.seeds), method=name, **_about(s))
    return made


def _about(s: Setting) -> dict[str, str]:
    return {"task": s.task, "variant": variant(s.definition, s.recipe.name), "split": s.split, "part": "test"}


def _resampler(profile: Profile, s: Setting, read: dict[str, _Read]) -> Resampler:
    """One for all methods: they have the same rows."""
    return routing.resampler(read["red"].frame, f"{s.task}/{s.name}", profile.bootstrap)


def _read_all(s: Setting, attacked: bool = True) -> dict[str, _Read]:
    data = Data(s, methods.base_stage(s).folder)
    return {name: _read([_one(data, name, seed, attacked) for seed in range(s.seeds)]) for name in ROUTED}


def _one(data: Data, name: str, seed: int, attacked: bool) -> _Read:
    """One method and seed; if `attacked`, also under corrupted weights, RED then as top-1, as equal weights, and as a
    mixture of its experts' logits besides."""
    s, rows = data.setting, data.rows["test"][seed]
    parts = methods.load_parts(s, seed)
    method = models.assemble(name, s.labels, parts)
    x = (data.x[rows] if data.x.dim() == 2 else data.x[seed, rows]).cpu()
    experts = routing.open_experts(method, x)
    frame = methods.predict_part(data, method, "test", name, seed)
    ranges = models.range_probabilities(experts.answer(experts.alpha), s.labels).numpy()
    columns = pd.DataFrame(ranges, columns=[f"range_{k + 1}" for k in range(s.labels.K)])
    truth = (data.value[rows], data.range[rows].numpy())
    key = {"value": truth[0].numpy(), "ranges": truth[1]}
    found = {name: routing.hits(experts, **key, seed=seed)} if attacked else {}
    if attacked and name == "red":
        mixture = routing.open_experts(models.assemble(SAME, s.labels, parts), x)
        found["top1"] = routing.hits(experts, **key, seed=seed, hard=True)
        found[SAME] = routing.hits(mixture, **key, seed=seed)
        found["red_uniform"] = routing.flat(experts, **key)
    frame = frame.join(columns.assign(range_confidence=ranges.max(1)))
    return _Read(frame, routing.regret(experts, truth[0]), found)


def _read(seeds: list[_Read]) -> _Read:
    """The seeds of one method, one after another."""
    frame = pd.concat([one.frame for one in seeds], ignore_index=True)
    joined = {
        name: {point: np.concatenate([one.hits[name][point] for one in seeds]) for point in found}
        for name, found in seeds[0].hits.items()
    }
    return _Read(frame, routing.Regret.join([one.regret for one in seeds]), joined)


TABLES: dict[str, Callable[[Profile], Stage]] = dict.fromkeys(
    ("routing", "routing_curves", "robustness"), routing_tables
) | {"routing_definitions": definition_tables}
