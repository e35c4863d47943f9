"""The tables of the ablations: accuracy of every run, its paired change, its parameters and whole configuration."""

import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from redlib.config import Profile
from redlib.statistics import Estimate, Resampler, Statistic
from redlib.study import ablations
from redlib.study.ablations import Entry, Run
from redlib.study.ablations.run import run_stage
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

Accuracies = Mapping[tuple[Run, int], Mapping[str, Statistic]]  # of a run on its first so many seeds, by metric


def ablation_tables(profile: Profile) -> Stage:
    """ablations.csv: every run of every question and its paired change; ablations_cost.csv: parameters and settings."""
    return _tables(profile, False)


def tuned_tables(profile: Profile) -> Stage:
    """ablations_tuned.csv and ablations_tuned_cost.csv: the same for the questions that tune layers of the backbone."""
    return _tables(profile, True)


def tuned_hint(profile: Profile) -> str:
    """How the tuned questions are answered where they are not yet, and how long it takes."""
    name = profile.measured
    if profile.reads:
        return f"The record does not hold these runs yet; `python -m redlib sweep tuned --profile {name}` makes them."
    missing = list(tuned_tables(profile).missing())
    count = sum(stage.name.startswith("ablation (") for stage in missing)
    hours = sum(stage.seconds for stage in missing) / 3600
    return (
        f"Not made here: `python -m redlib sweep tuned --profile {name}` makes the {count} runs that are missing, in "
        f"about {hours:.1f} hours; what is there is not made again, so it can be stopped and started."
    )


def _tables(profile: Profile, tuned: bool) -> Stage:
    wanted, runs = ablations.entries(profile, tuned), ablations.runs(profile, tuned)
    name = "ablations_tuned" if tuned else "ablations"
    inputs = {run.name: run_stage(profile, run) for run in runs}
    asked = [[entry.question, entry.run.name, entry.reference.name] for entry in wanted]

    def make(stage: Stage, out: Path) -> None:
        folders = {run: stage.inputs[run.name].folder for run in runs}
        settings = {run: {**stage.inputs[run.name].config, "rows": profile.ablations.rows} for run in runs}
        frames = {name: tidy(wanted, folders, profile.bootstrap), f"{name}_cost": costs(folders, settings)}
        save(profile, stage, out, frames)

    config = {"resamples": profile.bootstrap, "asked": asked}
    return Stage(f"{'tuned ' if tuned else ''}ablation tables", 1, config, make, inputs, 5 + len(runs) * 0.5)


def tidy(wanted: list[Entry], folders: Mapping[Run, Path], resamples: int) -> pd.DataFrame:
    """Tidy rows with columns question, reference, changed and x, the place of a run in its question (its own RED: 0).

    value_accuracy, range_accuracy and, with a router, router_accuracy (does it choose the expert that the row belongs
    to) by seed and over seeds; over seeds also <metric>_change, the run minus its reference on the same rows of the
    seeds that both have; effective_experts (exponential of the entropy of the mean weights) and logit_difference
    (mixing states against mixing logits) by seed and as a mean. Intervals resample structures within their range, then
    seeds.
    """
    accuracies = _accuracies(folders, resamples)
    measured = {run: pd.read_csv(folder / "measured.csv") for run, folder in folders.items()}
    own: dict[tuple, list[Run]] = {}  # the runs of a question on one task and split, its RED first
    rows: list[dict] = []
    for entry in wanted:
        run, there = entry.run, own.setdefault((entry.question, *_key(entry.run)), [])
        if run not in there:
            there.append(run)
            about = _about(entry.question, run, there[0], there.index(run))
            rows += [about | row for row in _levels(accuracies[run, run.seeds])]
            rows += [about | row for row in _measured(measured[run])]
        if run != entry.reference:
            about = _about(entry.question, run, entry.reference, there.index(run))
            seeds = min(run.seeds, entry.reference.seeds)
            pair = accuracies[run, seeds], accuracies[entry.reference, seeds]
            rows += [about | row for row in _changes(*pair)]
    return pd.DataFrame(rows)


def _key(run: Run) -> tuple[str, str, str]:
    """Runs with the same key answer the same rows."""
    return run.task, run.split, run.recipe


def _accuracies(folders: Mapping[Run, Path], resamples: int) -> Accuracies:
    """Every run on all its seeds, and on those of every run with fewer."""
    found = {}
    for key in dict.fromkeys(map(_key, folders)):
        mine = [run for run in folders if _key(run) == key]
        said = {run: pd.read_parquet(folders[run] / "predictions.parquet") for run in mine}
        for seeds in {run.seeds for run in mine}:
            frames = {run: said[run].query("seed < @seeds") for run in mine if run.seeds >= seeds}
            stream = zlib.crc32(f"{key[1]}/{key[2]}/test".encode())  # that of `evaluate`
            found |= {(run, seeds): of_run for run, of_run in _statistics(frames, resamples, stream).items()}
    return found


def _statistics(frames: Mapping[Run, pd.DataFrame], resamples: int, stream: int) -> dict[Run, dict[str, Statistic]]:
    frames = {run: frame.sort_values(["seed", "row"], ignore_index=True) for run, frame in frames.items()}
    items = next(iter(frames.values()))
    hits = {}
    for run, frame in frames.items():
        if not frame[["seed", "row"]].equals(items[["seed", "row"]]):
            raise ValueError(f"{run.name} answers other rows than {next(iter(frames)).name}; they cannot be paired")
        hits[run, "value_accuracy"] = frame["predicted_value"] == frame["value"]
        hits[run, "range_accuracy"] = frame["predicted_range"] == frame["range"]
        if (frame["router_range"] >= 0).all():
            hits[run, "router_accuracy"] = frame["router_range"] == frame["expert"]
    resampler = Resampler(items["seed"], items["structure"], items["range"], resamples, stream)
    columns = np.column_stack(list(hits.values()))
    ratios = zip(hits, resampler.ratio(columns, np.ones(columns.shape)), strict=True)
    found: dict[Run, dict[str, Statistic]] = {run: {} for run in frames}
    for (run, metric), ratio in ratios:
        found[run][metric] = ratio
    return found


def _about(question: str, run: Run, reference: Run, place: int) -> dict:
    task, split, _ = _key(run)
    about = {"task": task, "variant": run.variant, "split": split, "part": "test", "method": run.arm, "group": "all"}
    return {**about, "question": question, "reference": reference.variant, "changed": run.changed, "x": float(place)}


def _levels(of_run: Mapping[str, Statistic]) -> Iterator[dict]:
    for metric, number in of_run.items():
        for seed in range(len(number.value)):
            yield _row(metric, str(seed), number.of_seed(seed))
        yield _row(metric, "all", number.overall())


def _changes(of_run: Mapping[str, Statistic], of_reference: Mapping[str, Statistic]) -> Iterator[dict]:
    for metric in of_run.keys() & of_reference.keys():
        yield _row(f"{metric}_change", "all", (of_run[metric] - of_reference[metric]).overall())


def _row(metric: str, seed: str, e: Estimate) -> dict:
    return {"metric": metric, "seed": seed, "value": e.value, "n": e.n, "low": e.low, "high": e.high}


def _measured(numbers: pd.DataFrame) -> Iterator[dict]:
    for metric, mine in numbers[~numbers["metric"].str.startswith("parameters")].groupby("metric"):
        values = {**dict(zip(mine["seed"].astype(str), mine["value"], strict=True)), "all": mine["value"].mean()}
        for seed, value in values.items():
            yield _row(metric, seed, Estimate(value, np.nan, np.nan, pd.NA))


def costs(folders: Mapping[Run, Path], settings: Mapping[Run, Mapping]) -> pd.DataFrame:
    """Trained parameters of every run: all that answers on top of the backbone, and by part; parameters_tuned are the
    backbone's own tuned ones. Column configuration: everything that the run was made with, as JSON, in the first row.
    """
    rows = []
    for run, folder in folders.items():
        counted = pd.read_csv(folder / "measured.csv").query("seed == 0 and metric.str.startswith('parameters')")
        about = {"task": run.task, "variant": run.variant, "split": run.split, "method": run.arm}
        for metric, value in counted[["metric", "value"]].itertuples(index=False):
            full = json.dumps(settings[run], sort_keys=True) if metric == "parameters" else "as of parameters"
            rows.append({**about, "metric": metric, "value": value, "configuration": full})
    return fill(pd.DataFrame(rows), part="test", seed="all", group="all")


TABLES = {
    "ablations": ablation_tables,
    "ablations_cost": ablation_tables,
    "ablations_tuned": tuned_tables,
    "ablations_tuned_cost": tuned_tables,
}
