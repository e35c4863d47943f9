"""`red_plus`, the study's own form of RED: its settings, its stages and its trained methods.

base (a network that says a value as points on circles, frozen) -> experts, each alone -> router; one stage a seed and
part, so that hours of work survive being cut off. Task 1 reads pooled features, Task 2 token states, of an early layer.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

import pandas as pd
from torch import nn

from redlib import datasets, models, modules
from redlib.config import PARTS, PlusForm, Profile
from redlib.features import Point
from redlib.study import methods, task1, task2
from redlib.study.data import features_stage
from redlib.study.red_plus.parts import HiddenData, PlusSetting, make_base, make_experts, make_router
from redlib.study.settings import Setting
from redlib.study.stage import Stage

TASKS = ("task1", "task2")
STEPS = "operations"  # the definition of steps that Task 2 is asked under
SINGLE = "steps"  # the form whose experts do single steps (`red_plus.steps`)
FILES = ("base", "experts", "router")


def form(profile: Profile, task: str) -> PlusForm:
    """How `red_plus` is made for a task; ValueError for another task, or for what this form cannot have."""
    if task not in (*TASKS, SINGLE):
        raise ValueError(f"there is no red_plus of {task!r}; valid tasks: {', '.join((*TASKS, SINGLE))}")
    found: PlusForm = getattr(profile.red_plus, task)
    if found.tuned_layers:
        raise ValueError(f"red_plus of {task} keeps its trunk frozen; tuned_layers must be 0, got {found.tuned_layers}")
    if found.layers and found.pooling != "mean":
        raise ValueError(f"light layers read every token; pooling must be mean, got {found.pooling}")
    if found.groups is not None or found.readout != "fourier":
        raise ValueError(
            f"red_plus of {task} has an expert a range and the readout fourier; groups {found.groups} and readout "
            f"{found.readout} are tried by the table red_plus_parts alone (red_plus.parts.experts, .readouts)"
        )
    if found.layers and found.noise:
        raise ValueError(f"red_plus of {task} has light layers, which read no noise; noise must be 0")
    if not found.layers and (found.ending, found.base.optimiser) != ("mean", "adamw"):
        raise ValueError(f"without light layers red_plus of {task} has nothing for `turns` or Muon; set layers")
    return found


def setting(profile: Profile, task: str, split: str, **changes) -> Setting:
    """One split of a task; `changes` replace fields of the form (layer=, rank=, ...) or the setting's own (seeds=,
    subset=, labels=, methods=; pool=, and features= that have the form's layer among others).

    ValueError for a form that cannot be (`form`), and for periods that cannot separate the label space."""
    own = form(profile, task)
    of_form = {name: value for name, value in changes.items() if name in type(own).model_fields and name != "seeds"}
    fields = {name: value for name, value in changes.items() if name not in of_form}
    own = own.model_copy(update=of_form)
    room = task1 if task == "task1" else task2
    given = {"seeds": own.seeds.get(split, 0), "labels": room.labels(profile), "methods": tuple(models.PLUS)} | fields
    if own.readout == "fourier":
        models.check_periods(given["labels"], own.periods)
    if "pool" not in given:
        given["pool"] = task1.pool(profile) if task == "task1" else task2.pool(profile, STEPS)
    if "features" not in given:
        given["features"] = read_stage(profile, own, given["pool"])
    definition = "" if task == "task1" else STEPS
    return PlusSetting(task=task, recipe=own, split=split, definition=definition, **given)


def read_stage(profile: Profile, own: PlusForm, pool: Stage) -> Stage:
    """What a form reads of the texts of a pool: pooled features, or token states for light layers."""
    points, states = ((), own.layer) if own.layers else ((Point(own.layer, own.pooling),), None)
    return features_stage(pool, profile.backbone, points, states)


def settings(profile: Profile, task: str) -> list[Setting]:
    """The settings of a task: every split that has seeds."""
    return [setting(profile, task, split) for split, seeds in form(profile, task).seeds.items() if seeds]


def base_stage(s: Setting, seed: int) -> Stage:
    """Base and classifier of one seed, and h of every text under them."""
    fields = {"layer", "pooling", "base_share", "base", "width", "layers", "heads", "positions", "periods"}
    config = {"form": s.recipe.model_dump(include=fields), "labels": asdict(s.labels), "split": s.split, "seed": seed}
    config |= {"held_out": datasets.held_out(seed)} if s.split == "phrasing" else {}
    config |= {"readout": s.recipe.readout} if s.recipe.readout != "fourier" else {}
    config |= {"ending": s.recipe.ending} if s.recipe.layers and s.recipe.ending != "mean" else {}
    config |= {"noise": s.recipe.noise} if s.recipe.noise else {}
    config |= {"decay": "of matrices"} if s.recipe.base.by_muon else {}
    config |= {"subset": s.subset} if s.subset else {}
    rows, width = s.pool.config["rows"], s.recipe.width
    seen = (s.subset or 0.8 * rows) * s.recipe.base_share * s.recipe.base.max_epochs
    pooled = 6e-5 if s.recipe.noise else 4e-5  # noise is drawn anew for every row
    each = 9e-4 * s.recipe.layers or pooled  # seconds a row and epoch, on two cores
    return Stage(
        f"red_plus base ({_where(s)}, seed {seed})",
        1,
        config,
        lambda stage, out: make_base(s, seed, out, stage.checkpoint),
        {"pool": s.pool, "features": s.features},
        2 + (seen + rows) * each,
        rows * width * 4,
    )


def experts_stage(s: Setting, seed: int) -> Stage:
    """The K experts of one seed on its frozen base."""
    own = {} if s.recipe.adapter == "gelu" else {"adapter": s.recipe.adapter}
    return _part_stage(s, seed, "experts", ("rank", "foreign_share", "experts"), make_experts, own=own)


def router_stage(s: Setting, seed: int) -> Stage:
    """The router of one seed on its frozen base; one that is trained on the answer needs the experts, too."""
    target = s.recipe.router_target
    extra = {} if target == "range" else {"experts": experts_stage(s, seed)}
    own = {} if target == "range" else {"target": target}
    return _part_stage(s, seed, "router", ("router_hidden", "routers"), make_router, extra, own)


def _part_stage(
    s: Setting,
    seed: int,
    name: str,
    fields: tuple[str, ...],
    make: Callable[[Setting, int, Stage, Path], None],
    extra: Mapping[str, Stage] = MappingProxyType({}),
    own: Mapping[str, str] = MappingProxyType({}),
) -> Stage:
    """A part on the frozen base; `fields` of the form are what it reads, with `own` as its configuration."""
    loop = getattr(s.recipe, fields[-1])
    grouped = {} if s.recipe.groups is None else {"groups": s.recipe.groups}
    grouped |= {} if s.experts_by == "range" else {"experts_by": s.experts_by}
    return Stage(
        f"red_plus {name} ({_where(s)}, seed {seed})",
        1,
        {**s.recipe.model_dump(include=set(fields)), **grouped, **own},
        lambda stage, out: make(s, seed, stage, out),
        {"pool": s.pool, "base": base_stage(s, seed), **extra},
        2 + (s.subset or s.pool.config["rows"]) * loop.max_epochs * 1.5e-5,
    )


def _where(s: Setting) -> str:
    return f"{s.task}, {s.split}"


def part_stages(s: Setting, seed: int) -> dict[str, Stage]:
    """The stages of one seed, by the name of the file that each writes."""
    return {"base": base_stage(s, seed), "experts": experts_stage(s, seed), "router": router_stage(s, seed)}


def predictions_stage(s: Setting) -> Stage:
    """The long frame of predictions of validation and test rows, over all seeds; the base alone among the methods."""
    inputs = {f"{name} {seed}": stage for seed in range(s.seeds) for name, stage in part_stages(s, seed).items()}
    seconds = s.seeds * s.pool.config["rows"] * 1e-4 + 2

    def make(stage: Stage, out: Path) -> None:
        frames = [frame for seed in range(s.seeds) for frame in _predict(s, stage.inputs, seed)]
        pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")

    return Stage(
        f"red_plus predictions ({_where(s)})",
        1,
        {"methods": list(s.methods), "seeds": s.seeds},
        make,
        {"pool": s.pool, **inputs},
        seconds,
    )


def _predict(s: Setting, inputs: Mapping[str, Stage], seed: int) -> list[pd.DataFrame]:
    folders = {name: inputs[f"{name} {seed}"].folder for name in FILES}
    data = HiddenData(s, folders["base"])
    trained = _load(folders) | {"base": nn.Identity()}  # h is stored
    made = {name: models.assemble(name, s.labels, trained, s.K) for name in s.methods}
    return [methods.predict_part(data, made[name], part, name, seed) for name in made for part in PARTS[1:]]


def _load(folders: Mapping[str, Path], wanted: Mapping = MappingProxyType({})) -> dict[str, nn.Module]:
    """Every part of one seed from the folders of its stages; `wanted` is what their passports must say."""
    trained: dict[str, nn.Module] = {}
    for name in FILES:
        trained |= modules.load(folders[name] / f"{name}.safetensors", **wanted)[0]
    return trained


def trained(profile: Profile, task: str, split: str = "structure", seed: int = 0, method: str = "red_plus"):
    """The trained method of a task, computed if missing: reads pooled features (B, d) of Task 1's layer, or token
    states (B, T, d) and their mask (B, T) of Task 2's. ValueError for a seed that the split does not have."""
    s = setting(profile, task, split)
    if seed not in range(s.seeds):
        raise ValueError(f"red_plus of {task} has {s.seeds} seeds on the {split} split, numbered from 0; got {seed}")
    return models.assemble(method, s.labels, load_parts(s, seed), s.K)


def load_parts(s: Setting, seed: int) -> dict[str, nn.Module]:
    """Every trained part of a seed, computed if missing; refused if they are for other labels or another layer."""
    folders = {name: stage.run() for name, stage in part_stages(s, seed).items()}
    return _load(folders, {"labels": s.labels, "layer": s.recipe.layer})


def history(s: Setting) -> pd.DataFrame:
    """Training histories of all parts and seeds."""
    made = [stage for seed in range(s.seeds) for stage in part_stages(s, seed).values()]
    return pd.concat([pd.read_csv(stage.run() / "history.csv") for stage in made], ignore_index=True)
