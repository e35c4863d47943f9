"""Pools in and out of files (parquet, JSONL), and a stranger's questions read row by row."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow

from redlib import paths
from redlib.datasets.pool import COLUMNS
from redlib.expressions import SOURCE_LABELS, SOURCE_OPERANDS, Expression, LabelSpace
from redlib.phrasing import TEMPLATES, parse, render

SUFFIXES = (".parquet", ".jsonl")
_TEXT_KEYS = ("question", "expr")


def save(pool: pd.DataFrame, path: Path | str) -> Path:
    """Write a pool whole or not at all; the suffix, .parquet or .jsonl, says how. Returns the path."""
    path = Path(path)
    _check_suffix(path)
    if path.suffix == ".parquet":
        with paths.atomic_file(path) as temporary:
            pool.to_parquet(temporary, index=False)
    else:
        records = pool.to_dict("records")
        paths.write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path


def load(path: Path | str, labels: LabelSpace = SOURCE_LABELS) -> pd.DataFrame:
    """Read a pool that `save` wrote and check every row: its text says its expression, and all labels follow from it.

    Raises FileNotFoundError for a missing file and ValueError for an unreadable one, for missing or extra columns, and
    for the first row whose labels differ from the recomputed ones or whose text occurs twice, naming the row.
    """
    pool = read(path, COLUMNS, "pool")
    for record in pool.to_dict("records"):
        if fault := _fault(record, labels):
            raise ValueError(f"{path}, row {record['row']}: {fault}")
    check_unique(pool, path, "row", "text")
    return pool


def read(path: Path | str, columns: Mapping[str, str], what: str) -> pd.DataFrame:
    """The frame in a .parquet or .jsonl file, which must have these columns (name -> type); errors as `load` says."""
    path = Path(path)
    _check_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"no {what} at {path}")
    try:
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.DataFrame(_json_lines(path))
    except (pyarrow.ArrowException, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a readable {path.suffix[1:]} file: {error}") from None
    if set(frame.columns) != set(columns):
        different = ", ".join(sorted(set(frame.columns) ^ set(columns)))
        raise ValueError(
            f"{path} is no {what}: columns missing or unknown: {different}; a {what} has {', '.join(columns)}"
        )
    for column in (c for c, dtype in columns.items() if dtype == "int64"):
        if not pd.api.types.is_integer_dtype(frame[column]):
            raise ValueError(f"{path}: column {column!r} holds something other than whole numbers")
    return frame[list(columns)].astype(columns)


def check_unique(frame: pd.DataFrame, path: Path | str, key: str, text: str) -> None:
    """ValueError naming the first row, by its `key`, whose key or text stood on an earlier row too."""
    for column in (key, text):
        if (again := frame[column].duplicated()).any():
            raise ValueError(f"{path}, {key} {frame[key][again].iloc[0]}: its {column} occurs twice")


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise ValueError(f"unknown file type {path.suffix!r} of {path.name}; valid types: {', '.join(SUFFIXES)}")


def _fault(record: dict[str, Any], labels: LabelSpace) -> str:
    """What a pool row says that its text does not, or nothing."""
    template = TEMPLATES.get(record["template"])
    if template is None:
        return f"unknown template {record['template']!r}"
    try:
        expression = parse(record["text"])
        truth = {"expression": expression.text, **_labels_of(expression, labels)}
        for column, value in truth.items():
            if record[column] != value:
                return f"{column} is {record[column]!r}, but {record['text']!r} gives {value!r}"
        said = render(expression, template)
    except ValueError as error:
        return str(error)
    if said != record["text"] or template.group != record["group"]:
        return f"template {template.id!r} of group {template.group} does not give {record['text']!r}"
    return ""


def _labels_of(expression: Expression, labels: LabelSpace) -> dict[str, Any]:
    value = expression.value
    return {
        "value": value,
        "range": labels.range_of(value),
        "structure": expression.structure_key,
        "operations": len(expression.operators),
    }


def load_jsonl(
    path: Path | str,
    strict: bool = False,
    labels: LabelSpace = SOURCE_LABELS,
    operands: tuple[int, int] | None = SOURCE_OPERANDS,
    max_operations: int | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read a stranger's rows, `{"question" or "expr": words, "answer": integer}` a line: (rows, rejects).

    rows: line (1-based), text, expression, value, range, structure, operations, duplicate (the text stood on an
    earlier line too). rejects: line, reason: not a JSON object, missing keys, words that `parse` refuses, an answer
    that is no integer or not the value, a value outside the labels, an operand outside `operands` (None: any), more
    than `max_operations` operations (None: any). Only blank lines are passed over. `strict` raises ValueError at the
    first reject; a missing file is FileNotFoundError.
    """
    path = Path(path)
    if max_operations is not None and max_operations < 1:
        raise ValueError(f"max_operations must be at least 1 or None, got {max_operations}")
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}")
    rows, rejects = [], []
    for line, raw in _numbered(path):
        try:
            rows.append({"line": line, **_read_row(raw, labels, operands, max_operations)})
        except ValueError as error:
            if strict:
                raise ValueError(f"{path}, line {line}: {error}") from None
            rejects.append((line, str(error)))
    wanted = {"line": "int64", **{c: COLUMNS[c] for c in COLUMNS if c not in ("row", "template", "group")}}
    table = pd.DataFrame(rows, columns=list(wanted)).astype(wanted)
    reasons = pd.DataFrame(rejects, columns=["line", "reason"]).astype({"line": "int64", "reason": "str"})
    return table.assign(duplicate=table["text"].duplicated()), reasons


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    for line, raw in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if raw.strip():
            yield line, raw


def _read_row(
    raw: bytes, labels: LabelSpace, operands: tuple[int, int] | None, max_operations: int | None
) -> dict[str, Any]:
    """One line as a row; ValueError says why it is none."""
    try:
        record = json.loads(raw.decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON in UTF-8: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"not a JSON object but {type(record).__name__}")
    key = next((key for key in _TEXT_KEYS if key in record), None)
    if key is None or "answer" not in record:
        missing = "question (or expr)" if key is None else "answer"
        raise ValueError(f"key {missing} is missing; the keys are {', '.join(map(str, record)) or 'none'}")
    text, answer = record[key], record["answer"]
    expression = parse(text)
    if type(answer) is not int:
        raise ValueError(f"answer {answer!r} is not an integer")
    if answer != expression.value:
        raise ValueError(f"answer {answer} is not the value {expression.value} of {expression.text}")
    if operands and (outside := [term for term in expression.terms if not operands[0] <= term <= operands[1]]):
        raise ValueError(f"operand {outside[0]} is outside {operands[0]}..{operands[1]}")
    if max_operations is not None and len(expression.operators) > max_operations:
        raise ValueError(f"{expression.text} has {len(expression.operators)} operations, more than {max_operations}")
    return {"text": text, "expression": expression.text, **_labels_of(expression, labels)}
