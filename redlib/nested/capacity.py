"""How many tokens each width gets: a compute budget becomes capacities, and capacities become counts."""

from collections.abc import Sequence
from itertools import pairwise
from math import floor

import numpy as np
import scipy
from scipy.special import softmax

BETA, DELTA = 10.0, 2.0  # of the objective: how much evenness is worth, and the bonus for the next larger expert
SHARES = (0.125, 0.25, 0.5, 1.0)  # widths as shares of the model's, from the smallest
STEEPEST = 1e4  # slope beyond which every capacity is zero or one


def check_shares(shares: Sequence[float]) -> tuple[float, ...]:
    """Widths as shares of the model's width, from the smallest: each one over a whole number, increasing, 1 last.

    ValueError names the first that is not.
    """
    found = tuple(float(share) for share in shares)
    wrong = [share for share in found if not 0 < share <= 1 or abs(1 / share - round(1 / share)) > 1e-9]
    if wrong or not found or found[-1] != 1 or any(b <= a for a, b in pairwise(found)):
        raise ValueError(
            f"widths must be increasing divisors of the model's width, the last one all of it (such as "
            f"0.125, 0.25, 0.5, 1), got shares {', '.join(f'{share:g}' for share in found) or 'none'}"
        )
    return found


def widths(d: int, shares: Sequence[float]) -> tuple[int, ...]:
    """Features of each expert in a model of width d; ValueError where a share of d is no whole number."""
    shares = check_shares(shares)
    for share in shares:
        if d % round(1 / share):
            raise ValueError(f"the model's width {d} cannot be divided by {round(1 / share)}; choose another width")
    return tuple(d // round(1 / share) for share in shares)


def capacities(
    budget: float, shares: Sequence[float] = SHARES, beta: float = BETA, delta: float = DELTA
) -> tuple[float, ...]:
    """Share of the tokens for each expert, from the smallest, at a compute budget sum_i c_i share_i = `budget`.

    They maximise sum_i c_i delta^i + beta * entropy(c): a bonus for larger experts, and evenness. The maximum has the
    form c_i ~ exp(delta^i / beta + slope * share_i), and its slope is the root of one increasing function. ValueError
    for a budget below the smallest share or above 1.
    """
    shares = check_shares(shares)
    low, high = shares[0], shares[-1]
    if not low - 1e-12 <= budget <= high + 1e-12:
        raise ValueError(f"a budget must lie between {low:g}, the smallest width's share, and 1, got {budget:g}")
    if budget - low < 1e-9 or high - budget < 1e-9:
        alone = 0 if budget - low < 1e-9 else len(shares) - 1
        return tuple(float(i == alone) for i in range(len(shares)))
    w, bonus = np.array(shares), delta ** np.arange(len(shares)) / beta

    def at(slope: float) -> np.ndarray:
        return softmax(bonus + slope * w)

    slope = scipy.optimize.brentq(lambda s: at(s) @ w - budget, -STEEPEST, STEEPEST, xtol=1e-12)
    return tuple(float(c) for c in at(slope))


def check_capacities(given: Sequence[float], shares: Sequence[float]) -> tuple[float, ...]:
    """Capacities as they are, one an expert; ValueError unless there are as many, none negative, and they sum to 1."""
    if len(given) != len(shares):
        raise ValueError(f"{len(shares)} experts need {len(shares)} capacities, got {len(given)}")
    if min(given) < 0 or abs(sum(given) - 1) > 1e-6:
        listed = ", ".join(f"{c:g}" for c in given)
        raise ValueError(f"capacities must not be negative and must sum to 1, got {listed} (sum {sum(given):g})")
    return tuple(given)


def counts(given: Sequence[float], tokens: int) -> tuple[int, ...]:
    """Tokens of each expert, from the smallest: floor(c_j N), and the smallest takes the rest."""
    larger = [floor(c * tokens + 1e-9) for c in given[1:]]
    return (tokens - sum(larger), *larger)


def spent(count: Sequence[int], shares: Sequence[float]) -> float:
    """The budget that these counts really use: mean share of the width over the tokens."""
    return float(np.dot(count, shares) / sum(count))
