"""The tables of the step decomposer: exact programs by split and length, errors by kind, learning curves, examples."""

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.decomposer import errors
from redlib.statistics import Resampler, Statistic
from redlib.study import planner
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

TASK = "decomposed"
SCORES = {"program_exact": "exact", "program_meaning": "same_meaning"}
EXAMPLES = 2  # of every case


def main_tables(profile: Profile) -> Stage:
    """planner.csv, planner_errors.csv, planner_curves.csv and planner_examples.csv, of every split with planners.

    planner: program_exact (the text is the gold program) and program_meaning (it adds and subtracts the same numbers)
    by method, group all and ops=<steps>; <metric>_below_planner, the planner kept to the grammar minus the method on
    the same rows. planner_errors: error_share by `case`, the kind of the error, among the wrong programs.
    planner_curves: losses and exact programs by epoch. planner_examples: step_probability of lines that a planner
    wrote.
    """
    inputs = {split: planner.predictions_stage(profile, split) for split in planner.splits(profile)}

    def make(stage: Stage, out: Path) -> None:
        read = [pd.read_parquet(made.folder / "predictions.parquet") for made in stage.inputs.values()]
        curves = [_curves(profile, split) for split in stage.inputs]
        frames = {
            "planner": pd.concat([scores(frame, profile.bootstrap) for frame in read]),
            "planner_errors": pd.concat([error_shares(frame, profile.bootstrap) for frame in read]),
            "planner_curves": pd.concat(curves),
            "planner_examples": pd.concat([examples(frame) for frame in read]),
        }
        about = {"task": TASK, "variant": profile.decomposer.chains}
        save(profile, stage, out, {name: fill(frame.assign(**about)) for name, frame in frames.items()})

    return Stage("planner tables", 1, {"resamples": profile.bootstrap}, make, inputs, seconds=10)


def _curves(profile: Profile, split: str) -> pd.DataFrame:
    seeds = range(profile.decomposer.seeds[split])
    made = [planner.trained_stage(profile, split, seed).folder for seed in seeds]
    history = pd.concat([pd.read_csv(folder / "history.csv") for folder in made])
    return evaluation.training_curves(history.assign(variant=profile.decomposer.chains, split=split), TASK)


def _resampler(rows: pd.DataFrame, resamples: int) -> Resampler:
    stream = zlib.crc32(rows["split"].iloc[0].encode())
    return Resampler(rows["seed"], rows["structure"].astype(str), rows["range"], resamples, stream)


def scores(predictions: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Exact programs and programs of the right meaning, a row a seed and one over seeds, of one split's predictions."""
    by_method = {name: rows.sort_values(["seed", "row"]) for name, rows in predictions.groupby("method")}
    some = next(iter(by_method.values()))
    resampler, lengths = _resampler(some, resamples), some["operations"].to_numpy()
    groups = {"all": np.ones(len(some), bool)} | {f"ops={n}": lengths == n for n in sorted(set(lengths.tolist()))}
    wanted = [(method, group, metric) for method in by_method for group in groups for metric in SCORES]
    masks = np.column_stack([groups[group] for _, group, _ in wanted])
    hits = np.column_stack([by_method[method][SCORES[metric]] for method, _, metric in wanted])
    found = dict(zip(wanted, resampler.ratio(hits & masks, masks), strict=True))
    lines = []
    for (method, group, metric), statistic in found.items():
        lines += _lines(method, group, metric, statistic, resampler.seeds)
        if method != "planner":
            below = found["planner", group, metric] - statistic
            lines += _lines(method, group, f"{metric}_below_planner", below, ())
    columns = ["method", "group", "metric", "seed", "value", "n", "low", "high"]
    return pd.DataFrame(lines, columns=columns).assign(split=some["split"].iloc[0], part="test")


def _lines(method: str, group: str, metric: str, statistic: Statistic, seeds) -> list[tuple]:
    estimates = [(str(seed), statistic.of_seed(place)) for place, seed in enumerate(seeds)]
    estimates.append(("all", statistic.overall()))
    return [(method, group, metric, seed, e.value, e.n, e.low, e.high) for seed, e in estimates if e.n]


def error_shares(predictions: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Of the wrong programs of a method, the share of every kind of error; of all its programs, error_rate.

    A method without a wrong program has rows of error_rate alone.
    """
    lines = []
    for method, rows in predictions.groupby("method"):
        rows = rows.sort_values(["seed", "row"])
        wrong = ~rows["exact"].to_numpy()
        kinds = np.column_stack([rows["kind"] == kind for kind in errors.KINDS])
        resampler = _resampler(rows, resamples)
        of_all = resampler.ratio(kinds, np.ones(kinds.shape))
        of_wrong = resampler.ratio(kinds, np.repeat(wrong[:, None], kinds.shape[1], 1))
        for metric, statistics in (("error_rate", of_all), ("error_share", of_wrong)):
            for kind, statistic in zip(errors.KINDS, statistics, strict=True):
                e = statistic.overall()
                if e.n:
                    lines.append((method, kind, metric, e.value, e.n, e.low, e.high))
    columns = ["method", "case", "metric", "value", "n", "low", "high"]
    about = {"split": predictions["split"].iloc[0], "part": "test", "group": "all", "seed": "all"}
    return pd.DataFrame(lines, columns=columns).assign(**about)


def examples(predictions: pd.DataFrame) -> pd.DataFrame:
    """Some questions of the first seed and the lines that the planner wrote in a search, each with its probability.

    Cases: `surest` and `least_sure`, the longest right programs of the highest and lowest probability, and `wrong`.
    Columns: case, text, line (1, 2, ...; the last one is the answer's), step (the line written), wanted (the gold one).
    """
    method, seed = planner.METHODS[0], predictions["seed"].min()
    rows = predictions[(predictions["method"] == method) & (predictions["seed"] == seed)]
    rows = rows.assign(probability=[float(np.prod(p)) for p in rows["step_probabilities"]])
    right, wrong = rows[rows["exact"]], rows[~rows["exact"]]
    right = right[right["operations"] == right["operations"].max()].sort_values(["probability", "row"])
    chosen = {"surest": right.tail(EXAMPLES)} | {"wrong": wrong.sort_values(["probability", "row"]).tail(EXAMPLES)}
    chosen["least_sure"] = right.iloc[: max(0, min(EXAMPLES, len(right) - EXAMPLES))]
    lines = []
    for case, picked in chosen.items():
        for row in picked.itertuples():
            said, gold = row.predicted_program.split("\n"), row.program.split("\n")
            for line, (step, p) in enumerate(zip(said, row.step_probabilities, strict=True), start=1):
                wanted = gold[line - 1] if line <= len(gold) else "nothing"
                lines.append((case, row.text, line, step, wanted, p))
    columns = ["case", "text", "line", "step", "wanted", "value"]
    about = {"split": rows["split"].iloc[0], "part": "test", "group": "all", "seed": str(rows["seed"].iloc[0])}
    return pd.DataFrame(lines, columns=columns).assign(method=method, metric="step_probability", **about)


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "planner": main_tables,
    "planner_errors": main_tables,
    "planner_curves": main_tables,
    "planner_examples": main_tables,
}
