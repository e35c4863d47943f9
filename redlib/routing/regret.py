"""How much better other weights, or another expert, would have been on the very same question."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from redlib.routing.experts import Experts
from redlib.routing.rows import masked
from redlib.statistics import Resampler, Statistic

TOLERANCE = 1e-3  # nats
STEPS = 200  # of the solver, at most; nearly all rows need none
LEVELS = (TOLERANCE, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Regret:
    """Of each row, (N,): log-probabilities (nats) of the true value under the weights used (`own`), under the best
    single expert (`expert`) and under the best mixture (`mixture`, to within `gap`); whether the answer was right, and
    whether some expert alone is (`possible`)."""

    own: np.ndarray
    expert: np.ndarray
    mixture: np.ndarray
    gap: np.ndarray
    right: np.ndarray
    possible: np.ndarray

    @classmethod
    def join(cls, parts: "list[Regret]") -> "Regret":
        """Rows of several, one after another."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))


@torch.no_grad()
def regret(experts: Experts, truth: Tensor, weights=None) -> Regret:
    """Regret of the router's weights (or of `weights` (N, K)) on N rows with true classes `truth` (N,)."""
    used = experts.alpha if weights is None else torch.as_tensor(np.asarray(weights), dtype=experts.alpha.dtype)
    said = experts.answer(used).double()
    rows = torch.arange(len(truth))
    own = said.log_softmax(-1)[rows, truth]
    alone = experts.logits.double().log_softmax(-1)[:, rows, truth]  # (K, N)
    start = torch.nn.functional.one_hot(alone.argmax(0), len(alone)).double()
    start = torch.where((own > alone.max(0).values)[:, None], used.double(), start)
    mixture, gap = best_mixture(experts.logits, truth, start)
    found = (own, alone.max(0).values, mixture, gap, said.argmax(-1) == truth)
    possible = (experts.logits.argmax(-1) == truth).any(0)
    return Regret(*(tensor.numpy() for tensor in (*found, possible)))


def best_mixture(logits: Tensor, truth: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    """Largest log-probability of the true class over all weights on the simplex, and how far from it at most, (N,).

    logits (K, N, C), truth (N,), start (N, K) weights to begin from. The log-probability is concave in the weights, so
    steps that move weight from the worst expert in use to the best one, each as far as it helps, end at the optimum;
    the largest slope over experts minus the mean slope bounds what is left. Rows stop at TOLERANCE.
    """
    rows = torch.arange(len(truth))
    z = logits.double()
    z = (z - z[:, rows, truth][..., None]).permute(1, 0, 2)  # (N, K, C): above the true class
    a = start.double().clone()
    value, gap = torch.empty(len(truth)).double(), torch.empty(len(truth)).double()
    for step in range(STEPS + 1):
        value[rows], slope = _value(z[rows], a[rows])
        gap[rows] = slope.max(1).values - (a[rows] * slope).sum(1)
        rows = rows[gap[rows] > TOLERANCE]
        if not len(rows):
            break
        if step < STEPS:
            a[rows] = _step(z[rows], a[rows])
    return value, gap


def _value(z: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability (n,) and its slopes by expert (n, K) at weights a (n, K)."""
    mixed = torch.einsum("nk,nkc->nc", a, z)
    return -mixed.logsumexp(-1), -torch.einsum("nc,nkc->nk", mixed.softmax(-1), z)


def _step(z: Tensor, a: Tensor) -> Tensor:
    """Weights (n, K) after the best shift between two experts of every row, found by bisection of the slope."""
    n = torch.arange(len(a))
    slope = _value(z, a)[1]
    to, away = slope.argmax(1), slope.masked_fill(a <= 0, torch.inf).argmin(1)
    mixed, turn = torch.einsum("nk,nkc->nc", a, z), z[n, to] - z[n, away]  # (n, C)
    low, high = torch.zeros(len(a)).double(), a[n, away]
    t = most = high  # all of it, if the slope still rises there
    for _ in range(30):
        rises = ((mixed + t[:, None] * turn).softmax(-1) * turn).sum(-1) < 0
        low, high = torch.where(rises, t, low), torch.where(rises, high, t)
        t = (low + high) / 2
    moved = a.clone()
    moved[n, to] += low
    moved[n, away] = torch.where(low >= most, 0.0, a[n, away] - low)
    return moved


def regrets(resample: Resampler, found: Regret, routed: np.ndarray) -> dict[tuple[str, str], Statistic]:
    """{(group, metric): Statistic}; groups all, route=right and route=wrong (`routed` (N,): the router is right).

    regret_expert and regret_mixture: mean log-probability (nats) lost against the best expert (negative: the mixture
    does better than all) and the best mixture. regret_right: share of rows that are wrong although some expert alone is
    right; possible: share of rows where one is; regret_bound: the largest error of regret_mixture's solver, mean.
    """
    told = {
        "regret_expert": found.expert - found.own,
        "regret_mixture": found.mixture - found.own,
        "regret_right": found.possible & ~found.right,
        "possible": found.possible,
        "regret_bound": found.gap,
    }
    groups = {"all": np.ones(len(routed), bool), "route=right": routed, "route=wrong": ~routed}
    wanted = {(group, metric): (values, mask) for group, mask in groups.items() for metric, values in told.items()}
    return masked(resample, wanted, ("regret_expert", "regret_mixture", "regret_bound"))


def exceedance(resample: Resampler, found: Regret, levels=LEVELS) -> dict[tuple[str, float, str], Statistic]:
    """Share of rows whose regret is above each level (nats, none below the solver's TOLERANCE):
    {("regret", level, metric): Statistic}, metrics regret_expert and regret_mixture."""
    everything = np.ones(len(found.own), bool)
    lost = {"regret_expert": found.expert - found.own, "regret_mixture": found.mixture - found.own}
    wanted = {
        ("regret", level, metric): (values > level, everything) for level in levels for metric, values in lost.items()
    }
    return masked(resample, wanted)
