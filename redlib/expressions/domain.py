"""All expressions of a domain, by range: `additions` lists those of Task 1; `Chains` numbers those of Task 2."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, combinations
from math import comb

from redlib.expressions.expression import Expression
from redlib.expressions.labels import SOURCE_LABELS, LabelSpace

SOURCE_OPERANDS = (2, 50)  # first and last operand (the source, 4.1)


def additions(
    operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS, ordered: bool = True
) -> list[list[Expression]]:
    """Every a + b over the operand range whose sum is a label, by range: K lists.

    `ordered=False` keeps one order of each pair (a <= b). Raises ValueError for an empty or negative operand range.
    """
    _check_operands(operands)
    first, last = operands
    strata: list[list[Expression]] = [[] for _ in range(labels.K)]
    for a in range(first, last + 1):
        for b in range(first if ordered else a, last + 1):
            if labels.lo <= a + b <= labels.hi:
                strata[labels.range_of(a + b)].append(Expression((a, b), ("+",)))
    return strata


def _check_operands(operands: tuple[int, int]) -> None:
    first, last = operands
    if not 0 <= first <= last:
        raise ValueError(f"operands {first}..{last}: the first must be >= 0 and not above the last")


@dataclass(frozen=True)
class Chains:
    """All expressions of `pluses` + and `minuses` - in any order whose value lies in `bounds` (first and last value).

    They are numbered 0..count-1 and never listed: four operations over 2..50 have 282 million a pattern of signs.
    Choosing a number uniformly chooses an expression uniformly. Raises ValueError for no operation or bad operands.
    """

    pluses: int
    minuses: int
    bounds: tuple[int, int]
    operands: tuple[int, int] = SOURCE_OPERANDS

    def __post_init__(self) -> None:
        _check_operands(self.operands)
        if min(self.pluses, self.minuses) < 0 or self.operations < 1:
            raise ValueError(f"{self.pluses} plus and {self.minuses} minus signs are no chain of operations")

    @property
    def operations(self) -> int:
        """Operations of each chain."""
        return self.pluses + self.minuses

    @property
    def orders(self) -> int:
        """Number of orders that the signs can stand in."""
        return comb(self.operations, self.pluses)

    @property
    def reach(self) -> int:
        """How many values of `bounds` these chains have."""
        first, last = self.operands
        lowest = (self.pluses + 1) * first - self.minuses * last
        highest = (self.pluses + 1) * last - self.minuses * first
        return max(0, min(highest, self.bounds[1]) - max(lowest, self.bounds[0]) + 1)

    @property
    def count(self) -> int:
        """Number of chains."""
        return self.orders * self._up_to[-1]

    def __getitem__(self, number: int) -> Expression:
        """Expression `number`; IndexError outside 0..count-1."""
        if not 0 <= number < self.count:
            raise IndexError(f"expression {number} of {self.count}")
        first, last = self.operands
        rest, order = divmod(number, self.orders)
        added, rest = _find(self._up_to, rest)
        start, stop = self._subtracted(added)
        subtracting = list(accumulate(_ways(first, last, self.minuses)[start:stop]))
        adding, rest = divmod(rest, subtracting[-1])
        subtracted, rest = _find(subtracting, rest)
        leading, *plus = _terms(first, last, self.pluses + 1, added, adding)
        minus = _terms(first, last, self.minuses, start + subtracted, rest)
        signs = _orders(self.operations, self.pluses)[order]
        sources = {"+": iter(plus), "-": iter(minus)}
        return Expression((leading, *(next(sources[sign]) for sign in signs)), signs)

    @cached_property
    def _up_to(self) -> list[int]:
        """Cumulative number of (added terms, subtracted terms) by the sum of the added ones, smallest first."""
        first, last = self.operands
        minus = [0, *accumulate(_ways(first, last, self.minuses))]
        windows = (self._subtracted(added) for added in range((self.pluses + 1) * (last - first) + 1))
        plus = _ways(first, last, self.pluses + 1)
        return list(
            accumulate(w * (minus[stop] - minus[start]) for w, (start, stop) in zip(plus, windows, strict=True))
        )

    def _subtracted(self, added: int) -> tuple[int, int]:
        """Which sums of the subtracted terms, as a slice of `_ways`, bring the sum `added` into the bounds."""
        first, last = self.operands
        total = (self.pluses + 1) * first + added - self.minuses * first  # the value when all of them are smallest
        sums = self.minuses * (last - first) + 1
        return min(max(0, total - self.bounds[1]), sums), max(0, min(total - self.bounds[0] + 1, sums))


@lru_cache(maxsize=256)
def _ways(first: int, last: int, terms: int) -> tuple[int, ...]:
    """How many tuples of operands have each sum; entry i is for the sum terms * first + i."""
    if not terms:
        return (1,)
    totals = [0, *accumulate(_ways(first, last, terms - 1))]
    most, width = len(totals) - 1, last - first + 1
    return tuple(totals[min(i + 1, most)] - totals[max(0, i + 1 - width)] for i in range(most + width - 1))


def _find(cumulative: Sequence[int], number: int) -> tuple[int, int]:
    """The cell that holds item `number` when cells are filled in order, and the item's place inside it."""
    cell = bisect_right(cumulative, number)
    return cell, number - cumulative[cell - 1] if cell else number


def _terms(first: int, last: int, terms: int, above: int, number: int) -> list[int]:
    """Tuple `number` of those `terms` operands whose sum is terms * first + above."""
    made = []
    for left in reversed(range(terms)):
        step, number = _find(_completions(first, last, left, above), number)
        made.append(first + step)
        above -= step
    return made


@lru_cache(maxsize=4096)
def _completions(first: int, last: int, left: int, above: int) -> tuple[int, ...]:
    """Cumulative number of ways to go on with `left` operands after each next operand, the smallest first."""
    ways = _ways(first, last, left)
    return tuple(
        accumulate(ways[above - step] if 0 <= above - step < len(ways) else 0 for step in range(last - first + 1))
    )


@lru_cache(maxsize=64)
def _orders(operations: int, pluses: int) -> tuple[tuple[str, ...], ...]:
    """Every order of the signs."""
    places = combinations(range(operations), pluses)
    return tuple(tuple("+" if i in plus else "-" for i in range(operations)) for plus in places)
