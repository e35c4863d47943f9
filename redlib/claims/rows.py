"""How a claim names rows of a table: `method=a | b; metric=c; group=R1 & R2`.

`|` separates readings of the claim, the first of which is the headline's; `&` joins rows that have to hold together;
`group=ranges` stands for every range.
"""

from itertools import product

import pandas as pd

from redlib.expressions import LabelSpace
from redlib.results import select

HOME = {"task1": "chosen", "task2": "operations/chosen", "decomposed": "closed/gold"}  # the headline's variant
SPLITS = ("structure", "text", "phrasing")  # the headline's first
RANGES = "ranges"


def readings(rows: str, labels: LabelSpace) -> list[dict[str, list[str]]]:
    """Every reading of a selector, the headline's first: column -> the values that belong together.

    ValueError for a part that is not `column=value`.
    """
    choices = []
    for part in rows.split("; "):
        column, equals, values = part.partition("=")
        if not (column and equals and values):
            raise ValueError(f"{part!r} in {rows!r} does not name rows; write column=value, parts joined by '; '")
        each = [list(labels.names) if value == RANGES else value.split(" & ") for value in values.split(" | ")]
        choices.append([(column, together) for together in each])
    return [dict(choice) for choice in product(*choices)]


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows over all seeds of a main setting: a variant without changes to it, on one of SPLITS."""
    rows = whole(frame)
    return rows[~rows["variant"].str.contains("=", regex=False)]


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows over all seeds, on one of SPLITS."""
    return frame[(frame["seed"] == "all") & frame["split"].isin(SPLITS)]


def settings(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The (variant, split) pairs of a frame, the headline's first: its task's HOME variant, SPLITS in order."""
    home = HOME.get(str(frame["task"].iloc[0]), "") if len(frame) else ""
    pairs = sorted(set(zip(frame["variant"], frame["split"], strict=True)))
    return sorted(pairs, key=lambda pair: (pair[0] != home, SPLITS.index(pair[1]), pair[0]))


def readings_of(frame: pd.DataFrame, rows: str, labels: LabelSpace) -> list[tuple[dict[str, str], pd.DataFrame]]:
    """What rows over all seeds say under every reading and setting of a selector, the headline's first.

    A pair a reading and setting: what was read where (variant, split and the columns that have several readings), and
    the rows. LookupError where the frame lacks rows of a reading.
    """
    every, found = readings(rows, labels), []
    open_columns = [column for column in every[0] if len({tuple(one[column]) for one in every}) > 1]
    for place, one in enumerate(every):
        mine = select(frame, **one)
        asked = {column: " and ".join(one[column]) for column in open_columns}
        for rank, (variant, split) in enumerate(settings(mine)):
            here = mine[(mine["variant"] == variant) & (mine["split"] == split)]
            found.append((rank, place, {"variant": variant, "split": split, **asked}, here))
    found.sort(key=lambda entry: entry[:2])
    return [entry[2:] for entry in found]
