"""Routing weights: what they must be, and how undecided they are."""

import numpy as np
import pandas as pd
from scipy.special import entr

TOLERANCE = 1e-4  # how far from one the weights of a row may sum


def check_weights(weights, K: int, rows: int | None = None) -> np.ndarray:
    """Routing weights as an array (N, K).

    ValueError names the first fault: another shape, a K that is not the router's, a weight that is not finite or
    negative, a row that does not sum to one within TOLERANCE.
    """
    w = np.asarray(weights)
    if w.ndim != 2 or w.shape[1] != K or rows not in (None, len(w)):
        wanted = f"({'N' if rows is None else rows}, {K})"
        raise ValueError(f"routing weights must have shape {wanted}, one column an expert of the router, got {w.shape}")
    total = w.sum(1, dtype=float)
    for wrong, what in (
        (~np.isfinite(w).all(1), "hold a number that is not finite"),
        ((w < 0).any(1), "hold a negative number"),
        (np.abs(total - 1) > TOLERANCE, "do not sum to one"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"the routing weights of row {row} {what}: {w[row].tolist()}")
    return w


def weights_of(frame: pd.DataFrame, space) -> np.ndarray:
    """Columns alpha_1..alpha_K of predictions, checked, (N, K); ValueError where a column is missing."""
    names = [f"alpha_{k + 1}" for k in range(space.K)]
    other = f"alpha_{space.K + 1}"
    if other in frame or not set(names) <= set(frame):
        there = sum(str(name).startswith("alpha_") for name in frame)
        raise ValueError(f"predictions hold weights of {there} experts, but the label space has K={space.K} ranges")
    return check_weights(frame[names].to_numpy(), space.K)


def entropy(weights: np.ndarray) -> np.ndarray:
    """Entropy of the weights (N, K) of each row as a share of the largest possible: 0 one expert, 1 all alike; (N,)."""
    return entr(weights.astype(float)).sum(1) / np.log(weights.shape[1])
