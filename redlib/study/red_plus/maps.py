"""`red_plus` where the chapters on boundaries and routing look: curves along the value axis, operand maps, calibration,
corrupted routes. The same functions as there, with one method more, on the same texts as RED and the mixture."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from redlib.config import Profile
from redlib.study import boundary_tables, methods, red_plus, routing_tables, task1, task2
from redlib.study.boundary_tables import Swept
from redlib.study.population import answers, population_features, population_stage, read_population
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import save

SPLIT = "structure"
OWN = "red_plus"
PLUS = (OWN, "red_plus_base", "red_plus_top1")
BESIDE = ("red", "softmax_moe", "fourier_full_data")  # of recipe `chosen`, on the same rows
CURVES = (OWN, "red", "softmax_moe")
MAPPED = (OWN, "red", "fourier_full_data")


def settings(profile: Profile) -> list[tuple[Setting, Setting]]:
    """`red_plus` and recipe `chosen` of every task on the split, where both have seeds."""
    pairs = [
        (red_plus.setting(profile, "task1", SPLIT), task1.setting(profile, "chosen", SPLIT)),
        (red_plus.setting(profile, "task2", SPLIT), task2.setting(profile, "chosen", SPLIT, red_plus.STEPS)),
    ]
    return [pair for pair in pairs if all(s.seeds for s in pair)]


def _inputs(own: Setting, beside: Setting, seeds: int) -> dict[str, Stage]:
    parts = {f"{name} {seed}": made for seed in range(seeds) for name, made in red_plus.part_stages(own, seed).items()}
    parts |= {f"beside: {name}": made for name, made in methods.part_stages(beside).items()}
    return {f"{own.task} {name}": made for name, made in (parts | {"pool": own.pool}).items()}


def maps_tables(profile: Profile) -> Stage:
    """red_plus_sweep.csv (mean curves by true value), red_plus_smoothness.csv (numbers for their shapes, and how far
    each is below red_plus) and red_plus_maps.csv (one seed's value errors by pair), over the population of pairs."""
    pairs, inputs = settings(profile), {}
    counts = {own.task: min(profile.population.seeds, own.seeds, beside.seeds) for own, beside in pairs}
    read = {}
    for own, beside in pairs:
        domain = getattr(profile, own.task)
        population = population_stage(own.task, domain, own.labels, profile.population.wordings)
        places = red_plus.read_stage(profile, own.recipe, population), population_features(profile, population)
        read[own.task] = places
        inputs |= _inputs(own, beside, counts[own.task])
        inputs |= {f"{own.task} read": places[0], f"{own.task} read beside": places[1]}

    def swept(own: Setting, beside: Setting) -> Swept:
        seeds, (mine, theirs) = counts[own.task], read[own.task]
        said = answers(own, mine, seeds, PLUS) | answers(beside, theirs, seeds, BESIDE)
        return Swept(own, read_population(mine), said, CURVES, MAPPED, OWN)

    def make(stage: Stage, out: Path) -> None:
        sweeps, shapes, maps = boundary_tables.frames(profile, (swept(*pair) for pair in pairs))
        tables = {"red_plus_sweep": sweeps, "red_plus_smoothness": shapes}
        save(profile, stage, out, tables | {"red_plus_maps": maps[maps["metric"] == "value_error"]})

    config = {"resamples": profile.bootstrap, "seeds": counts, "methods": [*PLUS, *BESIDE], "mapped": list(MAPPED)}
    return Stage("red_plus maps", 2, config, make, inputs, 20 + 20 * len(pairs))


def routing_stage(profile: Profile) -> Stage:
    """red_plus_routing.csv, red_plus_routing_curves.csv and red_plus_robustness.csv: what `routing_tables` says of RED
    and the mixture, of red_plus on the same test rows, and how far each is below it."""
    pairs, inputs = settings(profile), {}
    for own, beside in pairs:
        inputs |= _inputs(own, beside, min(own.seeds, beside.seeds))

    def make(stage: Stage, out: Path) -> None:
        found = []
        for own, beside in pairs:
            seeds = min(own.seeds, beside.seeds)
            read = routing_tables.read_all(own, (OWN,), seeds=seeds, leads=(OWN,))
            read |= routing_tables.read_all(beside, routing_tables.ROUTED, seeds=seeds, leads=())
            found.append(routing_tables.analyse(profile, own, read, OWN))
        names = ("red_plus_routing", "red_plus_routing_curves", "red_plus_robustness")
        tables = {name: pd.concat(frames) for name, frames in zip(names, zip(*found, strict=True), strict=True)}
        save(profile, stage, out, tables)

    rows = sum(own.seeds * own.pool.config["rows"] for own, _ in pairs)
    return Stage("red_plus routing", 1, {"resamples": profile.bootstrap}, make, inputs, 5 + rows * 2e-4)


TABLES: dict[str, Callable[[Profile], Stage]] = dict.fromkeys(
    ("red_plus_sweep", "red_plus_smoothness", "red_plus_maps"), maps_tables
) | dict.fromkeys(("red_plus_routing", "red_plus_routing_curves", "red_plus_robustness"), routing_stage)
