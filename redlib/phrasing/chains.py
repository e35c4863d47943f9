"""The wordings of a whole chain of + and - (Task 2; the source, 4.2.4), each of them for both operators.

A chain is said in segments that are joined: "begin with 12" | ", " | "subtract 5" | " and " | "add 9". Some wordings
turn the order of the numbers around: "Subtract 5 from 12, then add 9.", "9 more than 5 less than 12". No operator word
of one group stands in a text of another, so that leaving out a group leaves out its words.
"""

import re
from dataclasses import dataclass

from redlib.expressions import OPERATORS, Expression
from redlib.phrasing.frames import frames, sentence

_SPACE, _LIST, _THEN, _EACH_THEN = (" ", " "), (", ", " and "), (", ", ", then "), (", then ", ", then ")


@dataclass(frozen=True)
class ChainWording:
    """How the first term or two, `first`, and every further term, `step`, are said; [words for +|words for -].

    A `first` without brackets is only a start with {a}, and the first operation is a step too. A step with {inner}
    wraps what it continues instead of following it. `joins` stand between segments and before the last one; `least`
    is the number of operations from which the words differ from those of a sibling.
    """

    id: str
    group: int
    form: str
    first: str
    step: str
    joins: tuple[str, str] = _LIST
    least: int = 1

    @property
    def outward(self) -> bool:
        """Whether the last operation is said first, so that the terms stand in reverse order."""
        return "{inner}" in self.step

    def say(self, expression: Expression) -> str:
        """The expression in words, without a frame."""
        a, *further = map(str, expression.terms)
        signs = expression.operators
        steps = [for_operator(self.step, sign).replace("{x}", x) for sign, x in zip(signs, further, strict=True)]
        if self.outward:
            for step in steps:
                a = step.replace("{inner}", a)
            return a
        opening = for_operator(self.first, signs[0]).format(a=a, b=further[0])
        *segments, last_one = [opening, *(steps[1:] if "[" in self.first else steps)]
        between, last = self.joins
        return f"{between.join(segments)}{last}{last_one}" if segments else last_one


def for_operator(words: str, operator: str) -> str:
    """The words with the choice for + or - made in every bracket."""
    return re.sub(r"\[(.*?)\]", lambda choice: choice[1].split("|")[OPERATORS.index(operator)], words)


@dataclass(frozen=True)
class ChainTemplate:
    """One way to say chains of any length from `wording.least` operations on."""

    id: str
    group: int
    before: str
    wording: ChainWording
    after: str

    def say(self, expression: Expression) -> str:
        """The expression in words; ValueError when it has too few operations."""
        if len(expression.operators) < self.wording.least:
            least = self.wording.least
            raise ValueError(f"template {self.id!r} says {least} or more operations, not {expression.text!r}")
        return sentence(self.before, self.wording.say(expression), self.after)


_C = ChainWording
CHAIN_WORDINGS = (
    _C("increased_by", 0, "noun", "{a} [increased|decreased] by {b}", "[increased|decreased] by {x}"),
    _C("increase", 0, "verb", "[increase|decrease] {a} by {b}", "[increase|decrease] the result by {x}", _EACH_THEN),
    _C("start_increase", 0, "verb", "start with {a}", "[increase|decrease] it by {x}", _THEN),
    _C("more_than", 1, "noun", "{a}", "{x} [more|less] than {inner}"),
    _C("number_more_than", 1, "noun", "{a}", "the number that is {x} [more|less] than {inner}"),
    _C("make_more", 1, "verb", "start with {a}", "make it {x} [more|less]", _THEN),
    _C("raised_by", 2, "noun", "{a} [raised|lowered] by {b}", "[raised|lowered] by {x}"),
    _C("raise", 2, "verb", "[raise|lower] {a} by {b}", "[raise|lower] the result by {x}", _EACH_THEN),
    _C("start_raise", 2, "verb", "start at {a}", "[raise|lower] it by {x}"),
    _C("with_gain", 3, "noun", "{a} with a [gain|loss] of {b}", "a [gain|loss] of {x}"),
    _C("gain", 3, "verb", "start with {a}", "[gain|lose] {x}", _THEN),
    _C("begin_gain", 3, "verb", "begin with {a}", "[gain|lose] {x}"),
    _C("boosted_by", 4, "noun", "{a} [boosted|reduced] by {b}", "[boosted|reduced] by {x}"),
    _C("boost", 4, "verb", "[boost|reduce] {a} by {b}", "[boost|reduce] the result by {x}", _EACH_THEN),
    _C("begin_boost", 4, "verb", "begin with {a}", "[boost|reduce] it by {x}"),
    _C("with_put_in", 5, "noun", "{a} with {b} [put in|removed]", "{x} [put in|removed]"),
    _C("put_in", 5, "verb", "start with {a}", "[put in|remove] {x}", _THEN),
    _C("begin_put_in", 5, "verb", "begin with {a}", "[put in|remove] {x}"),
    _C("grown_by", 6, "noun", "{a} [grown|shrunk] by {b}", "[grown|shrunk] by {x}"),
    _C("let_grow", 6, "verb", "let {a} [grow|shrink] by {b}", "[grow|shrink] by {x}", _EACH_THEN),
    _C("make_grow", 6, "verb", "make {a} [grow|shrink] by {b}", "[grow|shrink] by {x}"),
    _C("places_after", 7, "noun", "{a}", "the number {x} places [after|before] {inner}"),
    _C("move_forward", 7, "verb", "start at {a}", "move [forward|back] {x}", _THEN),
    _C("steps_forward", 7, "verb", "begin at {a}", "move {x} steps [forward|back]"),
    _C("count_up", 8, "verb", "start at {a}", "count [up|down] {x}", _THEN),
    _C("go_up", 8, "verb", "begin at {a}", "go [up|down] by {x}"),
    _C("step_up", 8, "verb", "begin with {a}", "step [up|down] by {x}", _EACH_THEN),
    _C("plus", 9, "formula", "{a}", "[plus|minus] {x}", _SPACE),
    _C("symbol", 9, "formula", "{a}", "[+|-] {x}", _SPACE),
    _C("plus_then_add", 9, "task", "{a} [plus|minus] {b}", "[add|subtract] {x}", _EACH_THEN, least=2),
    _C("add_to", 9, "verb", "[add {b} to|subtract {b} from] {a}", "[add|subtract] {x}", _THEN),
    _C("add_to_and", 9, "verb", "[add {b} to|subtract {b} from] {a}", "[add|subtract] {x}", least=2),
    _C("result_of", 9, "noun", "{a}", "the result of [adding {x} to|subtracting {x} from] {inner}"),
    _C("begin_add", 9, "verb", "begin with {a}", "[add|subtract] {x}"),
    _C("take_away", 9, "verb", "start with {a}", "[add|take away] {x}"),
)

TASK2: tuple[ChainTemplate, ...] = tuple(
    ChainTemplate(f"chain/{wording.id}/{frame}", wording.group, before, wording, after)
    for wording in CHAIN_WORDINGS
    for frame, before, after in frames(wording.form)
)
