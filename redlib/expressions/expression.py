"""A chain of whole numbers joined by + and -, evaluated from left to right."""

import re
from dataclasses import dataclass
from itertools import accumulate

OPERATORS = ("+", "-")


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
        """The exact result."""
        return sum(self.signed)

    @property
    def partials(self) -> tuple[int, ...]:
        """The result after every operation, left to right; the last one is `value`."""
        return tuple(accumulate(self.signed))[1:]

    @property
    def carries(self) -> int:
        """How many operations, left to right, carry into the tens or borrow from them."""
        before = (self.terms[0], *self.partials)
        signed = zip(before[:-1], self.signed[1:], strict=True)
        return sum(not 0 <= at % 10 + (term % 10 if term >= 0 else -(-term % 10)) < 10 for at, term in signed)

    @property
    def structure_key(self) -> str:
        """The signed multiset of terms, e.g. "+12+27" or "+7+18-3": commuted and reordered twins share it."""
        signed = sorted(zip(("+", *self.operators), self.terms, strict=True))  # "+" sorts before "-"
        return "".join(f"{sign}{term}" for sign, term in signed)

    @property
    def pattern(self) -> str:
        """Which operators occur: "addition", "subtraction" or "mixed"."""
        kinds = {"+": "addition", "-": "subtraction"}
        return kinds[self.operators[0]] if len(set(self.operators)) == 1 else "mixed"

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
