"""Reading arithmetic in words back: the same tables of wordings that render a text, as patterns over its skeleton.

A skeleton is a text in lower case with every number written 0. Wordings of one addition are tried first, then chains
that go outwards ("9 more than 5 less than 12"), then chains that go on to the right, whose steps may be mixed freely.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from redlib.expressions import OPERATORS, Expression
from redlib.phrasing.additions import WORDINGS, Wording
from redlib.phrasing.chains import CHAIN_WORDINGS, for_operator
from redlib.phrasing.frames import WORDS


def parse(text: str) -> Expression:
    """Read the one expression that a text states: any rendered text, or a chain such as "18 plus 7 minus 3".

    Case does not matter. Beside the operator wording only words of the frames may stand, so that "twice 3 plus 4" is
    refused rather than misread. Raises ValueError with one sentence for anything else: not a string, fewer than two
    numbers, negative or decimal numbers, unknown operators or words. Operand and value domains are not checked here.
    """
    terms = numbers(text)
    try:
        order, operators = _reading(_NUMBER.sub("0", _plain(text)))
    except LookupError as error:
        raise ValueError(f"cannot read {_quote(text)}: {error.args[0]}") from None
    return Expression(tuple(terms[position] for position in order), operators)


def numbers(text: str) -> list[int]:
    """The numbers of a text, in the order in which it says them.

    Raises ValueError with one sentence for what is no string, for fewer than two numbers and for negative and decimal
    ones.
    """
    if not isinstance(text, str):
        raise ValueError(f"an expression in words must be a string, got {type(text).__name__}")
    plain = _plain(text)
    if odd := _NOT_WHOLE.search(plain):
        raise ValueError(f"{_quote(text)}: {odd.group().strip()!r} is not a whole number from 0 to 999999999")
    found = [int(digits) for digits in _NUMBER.findall(plain)]
    if len(found) < 2:
        few = f"only one number ({found[0]})" if found else "no numbers"
        raise ValueError(f"{_quote(text)} has {few}; an expression needs at least two, written in digits")
    return found


def _plain(text: str) -> str:
    return text.lower().translate(_TYPOGRAPHY)


_TYPOGRAPHY = str.maketrans({"−": "-", "–": "-", "’": "'"})
_NUMBER = re.compile(r"[0-9]+")
# a sign with no number before it to subtract from, nor a "then"
_SIGNED = r"(?:^|(?<=[^\d\s,)])(?<!then))\s*(?:-|\bminus)\s*\d+|\bnegative\s*\d+"
_NOT_WHOLE = re.compile(rf"\d*[.,]\d+|{_SIGNED}|\d{{10,}}|\d+[a-z_]\w*")
_UNREAD = re.compile(r"[^\w\s.,:;!?'\"()=]|_|(?!0)\d")  # neither a letter, a number nor plain punctuation
_STRANGERS_WORDS = ("answer", "can", "determine", "equal", "evaluate", "for", "of", "solve", "value")

Reading = tuple[tuple[int, ...], tuple[str, ...]]  # where the terms stand among the text's numbers, and the operators


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", text.lower())


_KNOWN_WORDS = frozenset(_STRANGERS_WORDS) | {word for text in WORDS for word in _words(text)}


def _pattern(words: str) -> str:
    """Words with fields as a regex over skeletons."""
    return re.escape(re.sub(r"{\w+}", "0", words)).replace(r"\ ", r"\s+")


def _either(words: Iterable[str]) -> str:
    """A regex for any of the words, the longest first; one that matches nothing when there are none."""
    return "|".join(map(_pattern, sorted(set(words), key=lambda w: (-len(w), w)))) or "(?!)"


def _reader(wording: Wording) -> tuple[re.Pattern, tuple[int, ...]]:
    """The wording as a regex over skeletons, and where a and b stand among its numbers."""
    fields = re.findall(r"{([ab])}", wording.words)
    return re.compile(rf"\b{_pattern(wording.words)}\b"), (fields.index("a"), fields.index("b"))


# Longest first: "a together with b" before "a and b together". The formulas are chains of two.
_READERS = [_reader(wording) for wording in sorted(WORDINGS, key=lambda w: -len(w.words)) if wording.form != "formula"]
_OUTWARD = [wording for wording in CHAIN_WORDINGS if wording.outward]
_ONWARD = [wording for wording in CHAIN_WORDINGS if not wording.outward and wording.form != "formula"]


def _wraps(operator: str) -> str:
    """What stands before the inner chain of an outward one: "0 more than"."""
    return _either(for_operator(wording.step, operator).removesuffix(" {inner}") for wording in _OUTWARD)


def _firsts(operator: str, swapped: bool) -> str:
    """An onward chain's first operation, where its words hold two terms: "0 increased by 0", "add 0 to 0" (swapped)."""
    said = [for_operator(wording.first, operator) for wording in _ONWARD if "[" in wording.first]
    return _either(words for words in said if (words.index("{b}") < words.index("{a}")) == swapped)


_WRAP = re.compile(rf"(?P<plus>{_wraps('+')})|(?P<minus>{_wraps('-')})")
_WRAPPED = re.compile(rf"\b(?:(?:{_wraps('+')}|{_wraps('-')})\s+)+0\b")
_FIRST = re.compile(
    rf"\b(?:(?P<plus>{_firsts('+', False)})|(?P<minus>{_firsts('-', False)})"
    rf"|(?P<plus_swapped>{_firsts('+', True)})|(?P<minus_swapped>{_firsts('-', True)})"
    r"|(?P<plus_sign>0\s*(?:plus|\+)\s*0)|(?P<minus_sign>0\s*(?:minus|-)\s*0)"
    rf"|(?P<start>{_either(wording.first for wording in _ONWARD if '[' not in wording.first)}))\b"
)
_STEP = re.compile(
    r"(?:\s*,)?(?:\s+and)?(?:\s+then)?\s+"
    rf"(?:(?P<plus>{_either(for_operator(wording.step, '+') for wording in _ONWARD)})"
    rf"|(?P<minus>{_either(for_operator(wording.step, '-') for wording in _ONWARD)}))\b"
    r"|\s*(?:(?P<plus_sign>plus|\+)|(?P<minus_sign>minus|-))\s*0\b"
)


@lru_cache(maxsize=32_768)
def _reading(skeleton: str) -> Reading:
    """The reading whose words leave nothing unread; LookupError says why there is none."""
    why = "no known operator wording joins its numbers (plus, minus, +, -, 'the sum of .. and ..', 'add .. to ..', ...)"
    for start, end, reading in _readings(skeleton):
        if not (why := _beside(skeleton, start, end)):
            return reading
    raise LookupError(why)


def _readings(skeleton: str) -> Iterator[tuple[int, int, Reading]]:
    """What each kind of wording finds first in a skeleton: from where, to where, and its reading."""
    for pattern, order in _READERS:
        if found := pattern.search(skeleton):
            yield *found.span(), (order, ("+",))
    if found := _WRAPPED.search(skeleton):
        signs = [_sign(wrap) for wrap in _WRAP.finditer(found.group())]
        yield *found.span(), (tuple(range(len(signs), -1, -1)), tuple(reversed(signs)))
    if found := _FIRST.search(skeleton):
        signs = [] if found.lastgroup == "start" else [_sign(found)]
        end = found.end()
        while step := _STEP.match(skeleton, end):
            signs.append(_sign(step))
            end = step.end()
        first_two = (1, 0) if found.lastgroup.endswith("swapped") else (0, 1)
        if signs:
            yield found.start(), end, ((*first_two, *range(2, len(signs) + 1)), tuple(signs))


def _sign(found: re.Match) -> str:
    return OPERATORS[0] if found.lastgroup.startswith("plus") else OPERATORS[1]


def _beside(skeleton: str, start: int, end: int) -> str:
    """What forbids the text beside a wording, or nothing."""
    rest = f"{skeleton[:start]} {skeleton[end:]}"
    wording = repr(skeleton[start:end].replace("0", ".."))
    if unread := _UNREAD.search(rest):
        return f"unknown operator or mark {unread.group()!r} beside {wording}"
    if unknown := [word for word in _words(rest) if word not in _KNOWN_WORDS]:
        return f"unknown word {unknown[0]!r} beside {wording}"
    return f"a number stands outside {wording}" if "0" in rest else ""


def _quote(text: str, limit: int = 80) -> str:
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")
