"""Task 1, addition: its pool, its settings, and its trained methods for new texts (the source, 4.2.2)."""

from redlib.config import Profile
from redlib.models import LabelSpace
from redlib.study import predictor as predictors
from redlib.study.data import open_backbone, pool_stage
from redlib.study.settings import Setting, compose
from redlib.study.stage import Stage


def labels(profile: Profile) -> LabelSpace:
    """The values and ranges of Task 1."""
    t = profile.task1
    return LabelSpace(t.lo, t.hi, t.edges)


def pool(profile: Profile, rows: int | None = None) -> Stage:
    """The pool of Task 1, or a smaller one of the same kind."""
    t = profile.task1
    return pool_stage("task1", rows or t.rows, t.pool_seed, t.operands, labels(profile))


def setting(profile: Profile, recipe: str, split: str, **changes) -> Setting:
    """One setting of Task 1; `changes` replace fields of the recipe (rank) or the setting (subset, seeds, methods)."""
    given = profile.task1.seeds if recipe == "chosen" else profile.task1.source_seeds
    fields = {"task": "task1", "labels": labels(profile), "seeds": given.get(split, 0)} | changes
    return compose(profile, pool(profile), recipe, split, **fields)


def settings(profile: Profile) -> list[Setting]:
    """The settings behind the main table: every recipe on every split that has seeds."""
    wanted = [("chosen", split) for split, n in profile.task1.seeds.items() if n]
    wanted += [("source", split) for split, n in profile.task1.source_seeds.items() if n]
    return [setting(profile, recipe, split) for recipe, split in wanted]


def predictor(
    profile: Profile, method: str, split: str = "structure", recipe: str = "chosen", seed: int = 0
) -> predictors.Predictor:
    """The trained method of a profile (`predictor.trained`)."""
    open_backbone(profile.backbone)
    return predictors.trained(profile, setting(profile, recipe, split), method, seed)
