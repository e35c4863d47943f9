"""Modular execution: accuracy by length, where errors come from, how they compound, every single step, and who leaves
the experts' domain."""

import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from redlib.execution import KINDS, as_steps
from redlib.figures import style
from redlib.figures.style import METRICS, SPLITS, Look, look
from redlib.figures.task1 import INTERVALS, REPORTED
from redlib.results import select

FATES = {  # of a program, from the right to the worst
    "right": Look("right", style.SKY, hatch=""),
    "cancelled": Look("right, errors cancel", style.GREEN, hatch=".."),
    "planner": Look("wrong: the planner", style.YELLOW, hatch="//"),
    "outside": Look("wrong: step outside the domain", style.ORANGE, hatch="xx"),
    "inside": Look("wrong: step in the domain", style.RED, hatch="\\\\"),
}
assert set(FATES) == set(KINDS)
UNSEEN = {"unseen=none": "no step\nunseen", "unseen=some": "some steps\nunseen", "unseen=all": "all steps\nunseen"}


def _splits(rows: pd.DataFrame) -> list[str]:
    return [split for split in SPLITS if split in set(rows["split"])]


def _about(rows: pd.DataFrame, profile: str, backbone: str, extra: str) -> str:
    """The subtitle: what a variant is here is no recipe."""
    variants = ", ".join(dict.fromkeys(rows["variant"]))
    rest = rows.drop(columns=[name for name in ("variant", "part") if name in rows])
    return style.subtitle(rest, profile, backbone, f"programs {variants}  ·  {extra}")


def _length(group: str) -> str:
    return {"all": "all"}.get(group, group.removeprefix("ops="))


@style.styled
def draw_execution(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    metric="value_accuracy",
    variant="closed/gold",
    reported: pd.DataFrame | None = None,
) -> Figure:
    """Every executor by number of operations, both splits; with `reported`, the source's numbers as crosses. Reads
    execution (seed = all, groups all and ops=<number>); reported: method, group, value."""
    rows = select(frame, seed="all", part="test", variant=variant, metric=metric)
    rows = rows[rows["split"].isin(list(SPLITS))]
    groups = ["all", *sorted(group for group in set(rows["group"]) if group.startswith("ops="))]
    split = _splits(rows)[-1]
    order = select(rows, group="all", split=split).sort_values("value", kind="stable")["method"].tolist()
    about = _about(rows, profile, backbone, INTERVALS)
    title = f"{METRICS[metric].partition(' (')[0].capitalize()} of whole programs, by number of operations"
    size = (2.1 * len(groups) + 2.6, 0.33 * len(order) + 2.6)
    fig, axes = style.canvas(size, title, about, note, 1, len(groups), sharey=True, sharex=True)
    for ax, group in zip(axes[0], groups, strict=True):
        here = rows[rows["group"] == group]
        style.dots_by_split(ax, here, "method", order)
        if reported is not None:
            mine = reported[(reported["group"] == group) & reported["method"].isin(order)]
            at = [order.index(method) for method in mine["method"]]
            ax.plot(mine["value"], at, REPORTED.marker, color=REPORTED.color, markersize=7, label=REPORTED.label)
        n = " / ".join(dict.fromkeys(f"{here.loc[here['split'] == s, 'n'].max():,}" for s in _splits(rows)))
        ax.set_title(f"{'all programs' if group == 'all' else f'{_length(group)} operations'}\nn = {n}", size=9)
        ax.set_xlabel("share of programs")
    axes[0, 0].set_yticks(range(len(order)), [look(name).label for name in order])
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_unseen_steps(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    variant="closed/gold",
    split="structure",
    methods: Sequence[str] = ("red", "oracle_operator", "red_by_range", "softmax_moe", "red_uniform"),
) -> Figure:
    """Accuracy by how many steps of a program are in no training row. Reads execution (groups unseen=<word>)."""
    metrics = ("value_accuracy", "range_accuracy")
    rows = select(frame, seed="all", part="test", variant=variant, split=split, metric=metrics, method=list(methods))
    groups = [group for group in UNSEEN if group in set(rows["group"])]
    about = _about(rows, profile, backbone, INTERVALS)
    title = "Programs by how many of their steps no training row has"
    fig, axes = style.canvas((9.5, 4.2), title, about, note, 1, 2, sharey=True)
    at = np.arange(len(groups))
    for ax, metric in zip(axes[0], metrics, strict=True):
        here = rows[rows["metric"] == metric]
        for k, method in enumerate(methods):
            mine = here[here["method"] == method].set_index("group").reindex(groups)
            shift = (k - (len(methods) - 1) / 2) * 0.12
            style.points(ax, at + shift, mine["value"], mine["low"], mine["high"], look(method))
        sizes = here.groupby("group")["n"].max().reindex(groups)
        ax.set_xticks(at, [f"{UNSEEN[group]}\nn = {sizes[group]:,}" for group in groups])
        ax.set_xlim(-0.5, len(groups) - 0.5)
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(METRICS[metric].partition(" (")[0])
    axes[0, 0].set_ylabel("share of programs")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_error_budget(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    split="structure",
    methods: Sequence[str] = ("red", "softmax_moe", "red_uniform"),
) -> Figure:
    """What became of every program, by number of operations: a row of panels a variant. Reads execution_budget."""
    rows = select(frame, split=split, method=list(methods), metric=list(FATES))
    variants = list(dict.fromkeys(rows["variant"]))
    groups = sorted(group for group in set(rows["group"]) if group.startswith("ops="))
    about = style.subtitle(rows.drop(columns=["variant"]), profile, backbone, "shares add up to one")
    size = (2.9 * len(methods) + 1.2, 1.75 * len(variants) + 1.9)
    fig, axes = style.canvas(
        size, "What became of every program", about, note, len(variants), len(methods), sharex=True, sharey=True
    )
    at = np.arange(len(groups))
    for line, variant in zip(axes, variants, strict=True):
        for ax, method in zip(line, methods, strict=True):
            mine = rows[(rows["variant"] == variant) & (rows["method"] == method)]
            wide, bottom = mine.pivot(index="group", columns="metric", values="value").reindex(groups), 0
            for fate, shade in FATES.items():
                style_of = {"color": shade.color, "edgecolor": style.INK, "hatch": shade.hatch, "linewidth": 0.4}
                ax.bar(at, wide[fate], 0.75, bottom=bottom, label=shade.label, **style_of)
                bottom = bottom + wide[fate].to_numpy()
            ax.set_title(look(method).label if variant == variants[0] else "")
            ax.set_xticks(at, [_length(group) for group in groups])
            ax.set_ylim(0, 1)
            ax.grid(visible=False)
        line[0].set_ylabel(variant.replace("/chains", "\nchains") + "\nshare of programs", size=8)
    for ax in axes[-1]:
        ax.set_xlabel("operations")
    style.legend_below(fig, axes[0, 0], 3)
    return fig


@style.styled
def draw_compounding(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe", "red_uniform", "uniform_average"),
) -> Figure:
    """Observed accuracy by number of operations, and the power of the accuracy of single steps. Reads
    execution_compounding (seed = all; compounded, observed)."""
    rows = select(frame, seed="all", method=list(methods), metric=["compounded", "observed"])
    splits, variants = _splits(rows), list(dict.fromkeys(rows["variant"]))
    about = _about(rows, profile, backbone, "hollow: the accuracy of single steps to the power of their number")
    size = (3.6 * len(variants) + 1, 2.7 * len(splits) + 1.7)
    title = "Errors of single steps, compounded and observed"
    fig, axes = style.canvas(size, title, about, note, len(splits), len(variants), sharex=True, sharey=True)
    for line, split in zip(axes, splits, strict=True):
        for ax, variant in zip(line, variants, strict=True):
            here = rows[(rows["split"] == split) & (rows["variant"] == variant)]
            for method in methods:
                mine = here[here["method"] == method].pivot(index="group", columns="metric", values="value")
                at = [int(_length(group)) for group in mine.index]
                nothing = np.full(len(at), np.nan)
                style.points(ax, at, mine["observed"], nothing, nothing, look(method), line=True)
                ax.plot(at, mine["compounded"], look(method).marker, mfc=style.PAPER, mec=look(method).color, ms=8)
            ax.set_title(f"{variant}, {split} split", size=9)
            ax.set_xticks(at)
            ax.set_ylim(-0.03, 1.03)
        line[0].set_ylabel("value accuracy")
    for ax in axes[-1]:
        ax.set_xlabel("operations")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_step_maps(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="closed", method="red"
) -> Figure:
    """In how many seeds every single step is right: first by second operand, an operation a column, a split a row.
    Reads execution_errors."""
    rows = as_steps(select(frame, variant=variant, method=method, metric="value_accuracy"))
    splits, operators = _splits(rows), sorted(set(rows["operator"]))
    about = _about_steps(rows, profile, backbone, variant)
    size = (4.3 * len(operators) + 1.2, 2.6 * len(splits) + 1.3)
    title = f"Every single step of {look(method).label}"
    fig, axes = style.canvas(size, title, about, note, len(splits), len(operators), sharex=True, sharey=True)
    for line, split in zip(axes, splits, strict=True):
        for ax, operator in zip(line, operators, strict=True):
            image = _step_map(ax, rows[(rows["split"] == split) & (rows["operator"] == operator)], rows)
            ax.set_title(f"{operator}, {split} split", size=9)
        line[0].set_ylabel("second operand")
    for ax in axes[-1]:
        ax.set_xlabel("first operand")
    fig.colorbar(image, ax=axes, shrink=0.85, label="share of seeds that are right")
    return fig


@style.styled
def draw_executor_maps(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="closed", split="structure"
) -> Figure:
    """`draw_step_maps` of every executor on one split: an executor a column, the one with fewest errors first, an
    operation a row. Reads execution_errors."""
    rows = as_steps(select(frame, variant=variant, split=split, metric="value_accuracy"))
    inside = rows[rows["group"] == "inside"].groupby("method")["value"].mean().sort_values(ascending=False)
    operators = sorted(set(rows["operator"]))
    about = _about_steps(rows, profile, backbone, variant) + "  ·  percentages: of the steps in the domain"
    size = (1.6 * len(inside) + 1.4, 1.5 * len(operators) + 1.7)
    title = "Every single step of every executor"
    fig, axes = style.canvas(size, title, about, note, len(operators), len(inside), sharex=True, sharey=True)
    for line, operator in zip(axes, operators, strict=True):
        for ax, method in zip(line, inside.index, strict=True):
            image = _step_map(ax, rows[(rows["method"] == method) & (rows["operator"] == operator)], rows)
        line[0].set_ylabel(f"{operator}\nsecond operand", size=8)
    for ax, (method, share) in zip(axes[0], inside.items(), strict=True):
        ax.set_title(f"{textwrap.fill(look(method).label, 18)}\n{share:.1%} right", size=8)
    for ax in axes[-1]:
        ax.set_xlabel("first operand", size=8)
    fig.colorbar(image, ax=axes, shrink=0.85, pad=0.01, label="share of seeds\nthat are right")
    return fig


def _about_steps(rows: pd.DataFrame, profile: str, backbone: str, variant: str) -> str:
    extra = f"domain {variant}  ·  grey: the result is no label  ·  dashed: where the domain ends"
    return style.subtitle(rows.drop(columns=["part", "variant"]), profile, backbone, extra)


def _step_map(ax: Axes, mine: pd.DataFrame, every: pd.DataFrame) -> AxesImage:
    """One operation's steps in a panel that has room for `every` step of the figure."""
    (first, second), (last, end) = every[["first", "second"]].min(), every[["first", "second"]].max()
    grid = np.full((end - second + 1, last - first + 1), np.nan)
    grid[mine["second"] - second, mine["first"] - first] = mine["value"]
    around = (first - 0.5, last + 0.5, second - 0.5, end + 0.5)
    ax.set_facecolor("#d0d0d0")
    ax.grid(visible=False)
    known = mine.loc[mine["group"] == "inside", "first"].max()
    if known < last:
        ax.axvline(known + 0.5, color=style.RED, linestyle="--", linewidth=1.2)
    return ax.imshow(grid, origin="lower", extent=around, cmap="cividis", vmin=0, vmax=1, aspect="auto")


@style.styled
def draw_leaving(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Programs with a step outside the experts' domain, by number of operations. Reads execution_domain."""
    rows = select(frame, metric="programs_outside")
    rows = rows[rows["group"].str.startswith("ops=")].sort_values("group")
    variants = list(dict.fromkeys(rows["variant"]))
    groups = list(dict.fromkeys(rows["group"]))
    about = style.subtitle(rows.drop(columns=["variant", "part", "split"]), profile, "", "exact partial results")
    fig, axes = style.canvas((8.5, 4.2), "Programs that leave the experts' domain", about, note)
    ax, at, width = axes[0, 0], np.arange(len(groups)), 0.8 / len(variants)
    shades = (style.BLUE, style.ORANGE, style.SKY, style.RED)
    for k, variant in enumerate(variants):
        mine = rows[rows["variant"] == variant].set_index("group").reindex(groups)
        experts, _, chains = variant.partition("/gold/chains=")
        place = at + (k - (len(variants) - 1) / 2) * width
        label = f"experts {experts}, chains {chains}"
        ax.bar(
            place, mine["value"], width * 0.92, color=shades[k % 4], hatch=["", "//", "..", "xx"][k % 4], label=label
        )
        for x, value in zip(place, mine["value"], strict=True):
            ax.text(x, value + 0.015, f"{value:.0%}", ha="center", size=8)
    ax.set_xticks(at, [f"{_length(group)} operations" for group in groups])
    ax.set_ylim(0, 1.1)
    ax.set_ylabel("share of programs")
    style.legend_below(fig, ax, 2)
    return fig
