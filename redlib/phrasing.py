"""Arithmetic in words: a grammar that renders an expression as English text, and the parser that reads it back.

A template is an operator wording inside a frame: opener, wording, ending. A wording has a form (noun phrase, bare
formula or verb phrase) and goes only into the frames of that form, so that every combination reads well. The same
tables drive `render` and `parse`. Wordings of one family share a `group`: leaving out a group leaves out every text
with these operator words (the source names "several templates", 4.2.2 and 4.2.4; "What is 17 plus 23?" is one).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from redlib.expressions import Expression

GROUPS = 10


@dataclass(frozen=True)
class Template:
    """One way to say an expression with the given operators; `pattern` has a field for every term: {a}, {b}."""

    id: str
    group: int
    pattern: str
    operators: tuple[str, ...] = ("+",)


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

# Frames: form -> blocks; in a block every opener goes with every ending. Each entry is (id, words).
_ASK_NUMBER = (("", "?"), ("give", "? Give the number."))
_ASK_NOUN = (
    ("what_is", "What is "),
    ("whats", "What's "),
    ("so", "So what is "),
    ("how_much", "How much is "),
    ("tell_me", "Tell me, what is "),
)
_DO_NOUN = (
    ("compute", "Compute "),
    ("calculate", "Calculate "),
    ("find", "Find "),
    ("work_out", "Work out "),
    ("please_compute", "Please compute "),
)
_NOUN = ((_ASK_NOUN, _ASK_NUMBER), (_DO_NOUN, (("", "."), ("give", ". Give the number."))))
_BARE = ((("bare", ""),), (("", ""), ("equals", " = ?"), ("what", " equals what?")))
_VERB = (
    (
        (("do", ""), ("please", "Please "), ("now", "Now ")),
        (("", "."), ("result", ". What is the result?"), ("get", ". What do you get?")),
    ),
    (
        (
            ("get_if", "What do you get if you "),
            ("when", "What is the result when you "),
            ("could", "Could you "),
        ),
        _ASK_NUMBER,
    ),
    (
        (("if", "If you "), ("once", "When you ")),
        (("get", ", what do you get?"), ("result", ", what is the result?"), ("much", ", how much is that?")),
    ),
)
_FRAMES = {"noun": _NOUN, "verb": _VERB, "formula": (*_NOUN, _BARE)}


def _templates(wording: Wording) -> list[Template]:
    made = []
    for openers, endings in _FRAMES[wording.form]:
        for opener, before in openers:
            for ending, after in endings:
                name = "/".join(part for part in (wording.id, opener, ending) if part)
                sentence = f"{before}{wording.words}{after}"
                made.append(Template(name, wording.group, sentence[0].upper() + sentence[1:]))
    return made


TASK1: tuple[Template, ...] = tuple(template for wording in WORDINGS for template in _templates(wording))
TEMPLATES: dict[str, Template] = {template.id: template for template in TASK1}


def render(expression: Expression, template: Template) -> str:
    """The expression said with the template; ValueError when their operators differ."""
    if expression.operators != template.operators:
        raise ValueError(f"template {template.id!r} says {template.operators}, not {expression.text!r}")
    return template.pattern.format(**dict(zip("abcde", expression.terms, strict=False)))


def parse(text: str) -> Expression:
    """Read the one expression that a text states: any rendered text, or a plain chain such as "18 plus 7 minus 3".

    Case does not matter. Beside the operator wording only words of the frames may stand, so that "twice 3 plus 4" is
    refused rather than misread. Raises ValueError with one sentence for anything else: not a string, fewer than two
    numbers, negative or decimal numbers, unknown operators or words. Operand and value domains are not checked here.
    """
    if not isinstance(text, str):
        raise ValueError(f"an expression in words must be a string, got {type(text).__name__}")
    plain = text.lower().translate(_TYPOGRAPHY)
    if odd := _NOT_WHOLE.search(plain):
        raise ValueError(f"{_quote(text)}: {odd.group().strip()!r} is not a whole number from 0 to 999999999")
    numbers = [int(digits) for digits in _NUMBER.findall(plain)]
    if len(numbers) < 2:
        found = f"only one number ({numbers[0]})" if numbers else "no numbers"
        raise ValueError(f"{_quote(text)} has {found}; an expression needs at least two, written in digits")
    try:
        order, operators = _reading(_NUMBER.sub("0", plain))
    except LookupError as error:
        raise ValueError(f"cannot read {_quote(text)}: {error.args[0]}") from None
    return Expression(tuple(numbers[position] for position in order), operators)


_TYPOGRAPHY = str.maketrans({"−": "-", "–": "-", "’": "'"})
_NUMBER = re.compile(r"[0-9]+")
_SIGNED = r"(?:^|(?<=[^\d\s,)]))\s*(?:-|\bminus|\bnegative)\s*\d+"  # a sign with no number before it to subtract from
_NOT_WHOLE = re.compile(rf"\d*[.,]\d+|{_SIGNED}|\d{{10,}}|\d+[a-z_]\w*")
_UNREAD = re.compile(r"[^\w\s.,:;!?'\"()=]|_|(?!0)\d")  # neither a letter, a number nor plain punctuation
_CHAIN = re.compile(r"0(?:\s*(?:plus|\+|minus|-)\s*0)+")  # in a skeleton: a text whose numbers are all written 0
_SIGNS = {"plus": "+", "+": "+", "minus": "-", "-": "-"}
_STRANGERS_WORDS = ("answer", "can", "determine", "equal", "evaluate", "for", "of", "solve", "value")


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower())


_FRAME_TEXTS = [words for form in _FRAMES.values() for block in form for entries in block for _, words in entries]
_KNOWN_WORDS = frozenset(_STRANGERS_WORDS) | {word for text in _FRAME_TEXTS for word in _words(text)}


def _reader(wording: Wording) -> tuple[re.Pattern, tuple[int, ...]]:
    """The wording as a regex over skeletons, and where a and b stand among its numbers."""
    fields = re.findall(r"{([ab])}", wording.words)
    skeleton = re.escape(re.sub(r"{[ab]}", "0", wording.words)).replace(r"\ ", r"\s+")
    return re.compile(rf"\b{skeleton}\b"), (fields.index("a"), fields.index("b"))


# Longest first: "a together with b" before "a and b together". The formulas are chains of two.
_READERS = [_reader(wording) for wording in sorted(WORDINGS, key=lambda w: -len(w.words)) if wording.form != "formula"]


@lru_cache(maxsize=4096)
def _reading(skeleton: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions of the terms among the text's numbers, and the operators; LookupError says why there is no reading."""
    why = "no known operator wording joins its numbers (plus, minus, +, -, 'the sum of .. and ..', 'add .. to ..', ...)"
    for pattern, order in _READERS:
        if (found := pattern.search(skeleton)) and not (why := _beside(skeleton, found)):
            return order, ("+",)
    if (found := _CHAIN.search(skeleton)) and not (why := _beside(skeleton, found)):
        signs = re.findall(r"plus|minus|[+-]", found.group())
        return tuple(range(len(signs) + 1)), tuple(_SIGNS[sign] for sign in signs)
    raise LookupError(why)


def _beside(skeleton: str, found: re.Match) -> str:
    """What forbids the text beside a wording, or nothing."""
    rest = f"{skeleton[: found.start()]} {skeleton[found.end() :]}"
    wording = repr(found.group().replace("0", ".."))
    if unread := _UNREAD.search(rest):
        return f"unknown operator or mark {unread.group()!r} beside {wording}"
    if unknown := [word for word in _words(rest) if word not in _KNOWN_WORDS]:
        return f"unknown word {unknown[0]!r} beside {wording}"
    return f"a number stands outside {wording}" if "0" in rest else ""


def _quote(text: str, limit: int = 80) -> str:
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")
