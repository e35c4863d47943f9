"""Arithmetic expressions and the label space that their values fall into (the source, 4.1 and 4.2.1).

Nothing here knows words or models: an `Expression` is a chain of whole numbers joined by + and -, and a `LabelSpace`
says which values exist (C classes) and how they are grouped into ranges (K of them, one expert each).
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

OPERATORS = ("+", "-")


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

    @property
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
SOURCE_OPERANDS = (2, 50)  # first and last operand (the source, 4.1)


@dataclass(frozen=True)
class Expression:
    """A chain such as 12 - 5 + 9, evaluated from left to right: n whole numbers >= 0 and n-1 operators, n >= 2.

    Raises ValueError for a negative or non-integer term, an operator other than + and -, or counts that do not fit.
    """

    terms: tuple[int, ...]
    operators: tuple[str, ...]

    def __post_init__(self) -> None:
        for term in self.terms:
            if type(term) is not int or term < 0:
                raise ValueError(f"term {term!r} is not a whole number >= 0")
        for operator in self.operators:
            if operator not in OPERATORS:
                raise ValueError(f"unknown operator {operator!r}; valid operators: {', '.join(OPERATORS)}")
        if len(self.terms) < 2 or len(self.operators) != len(self.terms) - 1:
            raise ValueError(
                f"{len(self.terms)} terms do not go with {len(self.operators)} operators; "
                "an expression needs two or more terms and one operator between neighbours"
            )

    @property
    def signed(self) -> tuple[int, ...]:
        """The terms with the sign of the operator before them; the first one counts as +."""
        signs = ("+", *self.operators)
        return tuple(term if sign == "+" else -term for sign, term in zip(signs, self.terms, strict=True))

    @property
    def value(self) -> int:
        return sum(self.signed)

    @property
    def partials(self) -> tuple[int, ...]:
        """The result after every operation, left to right; the last one is `value`."""
        return tuple(accumulate(self.signed))[1:]

    @property
    def structure_key(self) -> str:
        """The signed multiset of terms, e.g. "+12+27" or "+7+18-3": commuted and reordered twins share it."""
        signed = sorted(zip(("+", *self.operators), self.terms, strict=True))  # "+" sorts before "-"
        return "".join(f"{sign}{term}" for sign, term in signed)

    @property
    def text(self) -> str:
        """The canonical form, e.g. "12 + 27 - 3"."""
        rest = (f" {operator} {term}" for operator, term in zip(self.operators, self.terms[1:], strict=True))
        return f"{self.terms[0]}{''.join(rest)}"

    @classmethod
    def read(cls, text: str) -> "Expression":
        """The inverse of `text`; ValueError for anything that `text` would not print."""
        if not re.fullmatch(r"[0-9]+( [+-] [0-9]+)+", text):
            raise ValueError(f"{text!r} is not an expression such as '12 + 27 - 3'")
        first, *rest = text.split(" ")
        return cls((int(first), *map(int, rest[1::2])), tuple(rest[::2]))


def additions(
    operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS, ordered: bool = True
) -> list[list[Expression]]:
    """Every a + b over the operand range whose sum is a label, by range: K lists.

    `ordered=False` keeps one order of each pair (a <= b). Raises ValueError for an empty or negative operand range.
    """
    first, last = operands
    if not 0 <= first <= last:
        raise ValueError(f"operands {first}..{last}: the first must be >= 0 and not above the last")
    strata: list[list[Expression]] = [[] for _ in range(labels.K)]
    for a in range(first, last + 1):
        for b in range(first if ordered else a, last + 1):
            if labels.lo <= a + b <= labels.hi:
                strata[labels.range_of(a + b)].append(Expression((a, b), ("+",)))
    return strata
