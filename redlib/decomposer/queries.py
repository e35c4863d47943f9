"""What a planner refuses to plan, in one sentence each; what it accepts it may still get wrong."""

import re

from redlib import phrasing

FOREIGN = (  # words, and beginnings of words where they end in *
    *("times", "multip*", "product", "divi*", "over", "quotient", "mod", "modul*", "remainder", "exponent*", "power"),
    *("square*", "cube*", "root", "percent*", "doubl*", "twice", "tripl*", "thrice", "quadrupl*", "half", "halv*"),
    *("third", "quarter*", "average", "mean", "factorial"),
)
_WORD = re.compile(rf"\b(?:{'|'.join(FOREIGN).replace('*', '[a-z]*')})\b", re.IGNORECASE)
_SIGN = re.compile("[+−–-]")
_MARK = re.compile(  # neither a word, nor plain punctuation, nor a sign; an x or ! that is an operator
    r"[^\w\s.,:;!?'\"()=+−–’-]|_|[²³¹]|(?<=\d)\s*[xX](?=\s*\d)|(?<=\d)!(?=\s*[+−–\w-])"
)
_INNER = re.compile(r"\d[^()]*(\([^()]*\d[^()]*\d[^()]*\))")  # a parenthesis of two numbers that does not come first
_BESIDE = re.compile(r"\d+\s+\d+")


def check(text: str, max_operations: int, largest: int) -> None:
    """ValueError for a query that no program of the grammar answers.

    That is: no string; fewer than two numbers, negative or decimal ones; an operator other than + and - or none at
    all; numbers in an inner parenthesis or with nothing between them; more operations than `max_operations`; a number
    above `largest`.
    """
    numbers = phrasing.numbers(text)
    unknown = _WORD.search(text) or _MARK.search(text)
    if unknown:
        raise ValueError(
            f"unknown operator {unknown.group().strip()!r} in {text!r}; the planner knows + and - and their words"
        )
    if not (phrasing.operator_words(text) or _SIGN.search(text)):
        raise ValueError(f"{text!r} names no operator (plus, minus, +, -, add, subtract, more than, less than, ...)")
    if inner := _INNER.search(text):
        raise ValueError(f"{text!r} has the parenthesis {inner.group(1)!r}; the planner reads chains without one")
    if beside := _BESIDE.search(text):
        raise ValueError(f"{text!r} has no operator between the numbers of {beside.group()!r}")
    if len(numbers) - 1 > max_operations:
        raise ValueError(f"{text!r} has {len(numbers) - 1} operations; the planner writes at most {max_operations}")
    if large := [number for number in numbers if number > largest]:
        raise ValueError(f"{text!r} has the number {large[0]}; the planner writes numbers from 0 to {largest}")
