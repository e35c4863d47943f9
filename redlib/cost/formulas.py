"""The formulas of the source (4.10.1) to leading order, RED's in its three forms, and where they break even.

Of 4.10: K(dr + rC) + Kd, heads of rank r without a shared classifier. Of 4.4: residuals of rank r that lead back to h,
and one shared classifier, 2Kdr + dC + Kd. Of the authors' public code: heads of rank r on top of base logits,
dC + K(dr + rC) + Kd. A parameter of a linear map is one multiply-add of a text: FLOPs are twice the parameters.
"""

from collections.abc import Callable

FORMULAS: dict[str, tuple[str, Callable[[int, int, int, float], float]]] = {
    "global_head": ("dC", lambda d, C, K, r: d * C),
    "uniform_average": ("KdC", lambda d, C, K, r: K * d * C),
    "softmax_moe": ("KdC + Kd", lambda d, C, K, r: K * d * C + K * d),
    "red/4.10": ("K(dr + rC) + Kd", lambda d, C, K, r: K * r * (d + C) + K * d),
    "red/4.4": ("2Kdr + dC + Kd", lambda d, C, K, r: 2 * K * d * r + d * C + K * d),
    "red/public": ("dC + K(dr + rC) + Kd", lambda d, C, K, r: d * C + K * r * (d + C) + K * d),
}
RED = tuple(name for name in FORMULAS if name.startswith("red/"))


def leading(name: str, d: int, C: int, K: int, r: float = 0) -> float:
    """Parameters by the formula called `name`; ValueError for an unknown name."""
    if name not in FORMULAS:
        raise ValueError(f"unknown formula {name!r}; valid formulas: {', '.join(FORMULAS)}")
    return FORMULAS[name][1](d, C, K, r)


def rank_for(name: str, factor: float, d: int, C: int, K: int) -> float:
    """The rank at which a form of RED has `factor` times fewer parameters than the mixture (KdC + Kd).

    Below zero: no rank reaches it, for what does not depend on the rank is already larger.
    """
    fixed = leading(name, d, C, K, 0)
    return (leading("softmax_moe", d, C, K) / factor - fixed) / (leading(name, d, C, K, 1) - fixed)


def break_even(name: str, d: int, C: int, K: int) -> float:
    """The rank below which a form of RED has fewer parameters than the mixture.

    red/4.10: dC/(d + C). red/4.4: (K - 1)C/(2K). red/public: (K - 1)dC/(K(d + C)).
    """
    return rank_for(name, 1, d, C, K)
