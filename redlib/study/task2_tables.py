"""The tables of Task 2, with every definition of steps of the profile: data checks, all methods, and what parts that
have seen additions alone do with chains (the source, 4.2.3, 4.7, 4.11 and 4.12)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from redlib import datasets, evaluation, models, modules
from redlib.config import Profile
from redlib.study import methods, parts, task1, task2
from redlib.study.data import read_pool
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

ACCURACIES = ("value_accuracy", "range_accuracy", "router_accuracy")
DRIFTING = ("red", "red_uniform", "softmax_moe", "uniform_average", "global_head")  # errors by true value are kept
TRANSFER_SEEDS = 2  # at most
FROM_TASK1 = "experts=task1,router=task1"
NEW_ROUTER = "experts=task1,router=task2"


def check_tables(profile: Profile) -> Stage:
    """task2_checks.csv: checks of every definition's pool and splits (4.2.5), and what the domain forces on them."""
    splits = {steps: [split for split, n in d.seeds.items() if n] for steps, d in profile.task2.definitions.items()}

    def make(stage: Stage, out: Path) -> None:
        frames = [
            _checks(profile, steps, read_pool(made.folder), splits[steps]) for steps, made in stage.inputs.items()
        ]
        save(profile, stage, out, {"task2_checks": pd.concat(frames)})

    pools = {steps: task2.pool(profile, steps) for steps in splits}
    seconds = 2 + 5e-4 * sum(pool.config["rows"] for pool in pools.values())
    return Stage("task2 checks", 1, {"splits": splits}, make, pools, seconds)


def _checks(profile: Profile, steps: str, pool: pd.DataFrame, splits: list[str]) -> pd.DataFrame:
    """The report of a pool and its splits (variant `<steps>/pool`) and its confounds (`<steps>/confounds`), tidy."""
    space = task2.labels(profile)
    by_split = {split: datasets.split(pool, split, 0) for split in splits}
    report = datasets.report(pool, by_split, space).assign(variant=f"{steps}/pool")
    forced = confounds(datasets.confounds(pool, profile.task2.operands, space)).assign(variant=f"{steps}/confounds")
    return fill(pd.concat([report, forced]), task="task2", method="data", seed="0")


def confounds(wide: pd.DataFrame) -> pd.DataFrame:
    """What `datasets.confounds` says, a number a row: split, part, group, metric, value.

    Groups: all, R1..RK, ops=<number> for one length in all ranges, and R1/ops=<number>; shares of no rows are left out.
    """
    lengths = wide["operations"].where(wide["operations"] == "all", "ops=" + wide["operations"])
    both = wide["group"] + "/" + lengths
    group = wide["group"].where(lengths == "all", lengths.where(wide["group"] == "all", both))
    long = wide.drop(columns="operations").assign(group=group).melt(id_vars="group", var_name="metric")
    return long.dropna(subset="value").astype({"value": float}).assign(split="pool", part="all")


# ---- all methods -------------------------------------------------------------------------------------------------


def main_tables(profile: Profile) -> Stage:
    """task2.csv: every method, recipe, split and definition; with it, what the figures of Task 2 draw."""
    by_steps = {steps: task2.settings(profile, steps) for steps in profile.task2.definitions}
    inputs = {s.name: methods.predictions_stage(s) for settings in by_steps.values() for s in settings}

    def make(stage: Stage, out: Path) -> None:
        made = [_main(profile, stage, steps, settings) for steps, settings in by_steps.items() if settings]
        save(profile, stage, out, {name: pd.concat([tables[name] for tables in made]) for name in made[0]})

    rows = sum(s.seeds * s.pool.config["rows"] for settings in by_steps.values() for s in settings)
    return Stage("task2 tables", 2, {"resamples": profile.bootstrap}, make, inputs, seconds=10 + rows * 4e-4)


def _main(profile: Profile, stage: Stage, steps: str, settings: list[Setting]) -> dict[str, pd.DataFrame]:
    """The tables of one definition of steps."""
    space, about = task2.labels(profile), {"task": "task2", "definition": steps}
    frames = [pd.read_parquet(stage.inputs[s.name].folder / "predictions.parquet") for s in settings]
    predictions = pd.concat(frames, ignore_index=True)
    test = predictions[predictions["part"] == "test"]
    drawn = test[test["recipe"].isin(["chosen", "source"])]
    histories = [methods.history(s).assign(variant=f"{steps}/{s.recipe.name}", split=s.split) for s in settings]
    limits = {f"{steps}/{name}": limit for name, limit in methods.epoch_limits(settings).items()}
    scores = evaluation.evaluate(test, space, **about, resamples=profile.bootstrap)
    return {
        "task2": pd.concat([scores, other_parts(predictions, space, steps, profile.bootstrap)]),
        "task2_bias": evaluation.bias_by_value(drawn, space, DRIFTING, **about),
        "task2_confusion": evaluation.range_confusion(drawn, space, **about),
        "task2_epochs": evaluation.epochs(pd.concat(histories), limits, task="task2"),
    }


def other_parts(predictions: pd.DataFrame, space, steps: str, resamples: int) -> pd.DataFrame:
    """The routed methods beyond the test rows: accuracies on train and validation rows, and their routers there and on
    all rows together (part `all`; the source, 4.7.3), overall and by range."""
    routed = predictions["method"].isin(methods.ROUTED) & predictions["recipe"].isin(["chosen", "source"])
    rows = predictions[routed].drop(columns=["operations", "pattern"])
    whole = pd.concat([rows[rows["part"] != "test"], rows.assign(part="all")])
    tidy = evaluation.evaluate(whole, space, "task2", steps, resamples=resamples)
    router = tidy["metric"].isin(["router_accuracy", "router_macro_f1"])
    answers = tidy["metric"].isin(["value_accuracy", "range_accuracy"]) & (tidy["part"] != "all")
    return tidy[router | answers]


# ---- from additions to chains ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transfer:
    """One split of one definition: its setting, and that of Task 1 with the same split, each with its first `seeds`."""

    chains: Setting
    additions: Setting
    seeds: int

    @property
    def router(self) -> Stage:
        """The router alone, trained on the chains as Task 1's frozen base sees them."""
        s = replace(self.chains, seeds=self.seeds, methods=("red",))
        return Stage(
            f"router on the base of task1 ({s.name})",
            1,
            s.recipe.model_dump(include={"router_hidden", "routers"}) | {"seeds": self.seeds},
            lambda stage, out: parts.make_routers(s, stage, ["router"], out),
            {"pool": s.pool, "features": s.features, "base": methods.base_stage(self.additions)},
            2 + self.seeds * s.pool.config["rows"] * 5e-4,
        )

    @property
    def inputs(self) -> dict[str, Stage]:
        """Everything trained that the arms are made of, by a name of its own."""
        name = self.chains.name
        made = {f"{name}: {part}": stage for part, stage in _trained(self.chains).items()}
        made |= {f"task1, {self.chains.split}: {part}": stage for part, stage in _trained(self.additions).items()}
        return made | {f"{name}: router of task2 on task1": self.router}


def _trained(s: Setting) -> dict[str, Stage]:
    """The stages of a setting that RED is made of."""
    return {"base": methods.base_stage(s), "experts": methods.experts_stage(s), "routers": methods.routers_stage(s)}


def transfers(profile: Profile) -> list[Transfer]:
    """What can be compared: recipe `chosen`, every definition and split that both tasks train.

    ValueError when the tasks have unlike label spaces, or no split in common.
    """
    if task1.labels(profile) != task2.labels(profile):
        raise ValueError(
            f"parts of task 1 cannot answer task 2: their label spaces differ ({task1.labels(profile)} and "
            f"{task2.labels(profile)}); give both tasks the same lo, hi and edges"
        )
    found = []
    for steps, d in profile.task2.definitions.items():
        for split in ("text", "structure"):
            seeds = min(TRANSFER_SEEDS, d.seeds.get(split, 0), profile.task1.seeds.get(split, 0))
            if seeds:
                chains, additions = (
                    task2.setting(profile, "chosen", split, steps),
                    task1.setting(profile, "chosen", split),
                )
                found.append(Transfer(chains, additions, seeds))
    if not found:
        raise ValueError("no definition of task 2 trains a split that task 1 trains, so nothing can be carried over")
    return found


def transfer_tables(profile: Profile) -> Stage:
    """task2_transfer.csv: RED whose experts saw additions alone, on the test rows of every definition (4.11, 4.12).

    Variants: <definition>/chosen is RED of Task 2 itself; .../experts=task1,router=task1 is RED of Task 1 as it is;
    .../experts=task1,router=task2 has Task 1's base, classifier and experts, and a router trained on Task 2.
    <accuracy>_below_red is RED of Task 2 minus the arm on the same rows. Task task1 holds RED of Task 1 at home.
    """
    pairs = transfers(profile)
    inputs = {name: stage for pair in pairs for name, stage in pair.inputs.items()}

    def make(stage: Stage, out: Path) -> None:
        frames = [_arms(pair, profile.bootstrap) for pair in pairs]
        homes = {pair.additions.split: pair for pair in pairs}
        frames += [_home(pair, profile.bootstrap) for pair in homes.values()]
        save(profile, stage, out, {"task2_transfer": pd.concat(frames)})

    return Stage("task2 transfer", 1, {"resamples": profile.bootstrap}, make, inputs, seconds=10 * len(pairs))


def _arms(pair: Transfer, resamples: int) -> pd.DataFrame:
    s = replace(pair.chains, seeds=pair.seeds)
    data, frames = Data(s), []
    for seed in range(pair.seeds):
        own, first = _load(pair.chains, seed), _load(pair.additions, seed)
        router = modules.load(pair.router.folder / f"routers-{seed}.safetensors")[0]
        arms = {"": own, f"@{FROM_TASK1}": first, f"@{NEW_ROUTER}": first | router}
        for arm, trained in arms.items():
            for name in ("red",) if NEW_ROUTER in arm else ("red", "global_head"):
                method = models.assemble(name, s.labels, trained)
                frames.append(methods.predict_part(data, method, "test", name + arm, seed))
    tidy = _accuracies(pd.concat(frames, ignore_index=True), s, resamples)
    names = tidy["method"].str.partition("@")
    arm = names[2].where(names[2] == "", "/" + names[2])
    return tidy.assign(method=names[0], variant=tidy["variant"] + arm)


def _home(pair: Transfer, resamples: int) -> pd.DataFrame:
    s = replace(pair.additions, seeds=pair.seeds)
    data, frames = Data(s), []
    for seed in range(pair.seeds):
        method = models.assemble("red", s.labels, _load(pair.additions, seed))
        frames.append(methods.predict_part(data, method, "test", "red", seed))
    return _accuracies(pd.concat(frames, ignore_index=True), s, resamples)


def _accuracies(predictions: pd.DataFrame, s: Setting, resamples: int) -> pd.DataFrame:
    tidy = evaluation.evaluate(predictions, s.labels, s.task, s.definition, resamples=resamples)
    return tidy[tidy["metric"].isin([*ACCURACIES, *(f"{name}_below_red" for name in ACCURACIES)])]


def _load(s: Setting, seed: int) -> dict:
    loaded: dict = {}
    for name, stage in _trained(s).items():
        loaded |= modules.load(stage.folder / f"{name}-{seed}.safetensors")[0]
    return loaded


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "task2_checks": check_tables,
    "task2": main_tables,
    "task2_bias": main_tables,
    "task2_confusion": main_tables,
    "task2_epochs": main_tables,
    "task2_transfer": transfer_tables,
}
