"""What a sweep has to make: the missing stages of all runs, each once, and the shards of their features."""

from collections.abc import Iterable
from dataclasses import dataclass

from redlib.config import Profile
from redlib.study import ablations
from redlib.study.ablations import Run
from redlib.study.ablations.run import run_stage
from redlib.study.data import features_of
from redlib.study.stage import Stage


@dataclass(frozen=True)
class StageJob:
    """One stage of those behind a run, the run's own included."""

    profile: Profile
    run: Run
    name: str
    key: str
    needs: tuple[str, ...]

    def make(self) -> None:
        """Make the stage, if it is not there."""
        _stage(self.profile, self.run, self.key, self.name).run(_quiet)


@dataclass(frozen=True)
class ShardJob:
    """One shard of the features that a run reads."""

    profile: Profile
    run: Run
    stage: str  # key of the features stage
    number: int
    name: str

    @property
    def key(self) -> str:
        """Of the features' stage, and the shard's number."""
        return f"{self.stage}/{self.number}"

    needs: tuple[str, ...] = ()

    def make(self) -> None:
        """Compute the shard."""
        features_of(_stage(self.profile, self.run, self.stage, self.name)).compute_shard(self.number)


@dataclass(frozen=True)
class Plan:
    """`jobs` in order of making, `done` names of the runs that are there, `seconds` a rough estimate of the work."""

    jobs: tuple[StageJob | ShardJob, ...]
    done: tuple[str, ...]
    seconds: float


def plan(profile: Profile, runs: Iterable[Run], sharded: bool = True) -> Plan:
    """The jobs of all runs. `sharded`: features are shared out in shards; pools of texts, in which shards are counted,
    are then made at once.

    ValueError, before anything is made, for a run that is impossible under the profile.
    """
    runs = list(dict.fromkeys(runs))
    for run in runs:
        ablations.check(profile, run)
    whole = {run: run_stage(profile, run) for run in runs}
    missing: dict[str, tuple[Run, Stage]] = {}
    for run, stage in whole.items():
        missing |= {one.key: (run, one) for one in stage.missing() if one.key not in missing}
    jobs: list[StageJob | ShardJob] = []
    for key, (run, stage) in missing.items():
        shards = _shards(profile, run, stage) if sharded and stage.name == "features" else []
        needs = [made.key for made in stage.inputs.values() if made.key in missing]
        needs += [shard.key for shard in shards]
        jobs += [*shards, StageJob(profile, run, stage.name, key, tuple(needs))]
    seconds = sum(stage.seconds for _, stage in missing.values())
    return Plan(tuple(jobs), tuple(run.name for run, stage in whole.items() if stage.key not in missing), seconds)


def _shards(profile: Profile, run: Run, stage: Stage) -> list[ShardJob]:
    made = features_of(stage)
    missing = made.missing()
    if len(missing) < 2:
        return []
    named = [f"features, shard {number + 1} of {made.count}" for number in missing]
    return [ShardJob(profile, run, stage.key, *item) for item in zip(missing, named, strict=True)]


def _stage(profile: Profile, run: Run, key: str, name: str) -> Stage:
    """The stage with this key behind a run; ValueError where this machine would make another one."""
    whole = run_stage(profile, run)
    found = {stage.key: stage for stage in [*whole.upstream(), whole]}
    if key not in found:
        raise ValueError(
            f"a worker would make another {name!r}: its versions, threads or backbone are not the sender's"
        )
    return found[key]


def _quiet(line: str) -> None:
    pass
