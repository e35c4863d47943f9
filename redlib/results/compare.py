"""Two result sets side by side: what differs, by how much, and whether the intervals allow it."""

from pathlib import Path

import numpy as np
import pandas as pd

from redlib.evaluation import COLUMNS
from redlib.results.tidy import EXTRA_COLUMNS, KEY, MEASURES, read


def compare(a: Path | str | pd.DataFrame, b: Path | str | pd.DataFrame) -> pd.DataFrame:
    """Rows of two tidy frames, two CSV files or two folders of them, matched by key.

    Adds value, low, high of both (`_a`, `_b`), `difference` (b minus a) with its interval `low`, `high` for independent
    runs (square-and-add of the two intervals), `overlap` of the two intervals, and `verdict`: same (equal numbers),
    no measurable difference (zero inside the interval), differs, changed (no interval), only in A, only in B.
    """
    if isinstance(a, pd.DataFrame) and isinstance(b, pd.DataFrame):
        return _frames(a, b)
    a, b = Path(a), Path(b)
    if a.is_file() and b.is_file():
        return _frames(read(a), read(b))
    tables_a, tables_b = _tables(a), _tables(b)
    parts = []
    for name in sorted(tables_a | tables_b):
        left = read(a / f"{name}.csv") if name in tables_a else None
        right = read(b / f"{name}.csv") if name in tables_b else None
        both = _frames(right.iloc[:0] if left is None else left, left.iloc[:0] if right is None else right)
        parts.append(both.assign(table=name))
    return pd.concat(parts, ignore_index=True)


def _tables(folder: Path) -> set[str]:
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder of results or CSV file at {folder}")
    header = ",".join(COLUMNS)
    found = {file.stem for file in folder.glob("*.csv") if file.read_text().startswith(header)}
    if not found:
        raise FileNotFoundError(f"no result table in {folder}")
    return found


def _frames(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    keys = [*KEY, *(name for name in EXTRA_COLUMNS if (name in a or name in b) and name not in MEASURES)]
    measures = ["value", "low", "high"]
    for frame, side in ((a, "A"), (b, "B")):
        lacking = [name for name in (*keys, *measures) if name not in frame]
        if lacking:
            raise ValueError(f"{side} lacks the columns {', '.join(lacking)}")
    both = a[[*keys, *measures]].merge(b[[*keys, *measures]], "outer", keys, suffixes=("_a", "_b"), indicator=True)
    down_a, up_a = both["value_a"] - both["low_a"], both["high_a"] - both["value_a"]
    down_b, up_b = both["value_b"] - both["low_b"], both["high_b"] - both["value_b"]
    both["difference"] = both["value_b"] - both["value_a"]
    both["low"] = both["difference"] - np.hypot(down_b, up_a)
    both["high"] = both["difference"] + np.hypot(up_b, down_a)
    both["overlap"] = (both["low_a"] <= both["high_b"]) & (both["low_b"] <= both["high_a"])
    both["verdict"] = _verdicts(both)
    return both.drop(columns="_merge")


def _verdicts(both: pd.DataFrame) -> np.ndarray:
    inside = (both["low"] <= 0) & (both["high"] >= 0)
    equal = (both["value_a"] == both["value_b"]) & (both["low_a"].eq(both["low_b"]) | both["low"].isna())
    return np.select(
        [both["_merge"] == "left_only", both["_merge"] == "right_only", equal, both["low"].isna(), inside],
        ["only in A", "only in B", "same", "changed", "no measurable difference"],
        "differs",
    )
