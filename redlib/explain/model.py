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
    """The trained parts of one split and seed; `name` says which, `seen` what they were trained on."""

    name: str
    labels: LabelSpace
    parts: Mapping[str, nn.Module]
    seen: Structures

    @cached_property
    def methods(self) -> dict[str, Method]:
        """Every method that the parts make up, reading h (B, d); a part that several use is computed once for all."""
        shared = {name: _Once(part) for name, part in self.parts.items() if name != "base"} | {"base": nn.Identity()}
        there = [name for name in models.METHODS if models.needs([name]) <= set(shared)]
        return {name: models.assemble(name, self.labels, shared) for name in there}

    @property
    def routed(self) -> list[str]:
        """The methods whose answers are sums over experts."""
        return [name for name, method in self.methods.items() if additive(method)]


class _Once(nn.Module):
    """A part that remembers its last output, for as long as it is asked about the same tensor."""

    def __init__(self, part: nn.Module):
        super().__init__()
        self.part, self._last = part, (None, None)

    @property
    def weight(self) -> Tensor:
        return self.part.weight

    def forward(self, x: Tensor) -> Tensor:
        asked, said = self._last
        if asked is not x:
            said = self.part(x)
            self._last = (x, said)
        return said
