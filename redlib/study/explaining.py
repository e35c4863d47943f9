"""An explainer with a profile's trained parts: from its stages, or for `record` the modules that are shipped."""

from collections.abc import Callable, Mapping
from functools import partial

from redlib import explain, features, models, paths
from redlib.config import Profile
from redlib.study import methods, red_plus, shipped, shipping, task1, task2
from redlib.study.data import open_backbone
from redlib.study.settings import Data, Setting

TASKS = {"task1": task1, "task2": task2}
OpenModel = Callable[[], explain.Model]
OpenPlus = Callable[[], explain.Explainer]


def explainer(
    profile: Profile,
    task: str = "task1",
    split: str = "structure",
    recipe: str = "chosen",
    seed: int = 0,
    steps: str = "operations",
) -> explain.Explainer:
    """Ready to explain questions by the models of a task and recipe; `steps` is Task 2's definition of them.

    The models of other splits are opened when an intervention asks for them, `red_plus` when one of its methods is
    asked for: it is there with recipe `chosen` where it is trained or shipped. What is missing is trained; `record`
    never trains: FileNotFoundError says what ships its modules. ValueError for an unknown task, recipe, split, seed or
    steps.
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
    plus = _plus(profile, task, seed, split) if recipe == "chosen" and steps == red_plus.STEPS else None
    made = assemble(profile, task, recipe, found, split, plus)
    made.model()
    return made


def available(profile: Profile) -> bool:
    """Whether the profile has models to explain with: one that trains always, one that reads a record if any are
    shipped."""
    return not profile.reads or (paths.modules() / shipped.INDEX).is_file()


def assemble(
    profile: Profile,
    task: str,
    recipe: str,
    opened: Mapping[str, OpenModel],
    split: str,
    plus: OpenPlus | None = None,
) -> explain.Explainer:
    """An explainer of models by split, all of one task and recipe; none is opened yet, nor is `plus`."""
    r = profile.recipe(recipe)
    return explain.Explainer(
        backbone=open_backbone(profile.backbone),
        task=task,
        labels=TASKS[task].labels(profile),
        operands=getattr(profile, task).operands,
        point=features.Point(r.layer, r.pooling),
        tuned_layers=r.tuned_layers,
        models=opened,
        split=split,
        plus=plus,
    )


def _plus(profile: Profile, task: str, seed: int, split: str) -> OpenPlus | None:
    """How the explainer of a task's `red_plus` is opened; None where the profile has none for the split and seed."""
    form = red_plus.form(profile, task)
    if profile.reads:
        found = _shipped(profile, task, shipping.PLUS, seed, red_plus.STEPS)
    else:
        settings = [s for s in red_plus.settings(profile, task) if seed < s.seeds]
        found = {s.split: partial(_trained_plus, profile, s, seed) for s in settings}
    if split not in found:
        return None
    return lambda: explain.Explainer(
        backbone=open_backbone(profile.backbone),
        task=task,
        labels=TASKS[task].labels(profile),
        operands=getattr(profile, task).operands,
        point=features.Point(form.layer, form.pooling),
        tuned_layers=0,
        models=found,
        split=split,
        tokens=bool(form.layers),
    )


def _trained_plus(profile: Profile, s: Setting, seed: int) -> explain.Model:
    name = f"{s.task}, {shipping.PLUS}, split {s.split}, seed {seed}, profile {profile.name}"
    kinds = tuple(models.PLUS)
    return explain.Model(name, s.labels, red_plus.load_parts(s, seed), training_structures(s, seed), kinds)


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
    r = red_plus.form(profile, task) if recipe == shipping.PLUS else profile.recipe(recipe)
    opened = partial(shipped.open_model, folder, backbone=backbone, layer=r.layer, pooling=r.pooling)
    return {entry["split"]: partial(opened, name) for name, entry in fitting.items()}
