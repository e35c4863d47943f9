"""An explainer with a profile's trained parts: from its stages, or for `record` the modules that are shipped."""

from collections.abc import Callable, Mapping
from functools import partial

from redlib import explain, features, paths
from redlib.config import Profile
from redlib.study import methods, shipped, task1, task2
from redlib.study.data import open_backbone
from redlib.study.settings import Data, Setting

TASKS = {"task1": task1, "task2": task2}
OpenModel = Callable[[], explain.Model]


def explainer(
    profile: Profile,
    task: str = "task1",
    split: str = "structure",
    recipe: str = "chosen",
    seed: int = 0,
    steps: str = "operations",
) -> explain.Explainer:
    """Ready to explain questions by the models of a task and recipe; `steps` is Task 2's definition of them.

    The models of other splits are opened when an intervention asks for them. What is missing is trained; `record` never
    trains: FileNotFoundError says what ships its modules. ValueError for an unknown task, recipe, split, seed or steps.
    """
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; valid tasks: {', '.join(TASKS)}")
    profile.recipe(recipe)
    found = (_shipped if profile.reads else _trained)(profile, task, recipe, seed, steps)
    if split not in found:
        valid = ", ".join(found) or "none"
        raise ValueError(
            f"profile {profile.name!r} has no models of {task}, recipe {recipe}, split {split}, seed {seed}; "
            f"splits that it has: {valid}"
        )
    made = assemble(profile, task, recipe, found, split)
    made.model()
    return made


def available(profile: Profile) -> bool:
    """Whether the profile has models to explain with: one that trains always, one that reads a record if any are
    shipped."""
    return not profile.reads or (paths.modules() / shipped.INDEX).is_file()


def assemble(
    profile: Profile, task: str, recipe: str, models: Mapping[str, OpenModel], split: str
) -> explain.Explainer:
    """An explainer of models by split, all of one task and recipe; none is opened yet."""
    r = profile.recipe(recipe)
    return explain.Explainer(
        backbone=open_backbone(profile.backbone),
        task=task,
        labels=TASKS[task].labels(profile),
        operands=getattr(profile, task).operands,
        point=features.Point(r.layer, r.pooling),
        tuned_layers=r.tuned_layers,
        models=models,
        split=split,
    )


def setting(profile: Profile, task: str, recipe: str, split: str, steps: str = "operations", **changes) -> Setting:
    """The setting of either task; `steps` is for Task 2 alone."""
    if task == "task1":
        return task1.setting(profile, recipe, split, **changes)
    return task2.setting(profile, recipe, split, steps, **changes)


def _trained(profile: Profile, task: str, recipe: str, seed: int, steps: str) -> dict[str, OpenModel]:
    """By split with that many seeds: how its model is opened."""
    open_backbone(profile.backbone)
    if task == "task1":
        counts = profile.task1.seeds if recipe == "chosen" else profile.task1.source_seeds
    else:
        d = task2.definition(profile, steps)
        counts = d.seeds if recipe == "chosen" else d.source_seeds
    settings = [setting(profile, task, recipe, split, steps) for split, n in counts.items() if 0 <= seed < n]
    return {s.split: partial(trained_model, profile, s, seed) for s in settings}


def trained_model(profile: Profile, s: Setting, seed: int) -> explain.Model:
    """A setting's trained parts of one seed, as the model that an explainer reads; trained if missing."""
    parts = methods.load_parts(s, seed, open_backbone(profile.backbone))
    name = f"{s.task}, recipe {s.recipe.name}, split {s.split}, seed {seed}, profile {profile.name}"
    return explain.Model(name, s.labels, parts, training_structures(s, seed))


def training_structures(s: Setting, seed: int) -> explain.Structures:
    """The structures of a setting's training rows of one seed."""
    data = Data(s)
    return explain.Structures.of(data.pool["structure"].iloc[data.rows["train"][seed]])


def _shipped(profile: Profile, task: str, recipe: str, seed: int, steps: str) -> dict[str, OpenModel]:
    folder = paths.modules()
    entries = shipped.read_index(folder)["modules"]  # before the backbone, which may have to be fetched
    backbone = open_backbone(profile.backbone)
    mine = {"task": task, "recipe": recipe, "seed": seed, "definition": "" if task == "task1" else steps}
    fitting = {name: entry for name, entry in entries.items() if all(entry[key] == mine[key] for key in mine)}
    return {entry["split"]: partial(shipped.open_model, folder, name, backbone) for name, entry in fitting.items()}
