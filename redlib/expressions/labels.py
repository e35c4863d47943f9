"""The values of a task and the ranges that group them (the source, 4.2.1)."""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise


@dataclass(frozen=True)
class LabelSpace:
    """Values lo..hi in K ranges; `edges` are the last values of every range but the last.

    The default is the source's (4.2.1): 2..100 in R1 2-20, R2 21-40, R3 41-60, R4 61-80, R5 81-100.
    Raises ValueError when lo..hi is empty or the edges do not increase inside it.
    """

    lo: int = 2
    hi: int = 100
    edges: tuple[int, ...] = (20, 40, 60, 80)

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(self.edges))
        ends = (self.lo - 1, *self.edges, self.hi)
        if any(before >= after for before, after in pairwise(ends)):
            raise ValueError(f"label space {self.lo}..{self.hi}: edges {self.edges} must increase within lo..hi-1")

    @property
    def C(self) -> int:
        """Number of value classes."""
        return self.hi - self.lo + 1

    @property
    def K(self) -> int:
        """Number of ranges."""
        return len(self.edges) + 1

    @property
    def values(self) -> range:
        """Every value, in class order."""
        return range(self.lo, self.hi + 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """R1..RK."""
        return tuple(f"R{k + 1}" for k in range(self.K))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """First and last value of every range."""
        return list(zip((self.lo, *(edge + 1 for edge in self.edges)), (*self.edges, self.hi), strict=True))

    @cached_property
    def range_index(self) -> tuple[int, ...]:
        """The range (0-based) of every class; length C."""
        return tuple(self.range_of(value) for value in self.values)

    def range_of(self, value: int) -> int:
        """0-based range of a value; ValueError outside lo..hi."""
        if not self.lo <= value <= self.hi:
            raise ValueError(f"value {value} is outside {self.lo}..{self.hi}")
        return bisect_left(self.edges, value)

    def index(self, value: int) -> int:
        """Class index 0..C-1 of a value; ValueError outside lo..hi."""
        if not self.lo <= value <= self.hi:
            raise ValueError(f"value {value} is outside {self.lo}..{self.hi}")
        return value - self.lo


SOURCE_LABELS = LabelSpace()
