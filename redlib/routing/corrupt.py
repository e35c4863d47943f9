"""Routing weights made worse on purpose: a test of the source's "graceful routing errors" (4.4.3)."""

import zlib

import numpy as np

from redlib.routing.weights import check_weights

_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CORRUPTIONS: dict[str, tuple[float, ...]] = {  # strengths, in order
    "dirichlet": _SHARES,
    "neighbour": (0.0, 0.25, 0.5, 0.75, 1.0),
    "wrong": (0.0, 0.25, 0.5, 0.75, 1.0),
    "temperature": (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
}
NEUTRAL = {"dirichlet": 0.0, "neighbour": 0.0, "wrong": 0.0, "temperature": 1.0}  # the strength that changes nothing


def corrupt(weights, kind: str, strength: float, ranges=None, seed: int = 0) -> np.ndarray:
    """Routing weights (N, K), corrupted; at the neutral strength they come back as they are.

    dirichlet: (1 - strength) of the weights and `strength` of random ones (Dirichlet, all parameters 1).
    neighbour: with probability `strength` the largest weight changes places with that of a neighbouring range.
    wrong: with probability `strength` one wrong expert gets all the weight; needs the true `ranges` (N,).
    temperature: weights to the power 1 / strength: below 1 harder, above 1 flatter.

    What is drawn depends on kind, seed and N alone: methods on the same rows meet the same luck, and rows corrupted at
    one probability are corrupted at every higher one. ValueError for an unknown kind, a strength that the kind does
    not have, wrong weights, or one expert only.
    """
    if kind not in CORRUPTIONS:
        raise ValueError(f"unknown corruption {kind!r}; valid corruptions: {', '.join(CORRUPTIONS)}")
    w = np.asarray(weights)
    w = check_weights(w, w.shape[-1])
    valid = strength > 0 if kind == "temperature" else 0 <= strength <= 1
    if not (valid and np.isfinite(strength)):
        wanted = "above 0" if kind == "temperature" else "from 0 to 1"
        raise ValueError(f"corruption {kind} takes a strength {wanted}, got {strength}")
    if w.shape[1] < 2:
        raise ValueError("the weights of one expert cannot be corrupted; the router needs at least two")
    if strength == NEUTRAL[kind]:
        return w
    draw = np.random.default_rng([seed, zlib.crc32(kind.encode())])
    if kind == "dirichlet":
        return (1 - strength) * w + strength * draw.dirichlet(np.ones(w.shape[1]), len(w))
    if kind == "temperature":
        sharp = (w / w.max(1, keepdims=True)).astype(float) ** (1 / strength)
        return sharp / sharp.sum(1, keepdims=True)
    return _with_probability(w, kind, strength, ranges, draw)


def _with_probability(w: np.ndarray, kind: str, strength: float, ranges, draw: np.random.Generator) -> np.ndarray:
    rows, K = np.flatnonzero(draw.random(len(w)) < strength), w.shape[1]
    out = w.copy()
    if kind == "neighbour":
        top = w.argmax(1)
        step = draw.choice([-1, 1], len(w))
        other = np.where((top + step < 0) | (top + step >= K), top - step, top + step)
        out[rows, top[rows]], out[rows, other[rows]] = w[rows, other[rows]], w[rows, top[rows]]
        return out
    truth = np.asarray([] if ranges is None else ranges)
    if truth.shape != (len(w),):
        raise ValueError(f"corruption wrong needs the true range of each of the {len(w)} rows; pass ranges")
    away = (truth + 1 + draw.integers(K - 1, size=len(w))) % K
    out[rows] = np.eye(K, dtype=w.dtype)[away[rows]]
    return out
