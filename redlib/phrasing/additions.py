"""The wordings of one addition (Task 1; the source, 4.2.2): ten groups of operator words inside fitting frames."""

from dataclasses import dataclass

from redlib.expressions import Expression
from redlib.phrasing.frames import frames, sentence


@dataclass(frozen=True)
class Template:
    """One way to say an expression with the given operators; `pattern` has a field for every term: {a}, {b}."""

    id: str
    group: int
    pattern: str
    operators: tuple[str, ...] = ("+",)

    def say(self, expression: Expression) -> str:
        """The expression in words; ValueError when its operators are others."""
        if expression.operators != self.operators:
            raise ValueError(f"template {self.id!r} says {self.operators}, not {expression.text!r}")
        return self.pattern.format(**dict(zip("abcde", expression.terms, strict=False)))


@dataclass(frozen=True)
class Wording:
    """The words that carry one addition, with its terms in the order that the meaning gives them: a + b."""

    id: str
    group: int
    form: str
    words: str


WORDINGS = (
    Wording("increased_by", 0, "noun", "{a} increased by {b}"),
    Wording("increase", 0, "verb", "increase {a} by {b}"),
    Wording("more_than", 1, "noun", "{b} more than {a}"),
    Wording("greater_than", 1, "noun", "the number that is {b} greater than {a}"),
    Wording("sum_of", 2, "noun", "the sum of {a} and {b}"),
    Wording("sum", 2, "verb", "sum {a} and {b}"),
    Wording("added_to", 3, "noun", "{b} added to {a}"),
    Wording("adding", 3, "noun", "the result of adding {b} to {a}"),
    Wording("add", 3, "verb", "add {b} to {a}"),
    Wording("total_of", 4, "noun", "the total of {a} and {b}"),
    Wording("total", 4, "verb", "total {a} and {b}"),
    Wording("together", 5, "noun", "{a} and {b} together"),
    Wording("together_with", 5, "noun", "{a} together with {b}"),
    Wording("put_together", 5, "verb", "put {a} and {b} together"),
    Wording("combined", 6, "noun", "{a} combined with {b}"),
    Wording("combine", 6, "verb", "combine {a} and {b}"),
    Wording("with_added", 7, "noun", "{a} with {b} added"),
    Wording("start_add", 7, "verb", "start with {a} and add {b}"),
    Wording("take_add", 7, "verb", "take {a} and add {b}"),
    Wording("count_up", 8, "verb", "start at {a} and count up {b}"),
    Wording("go_up", 8, "verb", "begin at {a} and go up by {b}"),
    Wording("plus", 9, "formula", "{a} plus {b}"),
    Wording("symbol", 9, "formula", "{a} + {b}"),
)

TASK1: tuple[Template, ...] = tuple(
    Template(f"{wording.id}/{frame}", wording.group, sentence(before, wording.words, after))
    for wording in WORDINGS
    for frame, before, after in frames(wording.form)
)
