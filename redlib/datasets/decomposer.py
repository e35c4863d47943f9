"""Records of the step decomposer (the source, 4.2.7): a chain in words and the program that computes it.

`build` makes the pool, with the columns of every pool, so that `datasets.split` divides it; `records` turns its rows
into the source's seven fields, and `load` reads and checks such fields from a file.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from redlib.datasets import pool as pools
from redlib.datasets.files import check_unique, read
from redlib.datasets.steps import domain as named_domain
from redlib.expressions import SOURCE_LABELS, SOURCE_OPERANDS, Expression, LabelSpace
from redlib.phrasing import parse
from redlib.programs import Program

FIELDS = {  # the source's names; `domain` is the range of the answer in words
    "id": "int64",
    "expr": "str",
    "answer": "int64",
    "label": "int64",
    "domain": "str",
    "num_steps": "int64",
    "program": "str",
}


def build(
    rows: int,
    seed: int,
    domain: str = "closed",
    operands: tuple[int, int] = SOURCE_OPERANDS,
    labels: LabelSpace = SOURCE_LABELS,
) -> pd.DataFrame:
    """A pool of `rows` texts with two, three and four operations, exactly 2:4:4 in every range, in all wordings of
    Task 2 (the source has 80,000).

    `domain` says which chains are drawn: `closed` keeps every partial result in the labels, `source` any. Balance and
    errors are those of `datasets.build`.
    """
    within = named_domain(domain, operands, labels)
    partials = within.result if domain == "closed" else None
    return pools.build("task2", rows, seed, operands, labels, steps="programs", partials=partials)


def records(pool: pd.DataFrame, labels: LabelSpace = SOURCE_LABELS) -> pd.DataFrame:
    """The rows of a pool of chains as decomposer records: the seven `FIELDS`, index and order as in the pool.

    Raises ValueError for a row whose program, read again from its text and executed, does not give its answer.
    """
    expressions = {text: Expression.read(text) for text in pool["expression"].unique()}
    programs = {text: Program.from_expression(expression).text for text, expression in expressions.items()}
    made = pd.DataFrame(
        {
            "id": pool["row"],
            "expr": pool["text"],
            "answer": pool["value"],
            "label": pool["range"],
            "domain": pool["range"].map(dict(enumerate(range_names(labels)))),
            "num_steps": pool["operations"],
            "program": pool["expression"].map(programs),
        }
    ).astype(FIELDS)
    _check(made, labels, "records")
    return made


def load(path: Path | str, labels: LabelSpace = SOURCE_LABELS) -> pd.DataFrame:
    """Read records that `datasets.save` wrote, from .jsonl or .parquet, and check every one by executing its program.

    Raises FileNotFoundError for a missing file and ValueError for an unreadable one, for missing or extra fields, and
    for the first record whose fields do not follow from its `expr` or whose `id` or `expr` occurs twice, naming it.
    """
    read_again = read(path, FIELDS, "set of decomposer records")
    _check(read_again, labels, str(path))
    check_unique(read_again, path, "id", "expr")
    return read_again


def range_names(labels: LabelSpace = SOURCE_LABELS) -> tuple[str, ...]:
    """The ranges as the field `domain` writes them: "range_2_20", ..."""
    return tuple(f"range_{first}_{last}" for first, last in labels.bounds)


def _check(made: pd.DataFrame, labels: LabelSpace, where: str) -> None:
    for record in made.to_dict("records"):
        try:
            fault = _fault(record, labels)
        except ValueError as error:
            fault = str(error)
        if fault:
            raise ValueError(f"{where}, id {record['id']}: {fault}")


def _fault(record: dict[str, Any], labels: LabelSpace) -> str:
    """What a record says that its words or its program do not, or nothing; ValueError where one cannot be read."""
    expression, program = parse(record["expr"]), Program.read(record["program"])
    range_ = labels.range_of(expression.value)
    facts = {"label": range_, "domain": range_names(labels)[range_], "num_steps": len(expression.operators)}
    for field, value in {"answer": expression.value, **facts}.items():
        if record[field] != value:
            return f"{field} is {record[field]!r}, but {record['expr']!r} gives {value!r}"
    if program.execute() != record["answer"]:
        return f"its program gives {program.execute()}, not the answer {record['answer']}"
    if program != Program.from_expression(expression):
        return f"its program does not say {expression.text!r} step by step"
    return ""
