"""Shares of right answers by group of rows, and paired differences between them, with intervals."""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import numpy as np
import pandas as pd

from redlib.statistics import Estimate, Resampler, Statistic

Key = tuple[str, ...]  # what a number is about, in the order of `names`
COLUMNS = ("group", "metric", "seed", "value", "n", "low", "high")


def lined_up(frames: Mapping[Key, pd.DataFrame]) -> dict[Key, pd.DataFrame]:
    """Frames of predictions on the same rows of the same seeds, in the same order; ValueError where rows differ."""
    ordered = {key: frame.sort_values(["seed", "row"], ignore_index=True) for key, frame in frames.items()}
    first = next(iter(ordered.values()))[["seed", "row"]]
    for key, frame in ordered.items():
        if not frame[["seed", "row"]].equals(first):
            raise ValueError(f"{', '.join(key)} answers other rows than {', '.join(next(iter(ordered)))}")
    return ordered


def shares(
    items: pd.DataFrame,
    hits: Mapping[Key, Mapping[str, np.ndarray]],
    names: tuple[str, ...],
    groups: Mapping[str, np.ndarray] | None = None,
    differences: Mapping[tuple[Key, str], tuple[tuple[Key, str], tuple[Key, str]]] | None = None,
    resamples: int = 1000,
) -> pd.DataFrame:
    """Columns `names` and COLUMNS: the share of true `hits` by key and metric, by seed and over seeds.

    items: N rows with seed, structure and range; hits and groups (masks): (N,). `differences` by (key, metric) are of
    two shares, (key, metric) each, over seeds only. Intervals resample structures within their range, then seeds; every
    number comes from the same resamples. A group without a row has no number.
    """
    groups = {"all": np.ones(len(items), bool)} if groups is None else groups
    stream = zlib.crc32("/".join(map(str, hits)).encode())
    resampler = Resampler(items["seed"], items["structure"], items["range"], resamples, stream)
    wanted = [(key, metric, group) for key, of_key in hits.items() for metric in of_key for group in groups]
    right = np.column_stack([hits[key][metric] & groups[group] for key, metric, group in wanted])
    asked = np.column_stack([groups[group] for *_, group in wanted])
    found = dict(zip(wanted, resampler.ratio(right, asked), strict=True))
    rows = [row for place, number in found.items() for row in _levels(place, number)]
    for (key, metric), (first, second) in (differences or {}).items():
        for group in groups:
            between = found[*first, group] - found[*second, group]
            rows += _row((key, metric, group), "all", between.overall())
    return pd.DataFrame(rows, columns=[*names, *COLUMNS])


def _levels(place: tuple[Key, str, str], number: Statistic) -> Iterator[tuple]:
    for seed in range(len(number.value)):
        yield from _row(place, str(seed), number.of_seed(seed))
    yield from _row(place, "all", number.overall())


def _row(place: tuple[Key, str, str], seed: str, estimate: Estimate) -> list[tuple]:
    key, metric, group = place
    e = asdict(estimate)
    return [(*key, group, metric, seed, e["value"], e["n"], e["low"], e["high"])] if e["n"] else []
