"""Task 2, chains of additions and subtractions: its pools, one a definition of steps, its settings and its trained
methods for new texts (the source, 4.2.3 and 4.7)."""

from redlib.config import Definition, Profile
from redlib.models import LabelSpace
from redlib.study import predictor as predictors
from redlib.study.data import open_backbone, pool_stage
from redlib.study.settings import Setting, compose
from redlib.study.stage import Stage


def labels(profile: Profile) -> LabelSpace:
    """The values and ranges of Task 2."""
    t = profile.task2
    return LabelSpace(t.lo, t.hi, t.edges)


def definition(profile: Profile, name: str) -> Definition:
    """The definition of steps called `name`; ValueError names those that the profile has."""
    known = profile.task2.definitions
    if name not in known:
        raise ValueError(f"profile {profile.name!r} has no steps {name!r} in task 2; valid steps: {', '.join(known)}")
    return known[name]


def pool(profile: Profile, steps: str = "operations", rows: int | None = None) -> Stage:
    """The pool of Task 2 under a definition of steps, or a smaller one of the same kind."""
    t, rows = profile.task2, rows or definition(profile, steps).rows
    return pool_stage("task2", rows, t.pool_seed, t.operands, labels(profile), steps)


def setting(profile: Profile, recipe: str, split: str, steps: str = "operations", **changes) -> Setting:
    """One setting of Task 2; `changes` replace fields of the recipe (rank) or the setting (subset, seeds, methods)."""
    d = definition(profile, steps)
    given = d.seeds if recipe == "chosen" else d.source_seeds
    fields = {"task": "task2", "definition": steps, "labels": labels(profile), "seeds": given.get(split, 0)} | changes
    return compose(profile, pool(profile, steps), recipe, split, **fields)


def settings(profile: Profile, steps: str) -> list[Setting]:
    """The settings of one definition behind the main table: every recipe on every split that has seeds."""
    d = definition(profile, steps)
    wanted = [("chosen", split) for split, n in d.seeds.items() if n]
    wanted += [("source", split) for split, n in d.source_seeds.items() if n]
    return [setting(profile, recipe, split, steps) for recipe, split in wanted]


def predictor(
    profile: Profile,
    method: str,
    split: str = "structure",
    recipe: str = "chosen",
    seed: int = 0,
    steps: str = "operations",
) -> predictors.Predictor:
    """The trained method of a profile (`predictor.trained`)."""
    open_backbone(profile.backbone)
    return predictors.trained(profile, setting(profile, recipe, split, steps), method, seed)
