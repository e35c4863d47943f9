"""Every part trained in a process of its own, then assembled, beside the same parts from one process (the source,
4.5.2 to 4.5.5)."""

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import torch

from redlib import modules, paths
from redlib.config import Profile
from redlib.expressions import OPERATORS
from redlib.study import methods, operations
from redlib.study.settings import Setting
from redlib.study.stage import Stage

PARTS = ("base", *OPERATORS, "routers")
PROCESS = "process.json"


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
    return replace(stage, make=partial(_send, (profile, name, split, part)), inputs=inputs)


def _stage(s: Setting, part: str) -> Stage:
    if part in OPERATORS:
        return methods.expert_stage(s, OPERATORS.index(part))
    return {"base": methods.base_stage, "routers": methods.routers_stage}[part](s)


def _send(task: tuple, stage: Stage, out: Path) -> None:
    """Train a part in a new process, with as many threads as here; RuntimeError if that process dies."""
    known = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in known else "spawn")
    if "forkserver" in known:
        context.set_forkserver_preload([__name__])
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
            try:  # a new process would import the caller's script again, and so run it; what is sent needs none of it
                trained = pool.submit(_train, task, str(out), str(paths.cache()), torch.get_num_threads())
            finally:
                sys.modules["__main__"] = main
            trained.result()
    except BrokenProcessPool:
        raise RuntimeError(f"the process that trains {stage.name!r} died (killed, or out of memory)") from None


def _train(task: tuple, out: str, cache: str, threads: int) -> None:
    os.environ["REDLIB_CACHE"] = cache
    torch.set_num_threads(threads)
    profile, name, split, part = task
    stage = _stage(setting(profile, name, split, True), part)
    stage.make(stage, Path(out))
    paths.write_json(Path(out) / PROCESS, {"pid": os.getpid()})


def assembled(made: dict[str, Stage]) -> dict[str, torch.nn.Module]:
    """The parts of RED from the folders of its stages."""
    loaded = [modules.load(stage.folder / f"{name}-0.safetensors")[0] for name, stage in made.items()]
    return {name: part for parts in loaded for name, part in parts.items()}


def equal(one: dict[str, torch.nn.Module], other: dict[str, torch.nn.Module]) -> bool:
    """Whether two sets of parts have the same names and the same numbers, bit for bit."""
    if one.keys() != other.keys():
        return False
    pairs = [(one[name].state_dict(), other[name].state_dict()) for name in one]
    return all(a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a) for a, b in pairs)
