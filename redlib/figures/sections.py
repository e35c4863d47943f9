"""Changes of many methods in sections: rows under headings, drawn downwards, a point a split beside a line at zero."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from redlib.figures import style
from redlib.figures.style import SPLITS

Places = list[tuple[str, float]]  # (method, height)
Headings = list[tuple[float, str]]


def lay_out(sections: Mapping[str, Sequence[str]]) -> tuple[Places, Headings]:
    """(method, height) and (height, heading) of sections; a method of two of them stands in both."""
    places, headings, at = [], [], 0.0
    for heading, names in sections.items():
        headings.append((at, heading))
        places += [(name, at - 1 - i) for i, name in enumerate(names)]
        at -= len(names) + 1.3
    return places, headings


def draw_changes(ax: Axes, rows: pd.DataFrame, places: Places, splits: Sequence[str]) -> None:
    """One panel: a row a method and split (value, low, high), at the methods' places."""
    ax.axvline(0, color=style.INK, linewidth=0.8)
    for split, shift in zip(splits, (0.17, -0.17) if len(splits) > 1 else (0,), strict=True):
        mine = rows[rows["split"] == split].set_index("method").reindex([name for name, _ in places])
        at = np.array([place for _, place in places]) + shift
        style.points(ax, mine["value"], at, mine["low"], mine["high"], SPLITS[split], True, split == "structure")
    ax.locator_params(axis="x", nbins=5)


def name_rows(ax: Axes, places: Places, headings: Headings, label: Callable[[str], str]) -> None:
    """Methods, as `label` says them, and headings down the left side of the first panel."""
    ax.set_yticks([place for _, place in places], [label(name) for name, _ in places])
    ax.set_ylim(min(place for _, place in places) - 0.7, max(place for place, _ in headings) + 0.6)
    beside = ax.get_yaxis_transform()
    for place, heading in headings:
        ax.text(-0.02, place, heading, ha="right", va="center", size=8, weight="bold", transform=beside)
