"""The tables of the robustness experiments: accuracy of every changed RED, and its paired change from the untouched."""

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from redlib.config import Profile
from redlib.evaluation.predictions import align
from redlib.statistics import Estimate, Resampler, Statistic
from redlib.study import modularity
from redlib.study.modularity.ranges import ranges_stages
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import save

VARIANTS = {"task1": "chosen", "beyond": "chosen/questions=beyond", "minus": "chosen/questions=minus"}
Rows = Iterator[tuple[str, str, str, str, Estimate]]  # method, seed, group, metric and what was found


def modularity_tables(profile: Profile) -> Stage:
    """modularity.csv. variant: the questions (VARIANTS); method: what was done; group all and R1..RK, for the new ones
    all alone. value_accuracy and range_accuracy of each seed and over seeds; over seeds <metric>_change and
    <metric>_above_base, minus those of the untouched RED and of the base alone on the same rows; of each seed
    differing_logits (reload) and logit_drift (bf16)."""
    wanted = modularity.settings(profile)
    inputs = {s.name: modularity.modularity_stage(profile, s) for s in wanted}

    def make(stage: Stage, out: Path) -> None:
        frames = []
        for s in wanted:
            folder = stage.inputs[s.name].folder
            for kind, own in pd.read_parquet(folder / "predictions.parquet").groupby("questions"):
                groups = s.labels.names if kind == "task1" else ()
                found = list(compared(own, s, groups, profile.bootstrap))
                frames.append(_frame(found, s, VARIANTS[kind]))
            measured = pd.read_csv(folder / "measured.csv", dtype={"seed": str})
            measured = measured.assign(group="all", n=pd.NA, low=np.nan, high=np.nan)
            frames.append(measured.assign(**_about(s, VARIANTS["task1"])))
        save(profile, stage, out, {"modularity": pd.concat(frames, ignore_index=True)})

    return Stage("modularity tables", 1, {"resamples": profile.bootstrap}, make, inputs, 10)


def ranges_tables(profile: Profile) -> Stage:
    """modularity_ranges.csv. method `K=..` and `red`, the study's own ranges; variant says what stays the same
    (`chosen/same=rank`, `chosen/same=parameters`), column `rank` the experts'. Accuracies and changes as in modularity,
    router_accuracy (of the K ranges) and parameters (of all experts)."""
    wanted = modularity.settings(profile)
    read = {s.name: ranges_stages(profile, s) for s in wanted}
    inputs = {f"{name}, {K}": stage for name, stages in read.items() for K, stage in stages.items()}

    def make(stage: Stage, out: Path) -> None:
        frames = []
        for s in wanted:
            folders = [stage.inputs[f"{s.name}, {K}"].folder for K in read[s.name]]
            predictions = pd.concat([pd.read_parquet(folder / "predictions.parquet") for folder in folders])
            for same, own in predictions.groupby("same"):
                frame = _frame(list(compared(own, s, (), profile.bootstrap)), s, f"chosen/same={same}")
                sizes = own.groupby("method")[["rank", "parameters"]].first()
                counted = sizes["parameters"].rename("value").rename_axis("method").reset_index()
                counted = counted.assign(seed="all", group="all", metric="parameters", n=pd.NA, low=np.nan, high=np.nan)
                frame = pd.concat([frame, counted.assign(**_about(s, f"chosen/same={same}"))], ignore_index=True)
                frames.append(frame.assign(rank=frame["method"].map(sizes["rank"])))
        save(profile, stage, out, {"modularity_ranges": pd.concat(frames, ignore_index=True)})

    return Stage("numbers of ranges tables", 1, {"resamples": profile.bootstrap}, make, inputs, 10)


def compared(predictions: pd.DataFrame, s: Setting, groups: tuple[str, ...], resamples: int) -> Rows:
    """Accuracies of every method on one set of questions, and their differences to `red` and to `base`; intervals
    resample structures, then seeds. A frame with `own_range` also has router accuracies."""
    block = align(predictions)
    stream = zlib.crc32(f"{s.split}/{s.recipe.name}/test".encode())  # that of `evaluate`: equal rows, equal intervals
    resampler = Resampler(block.seeds, block.structures, block.range, resamples, stream)
    masks = {"all": np.ones(len(block.rows), bool)} | {name: block.range == k for k, name in enumerate(groups)}
    numbers: dict[tuple[str, str, str], Statistic] = {}
    for name, method in block.methods.items():
        hits = {
            "value_accuracy": method.predicted_value == block.value,
            "range_accuracy": method.predicted_range == block.range,
        }
        if "own_range" in predictions:
            mine = predictions[predictions["method"] == name].sort_values(["seed", "row"])
            hits["router_accuracy"] = (mine["router_range"] == mine["own_range"]).to_numpy()
        keys = [(name, group, metric) for group in masks for metric in hits]
        found = resampler.ratio(
            np.column_stack([masks[group] & hits[metric] for _, group, metric in keys]),
            np.column_stack([masks[group] for _, group, _ in keys]),
        )
        numbers |= dict(zip(keys, found, strict=True))
    for (name, group, metric), number in numbers.items():
        for i, seed in enumerate(resampler.seeds):
            yield name, str(seed), group, metric, number.of_seed(i)
        yield name, "all", group, metric, number.overall()
        for other, suffix in (("red", "change"), ("base", "above_base")):
            if name != other and (other, group, metric) in numbers:
                yield name, "all", group, f"{metric}_{suffix}", (number - numbers[other, group, metric]).overall()


def _frame(found: list, s: Setting, variant: str) -> pd.DataFrame:
    rows = [
        {
            "method": m,
            "seed": seed,
            "group": g,
            "metric": metric,
            "value": e.value,
            "n": e.n,
            "low": e.low,
            "high": e.high,
        }
        for m, seed, g, metric, e in found
    ]
    return pd.DataFrame(rows).assign(**_about(s, variant))


def _about(s: Setting, variant: str) -> dict[str, str]:
    return {"task": s.task, "variant": variant, "split": s.split, "part": "test"}


TABLES = {"modularity": modularity_tables, "modularity_ranges": ranges_tables}
