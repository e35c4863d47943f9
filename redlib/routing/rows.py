"""From statistics to result rows, and what the statistics of this room share."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from redlib.statistics import Resampler, Statistic

Statistics = Mapping[tuple, Statistic]


def resampler(frame: pd.DataFrame, name: str, resamples: int = 1000, seed: int = 0) -> Resampler:
    """Resamples of one method's rows (columns seed, structure, range): structures within their range, then seeds.
    Rows in the same order and the same `name` give the same resamples, so that methods can be subtracted."""
    stream = zlib.crc32(name.encode())
    return Resampler(frame["seed"], frame["structure"], frame["range"], resamples, seed + stream)


def masked(resample: Resampler, wanted: Mapping[tuple, tuple], unbounded: Iterable[str] = ()) -> dict:
    """Means over masks: {key: (values (N,), mask (N,))} -> {key: Statistic}. A key ends in its metric; those that are
    `unbounded` are no shares, and have no interval where no resample differs."""
    if not wanted:
        return {}
    top = np.column_stack([np.asarray(values, np.float32) * mask for values, mask in wanted.values()])
    bottom = np.column_stack([mask for _, mask in wanted.values()])
    found = dict(zip(wanted, resample.ratio(top, bottom), strict=True))
    return {key: open_ended(s) if key[-1] in unbounded else s for key, s in found.items()}


def open_ended(statistic: Statistic) -> Statistic:
    """A mean of numbers that are no shares: nothing says how far it could reach where no resample differs."""
    return replace(statistic, signed=True, ceiling=np.full(len(statistic.value), np.nan))


def combine(parts: Sequence[Statistic], function: Callable[[np.ndarray], np.ndarray]) -> Statistic:
    """A number >= 0 computed from several statistics of the same rows: `function` reduces the first axis
    of (n, S) and (n, S, B).

    Such numbers (a distance, a calibration error) grow with noise, so the resamples are centred on the value.
    """
    value = function(np.stack([part.value for part in parts]))  # (S,)
    draws = function(np.stack([part.draws for part in parts]))  # (S, B)
    centred = np.clip(draws - draws.mean(1, keepdims=True) + value[:, None], 0, None)
    return replace(parts[0], value=value, draws=centred)


def tidy(
    statistics: Statistics, columns: Sequence[str], seeds: Sequence[int] = (), **about: str | float
) -> pd.DataFrame:
    """Result rows of statistics whose keys are the values of `columns` (the last is `metric`): one row over seeds, and
    one for each of `seeds`. `about` fills the other columns. Numbers that do not exist have no row."""
    rows = []
    for key, statistic in statistics.items():
        estimates = [(str(seed), statistic.of_seed(i)) for i, seed in enumerate(seeds)]
        for seed, e in [*estimates, ("all", statistic.overall())]:
            if e.n and np.isfinite(e.value):
                rows.append((*key, seed, e.value, e.n, e.low, e.high))
    return pd.DataFrame(rows, columns=[*columns, "seed", "value", "n", "low", "high"]).assign(**about)
