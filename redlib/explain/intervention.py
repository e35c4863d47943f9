"""What may be changed about a method before it answers: one frozen record, applied without another backbone pass."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from math import isfinite
from numbers import Integral, Real
from typing import Any

from redlib.expressions import LabelSpace

Named = Mapping[str, float] | tuple[tuple[str, float], ...]
LARGEST = 1e6  # what may be multiplied by more than that leaves the numbers of 32 bits


@dataclass(frozen=True)
class Intervention:
    """Changes to the weights, then to the experts; the default changes nothing. Experts go by the names R1..RK.

    `split`: take the model of another split. `temperature` divides the router's scores; `top_k` keeps the largest
    weights and makes them add up to one; `weights` replaces them all. `drop` takes an expert's part away and leaves the
    other weights alone; `scale` multiplies it; `noise` adds to it a random vector that many times as long as itself,
    drawn from `noise_seed`. ValueError names a field that is of the wrong kind, or that names an expert twice.
    """

    weights: tuple[float, ...] | None = None
    drop: tuple[str, ...] = ()
    scale: Named = ()
    noise: Named = ()
    temperature: float = 1.0
    top_k: int | None = None
    split: str | None = None
    noise_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("scale", "noise"):
            object.__setattr__(self, name, _named(name, getattr(self, name)))
        drop = (self.drop,) if isinstance(self.drop, str) else _items("drop", self.drop)
        object.__setattr__(self, "drop", tuple(sorted({str(expert) for expert in drop})))
        if self.weights is not None:
            weights = _items("weights", self.weights)
            object.__setattr__(self, "weights", tuple(_number("weights", weight) for weight in weights))
        object.__setattr__(self, "temperature", _number("temperature", self.temperature))
        for name in ("top_k", "noise_seed"):
            value = getattr(self, name)
            if isinstance(value, Integral) and not isinstance(value, bool):
                object.__setattr__(self, name, int(value))  # NumPy's are no JSON

    @property
    def changes(self) -> dict:
        """The fields that differ from the default, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @property
    def routes(self) -> bool:
        """Whether it changes what becomes of the router's scores."""
        return self.temperature != 1.0 or self.top_k is not None

    @property
    def idle(self) -> tuple[str, ...]:
        """The experts whose scale or noise changes nothing, because they are dropped."""
        return tuple(sorted({expert for expert, _ in (*self.scale, *self.noise)} & set(self.drop)))

    def check(self, labels: LabelSpace) -> None:
        """ValueError, in one sentence, for the first field that cannot be applied to K experts."""
        known, K = labels.names, labels.K
        named = [*self.drop, *(expert for expert, _ in (*self.scale, *self.noise))]
        for expert in named:
            if expert not in known:
                raise ValueError(f"unknown expert {expert!r}; valid experts: {', '.join(known)}")
        if self.weights is not None:
            _check_weights(self.weights, K)
            if self.routes:
                raise ValueError("weights are fixed, so that temperature and top_k have nothing to change; leave them")
        for expert, amount in (*self.scale, *self.noise):
            if not abs(amount) <= LARGEST:
                said = f"scale and noise of expert {expert} must be finite numbers of at most {LARGEST:,.0f}"
                raise ValueError(f"{said}, got {amount:g}")
        if any(amount < 0 for _, amount in self.noise):
            raise ValueError("noise is a length relative to the expert's own part and cannot be below 0")
        if not (isfinite(self.temperature) and self.temperature >= 1 / LARGEST):
            said = f"temperature must be a number above 0, from {1 / LARGEST:g} on"
            raise ValueError(f"{said}, got {self.temperature:g}")
        if self.top_k is not None and not (_whole(self.top_k) and 1 <= self.top_k <= K):
            raise ValueError(f"top_k must be a whole number from 1 to {K}, got {self.top_k!r}")
        if not (_whole(self.noise_seed) and 0 <= self.noise_seed < 2**63):
            raise ValueError(f"noise_seed must be a whole number from 0 to 2**63 - 1, got {self.noise_seed!r}")


def _check_weights(weights: tuple[float, ...], K: int) -> None:
    if len(weights) != K or not all(0 <= weight <= LARGEST for weight in weights):
        given = ", ".join(f"{weight:g}" for weight in weights)
        raise ValueError(f"weights must be {K} numbers of at least 0, at most {LARGEST:,.0f}, got ({given})")


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _items(field: str, given: Any) -> tuple:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"{field} must be several values, got {given!r}")
    return tuple(given)


def _number(field: str, value: Any) -> float:
    try:
        return float(value if isinstance(value, Real) else value.item())
    except (AttributeError, ValueError):
        raise ValueError(f"{field} must be a number, got {value!r}") from None


def _named(field: str, given: Any) -> tuple[tuple[str, float], ...]:
    """Pairs of an expert and a number, sorted; each expert once."""
    pairs = [_items(field, pair) for pair in _items(field, given.items() if isinstance(given, Mapping) else given)]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{field} must give a number to each expert that it names, got {given!r}")
    found = tuple(sorted((str(expert), _number(f"{field} of expert {expert}", amount)) for expert, amount in pairs))
    twice = [one for (one, _), (other, _) in pairwise(found) if one == other]
    if twice:
        raise ValueError(f"{field} names expert {twice[0]} twice")
    return found


NOTHING = Intervention()
