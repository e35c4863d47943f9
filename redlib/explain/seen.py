"""Which structures a model was trained on, and which of them lie nearest to a new one."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from redlib.expressions import Expression


@dataclass(frozen=True)
class Neighbour:
    """A training structure, and by how much its numbers have to change, in all, to become the one asked about."""

    structure: str
    distance: int


@dataclass(frozen=True)
class Structures:
    """The structures of a model's training rows, as keys such as "+12+27" (`Expression.structure_key`)."""

    keys: frozenset[str]

    @classmethod
    def of(cls, keys: Iterable[str]) -> "Structures":
        """From keys, in which one may stand more than once."""
        return cls(frozenset(keys))

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, expression: Expression) -> bool:
        return expression.structure_key in self.keys

    def nearest(self, expression: Expression, n: int = 3) -> tuple[Neighbour, ...]:
        """The n training structures with as many added and subtracted terms that lie nearest, ties by key.

        The distance is the sum of absolute differences between the sorted added terms, plus the same of the subtracted
        ones. Empty where no training structure has that form.
        """
        terms, pluses = _terms(expression.structure_key)
        keys, known = self._forms.get((len(terms), pluses), ([], None))
        if known is None:
            return ()
        distance = np.abs(known - np.array(terms)).sum(1)
        first = np.argsort(distance, kind="stable")[:n]
        return tuple(Neighbour(keys[i], int(distance[i])) for i in first)

    @cached_property
    def _forms(self) -> dict[tuple[int, int], tuple[list[str], np.ndarray]]:
        """(number of terms, of them added) -> keys and their terms (n, terms)."""
        by_form = defaultdict(list)
        for key in sorted(self.keys):
            terms, pluses = _terms(key)
            by_form[len(terms), pluses].append((key, terms))
        return {form: ([k for k, _ in rows], np.array([t for _, t in rows])) for form, rows in by_form.items()}


def _terms(key: str) -> tuple[list[int], int]:
    """Terms of a structure key without signs, added ones first, each kind ascending; and how many are added."""
    signed = key.replace("+", " +").replace("-", " -").split()
    return [int(term[1:]) for term in signed], sum(term[0] == "+" for term in signed)
