"""Parameters and FLOPs of every method in closed form, on top of the backbone, for one text.

d hidden size, C classes, K experts, r rank of a residual expert, `hidden` units of the router (0: a linear one).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from redlib import models

PUBLIC = "public_red"  # the authors' public form: base logits + 0.1 sum_i a_i e_i(h), e_i of r hidden units
NAMES = (*models.METHODS, PUBLIC)
CIRCLES = 2 * len(models.PERIODS)  # coordinates of the Fourier readout


@dataclass(frozen=True)
class Sizes:
    """The sizes of a method; ValueError names one that is no positive whole number (`hidden` may be 0)."""

    d: int
    C: int
    K: int
    r: int
    hidden: int = 256

    def __post_init__(self) -> None:
        for name, least in {"d": 1, "C": 1, "K": 1, "r": 1, "hidden": 0}.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


@dataclass(frozen=True)
class Cost:
    """Parameters, and FLOPs of one text."""

    parameters: int = 0
    flops: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.parameters + other.parameters, self.flops + other.flops)

    def __rmul__(self, times: int) -> "Cost":
        return Cost(times * self.parameters, times * self.flops)


def linear(d_in: int, d_out: int, bias: bool = True) -> Cost:
    """One linear map."""
    return Cost(d_in * d_out + (d_out if bias else 0), 2 * d_in * d_out)


def network(d: int, hidden: int, out: int) -> Cost:
    """Two layers, or one linear map where `hidden` is 0."""
    return linear(d, hidden) + linear(hidden, out) if hidden else linear(d, out)


def router_cost(s: Sizes) -> Cost:
    """The router, or the gate of the mixture."""
    return network(s.d, s.hidden, s.K)


def parts(s: Sizes) -> Mapping[str, Cost]:
    """Every part that methods are assembled from (models.METHODS), by its name."""
    plain, fourier = control_widths(s)
    return {
        "classifier": linear(s.d, s.C),
        "heads": s.K * linear(s.d, s.C),
        "experts": s.K * _expert(s),
        "router": router_cost(s),
        "gate": router_cost(s),
        "linear_full": linear(s.d, s.C),
        "mlp_full": network(s.d, plain, s.C),
        "fourier_full": network(s.d, fourier, CIRCLES) + Cost(CIRCLES, 2 * CIRCLES * s.C),  # a fixed codebook
    }


def _expert(s: Sizes) -> Cost:
    return linear(s.d, s.r, bias=False) + linear(s.r, s.d, bias=False)


def control_widths(s: Sizes) -> tuple[int, int]:
    """Hidden units of the two controls with as many parameters as RED: of a linear and of a Fourier readout."""
    budget = (s.K * _expert(s) + router_cost(s) + linear(s.d, s.C)).parameters
    return round(budget / (s.d + 1 + s.C)), round(budget / (s.d + 1 + CIRCLES))


def method_cost(name: str, s: Sizes) -> Cost:
    """Parameters of the method called `name`, and FLOPs of what its module computes for one text.

    ValueError for an unknown name.
    """
    if name == PUBLIC:
        return linear(s.d, s.C) + s.K * network(s.d, s.r, s.C) + network(s.d, 0, s.K) + _mixing(name, s)
    if name not in models.METHODS:
        raise ValueError(f"no cost of a method {name!r}; valid methods: {', '.join(NAMES)}")
    made = parts(s)
    return sum((made[part] for part in models.needs([name])), _mixing(name, s))


def _mixing(name: str, s: Sizes) -> Cost:
    """FLOPs of the weighted sum over experts, and of a classifier that is asked once an expert."""
    if s.K == 1:  # nothing to sum
        return Cost()
    corrections, logits = 2 * s.K * s.d, 2 * s.K * s.C
    again = (s.K - 1) * linear(s.d, s.C).flops
    mixing = dict.fromkeys(("red", "red_uniform", "top1"), corrections)
    mixing |= dict.fromkeys(("softmax_moe", "red_logit_scale", PUBLIC), logits)
    mixing |= {"moe_same_experts": again + logits}
    return Cost(0, mixing.get(name, 0))


def skipping(name: str, s: Sizes) -> int:
    """FLOPs of one text if nothing is computed whose weight is zero or known beforehand.

    Less than `method_cost` says for the oracle (one head answers), top-1 weights (one expert acts) and equal weights
    (no router): our modules compute all of it, for it is cheap beside the backbone.
    """
    made = parts(s)
    if name == "oracle_experts":
        return linear(s.d, s.C).flops
    if name == "top1":
        return made["router"].flops + _expert(s).flops + made["classifier"].flops
    whole = method_cost(name, s).flops
    return whole - made["router"].flops if name == "red_uniform" else whole
