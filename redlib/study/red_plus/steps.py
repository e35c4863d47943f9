"""`red_plus` for decomposed execution: experts of operations over a base that says a value as points on circles.

The same rows, splits, steps and programs as the operation experts of recipe `chosen` (`operations`), so that the two
can be compared program by program.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.models.executors import PLUS_EXECUTORS, executor
from redlib.study import execution, execution_tables, operations, red_plus
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import save

OWN = "red_plus"
BESIDE = ("red", "softmax_moe", "oracle_operator", "global_head", execution.SYMBOLIC)  # of recipe `chosen`
KEPT = ("value_accuracy", "range_accuracy", f"value_accuracy_below_{OWN}", f"range_accuracy_below_{OWN}")


def setting(profile: Profile, domain: str, split: str, **changes) -> Setting:
    """The experts of a domain of steps under one split; `changes` replace fields of the form, or the seeds."""
    own = red_plus.form(profile, red_plus.SINGLE)
    if own.layers:
        raise ValueError(f"red_plus of steps reads pooled features; layers must be 0, got {own.layers}")
    seeds, pool = changes.pop("seeds", own.seeds.get(split, 0)), operations.pool(profile, domain)
    own = own.model_copy(update=changes)
    return Setting(
        task=red_plus.SINGLE,
        recipe=own,
        split=split,
        seeds=seeds,
        labels=operations.labels(profile),
        pool=pool,
        features=red_plus.read_stage(profile, own, pool),
        definition=f"{domain} steps",
        methods=PLUS_EXECUTORS,
        experts_by="operation",
    )


def splits(profile: Profile) -> list[str]:
    """The splits that both these experts and those of recipe `chosen` have seeds of."""
    own = red_plus.form(profile, red_plus.SINGLE).seeds
    return [split for split in operations.splits(profile) if own.get(split)]


def executors_stage(profile: Profile, domain: str, split: str) -> Stage:
    """steps.parquet: what every executor of a domain and split says of every step, as `operations.executors_stage`."""
    s = setting(profile, domain, split)
    population = operations.population(profile, s)
    parts = {f"{name} {seed}": made for seed in range(s.seeds) for name, made in red_plus.part_stages(s, seed).items()}

    def make(stage: Stage, out: Path) -> None:
        said = []
        for seed in range(s.seeds):
            trained = red_plus.load_parts(s, seed)
            made = {name: executor(name, s.labels, trained, s.K) for name in s.methods}
            said.append(operations.said_of_steps(profile, population.folder, made, seed))
        pd.concat(said, ignore_index=True).to_parquet(out / "steps.parquet")

    config = {"executors": list(s.methods), "seeds": s.seeds}
    inputs = {"population": population, **parts}
    return Stage(f"red_plus executors ({s.name})", 1, config, make, inputs, 2 + 2 * s.seeds, s.seeds << 20)


def main_tables(profile: Profile) -> Stage:
    """red_plus_execution.csv: accuracy of these executors and of some of recipe `chosen` (BESIDE) on the same programs
    of the same seeds, in each domain's own chains, and how far each is below red_plus; red_plus_budget.csv: what became
    of the programs."""
    planned = execution.planners(profile, splits(profile))
    own = [arm for arm in execution.arms(profile, planned) if arm.chains == arm.experts]
    wanted = [arm for arm in own if arm.split in splits(profile)]
    pairs = [(domain, split) for domain in profile.operations.domains for split in splits(profile)]
    extra = {f"executors {domain}, {split}, {OWN}": executors_stage(profile, domain, split) for domain, split in pairs}

    def make(stage: Stage, out: Path) -> None:
        space = operations.labels(profile)
        said = [execution.answers(profile, arm, stage, (*PLUS_EXECUTORS, *BESIDE)) for arm in wanted]
        scores = evaluation.evaluate(
            pd.concat(said), space, "decomposed", reference=OWN, resamples=profile.bootstrap, by_range=False
        )
        shown = [answers[answers["method"].isin([OWN, f"{OWN}_base", *BESIDE[:2]])] for answers in said]
        budgets = [execution_tables.budget(answers, profile.bootstrap) for answers in shown]
        tables = {"red_plus_execution": scores[scores["metric"].isin(KEPT)], "red_plus_budget": pd.concat(budgets)}
        save(profile, stage, out, tables)

    config = {
        "resamples": profile.bootstrap,
        "beside": list(BESIDE),
        "arms": [[arm.variant, arm.split] for arm in wanted],
    }
    seconds = 5 + len(wanted) * profile.operations.chains * max(profile.operations.seeds.values()) * 3e-3
    return Stage(
        "red_plus execution", 2, config, make, execution.inputs(profile, planned, splits(profile)) | extra, seconds
    )


def step_tables(profile: Profile) -> Stage:
    """red_plus_steps.csv: exact accuracy of these executors over all single steps (`execution_tables.step_tables`)."""
    pairs = [(domain, split) for domain in profile.operations.domains for split in splits(profile)]
    read = {f"{domain}, {split}": executors_stage(profile, domain, split) for domain, split in pairs}

    def make(stage: Stage, out: Path) -> None:
        frames = []
        for domain, split in pairs:
            said = pd.read_parquet(stage.inputs[f"{domain}, {split}"].folder / "steps.parquet")
            found = execution_tables.step_accuracies(execution_tables.judged(profile, domain, split, said))
            frames.append(found.assign(task="decomposed", variant=domain, split=split, part="all"))
        save(profile, stage, out, {"red_plus_steps": pd.concat(frames)})

    return Stage("red_plus steps", 1, {}, make, read, 5 + 3 * len(pairs))


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "red_plus_execution": main_tables,
    "red_plus_budget": main_tables,
    "red_plus_steps": step_tables,
}
