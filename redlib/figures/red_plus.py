"""`red_plus`: its base alone, what experts and router add, the controls on the same rows, and how it learned."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.fair import TASKS
from redlib.figures.style import METRICS, SPLITS, look
from redlib.figures.task1 import INTERVALS
from redlib.results import select

BOTH = ("value_accuracy", "range_accuracy")


@style.styled
def draw_red_plus(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """All methods: a row of panels a task, a column a metric, a mark a split. Reads red_plus: seed and group = all."""
    rows = select(frame, seed="all", group="all", metric=BOTH)
    tasks = list(dict.fromkeys(rows["task"]))
    headline = rows[(rows["split"] == "structure") & (rows["metric"] == BOTH[0])]
    order = headline.groupby("method")["value"].mean().sort_values(kind="stable").index.tolist()
    splits = [split for split in SPLITS if split in set(rows["split"])]
    about = style.subtitle(rows, profile, backbone, INTERVALS)
    size = (10.5, 0.31 * len(order) * len(tasks) + 1.2 * len(tasks) + 1.3)
    title = "RED plus, its base alone, and the controls on the same rows"
    fig, axes = style.canvas(size, title, about, note, len(tasks), 2, sharey=True, sharex=True)
    for (task, metric), ax in zip([(task, metric) for task in tasks for metric in BOTH], axes.flat, strict=True):
        for split, shift in zip(splits, np.linspace(0.22, -0.22, len(splits)), strict=True):
            here = rows[(rows["task"] == task) & (rows["metric"] == metric) & (rows["split"] == split)]
            here, at = here.set_index("method").reindex(order), np.arange(len(order)) + shift
            style.points(ax, here["value"], at, here["low"], here["high"], SPLITS[split], True, split != "structure")
        ax.set_xlim(-0.03, 1.03)
        ax.set_ylim(-0.6, len(order) - 0.4)
        ax.set_title(f"{TASKS[task]}: {METRICS[metric].partition(' (')[0]}")
    for ax in axes[:, 0]:
        ax.set_yticks(range(len(order)), [look(name).label for name in order])
    for ax in axes[-1]:
        ax.set_xlabel("share of rows")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_onset(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """When the base begins to know sums that it has not seen: validation accuracy by epoch, a panel a task, a line a
    split. Reads red_plus_curves: method = red_plus base, metric = valid_accuracy."""
    rows = select(frame, method="red_plus base", metric="valid_accuracy")
    tasks = list(dict.fromkeys(rows["task"]))
    about = style.subtitle(rows, profile, backbone, "line: mean over seeds, band: smallest and largest seed")
    title = "Validation accuracy of the base by epoch"
    fig, axes = style.canvas((5.0 * len(tasks), 4.0), title, about, note, 1, len(tasks), sharey=True)
    for task, ax in zip(tasks, axes[0], strict=True):
        for split in (name for name in SPLITS if name in set(rows.loc[rows["task"] == task, "split"])):
            line = rows[(rows["task"] == task) & (rows["split"] == split)].sort_values("epoch")
            shade = SPLITS[split]
            ax.plot(line["epoch"], line["value"], shade.line, marker=shade.marker, color=shade.color, label=shade.label)
            ax.fill_between(line["epoch"], line["low"], line["high"], color=shade.color, alpha=0.2, linewidth=0)
        ax.set_title(TASKS[task])
        ax.set_xlabel("epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_ylim(-0.03, 1.03)
    axes[0, 0].set_ylabel(METRICS["value_accuracy"])
    every = {label: handle for ax in axes[0] for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    fig.legend(every.values(), every.keys(), loc="outside lower center", ncols=3)
    return fig
