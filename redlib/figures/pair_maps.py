"""Maps of one seed's answers to all ordered pairs of operands."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.boundaries import TICKS
from redlib.figures.style import look
from redlib.results import select

SIGNS = {"addition": 1, "subtraction": -1}


@style.styled
def draw_pair_maps(
    frame: pd.DataFrame,
    labels: dict,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe", "fourier_full_data"),
    metric="value_error",
) -> Figure:
    """One seed's answer to every ordered pair, a row an operator and a column a method; dots mark training pairs.
    `labels`: the label space by task. Reads operand_maps or a companion: first, second, operator, in_training,
    metric, value. Entropies are drawn as shares of the largest."""
    rows = select(frame, metric=metric, method=list(methods))
    tasks = rows[["task", "operator"]].drop_duplicates().sort_values("operator").to_records(index=False)
    low, high = rows[["first", "second"]].min().min(), rows[["first", "second"]].max().max()
    signed = metric.startswith(("value_error", "range_error"))
    space = labels[tasks[0][0]]
    largest = space.hi - space.lo if "value" in metric else space.K - 1
    scale = {"cmap": "PuOr", "norm": SymLogNorm(1, vmin=-largest, vmax=largest)} if signed else {"cmap": "cividis"}
    if not signed:
        scale |= {"vmin": 0, "vmax": 1}
        rows = rows.assign(value=rows["value"] / np.log([labels[task].K for task in rows["task"]]))
    about = style.subtitle(rows, profile, backbone, f"seed {rows['seed'].iloc[0]}  ·  dots: pairs of the training rows")
    title, unit = _MAPS[metric.removesuffix("_wordings")]
    unit += ", mean over wordings" if metric.endswith("_wordings") else ""
    size = (3.1 * len(methods) + 1.5, 3.1 * len(tasks) + 1.6)
    fig, axes = style.canvas(size, title, about, note, len(tasks), len(methods), sharex=True, sharey=True)
    for i, (task, operator) in enumerate(tasks):
        for ax, method in zip(axes[i], methods, strict=True):
            mine = rows[(rows["method"] == method) & (rows["operator"] == operator) & (rows["task"] == task)]
            image = _map(ax, mine, low, high, scale)
            _map_boundaries(ax, labels[task], SIGNS[operator], low, high)
            ax.set_title(look(method).label if i == 0 else "")
        axes[i, 0].set_ylabel(f"{operator}\nfirst operand")
    for ax in axes[-1]:
        ax.set_xlabel("second operand")
    bar = fig.colorbar(image, ax=axes, shrink=0.75, label=unit)
    if signed:
        ticks = [tick for tick in TICKS if tick <= largest]
        bar.set_ticks([*(-tick for tick in reversed(ticks)), 0, *ticks], minor=False)
        bar.set_ticklabels([f"{tick:+d}" if tick else "0" for tick in bar.get_ticks().astype(int)])
    return fig


_MAPS = {
    "value_error": ("How far off is the value of every pair?", "predicted minus true value"),
    "range_error": ("How far off is the range of every pair?", "predicted minus true range"),
    "weight_entropy": (
        "How undecided is the route of every pair?",
        "entropy of the routing weights (share of the largest)",
    ),
}


def _map(ax: Axes, rows: pd.DataFrame, low: int, high: int, scale: dict) -> matplotlib.image.AxesImage:
    grid = np.full((high - low + 1, high - low + 1), np.nan)
    grid[rows["first"] - low, rows["second"] - low] = rows["value"]
    ends = (low - 0.5, high + 0.5)
    ax.set_facecolor("#d0d0d0")
    image = ax.imshow(grid, origin="lower", extent=(*ends, *ends), interpolation="nearest", **scale)
    seen = rows[rows["in_training"] == 1]
    ax.plot(seen["second"], seen["first"], ".", color=style.INK, markersize=0.9, linestyle="none", rasterized=True)
    ax.grid(visible=False)
    return image


def _map_boundaries(ax: Axes, space, sign: int, low: int, high: int) -> None:
    """Lines where first + sign * second passes from one range to the next: first against second."""
    ends = np.array([low - 0.5, high + 0.5])
    for _, edge in space.bounds[:-1]:
        ax.plot(ends, edge + 0.5 - sign * ends, color=style.INK, linewidth=0.9, linestyle="--")
    ax.set_xlim(*ends)
    ax.set_ylim(*ends)
