"""Every part trained in a process of its own, then assembled, beside the same parts from one process (the source,
4.5.2 to 4.5.5): base, an expert an operation, router, and a planner by a short training."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from redlib import decomposer, modules, paths
from redlib.config import Profile
from redlib.decomposer import Planner
from redlib.expressions import OPERATORS
from redlib.study import methods, operations, planner
from redlib.study.data import open_backbone
from redlib.study.forks import context, without_main
from redlib.study.settings import Setting
from redlib.study.stage import Stage

PARTS = ("base", *OPERATORS, "routers")
PLANNER = "planner"
RECORDS = 400  # of a planner's short training, an epoch: enough to see whether two ways of training it are one
PROCESS = "process.json"


def split(profile: Profile) -> str:
    """The split that the parts are compared in: the headline's, `structure`, before others, and one with a planner
    before one without."""
    there, planned = operations.splits(profile), planner.splits(profile)
    return min(there, key=lambda name: (name not in planned, name != "structure"))


def planned(profile: Profile) -> bool:
    """Whether the profile has a planner for the split and the chains of the first domain."""
    own = profile.decomposer.chains == profile.operations.domains[0]
    return own and split(profile) in planner.splits(profile)


def setting(profile: Profile, name: str, split: str, apart: bool) -> Setting:
    """RED with operation experts, one seed; `apart`: its parts have stages of their own, equal in all but that."""
    return operations.setting(profile, name, split, methods=("red",), seeds=1, apart=apart)


def stages(profile: Profile, name: str, split: str, apart: bool) -> dict[str, Stage]:
    """The stages that RED is assembled from: base, experts (gathered from one an operation), routers.

    With `apart`, running one starts a process for every part, one after another; the parts meet only as files.
    """
    s = setting(profile, name, split, apart)
    if not apart:
        return methods.part_stages(s)
    made = {part: elsewhere(profile, name, split, part) for part in PARTS}
    experts = replace(methods.experts_stage(s), inputs={operator: made[operator] for operator in OPERATORS})
    return {"base": made["base"], "experts": experts, "routers": made["routers"]}


def elsewhere(profile: Profile, name: str, split: str, part: str) -> Stage:
    """The stage of one of PARTS, made in a process of its own; what it reads of other parts is made so, too."""
    stage = _stage(setting(profile, name, split, True), part)
    inputs = dict(stage.inputs)
    if "base" in inputs:
        inputs["base"] = elsewhere(profile, name, split, "base")
    return replace(stage, make=partial(_send, _make_part, (profile, name, split, part)), inputs=inputs)


def planner_stage(profile: Profile, apart: bool) -> Stage:
    """A planner trained for an epoch on RECORDS of its records; `apart`: in a process of its own."""
    d, within = profile.decomposer, split(profile)
    config = d.model_dump(include={"max_operations", "largest", "training"})
    config |= {"split": within, "seed": 0, "records": RECORDS, "apart": apart}
    make = partial(_send, _make_planner, (profile,)) if apart else partial(_train_planner, profile)
    inputs = {"pool": planner.pool(profile), "states": planner.states_stage(profile)}
    return Stage(f"planner, short ({within})", 1, config, make, inputs, 5 + RECORDS * 0.04, 30_000_000)


def _train_planner(profile: Profile, stage: Stage, out: Path) -> None:
    loop = profile.decomposer.training.model_copy(update={"max_epochs": 1})
    trained, _ = planner.fit(profile, stage, loop, RECORDS)
    trained.save(out / planner.FILE)


def _make_planner(profile: Profile, out: Path) -> None:
    _train_planner(profile, planner_stage(profile, True), out)


def _stage(s: Setting, part: str) -> Stage:
    if part in OPERATORS:
        return methods.expert_stage(s, OPERATORS.index(part))
    return {"base": methods.base_stage, "routers": methods.routers_stage}[part](s)


def _make_part(profile: Profile, name: str, split: str, part: str, out: Path) -> None:
    stage = _stage(setting(profile, name, split, True), part)
    stage.make(stage, out)


def _send(make: Callable[..., None], task: tuple[Any, ...], stage: Stage, out: Path) -> None:
    """Train a part in a new process, with as many threads as here; RuntimeError if that process dies."""
    try:
        with ProcessPoolExecutor(1, mp_context=context()) as pool:
            with without_main():
                trained = pool.submit(_train, make, task, str(out), str(paths.cache()), torch.get_num_threads())
            trained.result()
    except BrokenProcessPool:
        raise RuntimeError(f"the process that trains {stage.name!r} died (killed, or out of memory)") from None


def _train(make: Callable[..., None], task: tuple[Any, ...], out: str, cache: str, threads: int) -> None:
    os.environ["REDLIB_CACHE"] = cache
    torch.set_num_threads(threads)
    make(*task, Path(out))
    paths.write_json(Path(out) / PROCESS, {"pid": os.getpid()})


def assembled(made: dict[str, Stage]) -> dict[str, torch.nn.Module]:
    """The parts of RED from the folders of its stages."""
    loaded = [modules.load(stage.folder / f"{name}-0.safetensors")[0] for name, stage in made.items()]
    return {name: part for parts in loaded for name, part in parts.items()}


def loaded(profile: Profile, made: Stage) -> Planner:
    """The planner in the folder of a stage."""
    return decomposer.load(made.folder / planner.FILE, open_backbone(profile.backbone))


def cast(exact: Planner, dtype: torch.dtype) -> Planner:
    """A planner whose trained layers are computed in another precision; the frozen backbone stays as it is."""
    return replace(exact, writer=deepcopy(exact.writer).to(dtype))


def equal(one: dict[str, torch.nn.Module], other: dict[str, torch.nn.Module]) -> bool:
    """Whether two sets of parts have the same names and the same numbers, bit for bit."""
    if one.keys() != other.keys():
        return False
    pairs = [(one[name].state_dict(), other[name].state_dict()) for name in one]
    return all(a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in pairs)
