"""What a reader of an answer should know about the question: is it one that the model was made for?"""

import re
from collections.abc import Iterator
from functools import lru_cache

from redlib import phrasing
from redlib.expressions import Expression, LabelSpace

MAX_TOKENS = 256
LONGEST = 4  # operations of the longest chain that the study says in words


def check_text(text: object) -> str:
    """The text itself; ValueError in one sentence when it is no string or holds nothing but space."""
    if not isinstance(text, str):
        raise ValueError(f"a question must be a string, got {type(text).__name__}")
    if not text.strip():
        raise ValueError("the question is empty; ask something such as 'What is 47 plus 38?'")
    return text


def check_length(text: str, tokens: int) -> None:
    """ValueError, with how the text begins, for more tokens than a question may have."""
    if tokens > MAX_TOKENS:
        said = f"a question may have at most {MAX_TOKENS} tokens, this one has {tokens}"
        raise ValueError(f"{said}: {text[:40]!r}...")


def readable(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with what is no valid Unicode replaced, and a note if there was any."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean, () if clean == text else ("characters that are no valid Unicode were replaced by '?'",)


def read(text: str) -> tuple[Expression | None, tuple[str, ...]]:
    """The expression that a text states, or None and a note with the parser's reason."""
    try:
        return phrasing.parse(text), ()
    except ValueError as error:
        return None, (f"not parsed: no true value known ({error})",)


def about(
    text: str, expression: Expression | None, task: str, operands: tuple[int, int], labels: LabelSpace
) -> tuple[str, ...]:
    """How a parsed text leaves what the task's models were trained on, a note each."""
    return () if expression is None else tuple(_about(text, expression, task, operands, labels))


def _about(text: str, expression: Expression, task: str, operands: tuple[int, int], labels: LabelSpace) -> Iterator:
    for number, term in enumerate(expression.terms, 1):
        if not operands[0] <= term <= operands[1]:
            yield f"operand {number} is outside {operands[0]}..{operands[1]}"
    if not labels.lo <= expression.value <= labels.hi:
        yield f"the true value {expression.value} is outside {labels.lo}..{labels.hi}, so that no method can say it"
    operations = len(expression.operators)
    if task == "task1" and (operations > 1 or expression.operators != ("+",)):
        yield f"{operations} operation(s) with {', '.join(sorted(set(expression.operators)))}: Task 1 is one addition"
    elif operations > LONGEST:
        yield f"{operations} operations, and Task 2 has at most {LONGEST}"
    elif skeleton(text) not in _wordings(task, expression.operators):
        yield "the words are none of those that the study trains on for it"


def skeleton(text: str) -> str:
    """The text with every number written 0."""
    return re.sub(r"[0-9]+", "0", text)


@lru_cache(maxsize=64)
def _wordings(task: str, operators: tuple[str, ...]) -> frozenset[str]:
    """Skeletons of every wording of a task for these operators."""
    zero = Expression((0,) * (len(operators) + 1), operators)
    said = set()
    for template in phrasing.TASK1 if task == "task1" else phrasing.TASK2:
        try:
            said.add(skeleton(template.say(zero)))
        except ValueError:  # a wording for other operators
            continue
    return frozenset(said)
