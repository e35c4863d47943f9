"""What may be changed about a method before it answers: one frozen record, applied without another backbone pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite

from redlib.expressions import LabelSpace

Named = Mapping[str, float] | tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Intervention:
    """Changes to the weights, then to the experts; the default changes nothing. Experts go by the names R1..RK.

    `split`: take the model of another split. `temperature` divides the router's scores; `top_k` keeps the largest
    weights and makes them add up to one; `weights` replaces them all. `drop` takes an expert's part away and leaves the
    other weights alone; `scale` multiplies it; `noise` adds to it a random vector that many times as long as itself,
    drawn from `noise_seed`.
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
            pairs = getattr(self, name)
            pairs = pairs.items() if isinstance(pairs, Mapping) else pairs
            object.__setattr__(self, name, tuple(sorted((str(expert), float(amount)) for expert, amount in pairs)))
        drop = (self.drop,) if isinstance(self.drop, str) else self.drop
        object.__setattr__(self, "drop", tuple(sorted(set(drop))))
        if self.weights is not None:
            object.__setattr__(self, "weights", tuple(float(weight) for weight in self.weights))

    @property
    def changes(self) -> dict:
        """The fields that differ from the default, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @property
    def routes(self) -> bool:
        """Whether it changes what becomes of the router's scores."""
        return self.temperature != 1.0 or self.top_k is not None

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
            if not isfinite(amount):
                raise ValueError(f"scale and noise of expert {expert} must be finite numbers, got {amount}")
        if any(amount < 0 for _, amount in self.noise):
            raise ValueError("noise is a length relative to the expert's own part and cannot be below 0")
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature must be a number above 0, got {self.temperature}")
        if self.top_k is not None and not (isinstance(self.top_k, int) and 1 <= self.top_k <= K):
            raise ValueError(f"top_k must be a whole number from 1 to {K}, got {self.top_k}")


def _check_weights(weights: Sequence[float], K: int) -> None:
    if len(weights) != K or not all(isfinite(weight) and weight >= 0 for weight in weights):
        given = ", ".join(f"{weight:g}" for weight in weights)
        raise ValueError(f"weights must be {K} numbers of at least 0, one an expert, got ({given})")


NOTHING = Intervention()
