"""Behaviour along the value axis: routing weights, range probabilities, accuracy, smoothness.

The sweeps of a split show the pairs that it holds back where it holds any back, and all pairs otherwise.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from redlib.evaluation import held_back
from redlib.figures import style
from redlib.figures.style import SPLITS, Look, look
from redlib.results import select

BANDS = "bands: 95 % intervals over structures and seeds"
CURVES = {"weight": "routing weight", "probability": "range probability"}
SHAPES = {
    "backtrack": "backtrack of the mean curves",
    "extra_variation": "variation beyond the ideal step",
    "extra_flips": "flips of the mean curves\nbeyond the necessary",
    "row_extra_flips": "flips in a row of the map\nbeyond the necessary",
    "row_backtrack": "backtrack in a row of the map",
    "weight_backtrack": "backtrack of the mean weights",
}
TICKS = (1, 3, 10, 30, 100)  # of axes and colours that are linear up to 1 and logarithmic beyond
_COLORS = (style.BLUE, style.ORANGE, style.GREEN, style.RED, style.PURPLE, style.SKY, style.BLACK)
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))


def _range_look(k: int, name: str) -> Look:
    return Look(name, _COLORS[k % len(_COLORS)], line=_LINES[k % len(_LINES)])


def _splits(rows: pd.DataFrame) -> list[str]:
    return [split for split in SPLITS if split in set(rows["split"])]


def _kept(frame: pd.DataFrame, **keys) -> pd.DataFrame:
    return held_back(select(frame, seed="all", part="population", **keys))


def _groups(rows: pd.DataFrame) -> str:
    names = {"unseen": "pairs that training has not seen", "all": "all pairs"}
    return ", ".join(
        f"{split}: {names[of['group'].iloc[0]]}" for split in _splits(rows) for of in [rows[rows["split"] == split]]
    )


def _curve(ax: Axes, rows: pd.DataFrame, shade: Look, marker: str = "") -> None:
    rows = rows.sort_values("true_value")
    at = rows["true_value"].to_numpy()
    ax.fill_between(at, rows["low"], rows["high"], color=shade.color, alpha=0.2, linewidth=0)
    ax.plot(at, rows["value"], color=shade.color, linestyle=shade.line, marker=marker, label=shade.label)


def _boundaries(ax: Axes, labels, low: int, high: int) -> None:
    for _, edge in labels.bounds[:-1]:
        if low <= edge < high:
            ax.axvline(edge + 0.5, color=style.QUIET, linewidth=0.8, linestyle="--")


@style.styled
def draw_curves_by_value(
    frame: pd.DataFrame,
    labels,
    profile: str,
    backbone: str = "",
    note: str = "",
    curve: str = "probability",
    methods: Sequence[str] = ("red", "softmax_moe"),
    variant="chosen",
    operator="addition",
) -> Figure:
    """Mean routing weight of every expert (`curve="weight"`) or probability of every range by true value, a row a split
    and a column a method. Reads boundary_sweep: true_value, operator, metrics <curve>_R1..RK."""
    metrics = [f"{curve}_{name}" for name in labels.names]
    rows = _kept(frame, variant=variant, operator=operator, method=list(methods), metric=metrics)
    splits = _splits(rows)
    about = style.subtitle(rows, profile, backbone, f"{operator}  ·  {_groups(rows)}  ·  {BANDS}")
    what = "expert's share of the route" if curve == "weight" else "range's share of the answer"
    size = (max(7.5, 3.6 * len(methods) + 0.6), 2.35 * len(splits) + 1.7)
    title = f"Each {what}, by true value"
    fig, axes = style.canvas(size, title, about, note, len(splits), len(methods), sharex=True, sharey=True)
    low, high = rows["true_value"].min(), rows["true_value"].max()
    for i, split in enumerate(splits):
        for ax, method in zip(axes[i], methods, strict=True):
            mine = rows[(rows["split"] == split) & (rows["method"] == method)]
            for k, name in enumerate(labels.names):
                shade = _range_look(k, f"{name}, {labels.bounds[k][0]}-{labels.bounds[k][1]}")
                _curve(ax, mine[mine["metric"] == f"{curve}_{name}"], shade)
            _boundaries(ax, labels, low, high)
            ax.set_title(look(method).label if i == 0 else "")
            ax.grid(axis="x", visible=False)
        axes[i, 0].set_ylabel(f"{split} split\n{CURVES[curve]}")
    for ax in axes[-1]:
        ax.set_xlabel("true value")
        ax.set_ylim(-0.03, 1.03)
    style.legend_below(fig, axes[0, 0], labels.K)
    return fig


@style.styled
def draw_accuracy_by_value(
    frame: pd.DataFrame,
    labels,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe"),
    variant="chosen",
    operator="addition",
) -> Figure:
    """Value and range accuracy by true value, a column a method. Reads boundary_sweep: true_value, operator, metrics
    value_accuracy and range_accuracy."""
    metrics = ("value_accuracy", "range_accuracy")
    rows = _kept(frame, variant=variant, operator=operator, method=list(methods), metric=metrics)
    about = style.subtitle(rows, profile, backbone, f"{operator}  ·  {_groups(rows)}  ·  {BANDS}")
    size = (max(7.5, 3.4 * len(methods) + 0.6), 6.2)
    title = "Accuracy by true value"
    fig, axes = style.canvas(size, title, about, note, 2, len(methods), sharex=True, sharey=True)
    for i, metric in enumerate(metrics):
        for ax, method in zip(axes[i], methods, strict=True):
            for split in _splits(rows):
                mine = rows[(rows["split"] == split) & (rows["method"] == method) & (rows["metric"] == metric)]
                _curve(ax, mine, SPLITS[split])
            _boundaries(ax, labels, rows["true_value"].min(), rows["true_value"].max())
            ax.set_title(look(method).label if i == 0 else "")
            ax.grid(axis="x", visible=False)
        axes[i, 0].set_ylabel(f"{metric.replace('_', ' ')}\n(share of texts)")
    for ax in axes[-1]:
        ax.set_xlabel("true value")
        ax.set_ylim(-0.03, 1.03)
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_boundary_zoom(
    frame: pd.DataFrame,
    labels,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe", "global_head"),
    variant="chosen",
    split="structure",
    operator="addition",
    reach: int = 6,
) -> Figure:
    """The values around every boundary: routing weight of the expert above it, and probability of the range above it.
    Reads boundary_sweep: true_value, operator, metrics weight_R2..RK and probability_R2..RK."""
    rows = _kept(frame, variant=variant, operator=operator, split=split, method=list(methods))
    low, high = rows["true_value"].min(), rows["true_value"].max()
    edges = [
        (name, edge) for name, (_, edge) in zip(labels.names[1:], labels.bounds, strict=False) if low <= edge < high
    ]
    about = style.subtitle(rows, profile, backbone, f"{operator}  ·  {_groups(rows)}  ·  {BANDS}  ·  grey: ideal step")
    size = (max(7.5, 2.75 * len(edges) + 0.9), 6.2)
    title = "Around the boundaries: what goes to the range above"
    fig, axes = style.canvas(size, title, about, note, 2, len(edges), sharey=True, sharex="col")
    for i, curve in enumerate(("weight", "probability")):
        for ax, (name, edge) in zip(axes[i], edges, strict=True):
            k = labels.range_of(edge)
            ends = [max(edge - reach + 1, labels.bounds[k][0]), edge + 0.5, edge + 0.5]
            ends.append(min(edge + reach, labels.bounds[k + 1][1]))
            ax.plot(ends, [0, 0, 1, 1], color="#c4c4c4", linewidth=4, solid_joinstyle="miter", zorder=1)
            here = rows[(rows["metric"] == f"{curve}_{name}") & rows["true_value"].between(ends[0], ends[-1])]
            for method in methods:
                shade = look(method)
                _curve(ax, here[here["method"] == method], shade, shade.marker)
            ax.set_title(f"{edge} / {edge + 1}" if i == 0 else "")
            ax.set_xticks(range(int(ends[0]), ends[-1] + 1, max(1, reach // 3)))
        axes[i, 0].set_ylabel(f"{CURVES[curve]}\nof the range above")
    for ax in axes[-1]:
        ax.set_xlabel("true value")
        ax.set_ylim(-0.03, 1.03)
    style.legend_below(fig, axes[1, 0])
    return fig


@style.styled
def draw_smoothness(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    metrics: Sequence[str] = ("backtrack", "extra_variation", "extra_flips", "row_extra_flips"),
    variant="chosen",
    operator="addition",
    below: str | None = None,
) -> Figure:
    """Numbers for the shape of every method's curves, both splits, on axes that are logarithmic beyond 1; with
    `below="red"` RED minus the method, paired. Reads boundary_smoothness: method, operator, metric, value, low, high.
    """
    wanted = [f"{metric}_below_{below}" if below else metric for metric in metrics]
    rows = select(frame, seed="all", variant=variant, operator=operator, metric=wanted)
    rows = pd.concat([held_back(rows[rows["metric"] == metric]) for metric in wanted])
    first = rows[(rows["metric"] == wanted[0]) & (rows["split"] == _splits(rows)[-1])]
    order = first.sort_values("value", ascending=False, kind="stable")["method"].tolist()
    about = f"{operator}  ·  {_groups(rows[rows['metric'] == wanted[0]])} (rows of the map: all)  ·  95 % intervals"
    about += f", {'paired' if below else '0: the ideal step'}  ·  axes: logarithmic beyond 1"
    about = style.subtitle(rows, profile, backbone, about)
    title = "How smooth is each method along the value axis?"
    title = f"{look(below).label} minus the other methods: smoothness" if below else title
    fig, axes = style.canvas(
        (2.7 * len(metrics) + 2.4, 0.34 * len(order) + 2.6), title, about, note, 1, len(metrics), sharey=True
    )
    for ax, metric, name in zip(axes[0], metrics, wanted, strict=True):
        ax.axvline(0, color=style.INK, linewidth=0.8)
        for split, shift in zip(_splits(rows), (0.15, -0.15, 0.0), strict=False):
            mine = rows[(rows["metric"] == name) & (rows["split"] == split)].set_index("method").reindex(order)
            at = np.arange(len(order)) + shift
            style.points(ax, mine["value"], at, mine["low"], mine["high"], SPLITS[split], True, split == "structure")
        _logarithmic_beyond_one(ax)
        ax.set_xlabel(SHAPES[metric] + (f"\nleft of zero: {look(below).label} has less" if below else ""))
    axes[0, 0].set_yticks(range(len(order)), [look(method).label for method in order])
    axes[0, 0].set_ylim(-0.6, len(order) - 0.4)
    style.legend_below(fig, axes[0, 0])
    return fig


def _logarithmic_beyond_one(ax: Axes) -> None:
    """One method far off would press all others together on a linear axis."""
    ax.set_xscale("symlog", linthresh=1)
    low, high = ax.get_xlim()
    ticks = [tick for tick in (*(-tick for tick in reversed(TICKS)), 0, *TICKS) if low <= tick <= high]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlim(low, high)
