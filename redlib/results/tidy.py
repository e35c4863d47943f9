"""The one format of a result table: fixed first columns, sorted, six significant digits, LF."""

from pathlib import Path

import numpy as np
import pandas as pd

from redlib import paths
from redlib.evaluation import COLUMNS
from redlib.results.provenance import known_runs, record_run

MEASURES = ("value", "n", "low", "high", "run", "right")  # the rest is the key: one row for each
KEY = tuple(name for name in COLUMNS if name not in MEASURES)
EXTRA_COLUMNS = {  # columns that some tables add, and their type
    "true_value": "int64",  # the true value that a row is about
    "predicted_range": "str",  # R1..RK, the range predicted
    "first": "int64",  # operands of an ordered pair
    "second": "int64",
    "case": "str",  # the rule by which a question was chosen
    "operator": "str",  # of a pair: addition or subtraction
    "right": "str",  # of a line of steps, which `second` begins: in how many seeds each one is right
    "in_training": "int64",  # 1 where a training row has the pair, in either order of an addition
    "layer": "int64",  # index into the hidden states, -1 after the final norm
    "pooling": "str",
    "rank": "int64",
    "own": "int64",  # 1 for the profile's own setting
    "rows": "int64",  # training rows
    "epoch": "int64",
    "question": "str",  # of the ablations
    "configuration": "str",  # of a run, as JSON
    "reference": "str",  # the arm that an arm of the fair comparison is set against
    "changed": "str",  # and what it does otherwise than that one
    "curve": "str",  # of routing: which curve, and where on it
    "x": "float64",
    "corruption": "str",  # of routing weights, and how strong
    "strength": "float64",
    "site": "str",  # which token's state, or pooled
    "target": "str",  # what a probe says
    "period": "int64",  # of a Fourier component
    "error": "int64",  # predicted minus true value
    "token": "int64",  # of a picture, by rows; -1 for the whole of it
    "batch": "int64",  # requests answered together
    "prompt": "int64",  # tokens of each
    "line": "int64",  # of a program, from 1, and what should stand there
    "wanted": "str",
    "text": "str",  # a question
    "step": "str",  # a line of its program
}
_TYPES = dict.fromkeys((*KEY, "run"), "str") | dict.fromkeys(("value", "low", "high"), "float64")


def validate(frame: pd.DataFrame) -> None:
    """ValueError naming the first fault: a missing or unknown column, an empty key, a value that is no number, an
    interval upside down, a row twice."""
    missing = [name for name in COLUMNS if name not in frame]
    if missing:
        raise ValueError(f"a result table lacks the columns {', '.join(missing)}; it needs {', '.join(COLUMNS)}")
    unknown = [str(name) for name in frame if name not in COLUMNS and name not in EXTRA_COLUMNS]
    if unknown:
        raise ValueError(f"unknown columns {', '.join(unknown)}; a table may add {', '.join(EXTRA_COLUMNS)}")
    keys = [*KEY, *(name for name in _extras(frame) if name not in MEASURES)]
    for name in (*keys, "run"):
        empty = frame[name].isna() | (frame[name].astype(str) == "")
        if empty.any():
            raise ValueError(f"column {name!r} is empty in the row of {_name(frame[empty].iloc[0], keys)}")
    wrong = ~np.isfinite(frame["value"].astype(float))
    if wrong.any():
        raise ValueError(f"no number for {_name(frame[wrong].iloc[0], keys)}; leave the row out instead")
    wrong = frame["low"].astype(float) > frame["high"].astype(float)
    if wrong.any():
        raise ValueError(f"low is above high for {_name(frame[wrong].iloc[0], keys)}")
    double = frame[keys].astype(str).duplicated()
    if double.any():
        raise ValueError(f"two rows for {_name(frame[double].iloc[0], keys)}")


def _name(row: pd.Series, keys) -> str:
    return ", ".join(f"{name}={row[name]}" for name in keys)


def _extras(frame: pd.DataFrame) -> list[str]:
    return [name for name in EXTRA_COLUMNS if name in frame]


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows by key; seeds as numbers, then `all`."""

    def order(column: pd.Series) -> pd.Series:
        return column.astype(str).str.zfill(6) if column.name == "seed" else column

    extras = _extras(frame)
    return frame[[*COLUMNS, *extras]].sort_values([*KEY, *extras], key=order, kind="stable", ignore_index=True)


def write(frame: pd.DataFrame, path: Path) -> None:
    """Write a validated result table to `path`; the same rows in any order give the same bytes."""
    validate(frame)
    typed = frame.astype(dict.fromkeys((*KEY, "run"), "str"))
    write_csv(_sorted(typed.astype({"n": "Int64"})), path)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write any frame as CSV, atomically: %.6g, LF, no index."""
    paths.write_text(Path(path), frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))


def read(path: Path) -> pd.DataFrame:
    """Read a result table; FileNotFoundError if there is none, ValueError naming what is wrong with it."""
    path = Path(path)
    if not path.is_file():
        there = sorted(file.stem for file in path.parent.glob("*.csv"))
        raise FileNotFoundError(f"no table {path.name} in {path.parent}; present: {', '.join(there) or 'none'}")
    types = _TYPES | {"n": "Int64"} | EXTRA_COLUMNS
    try:
        frame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values={n: [""] for n in (*_NUMBERS, "n")})
        validate(frame)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"{path.name}: {error}") from None
    return frame


_NUMBERS = ("value", "low", "high", *(name for name, kind in EXTRA_COLUMNS.items() if kind != "str"))


def save(folder: Path, name: str, frame: pd.DataFrame, runs: dict[str, dict]) -> Path:
    """Write `frame` as <folder>/<name>.csv and add `runs` (run id -> provenance) to its sidecar.

    ValueError when a row's run is neither in `runs` nor in the sidecar already.
    """
    folder = Path(folder)
    unknown = sorted(set(frame["run"].astype(str)) - set(runs) - set(known_runs(folder)))
    if unknown:
        raise ValueError(f"table {name!r} has rows of run {', '.join(unknown)} without provenance")
    for run, info in sorted(runs.items()):
        record_run(folder, run, info)
    path = folder / f"{name}.csv"
    write(frame, path)
    return path


def load(folder: Path, name: str) -> pd.DataFrame:
    """The table <folder>/<name>.csv."""
    return read(Path(folder) / f"{name}.csv")
