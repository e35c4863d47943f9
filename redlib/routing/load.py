"""How the work is shared between experts, and whether it lies where the questions are."""

import numpy as np
from scipy.special import rel_entr

from redlib.routing.rows import combine
from redlib.statistics import Resampler, Statistic


def balance(load: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """How even loads are: load and truth (K, ...), shares of all work and of all questions over the first axis.

    load_cv: standard deviation over experts by their mean (0: all alike). load_kl_uniform and load_kl_true: Kullback-
    Leibler divergence, in nats, of the loads from equal shares and from the shares of the true ranges.
    """
    K = len(load)
    return {
        "load_cv": load.std(0) * K,
        "load_kl_uniform": rel_entr(load, 1 / K).sum(0),
        "load_kl_true": rel_entr(load, truth).sum(0),
    }


def load(resample: Resampler, weights: np.ndarray, ranges: np.ndarray, space) -> dict[tuple[str, str], Statistic]:
    """Load of each expert and its balance: weights (N, K), true ranges (N,).

    By expert (group R1..RK): load (mean weight), load_first (share of rows that weight it most), true_share (share of
    rows whose true range it is). Group all: load_cv, load_kl_uniform, load_kl_true of the mean weights.
    """
    each = np.arange(space.K)
    first, true = weights.argmax(1)[:, None] == each, ranges[:, None] == each
    found = {}
    for metric, columns in (("load", weights), ("load_first", first), ("true_share", true)):
        ratios = resample.ratio(columns, np.ones(columns.shape))
        found |= {(name, metric): ratio for name, ratio in zip(space.names, ratios, strict=True)}
    parts = [found[name, metric] for metric in ("load", "true_share") for name in space.names]
    for metric in ("load_cv", "load_kl_uniform", "load_kl_true"):
        found["all", metric] = combine(parts, lambda x, metric=metric: balance(x[: space.K], x[space.K :])[metric])
    return found
