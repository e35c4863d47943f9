"""Every ordered pair of operands of one operation, said in a few ways: a finite population that needs no sampling."""

import random
from collections.abc import Sequence

import pandas as pd

from redlib.datasets.pool import TASKS, Drawn, frame
from redlib.expressions import OPERATORS, SOURCE_LABELS, SOURCE_OPERANDS, Chains, Expression, LabelSpace
from redlib.phrasing import GROUPS, TEMPLATES, ChainTemplate, Template

CANONICAL = {"task1": "plus/what_is", "task2": "chain/plus/what_is"}  # "What is 17 plus 23?" (the source, 4.2.4)


def population(
    task: str,
    operands: tuple[int, int] = SOURCE_OPERANDS,
    labels: LabelSpace = SOURCE_LABELS,
    wordings: int = 4,
    seed: int = 0,
) -> pd.DataFrame:
    """Each ordered pair of operands whose result is a label, once in each of `wordings` wordings; a pool's columns.

    Task 1 has the pairs of +, Task 2 those of + and those of -. The canonical wording comes first, the others are of
    different wording groups, drawn by `seed`; within a wording rows are sorted by operator, first and second operand.
    Raises ValueError for an unknown task, a number of wordings outside 1..GROUPS, and operands without any pair.
    """
    if not 1 <= wordings <= GROUPS:
        raise ValueError(f"a population has 1 to {GROUPS} wordings, one a wording group, got {wordings}")
    expressions = pairs(task, operands, labels)
    drawn: Drawn = [(pair, template) for template in _templates(task, wordings, seed) for pair in expressions]
    return frame(drawn, labels)


def pairs(
    task: str, operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS
) -> list[Expression]:
    """Every ordered pair of operands that one operation of the task makes into a label, sorted; `population` says what
    is raised."""
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; valid tasks: {', '.join(TASKS)}")
    found = []
    for operator in OPERATORS if task == "task2" else ("+",):
        chains = Chains(int(operator == "+"), int(operator == "-"), (labels.lo, labels.hi), operands)
        found += sorted((chains[number] for number in range(chains.count)), key=lambda expression: expression.terms)
    if not found:
        raise ValueError(f"no pair of operands {operands[0]}..{operands[1]} has a result in {labels.lo}..{labels.hi}")
    return found


def _templates(task: str, wordings: int, seed: int) -> list[Template | ChainTemplate]:
    rng, canonical = random.Random(f"{task}/population/{seed}"), TEMPLATES[CANONICAL[task]]
    groups = rng.sample([group for group in range(GROUPS) if group != canonical.group], wordings - 1)
    single = [t for t in TASKS[task] if isinstance(t, Template) or t.wording.least == 1]
    return [canonical, *(rng.choice([t for t in single if t.group == group]) for group in groups)]


def with_operands(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with columns first, second (operands) and operator (addition, subtraction).

    ValueError for an expression that has not exactly two terms.
    """
    distinct = {text: Expression.read(text) for text in rows["expression"].unique()}
    longer = [text for text, expression in distinct.items() if len(expression.terms) != 2]
    if longer:
        raise ValueError(f"a pair has two operands, got {longer[0]!r}")
    read: Sequence[Expression] = [distinct[text] for text in rows["expression"]]
    first, second = zip(*(expression.terms for expression in read), strict=True)
    return rows.assign(first=first, second=second, operator=[expression.pattern for expression in read])
