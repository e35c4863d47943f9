"""A solver with a profile's trained planner and operation experts, and what must be trained before it can answer."""

from collections.abc import Mapping, Sequence

from redlib import config
from redlib.config import Profile
from redlib.execution import Experts, Solver, arithmetic
from redlib.execution.solving import Decomposes, Executor
from redlib.expressions import OPERATORS
from redlib.features import Point
from redlib.models.executors import BY_RANGE, executor
from redlib.study import methods, operations, planner
from redlib.study.data import open_backbone
from redlib.study.execution import METHODS, SYMBOLIC
from redlib.study.settings import Setting
from redlib.study.stage import Stage

TRAINED = "trained"
PLANNERS = (TRAINED, SYMBOLIC)
SPLIT = "structure"


def solver(
    profile: Profile,
    domain: str = "",
    planners: Sequence[str] = PLANNERS,
    executors: Sequence[str] = METHODS,
    split: str = SPLIT,
    seed: int = 0,
) -> Solver:
    """The planners and executors of these names, trained if they are missing (`missing` says what will be).

    domain: which steps the experts know, by default the profile's first domain. ValueError for what is unknown or not
    in the profile; a profile that reads a record never trains: FileNotFoundError says which profiles do.
    """
    domain = domain or profile.operations.domains[0]
    _check(profile, domain, planners, executors, split, seed)
    trained = set(executors) - {SYMBOLIC}
    if trained or TRAINED in planners:
        open_backbone(profile.backbone)  # keys of stages depend on it
    within, reference = operations.domain(profile, domain), planner.reference(profile.decomposer)
    plans: dict[str, Decomposes] = {
        name: planner.load(profile, split, seed) if name == TRAINED else reference for name in planners
    }
    whose = f"experts of {domain} steps" if trained else "arithmetic"
    model = f"{whose}, split {split}, seed {seed}, profile {profile.name}"
    return Solver(plans, _executors(profile, domain, split, seed, executors), within, reference, model, (SYMBOLIC,))


def available(profile: Profile) -> bool:
    """Whether the profile has a planner and experts to solve with: one that reads a record has none."""
    return not profile.reads


def planners(profile: Profile, split: str = SPLIT) -> tuple[str, ...]:
    """The planners that the profile has for a split: `symbolic` always."""
    return tuple(name for name in PLANNERS if name != TRAINED or profile.decomposer.seeds.get(split, 0))


def missing(
    profile: Profile,
    domain: str = "",
    planners: Sequence[str] = PLANNERS,
    executors: Sequence[str] = METHODS,
    split: str = SPLIT,
    seed: int = 0,
) -> list[Stage]:
    """The stages that `solver` would train first, in order, each once; errors as there."""
    domain = domain or profile.operations.domains[0]
    _check(profile, domain, planners, executors, split, seed)
    wanted = [planner.trained_stage(profile, split, seed)] if TRAINED in planners else []
    for s in _settings(profile, domain, split, executors):
        wanted += methods.part_stages(s).values()
    return list({stage.key: stage for made in wanted for stage in made.missing()}.values())


def refusal(profile: Profile) -> str:
    """Why a profile that reads a record solves nothing, and what does."""
    minutes = sum(stage.seconds for stage in missing(config.load("laptop"))) / 60
    cost = f"trains for about {minutes:.0f} min, once" if minutes >= 1 else "is trained already"
    return (
        f"profile {profile.name!r} never trains, and no planner or operation experts are shipped; `--profile laptop` "
        f"{cost}, `--profile smoke` shows the machinery in seconds"
    )


def _check(
    profile: Profile, domain: str, planners: Sequence[str], executors: Sequence[str], split: str, seed: int
) -> None:
    for kind, names, known in (("planner", planners, PLANNERS), ("method", executors, METHODS)):
        for name in names:
            if name not in known:
                raise ValueError(f"unknown {kind} {name!r}; valid {kind}s: {', '.join(known)}")
    operations.domain(profile, domain)
    has = {"planner": profile.decomposer.seeds} if TRAINED in planners else {}
    has |= {"operation experts": profile.operations.seeds} if set(executors) - {SYMBOLIC} else {}
    if profile.reads and has:
        raise FileNotFoundError(refusal(profile))
    for what, seeds in has.items():
        if not 0 <= seed < seeds.get(split, 0):
            there = ", ".join(f"{name} 0..{n - 1}" for name, n in seeds.items() if n) or "none"
            raise ValueError(
                f"profile {profile.name!r} has no {what} of split {split!r} and seed {seed}; it has: {there}"
            )


def _settings(profile: Profile, domain: str, split: str, executors: Sequence[str]) -> list[Setting]:
    """The settings whose parts the executors are built from."""
    own = set(executors) - {SYMBOLIC, BY_RANGE}
    made = [operations.setting(profile, domain, split)] if own else []
    return made + ([operations.by_range(profile, domain, split)] if BY_RANGE in executors else [])


def _executors(profile: Profile, domain: str, split: str, seed: int, names: Sequence[str]) -> Mapping[str, Executor]:
    found: dict[str, Executor] = {SYMBOLIC: arithmetic} if SYMBOLIC in names else {}
    for s in _settings(profile, domain, split, names):
        bone = open_backbone(profile.backbone)
        parts, point = methods.load_parts(s, seed, bone), Point(s.recipe.layer, s.recipe.pooling)
        of_ranges = s.experts_by == "range"
        for name in names:
            if name != SYMBOLIC and (name == BY_RANGE) == of_ranges:
                experts = s.labels.names if of_ranges else OPERATORS
                found[name] = Experts(executor(name, s.labels, parts, s.K), bone, point, s.labels, experts)
    return {name: found[name] for name in names}
