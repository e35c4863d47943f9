"""Is a confidence of 0.8 right eight times in ten? Reliability, calibration error, Brier score, selective answers."""

import numpy as np

from redlib.routing.rows import combine, masked, open_ended
from redlib.statistics import Resampler, Statistic

BINS = 10  # of equal width, from 0 to 1
COVERAGES = tuple(round(c / 20, 2) for c in range(1, 21))


def _members(confidence: np.ndarray, bins: int) -> np.ndarray:
    """Which of the equal bins (lower end left out, as in scikit-learn) holds each confidence: (N, bins), bool."""
    edges = np.linspace(0, 1, bins + 1)
    return np.searchsorted(edges[1:-1], confidence)[:, None] == np.arange(bins)


def reliability(resample: Resampler, confidence, hit, bins: int = BINS) -> dict[tuple[float, str], Statistic]:
    """By bin (its centre): `accuracy`, the share right, and `confidence`, the mean confidence; both (N,).
    Empty bins have no rows."""
    centres = (np.arange(bins) + 0.5) / bins
    wanted = {}
    for centre, mask in zip(centres, _members(confidence, bins).T, strict=True):
        wanted[round(float(centre), 4), "accuracy"] = (hit, mask)
        wanted[round(float(centre), 4), "confidence"] = (confidence, mask)
    return masked(resample, wanted)


def ece(resample: Resampler, confidence, hit, bins: int = BINS) -> Statistic:
    """Expected calibration error of confidence and hit (N,): sum over bins of |mean confidence - share right|, by the
    bin's share of rows."""
    gaps = (np.asarray(confidence) - hit)[:, None] * _members(confidence, bins)
    parts = [open_ended(part) for part in resample.ratio(gaps, np.ones(gaps.shape))]
    total = combine(parts, lambda gaps: np.abs(gaps).sum(0))
    return Statistic(**{**vars(total), "signed": False, "ceiling": np.ones(len(total.value))})


def brier(probability: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Brier score of each row, (N,): probabilities (N, K) of classes truth (N,), summed over classes (0 to 2), or the
    probability (N,) of an event that happens or not (0 to 1)."""
    if probability.ndim == 1:
        return (probability - truth) ** 2
    return ((probability - (truth[:, None] == np.arange(probability.shape[1]))) ** 2).sum(1)


def accepted(score: np.ndarray, seeds: np.ndarray, coverage: float) -> np.ndarray:
    """The share `coverage` of every seed's rows with the highest score (N,), at least one; ties fall by lot; (N,)."""
    mask = np.zeros(len(score), bool)
    for seed in np.unique(seeds):
        rows = np.flatnonzero(seeds == seed)
        lot = np.random.default_rng([3, int(seed)]).permutation(len(rows))
        order = np.lexsort((lot, -score[rows]))
        mask[rows[order[: max(1, int(np.ceil(coverage * len(rows) - 1e-9)))]]] = True
    return mask


def selective(
    resample: Resampler, score: np.ndarray, seeds: np.ndarray, hits: dict[str, np.ndarray], coverages=COVERAGES
) -> dict[tuple[float, str], Statistic]:
    """Accuracy when only the rows with the highest score (N,) are answered, by coverage: {(coverage, metric): ...}.

    hits: which rows (N,) are right, by metric. Coverage 1 is plain accuracy.
    """
    wanted = {}
    for coverage in coverages:
        mask = accepted(score, seeds, coverage)
        wanted |= {(coverage, metric): (hit, mask) for metric, hit in hits.items()}
    return masked(resample, wanted)
