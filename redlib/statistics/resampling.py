"""Cluster bootstrap: structures are resampled within a seed, then seeds.

Rows that share a structure are not independent, nor are the rows of one seed; an interval over rows would be far too
narrow. A `Resampler` draws its weights over clusters once, so all statistics that it computes are paired.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from redlib.statistics.proportions import LEVEL, wilson


@dataclass(frozen=True)
class Estimate:
    """A value, its interval, and the number of rows behind it."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Statistic:
    """One number a seed and its resampled values; NaN where a seed has no row. S seeds, B resamples.

    `a - b` is the paired difference (same resamples). `ceiling` (S,) is the largest value that the number can take;
    `clusters` (S,) counts the clusters behind it, `distinct` those over all seeds.
    """

    value: np.ndarray
    draws: np.ndarray  # (S, B)
    rows: np.ndarray  # (S,)
    clusters: np.ndarray  # (S,)
    distinct: int
    seed: int
    ceiling: np.ndarray
    signed: bool = False

    def __sub__(self, other: "Statistic") -> "Statistic":
        return replace(
            self,
            value=self.value - other.value,
            draws=self.draws - other.draws,
            rows=np.minimum(self.rows, other.rows),
            clusters=np.minimum(self.clusters, other.clusters),
            distinct=min(self.distinct, other.distinct),
            ceiling=np.maximum(self.ceiling, other.ceiling),
            signed=True,
        )

    def scaled(self, factor: np.ndarray) -> "Statistic":
        """Every seed's number, resamples and ceiling times that seed's factor (S,)."""
        return replace(
            self, value=self.value * factor, draws=self.draws * factor[:, None], ceiling=self.ceiling * factor
        )

    def of_seed(self, position: int, level: float = LEVEL) -> Estimate:
        """The number of one seed (by position), its interval over clusters only."""
        value = float(self.value[position])
        if np.isnan(value):
            return Estimate(np.nan, np.nan, np.nan, 0)
        low, high = _interval(
            self.draws[position],
            value,
            int(self.clusters[position]),
            float(self.ceiling[position]),
            self.signed,
            level,
        )
        return Estimate(value, low, high, int(self.rows[position]))

    def overall(self, level: float = LEVEL) -> Estimate:
        """Mean over the seeds that have rows; the interval resamples clusters, then seeds (percentile).

        With few seeds the share of the variance that lies between seeds is understated by (S - 1) / S.
        """
        there = ~np.isnan(self.value)
        if not there.any():
            return Estimate(np.nan, np.nan, np.nan, 0)
        value = float(self.value[there].mean())
        ceiling = float(self.ceiling[there].mean())
        low, high = _interval(self.pooled(), value, self.distinct, ceiling, self.signed, level)
        return Estimate(value, low, high, int(self.rows[there].sum()))

    def pooled(self) -> np.ndarray:
        """Resampled means over seeds (B,): seeds drawn with replacement; one drawn twice uses two of its resamples."""
        draws = self.draws[~np.isnan(self.value)]
        return mean_of_finite(draws[redraw_seeds(*draws.shape, self.seed)])


class Resampler:
    """Resamples of N rows: clusters with replacement within each seed and stratum.

    seeds, clusters, strata: (N,) labels; every cluster lies in one stratum. Strata are what the design holds fixed
    (every part is balanced over ranges), so that a resample never loses a range. Deterministic for `seed`.
    """

    def __init__(self, seeds, clusters, strata=None, resamples: int = 1000, seed: int = 0):
        seeds, clusters = np.asarray(seeds), np.asarray(clusters)
        strata = np.zeros(len(seeds), int) if strata is None else np.asarray(strata)
        if not len(seeds) or not len(seeds) == len(clusters) == len(strata):
            raise ValueError(
                f"rows to resample need equally long seeds, clusters and strata, got {len(seeds)}, {len(clusters)}, "
                f"{len(strata)}"
            )
        names, codes = np.unique(clusters, return_inverse=True)
        stratum = np.unique(strata, return_inverse=True)[1]
        pairs = np.unique(np.stack([codes, stratum]), axis=1)
        if pairs.shape[1] != len(names):
            twice = names[pairs[0][:-1][np.diff(pairs[0]) == 0][0]]
            raise ValueError(f"cluster {str(twice)!r} lies in more than one stratum")
        self.n, self.resamples, self.seed = len(seeds), resamples, seed
        self.seeds = np.unique(seeds)
        self._blocks = [
            _Block(np.flatnonzero(seeds == s), codes, stratum, resamples, np.random.default_rng([seed, 7919, i]))
            for i, s in enumerate(self.seeds)
        ]

    def ratio(self, numerator, denominator) -> list[Statistic]:
        """sum(numerator) / sum(denominator) of each column; both (N, M), denominators are 0/1 masks of the rows."""
        numerator, denominator = self._columns(numerator), self._columns(denominator)
        value, draws, rows, clusters, members = [], [], [], [], []
        for block in self._blocks:
            top, bottom = block.sums(numerator), block.sums(denominator)  # (G, M)
            value.append(_divide(top.sum(0), bottom.sum(0)))
            draws.append(_divide(block.weights @ top, block.weights @ bottom))
            rows.append(bottom.sum(0))
            clusters.append((bottom > 0).sum(0))
            members.append([block.names[present] for present in (bottom > 0).T])
        return [
            self._statistic(
                [v[m] for v in value],
                [d[:, m] for d in draws],
                [r[m] for r in rows],
                [c[m] for c in clusters],
                [names[m] for names in members],
            )
            for m in range(numerator.shape[1])
        ]

    def macro_f1(self, truth, predicted, mask=None) -> Statistic:
        """Mean F1 over the labels present in the truth of the masked rows.

        truth, predicted: (N,) integer labels. Over all C labels it is this times (labels present) / C, because a label
        that never occurs has F1 0. A resample loses labels of few clusters, which shifts its mean, so the resamples
        are centred on the value.
        """
        truth, predicted = np.asarray(truth), np.asarray(predicted)
        mask = np.ones(self.n, bool) if mask is None else np.asarray(mask, bool)
        value, draws, rows, clusters, members = [], [], [], [], []
        for block in self._blocks:
            use = mask[block.rows]
            counts = block.label_counts(truth[block.rows], predicted[block.rows], use)  # (3 * L, G)
            some = np.bincount(block.cluster[use], minlength=len(block.names)) > 0
            value.append(_f1(*np.split(counts.sum(1), 3)))
            resampled = _f1(*np.split((counts @ block.weights.T).T, 3, axis=1))
            draws.append(np.clip(resampled - mean_of_finite(resampled) + value[-1], 0, 1))
            rows.append(use.sum())
            clusters.append(some.sum())
            members.append(block.names[some])
        return self._statistic(value, draws, rows, clusters, members)

    def _columns(self, values) -> np.ndarray:
        values = np.asarray(values, np.float32)
        values = values[:, None] if values.ndim == 1 else values
        if len(values) != self.n:
            raise ValueError(f"expected one value for each of {self.n} rows, got {len(values)}")
        if np.isnan(values).any():
            raise ValueError("a value to average is NaN; leave the row out through the denominator")
        return values

    def _statistic(self, value, draws, rows, clusters, members) -> Statistic:
        return Statistic(
            value=np.array(value, float),
            draws=np.array(draws, float),
            rows=np.array(rows, int),
            clusters=np.array(clusters, int),
            distinct=len(np.unique(np.concatenate(members))),
            seed=self.seed,
            ceiling=np.ones(len(value)),
        )


class _Block:
    """Rows of one seed: which cluster each belongs to, and how often each resample draws each cluster, (B, G)."""

    def __init__(self, rows, codes, stratum, resamples, rng):
        self.rows = rows
        self.names, first, self.cluster = np.unique(codes[rows], return_index=True, return_inverse=True)
        self.weights = np.ascontiguousarray(draw_counts(stratum[rows][first], resamples, rng).T).T  # by cluster

    def sums(self, values: np.ndarray) -> np.ndarray:
        """(N, M) of all rows -> (G, M) sums by cluster; float32 holds counts below 2**24 exactly."""
        n = len(self.rows)
        member = sparse.csr_array((np.ones(n, np.float32), (self.cluster, np.arange(n))), (len(self.names), n))
        return member @ values[self.rows]

    def label_counts(self, truth, predicted, use) -> sparse.csr_array:
        """By cluster, and by label present in the truth: rows of that label, rows got right, rows predicted so; one
        after another, (3 * L, G)."""
        labels = np.unique(truth[use])
        place = np.minimum(np.searchsorted(labels, predicted), max(len(labels) - 1, 0))
        known = use & (labels[place] == predicted) if len(labels) else use
        right = known & (truth == predicted)
        counted = (
            (use, np.searchsorted(labels, truth)),
            (right, place + len(labels)),
            (known, place + 2 * len(labels)),
        )
        rows = np.concatenate([label[keep] for keep, label in counted])
        clusters = np.concatenate([self.cluster[keep] for keep, _ in counted])
        return sparse.csr_array((np.ones(len(rows), np.float32), (rows, clusters)), (3 * len(labels), len(self.names)))


def redraw_seeds(seeds: int, resamples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which seeds each resample holds and which of their resamples, (B, S) each: none is used twice in one."""
    picks = np.random.default_rng([seed, seeds]).integers(seeds, size=(resamples, seeds))
    turns = (np.arange(resamples)[:, None] + np.arange(seeds) * max(1, resamples // seeds)) % resamples
    return picks, turns


def draw_counts(strata: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each of G clusters is drawn in each resample, with replacement within its stratum: (B, G)."""
    counts = np.zeros((resamples, len(strata)), np.float32)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        picks = rng.integers(len(members), size=(resamples, len(members)))
        flat = (picks + np.arange(resamples)[:, None] * len(members)).ravel()
        counts[:, members] = np.bincount(flat, minlength=resamples * len(members)).reshape(resamples, -1)
    return counts


def _divide(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    top, bottom = np.asarray(top, float), np.asarray(bottom, float)
    return np.divide(top, bottom, out=np.full(np.broadcast_shapes(top.shape, bottom.shape), np.nan), where=bottom > 0)


def _f1(true: np.ndarray, hit: np.ndarray, claimed: np.ndarray) -> np.ndarray:
    """Counts (..., L) -> mean F1 over the labels with true rows (...)."""
    return mean_of_finite(np.where(true > 0, _divide(2 * hit, true + claimed), np.nan))


def mean_of_finite(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis of values (..., n), of those that are finite; NaN where none is."""
    finite = np.isfinite(values)
    return _divide(np.where(finite, values, 0).sum(-1), finite.sum(-1))


def _interval(draws, value, clusters, ceiling, signed, level) -> tuple[float, float]:
    """Percentile interval; Wilson over clusters where the resamples do not vary (all right, all wrong, one cluster)."""
    draws = draws[np.isfinite(draws)]
    if draws.size and np.ptp(draws) > 1e-12:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)
    if signed:  # no cluster deviates: at most this share of clusters could
        reach = wilson(0, clusters, level)[1] * ceiling
        return max(-ceiling, value - reach), min(ceiling, value + reach)
    low, high = wilson(min(value / ceiling, 1.0) * clusters, clusters, level)
    return low * ceiling, high * ceiling


def unpaired_difference(a: Statistic, b: Statistic, level: float = LEVEL) -> Estimate:
    """a minus b of two resamplers with different seeds (other rows, e.g. two splits); n is the smaller row count."""
    first, second = a.overall(level), b.overall(level)
    if not (first.n and second.n):
        return Estimate(np.nan, np.nan, np.nan, 0)
    value = first.value - second.value
    ceiling = float(max(np.nanmax(a.ceiling), np.nanmax(b.ceiling)))
    low, high = _interval(a.pooled() - b.pooled(), value, min(a.distinct, b.distinct), ceiling, True, level)
    return Estimate(value, low, high, min(first.n, second.n))


def cluster_mean(values, clusters, seeds=None, strata=None, resamples: int = 1000, seed: int = 0) -> Estimate:
    """Mean of 0/1 values (N,) with its interval over clusters, then seeds."""
    seeds = np.zeros(len(values), int) if seeds is None else seeds
    return Resampler(seeds, clusters, strata, resamples, seed).ratio(values, np.ones(len(values)))[0].overall()
