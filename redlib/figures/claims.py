"""All reported accuracies against ours, in one picture."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import look

TASKS = {"task1": "Task 1, sums", "task2": "Task 2, chains", "decomposed": "programs of single steps"}
SPLITS = ("structure", "text")


@style.styled
def draw_claims(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Value accuracies as the source reports them (across) and as measured here (up, with intervals), a panel a split
    and task, over all rows and by range or length; on the dashed line both are equal. Reads `claims.drawn`.

    LookupError when no number was measured.
    """
    tasks = [task for task in TASKS if task in set(frame["task"])]
    if not tasks:
        raise LookupError(f"no reported accuracy was measured; tasks with one: {', '.join(TASKS)}")
    about = style.subtitle(frame[["split"]], profile, backbone, "bars: 95 %; filled: over all rows, hollow: by group")
    size = (3.4 * len(tasks) + 0.8, 6.6)
    fig, axes = style.canvas(size, "Reported against measured", about, note, len(SPLITS), len(tasks))
    methods = list(dict.fromkeys(frame["method"]))
    for row, split in zip(axes, SPLITS, strict=True):
        for ax, task in zip(row, tasks, strict=True):
            _panel(ax, frame[(frame["task"] == task) & (frame["split"] == split)], methods)
            ax.set_title(f"{TASKS[task]}: {split}")
        row[0].set_ylabel("value accuracy measured here")
    for ax in axes[-1]:
        ax.set_xlabel("accuracy reported by the source")
    style.legend_below(fig, axes[0, 0])
    return fig


def _panel(ax, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    ax.plot([0, 1], [0, 1], "--", color=style.QUIET, linewidth=1)
    for method in methods:
        for whole in (True, False):
            mine = rows[(rows["method"] == method) & ((rows["group"] == "all") == whole)]
            style_of = look(method) if whole else replace(look(method), label="_by group")
            style.points(ax, mine["reported"], mine["value"], mine["low"], mine["high"], style_of, hollow=not whole)
    ax.set_xlim(-0.05, 1.05)
    ax.set_ylim(-0.05, 1.05)
    ax.set_xticks(np.linspace(0, 1, 6))
    ax.set_yticks(np.linspace(0, 1, 6))
