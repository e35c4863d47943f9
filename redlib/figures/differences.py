"""Paired differences: how far every method lies from one of them on the same texts."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import METRICS, SPLITS, look
from redlib.figures.task1 import BOTH, INTERVALS
from redlib.results import select


@style.styled
def draw_differences(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] | None = None,
    reference="red",
    variant="chosen",
) -> Figure:
    """The reference's accuracy minus each method's on the same items, both splits. Reads task1: the
    <metric>_below_<reference> rows of value_accuracy and range_accuracy; seed = all, part = test, group = all."""
    metrics = ("value_accuracy", "range_accuracy")
    keys = {"seed": "all", "part": "test", "variant": variant, "group": "all", "split": BOTH}
    rows = select(frame, **keys, metric=[f"{metric}_below_{reference}" for metric in metrics])
    rows = rows if methods is None else select(rows, method=list(methods))
    first = rows[(rows["metric"] == f"{metrics[0]}_below_{reference}") & (rows["split"] == BOTH[1])]
    order = first.sort_values("value", ascending=False, kind="stable")["method"].tolist()
    about = style.subtitle(rows, profile, backbone, f"paired, {INTERVALS}")
    name = look(reference).label
    title = f"{name} minus the other methods on the same texts"
    fig, axes = style.canvas((10.5, 0.34 * len(order) + 2.3), title, about, note, 1, 2, sharey=True)
    for ax, metric in zip(axes[0], metrics, strict=True):
        ax.axvline(0, color=style.INK, linewidth=0.8)
        for split, shift in zip(BOTH, (0.15, -0.15), strict=True):
            mine = rows[(rows["metric"] == f"{metric}_below_{reference}") & (rows["split"] == split)]
            mine = mine.set_index("method").reindex(order)
            at = np.arange(len(order)) + shift
            style.points(ax, mine["value"], at, mine["low"], mine["high"], SPLITS[split], True, split == "structure")
        ax.set_title(METRICS[metric].partition(" (")[0])
        ax.set_xlabel(f"difference in share of rows (right of zero: {name} is better)")
    axes[0, 0].set_yticks(range(len(order)), [look(method).label for method in order])
    axes[0, 0].set_ylim(-0.6, len(order) - 0.4)
    style.legend_below(fig, axes[0, 0])
    return fig
