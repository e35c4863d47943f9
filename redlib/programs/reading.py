"""Reading a program's text piece by piece, so that every fault has a line and a column."""

import re
from typing import NamedTuple

from redlib.programs.rules import LARGEST, NUMBER, VARIABLE, Place, Step


class _Piece(NamedTuple):
    """What must stand next in a line; a named piece is kept, `said` is its name in a message."""

    name: str
    pattern: re.Pattern
    said: str


def _piece(name: str, pattern: str, said: str) -> _Piece:
    return _Piece(name, re.compile(pattern), said)


def _literal(words: str) -> _Piece:
    return _piece("", re.escape(words), repr(words))


_OPERAND = (f"{VARIABLE}|{NUMBER}", f"a number from 0 to {LARGEST} or a variable such as x1")
_SPACE = _literal(" ")
_DEFINED = _piece("variable", VARIABLE, "a variable such as x1")
_BEGINNING = _piece("", "Step ", "'Step ' or 'Answer: '")
_STEP = (
    *(_BEGINNING, _piece("number", NUMBER, "the number of the step"), _literal(": ")),
    *(_piece("left", *_OPERAND), _SPACE, _piece("operator", r"[^\s\w]+|\w+", "an operator"), _SPACE),
    *(_piece("right", *_OPERAND), _literal(" = "), _DEFINED),
)
_ANSWER = (_literal("Answer: "), _DEFINED)


def scan(text: str) -> tuple[tuple[Step, ...], str, dict[Place, tuple[int, int]]]:
    """Steps and answer of a text that has their form, and the line and column of everything that is in it."""
    if not isinstance(text, str):
        raise ValueError(f"a program must be a string, got {type(text).__name__}")
    steps: list[Step] = []
    places: dict[Place, tuple[int, int]] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        form = _ANSWER if line.startswith("Answer") else _STEP
        found = _pieces(line, number, form)
        places |= {(len(steps), name): (number, column) for name, (_, column) in found.items()}
        places[len(steps), "line"] = (number, 1)
        words = {name: word for name, (word, _) in found.items()}
        if form is _ANSWER:
            if number < len(lines):
                what = "a second answer" if lines[number].startswith("Answer") else "text after the answer"
                raise ValueError(f"line {number + 1}, column 1: {what}; a program ends with its one answer")
            return tuple(steps), words["variable"], places
        due = str(len(steps) + 1)
        for name, wanted in (("number", due), ("variable", f"x{due}")):
            if words[name] != wanted:
                column = found[name][1]
                raise ValueError(f"line {number}, column {column}: expected {wanted!r} here, found {words[name]!r}")
        left, right = (w if w.startswith("x") else int(w) for w in (words["left"], words["right"]))
        steps.append(Step(left, words["operator"], right))
    raise ValueError(
        f"line {len(lines)}, column {len(lines[-1]) + 1}: the program has no answer; "
        f"its last line must be one such as 'Answer: x{len(steps)}'"
    )


def _pieces(line: str, number: int, form: tuple[_Piece, ...]) -> dict[str, tuple[str, int]]:
    """The named pieces of a line of the given form with their columns; ValueError at the first that is not there."""
    at, found = 0, {}
    for piece in form:
        match = piece.pattern.match(line, at)
        if not match:
            rest = repr(line[at : at + 20]) if line[at:] else "the end of the line"
            raise ValueError(f"line {number}, column {at + 1}: expected {piece.said}, found {rest}")
        if piece.name:
            found[piece.name] = (match.group(), at + 1)
        at = match.end()
    if line[at:]:
        raise ValueError(f"line {number}, column {at + 1}: expected the end of the line, found {line[at : at + 20]!r}")
    return found
