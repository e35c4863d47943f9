"""What a planner refuses to plan, in one sentence each; what it accepts it may still get wrong."""

import re

from redlib import phrasing

FOREIGN = (
    *("times", "multiply", "multiplied", "product", "divide", "divided", "quotient", "modulo", "remainder"),
    *("power", "squared", "cubed", "root", "percent", "double", "twice", "triple", "half", "average", "factorial"),
)
_WORD = re.compile(rf"\b(?:{'|'.join(FOREIGN)})\b", re.IGNORECASE)
_SIGN = re.compile("[+−–-]")
_MARK = re.compile(r"[^\w\s.,:;!?'\"()=+−–’-]|_")  # neither a word, nor plain punctuation, nor a sign


def check(text: str, max_operations: int, largest: int) -> None:
    """ValueError for a query that no program of the grammar answers.

    That is: no string; fewer than two numbers, negative or decimal ones; an operator other than + and - or none at
    all; more operations than `max_operations`; a number above `largest`.
    """
    numbers = phrasing.numbers(text)
    unknown = _WORD.search(text) or _MARK.search(text)
    if unknown:
        raise ValueError(f"unknown operator {unknown.group()!r} in {text!r}; the planner knows + and - and their words")
    if not (phrasing.operator_words(text) or _SIGN.search(text)):
        raise ValueError(f"{text!r} names no operator (plus, minus, +, -, add, subtract, more than, less than, ...)")
    if len(numbers) - 1 > max_operations:
        raise ValueError(f"{text!r} has {len(numbers) - 1} operations; the planner writes at most {max_operations}")
    if large := [number for number in numbers if number > largest]:
        raise ValueError(f"{text!r} has the number {large[0]}; the planner writes numbers from 0 to {largest}")
