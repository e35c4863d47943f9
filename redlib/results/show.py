"""Rows out of a table, and a table to look at."""

from collections.abc import Sequence

import pandas as pd

MOST_COUNTS = 3  # that fit in a corner


def select(frame: pd.DataFrame, **keys) -> pd.DataFrame:
    """Rows whose columns equal the given values (or one of a list of values).

    LookupError naming the value that no row has (given the ones before it), and those that are there.
    """
    for column, wanted in keys.items():
        if column not in frame:
            raise LookupError(f"no column {column!r}; present: {', '.join(frame.columns)}")
        values = [str(v) for v in wanted] if isinstance(wanted, list | tuple | set) else [str(wanted)]
        here = frame[column].astype(str)
        known = set(here.unique())
        absent = [value for value in values if value not in known]
        if absent:
            asked = ", ".join(f"{name}={value}" for name, value in keys.items())
            present = ", ".join(sorted(known)) or "none"
            raise LookupError(f"no row with {column}={', '.join(absent)} (asked for {asked}); present: {present}")
        frame = frame[here.isin(values)]
    return frame


def pick(frame: pd.DataFrame, **keys) -> pd.Series:
    """The one row with the given values; LookupError if there is none, ValueError if there are several."""
    rows = select(frame, **keys)
    if len(rows) > 1:
        open_columns = [name for name in rows if name not in ("value", "n", "low", "high") and rows[name].nunique() > 1]
        raise ValueError(f"{len(rows)} rows match {keys}; they differ in {', '.join(open_columns)}")
    return rows.iloc[0]


def cell(row: pd.Series, digits: int = 3, n: bool = False) -> str:
    """`0.912 [0.905, 0.919]`, the interval where there is one, and with `n` the rows behind it."""
    text = f"{row['value']:.{digits}f}"
    if pd.notna(row["low"]):
        text += f" [{row['low']:.{digits}f}, {row['high']:.{digits}f}]"
    return f"{text} (n = {int(row['n']):,})" if n and pd.notna(row["n"]) else text


def table(
    frame: pd.DataFrame, rows: str | Sequence[str], columns: str | Sequence[str], digits: int = 3, n: bool = False
) -> pd.DataFrame:
    """Tidy rows as a frame of text cells, `rows` down and `columns` across, in order of appearance; a dash where the
    tidy frame has no row. The corner says n where one key decides it, with `n` every cell its own. ValueError when two
    rows fall into one cell."""
    down = [rows] if isinstance(rows, str) else list(rows)
    across = [columns] if isinstance(columns, str) else list(columns)
    double = frame.duplicated([*down, *across])
    if double.any():
        where = frame.loc[double, [*down, *across]].iloc[0].to_dict()
        raise ValueError(f"several rows for {where}; select them down to one a cell, or add a column")
    cells = frame[[*down, *across]].assign(cell=[cell(row, digits, n) for _, row in frame.iterrows()])
    wide = cells.pivot(index=down, columns=across, values="cell")
    order_down = pd.MultiIndex.from_frame(frame[down].drop_duplicates())
    order_across = pd.MultiIndex.from_frame(frame[across].drop_duplicates())
    wide = wide.reindex(index=_flat(order_down), columns=_flat(order_across)).fillna("–")
    if not n and "n" in frame and "n" not in down:
        wide.columns = wide.columns.set_names(
            [*across[:-1], across[-1] + _counts(frame.dropna(subset="n"), [*across, *down])]
        )
    return wide


def _counts(frame: pd.DataFrame, keys: Sequence[str]) -> str:
    """` (n = 8,000 structure, 40,000 text)`: n by the first key that decides it in a few words; empty if none does, and
    where there is no n."""
    if frame.empty:
        return ""
    if frame["n"].nunique() == 1:
        return f" (n = {int(frame['n'].iloc[0]):,})"
    for key in keys:
        by = frame.groupby(key, sort=False, observed=True)["n"]
        if by.ngroups <= MOST_COUNTS and by.nunique().eq(1).all():
            return " (n = " + ", ".join(f"{int(count):,} {name}" for name, count in by.first().items()) + ")"
    return ""


def _flat(index: pd.MultiIndex) -> pd.Index:
    return index.get_level_values(0) if index.nlevels == 1 else index
