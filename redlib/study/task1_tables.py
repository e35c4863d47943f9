"""The tables of Task 1: what its notebooks show and its figures draw, each made by a stage."""

from collections.abc import Callable
from dataclasses import astuple
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import datasets, evaluation, probes
from redlib.config import Profile
from redlib.features import Point
from redlib.statistics import Resampler
from redlib.study import methods, task1
from redlib.study.data import feature_set, features_stage, read_pool
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

CURVE_METHODS = ("red", "global_head", "softmax_moe", "global_head_full_data", "mlp_full_data", "fourier_full_data")
MAPPED = ("red", "global_head", "mlp_full_data", "fourier_full_data")
DRIFTING = (  # whose errors by true value are kept
    *("red", "red_uniform", "softmax_moe", "uniform_average", "oracle_experts"),
    *("global_head", "global_head_full_data"),
)


def data_tables(profile: Profile) -> Stage:
    """data_checks.csv: is the pool, and is every split of it, what the source describes (4.2.5)."""
    splits = [split for split, n in profile.task1.seeds.items() if n]

    def make(stage: Stage, out: Path) -> None:
        pool = read_pool(stage.inputs["pool"].folder)
        parts = {split: datasets.split(pool, split, 0) for split in splits}
        checks = datasets.report(pool, parts, task1.labels(profile))
        save(profile, stage, out, {"data_checks": fill(checks, variant="pool", method="data", seed="0")})

    return Stage("data tables", 1, {"splits": splits}, make, {"pool": task1.pool(profile)}, seconds=5)


def probe_tables(profile: Profile) -> Stage:
    """probes.csv: validation accuracy of probes by depth and pooling, of each seed and over seeds; intervals resample
    structures within their range, then seeds. Test rows are never read."""
    p = profile.probe
    points = [Point(layer, pooling) for layer in p.layers for pooling in p.poolings]
    pool = task1.pool(profile, p.rows)
    inputs = {"pool": pool, "features": features_stage(pool, profile.backbone, points, None)}

    def make(stage: Stage, out: Path) -> None:
        save(profile, stage, out, {"probes": _depths(profile, stage, points)})

    config = p.model_dump(exclude={"layers", "poolings"}) | {"resamples": profile.bootstrap}
    return Stage("probe tables", 2, config, make, inputs, seconds=p.rows * len(points) * 5e-4)


def _depths(profile: Profile, stage: Stage, points: list[Point]) -> pd.DataFrame:
    p, space = profile.probe, task1.labels(profile)
    pool = read_pool(stage.inputs["pool"].folder)
    made = feature_set(stage.inputs["features"])
    parts = [datasets.split(pool, "structure", seed).to_numpy() for seed in range(p.seeds)]
    train, validation = ([np.flatnonzero(part == name) for part in parts] for name in ("train", "validation"))
    targets = {"value": pool["value"].to_numpy() - space.lo, "range": pool["range"].to_numpy()}
    frame = probes.probe({pt: made.pooled(pt) for pt in points}, targets, train, validation, p.hidden, p.training)
    frame = frame.assign(metric=frame["target"] + "_accuracy")
    keys = ["layer", "pooling", "probe", "metric"]
    hits = frame.pivot(index=["seed", "row"], columns=keys, values="right")  # a column a probe, all of the same rows
    seeds, at = (hits.index.get_level_values(name) for name in hits.index.names)
    resample = Resampler(seeds, pool["structure"].to_numpy()[at], pool["range"].to_numpy()[at], profile.bootstrap)
    statistics = resample.ratio(hits.to_numpy(float), np.ones(hits.shape))
    rows = [
        (*key, seed, *astuple(estimate))
        for key, found in zip(hits.columns, statistics, strict=True)
        for seed, estimate in [*((str(s), found.of_seed(s)) for s in range(p.seeds)), ("all", found.overall())]
    ]
    columns = ["layer", "pooling", "method", "metric", "seed", "value", "low", "high", "n"]
    about = {"variant": "depth", "split": "structure", "part": "validation", "group": "all"}
    return fill(pd.DataFrame(rows, columns=columns), **about)


def selection_tables(profile: Profile) -> Stage:
    """selection.csv: RED's validation accuracy at the profile's depth, pooling and rank and at each one changed.

    Full training rows of the structure split; test rows are never read.
    """
    settings = _candidates(profile)
    inputs = {name: methods.predictions_stage(s) for name, s in settings.items()}

    def make(stage: Stage, out: Path) -> None:
        save(profile, stage, out, {"selection": _selection(profile, stage, settings)})

    return Stage("selection tables", 3, {"resamples": profile.bootstrap}, make, inputs, seconds=10)


def _candidates(profile: Profile) -> dict[str, Setting]:
    """The settings that are compared, by the variant they are called in the table."""
    grid, own = profile.selection, profile.chosen
    here = {"layer": own.layer, "pooling": own.pooling, "rank": own.rank}
    wanted = [here | {"layer": layer} for layer in grid.layers]
    wanted += [here | {"pooling": pooling} for pooling in grid.poolings]
    wanted += [here | {"rank": rank} for rank in grid.ranks]
    points = sorted({*product(grid.layers, grid.poolings), (own.layer, own.pooling)})  # whichever is chosen: one pass
    made = features_stage(task1.pool(profile), profile.backbone, [Point(*point) for point in points], None)
    common = {"seeds": grid.seeds, "methods": ("red",), "features": made}
    named = {"chosen/" + ",".join(f"{k}={v}" for k, v in c.items()): c for c in [here, *wanted]}
    return {name: task1.setting(profile, "chosen", "structure", **c, **common) for name, c in named.items()}


def _selection(profile: Profile, stage: Stage, settings: dict[str, Setting]) -> pd.DataFrame:
    """All candidates on the same rows, so that <metric>_below_own is a paired difference: positive, own is better."""
    frames, about = [], {}
    own = {name: getattr(profile.chosen, name) for name in ("layer", "pooling", "rank")}
    for variant, s in settings.items():
        changed = {name: getattr(s.recipe, name) for name in own}
        method = "own" if changed == own else variant
        about[method] = {"variant": variant, **changed, "own": int(method == "own")}
        predictions = pd.read_parquet(stage.inputs[variant].folder / "predictions.parquet")
        frames.append(predictions[predictions["part"] == "validation"].assign(method=method))
    tidy = evaluation.evaluate(
        pd.concat(frames, ignore_index=True), task1.labels(profile), reference="own", resamples=profile.bootstrap
    )
    tidy = tidy[(tidy["group"] == "all") & ~tidy["metric"].str.startswith("mcnemar")]
    named = pd.DataFrame([about[method] for method in tidy["method"]], index=tidy.index)
    return tidy.assign(method="red", **named)


def main_tables(profile: Profile) -> Stage:
    """task1.csv: every method, recipe and split; with it, what the figures of Task 1 draw (the maps
    of pairs on the structure split alone, where pairs are new, if it has seeds)."""
    settings = task1.settings(profile)
    inputs = {s.name: methods.predictions_stage(s) for s in settings}

    def make(stage: Stage, out: Path) -> None:
        frames = [pd.read_parquet(made.folder / "predictions.parquet") for made in stage.inputs.values()]
        save(profile, stage, out, _main(profile, settings, pd.concat(frames, ignore_index=True)))

    return Stage("task1 tables", 3, {"resamples": profile.bootstrap}, make, inputs, 20 + profile.task1.rows * 1e-3)


def _main(profile: Profile, settings: list[Setting], predictions: pd.DataFrame) -> dict[str, pd.DataFrame]:
    space = task1.labels(profile)
    test = predictions["part"] == "test"
    reported = predictions[test | predictions["method"].isin(methods.ROUTED)]
    drawn = predictions[test & predictions["recipe"].isin(["chosen", "source"])]
    unseen = drawn[drawn["split"] == "structure"]
    history = pd.concat([methods.history(s).assign(variant=s.recipe.name, split=s.split) for s in settings])
    pool = read_pool(task1.pool(profile).folder)
    return {
        "task1": evaluation.evaluate(reported, space, resamples=profile.bootstrap),
        "task1_bias": evaluation.bias_by_value(drawn, space, DRIFTING),
        "task1_confusion": evaluation.range_confusion(drawn, space),
        "task1_pairs": evaluation.operand_map(unseen if len(unseen) else drawn, pool, space, methods=MAPPED),
        "task1_curves": evaluation.training_curves(history),
        "task1_epochs": evaluation.epochs(history, methods.epoch_limits(settings)),
    }


def learning_tables(profile: Profile) -> Stage:
    """task1_learning.csv: accuracy by training rows; two points are the source's structural de-duplication (4.2.5)."""
    t = profile.task1
    sizes = [*(n for n in t.curve_rows if n < t.rows * 8 // 10), "pairs_balanced", "pairs", None]
    splits = [split for split in ("text", "structure") if t.seeds.get(split)]
    settings = [
        task1.setting(
            profile, "chosen", split, subset=size, methods=CURVE_METHODS, seeds=min(t.curve_seeds, t.seeds[split])
        )
        if size
        else task1.setting(profile, "chosen", split)
        for split in splits
        for size in sizes
    ]
    inputs = {s.name: methods.predictions_stage(s) for s in settings}

    def make(stage: Stage, out: Path) -> None:
        save(profile, stage, out, {"task1_learning": _learning(profile, stage, settings)})

    return Stage("learning curve", 1, {"resamples": profile.bootstrap}, make, inputs, 20 + 1e-3 * t.rows)


def _learning(profile: Profile, stage: Stage, settings: list[Setting]) -> pd.DataFrame:
    frames = []
    for s in settings:
        predictions = pd.read_parquet(stage.inputs[s.name].folder / "predictions.parquet")
        kept = (
            predictions["method"].isin(CURVE_METHODS)
            & (predictions["part"] == "test")
            & (predictions["recipe"] == "chosen")
        )
        tidy = evaluation.evaluate(predictions[kept], s.labels, resamples=profile.bootstrap)
        tidy = tidy[tidy["metric"].isin(["value_accuracy", "range_accuracy"]) & (tidy["group"] == "all")]
        size = round(np.mean([len(rows) for rows in Data(s).rows["train"]]))
        kind = s.subset if isinstance(s.subset, str) else "rows"
        frames.append(tidy.assign(variant=f"chosen/{kind}", rows=size))
    return pd.concat(frames)


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "data_checks": data_tables,
    "probes": probe_tables,
    "selection": selection_tables,
    "task1": main_tables,
    "task1_bias": main_tables,
    "task1_confusion": main_tables,
    "task1_pairs": main_tables,
    "task1_curves": main_tables,
    "task1_epochs": main_tables,
    "task1_learning": learning_tables,
}
