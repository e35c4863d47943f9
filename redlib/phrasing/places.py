"""Where a text of one operation says its two numbers and its operator."""

import re

from redlib.phrasing.chains import CHAIN_WORDINGS

FIRST, SECOND, OPERATOR = "first_operand", "second_operand", "operator"

_ADDITIONS = {"greater", "sum", "added", "total", "together", "combined", "combine"}  # what only Task 1 says
_CHOICES = [choice for w in CHAIN_WORDINGS for words in (w.first, w.step) for choice in re.findall(r"\[(.*?)\]", words)]
_SAID = {re.split(r" (?:\{|from|to)", words)[0] for choice in _CHOICES for words in choice.split("|")}
_LONGEST_FIRST = sorted(_ADDITIONS | _SAID, key=lambda words: (-len(words), words))
_OPERATOR = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, _LONGEST_FIRST))})(?!\w)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")


def operator_words(text: str) -> list[str]:
    """The words of a text that name an operator, in its order: "plus", "increased", "put in"."""
    return [found.group() for found in _OPERATOR.finditer(text)]


def places(text: str) -> dict[str, tuple[int, int]]:
    """First character, and one past the last, of "first_operand", "second_operand" and "operator".

    Operands are first and second in the order in which the text says them ("5 less than 12": 5 is first). The operator
    is the word that names it: "plus", "increased", "sum", "put in". ValueError for a text without exactly two numbers
    and one such word.
    """
    numbers, operators = list(_NUMBER.finditer(text)), list(_OPERATOR.finditer(text))
    if len(numbers) != 2 or len(operators) != 1:
        raise ValueError(
            f"{text!r} is no text of one operation: it has {len(numbers)} numbers and {len(operators)} operator words"
        )
    return {FIRST: numbers[0].span(), SECOND: numbers[1].span(), OPERATOR: operators[0].span()}
