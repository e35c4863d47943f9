"""One operand held, the other moved: the answers to a row of the operand map, in the canonical wording."""

from collections.abc import Sequence

import pandas as pd

from redlib.datasets import CANONICAL
from redlib.explain.explainer import Explainer, Reading
from redlib.explain.explanation import Explanation
from redlib.expressions import OPERATORS, Expression
from redlib.phrasing import TEMPLATES


def question(task: str, first: int, operator: str, second: int) -> str:
    """The question about a pair of operands in the task's canonical wording: "What is 47 plus 38?".

    ValueError for another operator than + and -, and for one that the task does not have.
    """
    if task not in CANONICAL:
        raise ValueError(f"unknown task {task!r}; valid tasks: {', '.join(CANONICAL)}")
    if operator not in operators(task):
        raise ValueError(f"{task} has no operator {operator!r}; valid operators: {', '.join(operators(task))}")
    return TEMPLATES[CANONICAL[task]].say(Expression((first, second), (operator,)))


def operators(task: str) -> tuple[str, ...]:
    """The operators of a task's pairs: Task 1 only adds."""
    return OPERATORS[:1] if task == "task1" else OPERATORS


def seconds(explainer: Explainer, first: int, operator: str) -> range:
    """The second operands of the domain whose result with `first` is a label; ValueError where there is none."""
    low, high = explainer.operands
    labels, sign = explainer.labels, 1 if operator == "+" else -1
    inside = [b for b in range(low, high + 1) if labels.lo <= first + sign * b <= labels.hi]
    if not inside:
        raise ValueError(f"no second operand in {low}..{high} gives {first} {operator} it a value in the label space")
    return range(inside[0], inside[-1] + 1)


def read_walk(explainer: Explainer, first: int, operator: str) -> list[Reading]:
    """The readings of `first operator b` for all second operands b, with one backbone pass; they go to
    `Explainer.explain_all`."""
    return explainer.read([question(explainer.task, first, operator, b) for b in seconds(explainer, first, operator)])


def walk_table(explained: Sequence[Explanation]) -> pd.DataFrame:
    """A row a question of a walk, by second operand: true value and range, weights R1..RK (absent without a router),
    answer, its probability, right."""
    rows = {}
    for e in explained:
        weights = {} if e.alpha is None else dict(zip(e.labels.names, e.alpha, strict=True))
        said = {"answer": e.answer.value, "probability": e.answer.probability, "right": e.right}
        rows[e.expression.terms[1]] = {"true value": e.true_value, "true range": e.true_range, **weights, **said}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("second operand")
