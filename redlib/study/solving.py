"""A solver with a profile's trained planner and operation experts, and what must be trained before it can answer; for a
profile that reads a record, with those that are shipped."""

from collections.abc import Sequence
from typing import get_args

from torch import nn

from redlib import config, paths
from redlib.config import Profile
from redlib.execution import Experts, Solver, arithmetic
from redlib.execution.solving import Decomposes, Executor
from redlib.expressions import OPERATORS
from redlib.features import Point
from redlib.models.executors import BY_RANGE, PLUS_EXECUTORS, executor
from redlib.study import methods, operations, planner, red_plus, shipped, shipping
from redlib.study.data import open_backbone
from redlib.study.execution import METHODS, SYMBOLIC
from redlib.study.red_plus import steps as red_plus_steps
from redlib.study.settings import Setting
from redlib.study.stage import Stage

TRAINED = "trained"
PLANNERS = (TRAINED, SYMBOLIC)
KNOWN = (*METHODS, *PLUS_EXECUTORS)
SPLIT = "structure"
CHOSEN, RANGES, PLUS = "chosen", BY_RANGE, "red_plus"  # experts of operations, of ranges, and over a Fourier readout


def solver(
    profile: Profile,
    domain: str = "",
    planners: Sequence[str] = PLANNERS,
    executors: Sequence[str] = (),
    split: str = SPLIT,
    seed: int = 0,
) -> Solver:
    """The planners and executors of these names, trained if they are missing (`missing` says what will be).

    domain: which steps the experts know, by default the profile's first domain; executors: by default `methods_of`.
    ValueError for what is unknown or not in the profile; a profile that reads a record never trains: FileNotFoundError
    says which profiles do where it is not shipped.
    """
    domain = domain or profile.operations.domains[0]
    executors = executors or methods_of(profile, domain, split, seed)
    _check(profile, domain, planners, executors, split, seed)
    trained = set(executors) - {SYMBOLIC}
    if trained or TRAINED in planners:
        open_backbone(profile.backbone)  # keys of stages depend on it
    within, reference = operations.domain(profile, domain), planner.reference(profile.decomposer)
    plans: dict[str, Decomposes] = {
        name: _planner(profile, split, seed) if name == TRAINED else reference for name in planners
    }
    whose = f"experts of {domain} steps" if trained else "arithmetic"
    where = f"profile {profile.name}" + (", shipped" if profile.reads and trained else "")
    model = f"{whose}, split {split}, seed {seed}, {where}"
    return Solver(plans, _executors(profile, domain, split, seed, executors), within, reference, model, (SYMBOLIC,))


def available(profile: Profile, split: str = SPLIT) -> bool:
    """Whether the profile has a planner and experts to solve with: one that trains always, one that reads a record if
    they are shipped."""
    if not profile.reads:
        return True
    domain = profile.operations.domains[0]
    return bool(_planner_entry(split, 0)) and bool(_entry(domain, split, 0, CHOSEN))


def planners(profile: Profile, split: str = SPLIT) -> tuple[str, ...]:
    """The planners that the profile has for a split: `symbolic` always."""
    has = _planner_entry(split, 0) if profile.reads else profile.decomposer.seeds.get(split, 0)
    return tuple(name for name in PLANNERS if name != TRAINED or has)


def methods_of(profile: Profile, domain: str, split: str = SPLIT, seed: int = 0) -> tuple[str, ...]:
    """The executors of a profile: of one that trains, those of recipe `chosen`; of one that reads a record, those that
    are shipped. All end in `symbolic`."""
    if not profile.reads:
        return METHODS
    index, found = _index(), [_entry(domain, split, seed, group) for group in (CHOSEN, PLUS)]
    return (*(name for entry in found if entry for name in index[entry]["methods"]), SYMBOLIC)


def missing(
    profile: Profile,
    domain: str = "",
    planners: Sequence[str] = PLANNERS,
    executors: Sequence[str] = (),
    split: str = SPLIT,
    seed: int = 0,
) -> list[Stage]:
    """The stages that `solver` would train first, in order, each once; errors as there."""
    domain = domain or profile.operations.domains[0]
    executors = executors or methods_of(profile, domain, split, seed)
    _check(profile, domain, planners, executors, split, seed)
    if profile.reads:
        return []
    wanted = [planner.trained_stage(profile, split, seed)] if TRAINED in planners else []
    for group in _groups(executors):
        s = _setting(profile, domain, split, group)
        wanted += (red_plus.part_stages(s, seed) if group == PLUS else methods.part_stages(s)).values()
    return list({stage.key: stage for made in wanted for stage in made.missing()}.values())


def refusal(profile: Profile, split: str = SPLIT) -> str:
    """Why a profile that reads a record cannot solve under a split, and what does."""
    why = f"profile {profile.name!r} never trains, and no planner or operation experts are shipped for this"
    trainers = {name: config.load(name) for name in ("laptop", "full")}
    able = [name for name, p in trainers.items() if p.decomposer.seeds.get(split) and p.operations.seeds.get(split)]
    if not able:
        return f"{why}; no profile trains both for split {split!r}, choose another one"
    minutes = sum(stage.seconds for stage in missing(trainers[able[0]], split=split)) / 60
    cost = f"trains for about {minutes:.0f} min, once" if minutes >= 1 else "is trained already"
    return f"{why}; `--profile {able[0]}` {cost}, `--profile smoke` shows the machinery in seconds"


def _check(
    profile: Profile, domain: str, planners: Sequence[str], executors: Sequence[str], split: str, seed: int
) -> None:
    splits = get_args(config.Split)
    for kind, names, known in (
        ("planner", planners, PLANNERS),
        ("method", executors, KNOWN),
        ("split", [split], splits),
    ):
        for name in names:
            if name not in known:
                raise ValueError(f"unknown {kind} {name!r}; valid {kind}s: {', '.join(known)}")
    operations.domain(profile, domain)
    if profile.reads:
        _check_shipped(profile, domain, planners, executors, split, seed)
        return
    has = {"planner": profile.decomposer.seeds} if TRAINED in planners else {}
    groups = _groups(executors)
    has |= {"operation experts": profile.operations.seeds} if {CHOSEN, RANGES} & set(groups) else {}
    has |= {"operation experts of red_plus": red_plus.form(profile, red_plus.SINGLE).seeds} if PLUS in groups else {}
    for what, seeds in has.items():
        if not 0 <= seed < seeds.get(split, 0):
            there = ", ".join(f"{name} 0..{n - 1}" for name, n in seeds.items() if n) or "none"
            raise ValueError(
                f"profile {profile.name!r} has no {what} of split {split!r} and seed {seed}; it has: {there}"
            )


def _check_shipped(
    profile: Profile, domain: str, planners: Sequence[str], executors: Sequence[str], split: str, seed: int
) -> None:
    if TRAINED in planners and not _planner_entry(split, seed):
        raise FileNotFoundError(refusal(profile, split))
    for name in executors:
        entry = None if name == SYMBOLIC else _entry(domain, split, seed, _group(name))
        if name != SYMBOLIC and (entry is None or name not in _index()[entry]["methods"]):
            there = methods_of(profile, domain, split, seed)
            if there == (SYMBOLIC,):
                raise FileNotFoundError(refusal(profile, split))
            raise ValueError(f"method {name!r} is not shipped for {domain} steps; valid methods: {', '.join(there)}")


# ---- where things are --------------------------------------------------------------------------------------------


def _group(name: str) -> str:
    return PLUS if name in PLUS_EXECUTORS else RANGES if name == BY_RANGE else CHOSEN


def _groups(executors: Sequence[str]) -> list[str]:
    """The groups of trained parts that the executors are built from, each once."""
    return list(dict.fromkeys(_group(name) for name in executors if name != SYMBOLIC))


def _setting(profile: Profile, domain: str, split: str, group: str) -> Setting:
    if group == PLUS:
        return red_plus_steps.setting(profile, domain, split)
    return (operations.by_range if group == RANGES else operations.setting)(profile, domain, split)


def _index() -> dict:
    return shipped.read_index(paths.modules())["modules"]


def _entry(domain: str, split: str, seed: int, group: str) -> str | None:
    """The name of the shipped experts of a group, None where there are none."""
    keys = {"task": shipping.STEPS, "recipe": group, "definition": f"{domain} steps"}
    return shipped.entry_of(paths.modules(), **keys, split=split, seed=seed)


def _planner_entry(split: str, seed: int) -> str | None:
    return shipped.entry_of(paths.modules(), task=shipping.PLANNER, split=split, seed=seed)


def _planner(profile: Profile, split: str, seed: int) -> Decomposes:
    if not profile.reads:
        return planner.load(profile, split, seed)
    return shipped.open_planner(paths.modules(), _planner_entry(split, seed), open_backbone(profile.backbone))


def _parts(profile: Profile, domain: str, split: str, seed: int, group: str) -> tuple[dict[str, nn.Module], Point]:
    """Trained parts of a group of experts, and where their base reads."""
    bone = open_backbone(profile.backbone)
    if profile.reads:
        parts, _, point = shipped.open_checked(paths.modules(), _entry(domain, split, seed, group), bone)
        return parts, point
    s = _setting(profile, domain, split, group)
    parts = red_plus.load_parts(s, seed) if group == PLUS else methods.load_parts(s, seed, bone)
    return parts, Point(s.recipe.layer, s.recipe.pooling)


def _executors(profile: Profile, domain: str, split: str, seed: int, names: Sequence[str]) -> dict[str, Executor]:
    found: dict[str, Executor] = {SYMBOLIC: arithmetic} if SYMBOLIC in names else {}
    labels = operations.labels(profile)
    for group in _groups(names):
        parts, point = _parts(profile, domain, split, seed, group)
        experts = labels.names if group == RANGES else OPERATORS
        for name in (name for name in names if name != SYMBOLIC and _group(name) == group):
            method = executor(name, labels, parts, len(experts))
            found[name] = Experts(method, open_backbone(profile.backbone), point, labels, experts)
    return {name: found[name] for name in names}
