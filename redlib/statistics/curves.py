"""Mean curves along an axis with resamples: clusters are redrawn within each place of the axis, then seeds.

No resample loses a place, so that measures of a curve's shape (its variation, its turns) keep their meaning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from redlib.statistics.proportions import LEVEL
from redlib.statistics.resampling import Estimate, Statistic, draw_counts, mean_of_finite, redraw_seeds


@dataclass(frozen=True)
class Curves:
    """M curves over V places for each of S seeds: value (S, V, M) and draws (S, B, V, M), NaN where a seed has no row;
    rows (S, V) counts the rows behind them."""

    places: np.ndarray  # (V,)
    value: np.ndarray
    draws: np.ndarray
    rows: np.ndarray
    clusters: np.ndarray  # (S,)
    distinct: int
    seed: int

    def band(self, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean over the seeds that have rows, and its interval over clusters, then seeds: three arrays (V, M)."""
        picks, turns = redraw_seeds(len(self.draws), self.draws.shape[1], self.seed)
        pooled = mean_of_finite(np.moveaxis(self.draws[picks, turns], 1, -1))  # (B, V, M)
        whole = np.isfinite(pooled).all((0, 2))  # a resample of seeds may miss a place that few of them have
        ends = np.empty((2, *pooled.shape[1:]))
        for quantile, places in ((np.quantile, whole), (np.nanquantile, ~whole)):
            ends[:, places] = quantile(pooled[:, places], [(1 - level) / 2, (1 + level) / 2], axis=0)
        low, high = ends
        return mean_of_finite(np.moveaxis(self.value, 0, -1)), low, high

    def statistic(self, measure: Callable[[np.ndarray, np.ndarray], np.ndarray], columns: slice) -> Statistic:
        """One number a seed: measure(curves (..., v, m), places (v,)) -> (...), over the places that the seed has.

        A resampled mean is noisier than the mean, which adds to most measures of shape; the resamples are therefore
        centred on the value.
        """
        value, draws = [], []
        for mean, resampled, rows in zip(self.value, self.draws, self.rows, strict=True):
            there = rows > 0
            if not there.any():
                value.append(np.nan)
                draws.append(np.full(len(resampled), np.nan))
                continue
            value.append(float(measure(mean[there][:, columns], self.places[there])))
            found = measure(resampled[:, there][:, :, columns], self.places[there])
            draws.append(found - found.mean() + value[-1])
        seeds = len(value)
        return Statistic(
            value=np.array(value),
            draws=np.array(draws),
            rows=self.rows.sum(1),
            clusters=self.clusters,
            distinct=self.distinct,
            seed=self.seed,
            ceiling=np.ones(seeds),
        )


class CurveResampler:
    """Resamples of N rows along an axis. places, clusters: (N,), every cluster at one place; masks: which rows each of
    S seeds has, (N,) each. All curves that it computes are paired."""

    def __init__(
        self, places: np.ndarray, clusters: Sequence, masks: Sequence[np.ndarray], resamples: int = 1000, seed: int = 0
    ):
        places = np.asarray(places)
        names, codes = np.unique(np.asarray(clusters), return_inverse=True)
        if not len(places) == len(codes) == len(masks[0]):
            raise ValueError(
                f"curves need equally long places, clusters and masks, got {len(places)}, {len(codes)}, {len(masks[0])}"
            )
        place_of = np.zeros(len(names), places.dtype)
        place_of[codes] = places
        if (place_of[codes] != places).any():
            twice = names[codes[place_of[codes] != places][0]]
            raise ValueError(f"cluster {str(twice)!r} lies at more than one place")
        self.places, self.seed, self.n = np.unique(places[np.any(masks, axis=0)]), seed, len(places)
        self._parts = [
            _Part(
                np.flatnonzero(mask), codes, place_of, self.places, resamples, np.random.default_rng([seed, 104729, i])
            )
            for i, mask in enumerate(masks)
        ]

    def means(self, values: Sequence[np.ndarray]) -> Curves:
        """Mean curves of the columns of `values`, an array (N, M) a seed."""
        for array in values:
            if len(array) != self.n:
                raise ValueError(f"expected values for each of {self.n} rows, got {len(array)}")
        made = [part.means(np.asarray(array, float)) for part, array in zip(self._parts, values, strict=True)]
        groups = [part.groups for part in self._parts]
        return Curves(
            places=self.places,
            value=np.stack([value for value, _ in made]),
            draws=np.stack([draws for _, draws in made]),
            rows=np.stack([part.rows_at for part in self._parts]),
            clusters=np.array([len(group) for group in groups]),
            distinct=len(np.unique(np.concatenate(groups))),
            seed=self.seed,
        )


class _Part:
    """One seed's rows, their clusters sorted by place, and how often each resample draws each cluster (B, G)."""

    def __init__(self, rows, codes, place_of, places, resamples, rng):
        self.rows = rows
        groups = np.unique(codes[rows])
        self.groups = groups[np.argsort(place_of[groups], kind="stable")]
        turn = np.zeros(len(place_of), int)
        turn[self.groups] = np.arange(len(self.groups))
        self.cluster = turn[codes[rows]]
        at = np.searchsorted(places, place_of[self.groups])
        self.here, self.starts = np.unique(at, return_index=True)
        self.sizes = np.bincount(self.cluster, minlength=len(self.groups)).astype(float)
        self.rows_at = np.bincount(at, weights=self.sizes, minlength=len(places)).astype(int)
        self.weights = draw_counts(at, resamples, rng).astype(float)
        self.totals = np.add.reduceat(self.weights * self.sizes, self.starts, axis=1) if len(rows) else None

    def means(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns of (N, M) -> the curve (V, M) and its resamples (B, V, M)."""
        shape = (len(self.rows_at), values.shape[1])
        value, draws = np.full(shape, np.nan), np.full((len(self.weights), *shape), np.nan, np.float32)
        if not len(self.rows):
            return value, draws
        for m, column in enumerate(values[self.rows].T):
            sums = np.bincount(self.cluster, weights=column, minlength=len(self.groups))
            value[self.here, m] = np.add.reduceat(sums, self.starts) / self.rows_at[self.here]
            draws[:, self.here, m] = np.add.reduceat(self.weights * sums, self.starts, axis=1) / self.totals
        return value, draws


def interval(statistic: Statistic, level: float = LEVEL) -> Estimate:
    """Mean over the seeds that have rows, with its interval over clusters, then seeds, for a number without a fixed
    largest value; resamples that are all alike give the point itself."""
    there = ~np.isnan(statistic.value)
    if not there.any():
        return Estimate(np.nan, np.nan, np.nan, 0)
    pooled = statistic.pooled()
    low, high = np.quantile(pooled[np.isfinite(pooled)], [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(statistic.value[there].mean()), float(low), float(high), int(statistic.rows[there].sum()))
