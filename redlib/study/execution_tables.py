"""The tables of modular execution: accuracy of every executor, single steps, where errors come from, how they compound,
and who leaves the experts' domain (the source, 4.8 and 4.9.2)."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.datasets import steps
from redlib.execution import KINDS, as_lines, as_steps, compounding
from redlib.expressions import OPERATORS, Expression, LabelSpace
from redlib.models.executors import BY_RANGE
from redlib.programs import SIGN
from redlib.statistics import Resampler
from redlib.study import execution, operations
from redlib.study.data import read_pool
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

NAMES = dict(zip(OPERATORS, ("addition", "subtraction"), strict=True))  # in tables
COMPARED = ("value_accuracy", "range_accuracy", "macro_f1")
KEPT = (
    *(*COMPARED, "range_macro_f1"),
    *(f"{name}_below_red" for name in COMPARED),
    *("value_accuracy_gap", "range_accuracy_gap"),
)


def main_tables(profile: Profile) -> Stage:
    """execution.csv, execution_budget.csv and execution_compounding.csv: every arm and executor."""
    planned = execution.planners(profile)
    wanted = execution.arms(profile, planned)

    def make(stage: Stage, out: Path) -> None:
        space, said = operations.labels(profile), [execution.answers(profile, arm, stage) for arm in wanted]
        scores = evaluation.evaluate(pd.concat(said), space, "decomposed", resamples=profile.bootstrap, by_range=False)
        own = [arm for arm in wanted if arm.program == "gold" and arm.chains == arm.experts]
        tables = {
            "execution": scores[scores["metric"].isin([*KEPT, f"macro_f1_{space.C}"])],
            "execution_budget": pd.concat([budget(answers, profile.bootstrap) for answers in said]),
            "execution_compounding": pd.concat([compounded(profile, arm, stage) for arm in own]),
        }
        save(profile, stage, out, tables)

    config = {"resamples": profile.bootstrap, "arms": [[arm.variant, arm.split] for arm in wanted]}
    seconds = 5 + len(wanted) * profile.operations.chains * max(profile.operations.seeds.values()) * 2e-3
    return Stage("execution tables", 3, config, make, execution.inputs(profile, planned), seconds)


def budget(answers: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Tidy error budget of one arm's answers, over seeds: for every executor and number of operations the share of each
    of KINDS, which add up to one, that of each kind with a flag (<kind>_flagged), and `flagged` in all."""
    by_method = dict(list(answers.groupby("method", sort=False)))
    first = next(iter(by_method.values()))
    stream = zlib.crc32("/".join(first[["split", "recipe"]].iloc[0]).encode())
    resampler = Resampler(first["seed"], first["structure"], first["range"], resamples, stream)
    lengths = {f"ops={n}": first["operations"] == n for n in sorted(first["operations"].unique())}
    groups = {name: mask.to_numpy() for name, mask in {"all": first["operations"] > 0, **lengths}.items()}
    columns = []
    for method, rows in by_method.items():
        flagged = rows["flagged"].to_numpy()
        masks = {kind: (rows["kind"] == kind).to_numpy() for kind in KINDS}
        masks |= {f"{kind}_flagged": mask & flagged for kind, mask in masks.items()} | {"flagged": flagged}
        columns += [(method, group, metric, mask, of) for group, of in groups.items() for metric, mask in masks.items()]
    shares = resampler.ratio(
        np.column_stack([mask & of for *_, mask, of in columns]), np.column_stack([of for *_, of in columns])
    )
    estimates = [(*column[:3], share.overall()) for column, share in zip(columns, shares, strict=True)]
    lines = [(method, group, metric, e.value, e.n, e.low, e.high) for method, group, metric, e in estimates]
    tidy = pd.DataFrame(lines, columns=["method", "group", "metric", "value", "n", "low", "high"])
    about = {"split": first["split"].iloc[0], "variant": first["recipe"].iloc[0]}
    return tidy.assign(task="decomposed", part="test", seed="all", **about)


def compounded(profile: Profile, arm: execution.Arm, stage: Stage) -> pd.DataFrame:
    """Tidy `execution.compounding` of one arm: what single steps predict beside what is observed, by length."""
    space, frames = operations.labels(profile), []
    for seed, _, question, looks in execution.each_seed(profile, arm, stage):
        for method, look in looks.items():
            found = compounding(question.gold, look, space)
            frames.append(found.assign(method=method, seed=seed, group="ops=" + found["operations"].astype(str)))
    long = pd.concat(frames).drop(columns="operations").rename(columns={"programs": "n"})
    tidy = long.melt(id_vars=["method", "seed", "group", "n"], var_name="metric")
    return _with_mean(tidy, ["method", "group", "metric"]).assign(
        task="decomposed", variant=arm.variant, split=arm.split, part="test"
    )


def _with_mean(tidy: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The rows of every seed, and a row `all` with their mean: exact over a population, so without an interval."""
    mean = tidy.groupby(keys, sort=False, as_index=False).agg(value=("value", "mean"), n=("n", "sum"))
    both = pd.concat([tidy.astype({"seed": str}), mean.assign(seed="all")], ignore_index=True)
    return both.assign(low=np.nan, high=np.nan)


# ---- single steps ------------------------------------------------------------------------------------------------


def step_tables(profile: Profile) -> Stage:
    """execution_steps.csv: accuracy of every executor over all steps, exact, by operation and by whether training holds
    the step; execution_errors.csv: every executor's accuracy on every single step.

    Groups: all, addition, subtraction, with /unseen=no and /unseen=yes, all of them inside the domain; `outside`: steps
    outside it whose result is a label.
    """
    o = profile.operations
    pairs = {f"{name}, {split}": (name, split) for name in o.domains for split in operations.splits(profile)}
    read = {where: operations.executors_stage(profile, *pair) for where, pair in pairs.items()}

    def make(stage: Stage, out: Path) -> None:
        every, maps = [], []
        for where, (name, split) in pairs.items():
            said = judged(profile, name, split, pd.read_parquet(stage.inputs[where].folder / "steps.parquet"))
            about = {"task": "decomposed", "variant": name, "split": split, "part": "all"}
            every.append(step_accuracies(said).assign(**about))
            maps.append(error_map(said).assign(**about))
        save(profile, stage, out, {"execution_steps": pd.concat(every), "execution_errors": pd.concat(maps)})

    return Stage("execution step tables", 2, {}, make, read, 5 + 4 * len(pairs))


def judged(profile: Profile, name: str, split: str, said: pd.DataFrame) -> pd.DataFrame:
    """What executors say of every step, with what is so: sign, result, inside (of the domain), label (the result is
    one), unseen (no training row of the seed has the step or its twin), and value, range and route right or wrong."""
    space, within = operations.labels(profile), operations.domain(profile, name)
    known = [
        pd.MultiIndex.from_product([[seed], sorted(keys)])
        for seed, keys in enumerate(execution.seen(profile, name, split))
    ]
    triples = said[["first", "operator", "second"]].drop_duplicates()
    keys = {t: Expression((t[0], t[2]), (t[1],)).structure_key for t in triples.itertuples(index=False, name=None)}
    structure = [keys[t] for t in said[["first", "operator", "second"]].itertuples(index=False, name=None)]
    sign = said["operator"].map(SIGN)
    result = said["first"] + sign * said["second"]
    label = result.between(space.lo, space.hi)
    ranges = result.where(label, space.lo).map(space.range_of)
    here = pd.MultiIndex.from_arrays([said["seed"], structure])
    return said.assign(
        result=result,
        inside=within.holds(said["first"], sign, said["second"]),
        label=label,
        unseen=~here.isin(known[0].append(known[1:])),
        value_right=said["predicted_value"] == result,
        range_right=label & (said["predicted_range"] == ranges),
        route_right=said["route"] == said["operator"].map(OPERATORS.index),
        routed=(said["route"] >= 0) & (said["method"] != BY_RANGE),
    )


def step_accuracies(said: pd.DataFrame) -> pd.DataFrame:
    """Exact accuracies of `judged` steps, of every seed and their mean, by the groups of `step_tables`."""
    groups = {"all": said["inside"], "outside": ~said["inside"] & said["label"]}
    for operator, name in NAMES.items():
        of = said["inside"] & (said["operator"] == operator)
        groups |= {name: of, f"{name}/unseen=no": of & ~said["unseen"], f"{name}/unseen=yes": of & said["unseen"]}
    lines = []
    for group, mask in groups.items():
        for metric, right, of in (
            ("value_accuracy", "value_right", mask),
            ("range_accuracy", "range_right", mask),
            ("router_accuracy", "route_right", mask & said["routed"]),
        ):
            found = said[of].groupby(["method", "seed"], sort=False)[right].agg(value="mean", n="size").reset_index()
            lines.append(found.assign(group=group, metric=metric))
    return _with_mean(pd.concat(lines, ignore_index=True), ["method", "group", "metric"])


def error_map(said: pd.DataFrame) -> pd.DataFrame:
    """Of every executor and step whose result is a label, as lines (`execution.as_lines`): in how many seeds the
    executor is right (group inside or outside)."""
    label = said[said["label"]]
    where = np.where(label["inside"], "inside", "outside")
    named = label.assign(operator=label["operator"].map(NAMES), group=where)
    keys = ["method", "operator", "group"]
    counted = named.groupby([*keys, "first", "second"], as_index=False, sort=False).agg(
        right=("value_right", "sum"), n=("value_right", "size")
    )
    return as_lines(counted, keys).assign(seed="all", metric="value_accuracy", low=np.nan, high=np.nan)


def wrong_by_range(errors: pd.DataFrame, space: LabelSpace) -> pd.DataFrame:
    """The exact share that is wrong of the steps of an `error_map`, by variant, split, method, operator and range of
    the result; n counts every seed of a step."""
    steps = as_steps(errors)
    sign = steps["operator"].map({name: SIGN[operator] for operator, name in NAMES.items()})
    result = steps["first"] + sign * steps["second"]
    ranges = [space.names[space.range_of(value)] for value in result]
    steps = steps.assign(range=ranges, wrong=(1 - steps["value"]) * steps["n"])
    keys = ["variant", "split", "method", "operator", "range"]
    found = steps.groupby(keys, as_index=False).agg(wrong=("wrong", "sum"), n=("n", "sum"))
    return found.assign(value=found.pop("wrong") / found["n"], low=np.nan, high=np.nan)


def domain_tables(profile: Profile) -> Stage:
    """execution_domain.csv: how many programs and steps leave the experts' domain, by chains, domain and length."""
    names = profile.operations.domains
    read = {name: operations.chains(profile, name) for name in names}

    def make(stage: Stage, out: Path) -> None:
        pools = {name: read_pool(made.folder) for name, made in stage.inputs.items()}
        found = steps.departures(pools, {name: operations.domain(profile, name) for name in names})
        long = found.assign(steps_share=found["steps_outside"] / found["steps"]).melt(
            id_vars=["chains", "experts", "operations", "programs", "steps"],
            value_vars=["share", "steps_share"],
            var_name="metric",
        )
        whole = long["operations"] == "all"
        tidy = pd.DataFrame(
            {
                "variant": long["experts"] + "/gold/chains=" + long["chains"],
                "group": np.where(whole, "all", "ops=" + long["operations"]),
                "metric": long["metric"].map({"share": "programs_outside", "steps_share": "steps_outside"}),
                "value": long["value"],
                "n": long["programs"].where(long["metric"] == "share", long["steps"]),
            }
        )
        about = {"task": "decomposed", "split": "pool", "part": "all", "method": "data", "seed": "0"}
        save(profile, stage, out, {"execution_domain": fill(tidy, **about)})

    return Stage("execution domain table", 1, {}, make, read)


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "execution": main_tables,
    "execution_budget": main_tables,
    "execution_compounding": main_tables,
    "execution_steps": step_tables,
    "execution_errors": step_tables,
    "execution_domain": domain_tables,
}
