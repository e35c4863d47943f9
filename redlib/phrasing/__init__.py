"""Arithmetic in words: a grammar that renders an expression as English text, and the parser that reads it back.

A template is an operator wording inside a frame: opener, wording, ending. A wording has a form (noun phrase, bare
formula, verb phrase, ...) and goes only into the frames of that form, so that every combination reads well. The same
tables drive `render` and `parse`. Wordings of one family share a `group`: leaving out a group leaves out every text
with these operator words (the source names "several templates", 4.2.2 and 4.2.4; "What is 17 plus 23?" is one). TASK1
says one addition; TASK2 says chains of + and -.
"""

from redlib.expressions import Expression
from redlib.phrasing.additions import TASK1, WORDINGS, Template, Wording
from redlib.phrasing.chains import CHAIN_WORDINGS, TASK2, ChainTemplate, ChainWording
from redlib.phrasing.frames import GROUPS
from redlib.phrasing.places import FIRST, OPERATOR, SECOND, operator_words, places
from redlib.phrasing.reading import numbers, parse

__all__ = [
    "CHAIN_WORDINGS",
    "FIRST",
    "GROUPS",
    "OPERATOR",
    "SECOND",
    "TASK1",
    "TASK2",
    "TEMPLATES",
    "WORDINGS",
    "ChainTemplate",
    "ChainWording",
    "Template",
    "Wording",
    "numbers",
    "operator_words",
    "parse",
    "places",
    "render",
]

TEMPLATES: dict[str, Template | ChainTemplate] = {template.id: template for template in (*TASK1, *TASK2)}


def render(expression: Expression, template: Template | ChainTemplate) -> str:
    """The expression said with the template; ValueError when the template cannot say its operators."""
    return template.say(expression)
