"""What a planner writes: exact programs by length, its errors by kind, and how it learnt."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from redlib.figures import style
from redlib.figures.style import PARTS, SPLITS, look
from redlib.results import select

CASES = {
    "operand": "other number",
    "operator": "other operator",
    "order": "other order",
    "length": "other length",
    "several": "several of these",
    "no_program": "no program",
}
INTERVALS = "95 % intervals over structures and seeds"


def _splits(rows: pd.DataFrame) -> list[str]:
    return [split for split in SPLITS if split in set(rows["split"])]


@style.styled
def draw_programs(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("planner_searched", "planner_grounded", "planner", "planner_unrestricted", "symbolic"),
) -> Figure:
    """Exact programs of the test rows by number of operations, a panel a split. Reads planner: metric = program_exact,
    seed = all, group ops=<number> and all, method, split, value, low, high."""
    rows = select(frame, metric="program_exact", seed="all", method=list(methods))
    splits, groups = _splits(rows), sorted(set(rows["group"]) - {"all"})
    order = [*groups, "all"]
    about = style.subtitle(rows[["split", "part"]], profile, backbone, INTERVALS)
    title = "Exact programs by number of operations"
    size = (max(7.5, 3.6 * len(splits)), 4.4)
    fig, axes = style.canvas(size, title, about, note, 1, len(splits), sharey=True)
    lowest = rows["low"].min()
    bottom = np.floor(lowest * 10) / 10 if lowest > 0.5 else 0  # where all are near one, their differences are small
    room = 0.03 * (1 - bottom)
    for ax, split in zip(axes[0], splits, strict=True):
        for shift, method in zip(np.linspace(-0.18, 0.18, len(methods)), methods, strict=True):
            mine = rows[(rows["split"] == split) & (rows["method"] == method)].set_index("group").reindex(order)
            at = np.arange(len(order)) + shift
            style.points(ax, at, mine["value"], mine["low"], mine["high"], look(method))
        ax.set_xticks(range(len(order)), [name.removeprefix("ops=") for name in order])
        ax.set_title(SPLITS[split].label)
        ax.set_xlabel("operations of the question")
        ax.set_ylim(bottom - room, 1 + room)
    axes[0, 0].set_ylabel("exact programs (share of test rows)")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_planner_errors(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("planner_searched", "planner_grounded", "planner", "planner_unrestricted"),
) -> Figure:
    """How often programs are wrong, by kind of error, a panel a split. Reads planner_errors: metric = error_rate, case,
    method, split, value, low, high."""
    rows = select(frame, metric="error_rate", method=list(methods))
    splits = _splits(rows)
    about = style.subtitle(rows[["split", "part"]], profile, backbone, INTERVALS)
    title = "How wrong programs differ from the right one"
    size = (max(7.5, 3.6 * len(splits)), 4.6)
    fig, axes = style.canvas(size, title, about, note, 1, len(splits), sharex=True, sharey=True)
    height = 0.8 / len(methods)
    for ax, split in zip(axes[0], splits, strict=True):
        for turn, method in enumerate(methods):
            mine = rows[(rows["split"] == split) & (rows["method"] == method)].set_index("case").reindex(list(CASES))
            at, shape = np.arange(len(CASES)) + (turn - (len(methods) - 1) / 2) * height, look(method)
            drawn = {"color": shape.color, "hatch": shape.hatch, "edgecolor": "white", "label": shape.label}
            ax.barh(at, mine["value"], height, **drawn)
            reach = np.clip([mine["value"] - mine["low"], mine["high"] - mine["value"]], 0, None)
            ax.errorbar(mine["value"], at, xerr=reach, fmt="none", color=style.INK, elinewidth=1.2, capsize=2)
        ax.set_title(SPLITS[split].label)
        ax.set_xlabel("share of test rows")
        ax.grid(axis="y", visible=False)
    axes[0, 0].set_yticks(range(len(CASES)), list(CASES.values()))
    axes[0, 0].invert_yaxis()
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_planner_curves(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Losses, and exact programs of the validation rows, by epoch, a column a split. Reads planner_curves: metric
    train_loss, valid_loss or valid_accuracy, epoch, split, value, low and high (smallest and largest seed)."""
    splits = _splits(frame)
    about = style.subtitle(frame[["split"]], profile, backbone, "bands: smallest to largest seed")
    title = "How the planner learnt"
    size = (max(7.5, 3.6 * len(splits)), 6.0)
    fig, axes = style.canvas(size, title, about, note, 2, len(splits), sharex=True, sharey="row")
    drawn = (("train_loss", "train", 0), ("valid_loss", "validation", 0), ("valid_accuracy", "validation", 1))
    for column, split in enumerate(splits):
        for metric, part, down in drawn:
            line = select(frame, split=split, metric=metric).sort_values("epoch")
            ax, shade = axes[down, column], PARTS[part]
            style_of = {"color": shade.color, "linestyle": shade.line, "marker": shade.marker, "markersize": 3}
            ax.plot(line["epoch"], line["value"], label=shade.label, **style_of)
            ax.fill_between(line["epoch"], line["low"], line["high"], color=shade.color, alpha=0.2, linewidth=0)
        axes[0, column].set_title(SPLITS[split].label)
        axes[1, column].set_xlabel("epoch")
        axes[1, column].xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes[1, column].set_ylim(-0.03, 1.03)
        axes[0, column].set_yscale("log")
    axes[0, 0].set_ylabel("cross-entropy a token (nats)")
    axes[1, 0].set_ylabel("exact programs (share of rows)")
    style.legend_below(fig, axes[0, 0])
    return fig
