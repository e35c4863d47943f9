"""Operation experts and what every executor says of every step: pools of single steps, one a domain, the settings over
them, and the finite population of steps as a table (the source, 4.2.6, 4.5.2 and 4.8)."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import datasets, evaluation, features
from redlib.config import Profile
from redlib.datasets import decomposer, steps
from redlib.execution import StepTable
from redlib.expressions import OPERATORS
from redlib.models import LabelSpace, Method
from redlib.models.executors import BY_RANGE, EXECUTORS, OF_OPERATIONS, executor
from redlib.study import methods
from redlib.study.data import open_backbone
from redlib.study.settings import Setting, compose
from redlib.study.stage import Stage


def labels(profile: Profile) -> LabelSpace:
    """The values and ranges of single steps."""
    o = profile.operations
    return LabelSpace(o.lo, o.hi, o.edges)


def domain(profile: Profile, name: str) -> steps.Domain:
    """The steps that the experts of a domain are trained in; ValueError names those of the profile."""
    if name not in profile.operations.domains:
        known = ", ".join(profile.operations.domains)
        raise ValueError(f"profile {profile.name!r} has no domain of steps {name!r}; valid domains: {known}")
    return steps.domain(name, profile.operations.operands, labels(profile))


def reachable(profile: Profile) -> steps.Domain:
    """Every step that executing chains can meet, in a domain or not: the population of the step table."""
    return steps.reachable(profile.operations.operands, labels(profile))


def pool(profile: Profile, name: str) -> Stage:
    """The rows of both operation experts of a domain."""
    o = profile.operations
    config = _drawn(profile, name) | {"rows": o.rows * len(OPERATORS)}
    within = domain(profile, name)

    def make(stage: Stage, out: Path) -> None:
        datasets.save(steps.pool(o.rows, o.pool_seed, within, labels(profile)), out / "pool.parquet")

    return Stage("pool of steps", 1, config, make, seconds=3 + o.rows * 2e-4, bytes=o.rows * 120)


def chains(profile: Profile, name: str) -> Stage:
    """The chains that executors are asked: with every partial result in the labels (`closed`) or not (`source`)."""
    o, seed = profile.operations, profile.operations.pool_seed

    def make(stage: Stage, out: Path) -> None:
        datasets.save(decomposer.build(o.chains, seed, name, o.operands, labels(profile)), out / "pool.parquet")

    config = _drawn(profile, name) | {"rows": o.chains}
    return Stage("chains", 1, config, make, seconds=3 + o.chains * 1e-3, bytes=o.chains * 120)


def _drawn(profile: Profile, name: str) -> dict:
    o = profile.operations
    return {"domain": name, "seed": o.pool_seed, "operands": list(o.operands), "labels": asdict(labels(profile))}


def setting(profile: Profile, name: str, split: str, **changes) -> Setting:
    """The experts of a domain under one split, recipe `chosen`; `changes` replace fields of recipe or setting."""
    o, fields = profile.operations, {"task": "steps", "definition": f"{name} steps", "labels": labels(profile)}
    fields |= {"seeds": o.seeds.get(split, 0), "methods": OF_OPERATIONS, "experts_by": "operation"}
    fields |= {"rank": o.rank, "experts": o.experts, "final_rate": o.final_rate}
    return compose(profile, pool(profile, name), "chosen", split, **(fields | changes))


def by_range(profile: Profile, name: str, split: str) -> Setting:
    """The same rows, split and base, with one expert a range as in Task 1 (the source, 4.9.2)."""
    return setting(profile, name, split, methods=("red",), experts_by="range")


def splits(profile: Profile) -> list[str]:
    """The splits that have seeds."""
    return [split for split, seeds in profile.operations.seeds.items() if seeds]


# ---- the population of steps -------------------------------------------------------------------------------------


def population(profile: Profile, whose: Setting | None = None) -> Stage:
    """x.npy (P, d): features of the P steps that chains can meet, each in its one canonical text, "12 + 5", as a
    setting reads them (None: recipe `chosen`)."""
    o = profile.operations
    read = (whose or setting(profile, o.domains[0], splits(profile)[0])).features.config
    config = {name: value for name, value in read.items() if name != "states"}
    texts = [steps.canonical(step) for step in reachable(profile).steps()]

    def make(stage: Stage, out: Path) -> None:
        points = [features.Point(**point) for point in read["points"]]
        found = features.FeatureSet(open_backbone(stage), texts, points).ensure()
        np.save(out / "x.npy", found.pooled(points[0]))

    return Stage(
        "population of steps",
        1,
        config | {"operands": list(o.operands), "labels": asdict(labels(profile))},
        make,
        seconds=5 + len(texts) * 0.003,
        bytes=len(texts) * 4800,
    )


def executors_stage(profile: Profile, name: str, split: str) -> Stage:
    """steps.parquet: what every executor of a domain and split says of every step, for every seed.

    Columns: seed, method, operator, first, second, predicted_value, predicted_range, confidence, route (the expert
    with most weight, -1 without one), alpha_1, .. (weights, NaN without).
    """
    s, ranged = setting(profile, name, split), by_range(profile, name, split)
    trained = methods.part_stages(s)
    inputs = {"population": population(profile), **trained}
    inputs |= {f"by range: {part}": stage for part, stage in methods.part_stages(ranged).items() if part != "base"}

    def make(stage: Stage, out: Path) -> None:
        said = [_say(profile, s, ranged, stage.inputs["population"].folder, seed) for seed in range(s.seeds)]
        pd.concat(said, ignore_index=True).to_parquet(out / "steps.parquet")

    seconds = 2 + s.seeds * len(EXECUTORS) * 0.5
    return Stage(f"executors ({s.name})", 1, {"executors": list(EXECUTORS)}, make, inputs, seconds, s.seeds << 21)


def _say(profile: Profile, s: Setting, ranged: Setting, read: Path, seed: int) -> pd.DataFrame:
    own, others = methods.load_parts(s, seed), methods.load_parts(ranged, seed)
    made = {name: executor(name, s.labels, others if name == BY_RANGE else own, s.K) for name in EXECUTORS}
    return said_of_steps(profile, read, made, seed)


def said_of_steps(profile: Profile, read: Path, executors: Mapping[str, Method], seed: int) -> pd.DataFrame:
    """What executors of one seed, by name, say of every step in the folder of a `population`: columns as in
    `executors_stage`."""
    x = torch.from_numpy(np.load(read / "x.npy"))
    of = pd.DataFrame(reachable(profile).steps(), columns=["first", "operator", "second"])
    operation, frames = of["operator"].map(OPERATORS.index).to_numpy(), []
    for name, method in executors.items():
        said = evaluation.predict(method, x, method.labels, operation)
        frames.append(pd.concat([of.assign(seed=seed, method=name), said], axis=1))
    return pd.concat(frames, ignore_index=True).rename(columns={"router_range": "route"})


def step_tables(profile: Profile, said: pd.DataFrame) -> list[StepTable]:
    """What the executors say of every step as look-ups, one a seed, from the frame of an executors stage."""
    return [
        StepTable.of(
            reachable(profile),
            {
                name: (of["predicted_value"].to_numpy(), of["predicted_range"].to_numpy())
                for name, of in rows.groupby("method", sort=False)
            },
        )
        for _, rows in said.groupby("seed")
    ]
