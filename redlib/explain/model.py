"""The trained parts of one split, and the methods that they make up."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor, nn

from redlib import models
from redlib.explain.additive import additive
from redlib.explain.seen import Structures
from redlib.expressions import LabelSpace
from redlib.models import Method


@dataclass(frozen=True, eq=False)
class Model:
    """The trained parts of one split and seed; `name` says which, `seen` what they were trained on, `kinds` which
    methods may be made of them."""

    name: str
    labels: LabelSpace
    parts: Mapping[str, nn.Module]
    seen: Structures
    kinds: tuple[str, ...] = tuple(models.METHODS)

    @cached_property
    def methods(self) -> dict[str, Method]:
        """Every method that the parts make up, reading h (B, d)."""
        parts = self._shared | {"base": nn.Identity()}
        there = [name for name in self.kinds if models.needs([name]) <= set(parts)]
        return {name: models.assemble(name, self.labels, parts) for name in there}

    @cached_property
    def _shared(self) -> dict[str, nn.Module]:
        return {name: _Once(part) for name, part in self.parts.items() if name != "base"}

    def consider(self, h: Tensor) -> None:
        """From now on, what a part says of this very h (B, d) is computed once, however many methods ask."""
        for part in self._shared.values():
            part.consider(h)

    @property
    def routed(self) -> list[str]:
        """The methods whose answers are sums over experts."""
        return [name for name, method in self.methods.items() if additive(method)]


class _Once(nn.Module):
    """A part that remembers its output for the one tensor that is under consideration."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part, self._kept = part, [(None, None)]  # in a list, whose items nn.Module does not look at

    def consider(self, x: Tensor) -> None:
        self._kept[0] = (x, None)

    @property
    def weight(self) -> Tensor:
        return self.part.weight

    @property
    def shape(self) -> dict:
        return self.part.shape

    def by_period(self) -> tuple[Tensor, Tensor]:
        return self.part.by_period()

    def __call__(self, x: Tensor) -> Tensor:  # not `forward`: asked dozens of times a text, and has no hooks
        asked, said = self._kept[0]  # one read: another thread may consider another tensor
        if asked is not x:
            return self.part(x)
        if said is None:
            said = self.part(x)
            self._kept[0] = (x, said)
        return said
