"""The tables of routing: what the router does, how far it can be believed, and what happens when it is wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from torch import nn

from redlib import models, routing
from redlib.config import PlusForm, Profile
from redlib.evaluation.predictions import variant
from redlib.statistics import Resampler
from redlib.study import methods, red_plus, task1, task2
from redlib.study.red_plus import parts as red_plus_parts
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

STEPS = "operations"  # the definition of Task 2 that is looked into
SPLITS = ("text", "structure")
ROUTED = ("red", "softmax_moe")
SAME = "moe_same_experts"
LEADS = {"red": ("top1", "red_uniform"), "red_plus": ("red_plus_top1", "red_plus_uniform")}  # hard and equal weights
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
        frames = [numbers for s in wanted for numbers in _numbers(profile, s, read_all(s, attacked=False)).values()]
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
    found = analyse(profile, s, read_all(s))
    return {"routing": found[0], "routing_curves": found[1], "robustness": found[2]}


def analyse(
    profile: Profile, s: Setting, read: dict[str, _Read], reference: str = "red"
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tidy numbers of routing, its curves, and accuracy under corrupted weights, compared with that of `reference`, of
    methods that were asked the same rows."""
    about, resample, curves = _about(s), _resampler(profile, s, read), []
    for name, method in read.items():
        lines = routing.curves(resample, method.frame, s.labels) | routing.exceedance(resample, method.regret)
        curves.append(routing.tidy(lines, ["curve", "x", "metric"], method=name, group="all", **about))
    hits = {name: hits for method in read.values() for name, hits in method.hits.items()}
    points = routing.tidy(routing.robustness(resample, hits, reference), POINT, group="all", **about)
    return fill(pd.concat(_numbers(profile, s, read).values())), fill(pd.concat(curves)), fill(points)


def _numbers(profile: Profile, s: Setting, read: dict[str, _Read]) -> dict[str, pd.DataFrame]:
    """By method: everything that is no curve, of each seed and over seeds."""
    resample, made = _resampler(profile, s, read), {}
    for name, method in read.items():
        seeds = range(method.frame["seed"].nunique())
        routed = (method.frame["router_range"] == method.frame["range"]).to_numpy()
        numbers = routing.summary(resample, method.frame, s.labels) | routing.regrets(resample, method.regret, routed)
        made[name] = routing.tidy(numbers, ["group", "metric"], seeds, method=name, **_about(s))
    return made


def _about(s: Setting) -> dict[str, str]:
    return {"task": s.task, "variant": variant(s.definition, s.recipe.name), "split": s.split, "part": "test"}


def _resampler(profile: Profile, s: Setting, read: dict[str, _Read]) -> Resampler:
    """One for all methods: they have the same rows."""
    first = next(iter(read.values())).frame
    return routing.resampler(first, f"{s.task}/{s.name}", profile.bootstrap)


def read_all(
    s: Setting, names: Sequence[str] = ROUTED, attacked: bool = True, seeds: int = 0, leads: Sequence[str] = ("red",)
) -> dict[str, _Read]:
    """Methods of a setting on the test rows of its first `seeds` seeds (0: all); `leads`: those that are attacked with
    hard and with equal weights, too."""
    opened, seeds = _opener(s), seeds or s.seeds
    return {
        name: _read([_one(*opened(seed), name, seed, attacked, name in leads) for seed in range(seeds)])
        for name in names
    }


def _opener(s: Setting) -> Callable[[int], tuple[Data, dict[str, nn.Module]]]:
    """Rows and trained parts of a seed; those of `red_plus` read the h that its base has stored."""
    if not isinstance(s.recipe, PlusForm):
        data = Data(s, methods.base_stage(s).folder)
        return lambda seed: (data, methods.load_parts(s, seed))

    def plus(seed: int) -> tuple[Data, dict[str, nn.Module]]:
        data = red_plus_parts.HiddenData(s, red_plus.base_stage(s, seed).folder)
        return data, red_plus.load_parts(s, seed) | {"base": nn.Identity()}

    return plus


def _one(data: Data, parts: dict[str, nn.Module], name: str, seed: int, attacked: bool, lead: bool) -> _Read:
    """One method and seed; if `attacked`, also under corrupted weights, a lead then as top-1 and as equal weights, and
    RED as a mixture of its experts' logits besides."""
    s, rows = data.setting, data.rows["test"][seed]
    method = models.assemble(name, s.labels, parts)
    x = (data.x[rows] if data.x.dim() == 2 else data.x[seed, rows]).cpu()
    experts = routing.open_experts(method, x)
    frame = methods.predict_part(data, method, "test", name, seed)
    ranges = models.range_probabilities(experts.answer(experts.alpha), s.labels).numpy()
    columns = pd.DataFrame(ranges, columns=[f"range_{k + 1}" for k in range(s.labels.K)])
    truth = (data.value[rows], data.range[rows].numpy())
    key = {"value": truth[0].numpy(), "ranges": truth[1]}
    found = {name: routing.hits(experts, **key, seed=seed)} if attacked else {}
    if attacked and lead:
        hard, equal = LEADS[name]
        found[hard] = routing.hits(experts, **key, seed=seed, hard=True)
        if name == "red":
            mixture = routing.open_experts(models.assemble(SAME, s.labels, parts), x)
            found[SAME] = routing.hits(mixture, **key, seed=seed)
        found[equal] = routing.flat(experts, **key)
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
