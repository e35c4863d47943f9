"""`red_plus` beyond its training domain and inside: longer chains, larger numbers, other ranges, components, errors."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.fair import TASKS
from redlib.figures.style import METRICS, Look, look
from redlib.figures.task1 import INTERVALS
from redlib.results import select

BOTH = ("red_plus_base", "red_plus")
ACCURACIES = ("value_accuracy", "range_accuracy")
LARGER = {
    "larger=none": "numbers as in Task 1",
    "larger=operand": "a larger operand",
    "larger=value": "a larger value",
}
WIDE_COLORS = (style.BLACK, style.BLUE, style.RED, style.PURPLE)
DIGITS = {
    "value_accuracy": Look("value", style.RED, "D"),
    "tens_digit_accuracy": Look("tens digit", style.BLUE, "s"),
    "units_digit_accuracy": Look("units digit", style.ORANGE, "^"),
}
ASKED = {
    "range_accuracy": Look("largest sum of value probabilities", style.RED, "D"),
    "range_of_value_accuracy": Look("range of the likeliest value", style.BLUE, "s", "--"),
}


@style.styled
def draw_plus_lengths(
    scores: pd.DataFrame, beyond: pd.DataFrame, profile: str, backbone: str = "", note: str = ""
) -> Figure:
    """Accuracy by number of operations, a panel a metric; beyond the line no chain of that length was trained on.

    Reads red_plus and red_plus_beyond: task2, split = structure, groups ops=N, seed = all.
    """
    both = [select(scores, task="task2", split="structure"), beyond[beyond["task"] == "task2"]]
    rows = select(pd.concat(both), seed="all", metric=ACCURACIES, method=BOTH)
    rows = rows[rows["group"].str.startswith("ops=")]
    rows = rows.assign(operations=rows["group"].str.removeprefix("ops=").astype(int)).sort_values("operations")
    trained = rows.loc[~rows["variant"].str.startswith("longer"), "operations"].max()
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, INTERVALS)
    title = "RED plus on chains longer than any in training"
    fig, axes = style.canvas((9.5, 4.0), title, about, note, 1, 2, sharey=True)
    for metric, ax in zip(ACCURACIES, axes[0], strict=True):
        for method, shift in zip(BOTH, (-0.06, 0.06), strict=True):
            mine = rows[(rows["method"] == method) & (rows["metric"] == metric)]
            at = mine["operations"] + shift
            hollow = method == "red_plus_base"
            style.points(ax, at, mine["value"], mine["low"], mine["high"], look(method), hollow=hollow, line=True)
        ax.axvline(trained + 0.5, color=style.INK, linewidth=0.8, linestyle=":")
        ax.text(trained + 0.55, 1.0, "not in training", size=8, va="top")
        ax.set_xticks(sorted(rows["operations"].unique()))
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(METRICS[metric].partition(" (")[0])
        ax.set_xlabel("operations")
    axes[0, 0].set_ylabel("share of rows")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_plus_wide(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Additions of larger operands, a panel a metric, a line a kind of question, a mark a training. Reads
    red_plus_beyond: variants wide/..., method = red_plus, seed = all."""
    rows = frame[frame["variant"].str.startswith("wide/")]
    rows = select(rows, seed="all", metric=ACCURACIES, method="red_plus")
    variants = sorted(rows["variant"].unique(), key=lambda v: (not v.endswith("narrow"), len(v), v))
    groups = [group for group in LARGER if group in set(rows["group"])]
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, INTERVALS)
    size = (9.5, 0.5 * len(groups) + 0.2 * len(groups) * len(variants) + 2.0)
    title = "RED plus on larger numbers than in Task 1"
    fig, axes = style.canvas(size, title, about, note, 1, 2, sharey=True)
    shifts = np.linspace(-0.22, 0.22, len(variants)) if len(variants) > 1 else [0.0]
    for metric, ax in zip(ACCURACIES, axes[0], strict=True):
        for variant, shift, color, marker in zip(variants, shifts, WIDE_COLORS, "osDv", strict=False):
            mine = rows[(rows["variant"] == variant) & (rows["metric"] == metric)].set_index("group").reindex(groups)
            at = np.arange(len(groups)) + shift
            shade = Look(_training(variant), color, marker)
            style.points(ax, mine["value"], at, mine["low"], mine["high"], shade, True, variant.endswith("narrow"))
        ax.set_ylim(len(groups) - 0.5, -0.5)
        ax.set_xlim(-0.03, 1.03)
        ax.set_title(METRICS[metric].partition(" (")[0])
        ax.set_xlabel("share of rows")
    axes[0, 0].set_yticks(range(len(groups)), [LARGER[group] for group in groups])
    style.legend_below(fig, axes[0, 0])
    return fig


def _training(variant: str) -> str:
    how, _, what = variant.removeprefix("wide/").partition("=")
    return "trained on Task 1 alone" if how == "trained" else f"all parts trained on {int(what):,} wide rows"


@style.styled
def draw_plus_partitions(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Range accuracy by the width of the ranges, a panel a task, a mark a place of the first boundary, a line through
    their means. Reads red_plus_partitions: method = red_plus, seed = all, column x."""
    rows = select(frame, seed="all", method="red_plus", metric=list(ASKED))
    tasks = [task for task in TASKS if task in set(rows["task"])]
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, "marks: places of the first boundary")
    title = "Other ranges, asked of the same answers"
    fig, axes = style.canvas((max(7.0, 4.6 * len(tasks)), 4.0), title, about, note, 1, len(tasks), sharey=True)
    for task, ax in zip(tasks, axes[0], strict=True):
        for (metric, shade), shift in zip(ASKED.items(), (0.98, 1.02), strict=True):
            mine = rows[(rows["task"] == task) & (rows["metric"] == metric)]
            mean = mine.groupby("x")["value"].mean()
            ax.plot(mean.index * shift, mean, shade.line, color=shade.color, label=shade.label, marker=shade.marker)
            ax.plot(mine["x"] * shift, mine["value"], "_", color=shade.color, markersize=9)
        ax.set_xscale("log")
        every = sorted(rows["x"].unique())
        ax.set_xticks(every, [f"{x:g}" for x in every])
        ax.xaxis.minorticks_off()
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(TASKS[task])
        ax.set_xlabel("values of a range")
    axes[0, 0].set_ylabel(METRICS["range_accuracy"])
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_plus_components(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """R^2 of linear probes of the value's Fourier components, a panel a task, a column a site in the order in which
    a text passes them. Reads red_plus_fourier: x, site, period, value."""
    rows = select(frame, metric="r2", seed="all")
    tasks = [task for task in TASKS if task in set(rows["task"])]
    sites = {task: rows[rows["task"] == task].drop_duplicates("x").sort_values("x")["site"].tolist() for task in tasks}
    periods = sorted(rows["period"].unique())
    about = style.subtitle(rows[["split", "part"]], profile, backbone, f"n = {rows['n'].max():,}")
    widths = [len(of_task) for of_task in sites.values()]
    size = (max(8.5, 0.85 * sum(widths) + 2.5), 0.36 * len(periods) + 2.9)
    title = "Where the value lies on circles: components that a linear map reads"
    fig, axes = style.canvas(size, title, about, note, 1, len(tasks), sharey=True, width_ratios=widths)
    for task, ax in zip(tasks, axes[0], strict=True):
        mine = rows[rows["task"] == task].pivot(index="period", columns="site", values="value")
        mine = mine.reindex(periods)[sites[task]]
        image = ax.imshow(mine, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        for (i, j), r2 in np.ndenumerate(mine.to_numpy()):
            shade = style.PAPER if r2 > 0.55 else style.INK
            said = "–" if np.isnan(r2) else f"{max(r2, 0):.2f}" if r2 > -0.05 else "< 0"
            ax.text(j, i, said, ha="center", va="center", size=8, color=shade)
        ax.set_xticks(range(len(sites[task])), [site.replace(" ", "\n") for site in sites[task]])
        ax.set_yticks(range(len(periods)), periods)
        ax.set_title(TASKS[task])
        ax.grid(visible=False)
    axes[0, 0].set_ylabel("period")
    fig.colorbar(image, ax=axes, shrink=0.85, label="R² (0 and less: white)")
    return fig


@style.styled
def draw_plus_errors(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Value, tens digit and units digit by kind of question, a panel a task. Reads red_plus_errors: method = red_plus,
    seed = all, split = structure."""
    rows = select(frame, seed="all", method="red_plus", split="structure", metric=list(DIGITS))
    tasks = [task for task in TASKS if task in set(rows["task"])]
    groups = {task: list(dict.fromkeys(rows.loc[rows["task"] == task, "group"])) for task in tasks}
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, INTERVALS)
    size = (2.0 + 4.2 * len(tasks), 0.34 * max(map(len, groups.values())) + 2.2)
    title = "RED plus by digit and kind of question"
    fig, axes = style.canvas(size, title, about, note, 1, len(tasks))
    for task, ax in zip(tasks, axes[0], strict=True):
        for (metric, shade), shift in zip(DIGITS.items(), (-0.2, 0, 0.2), strict=True):
            mine = rows[(rows["task"] == task) & (rows["metric"] == metric)].set_index("group").loc[groups[task]]
            at = np.arange(len(mine)) + shift
            style.points(
                ax, mine["value"], at, mine["low"], mine["high"], shade, True, metric == "units_digit_accuracy"
            )
        ax.set_yticks(range(len(groups[task])), [_kind(group) for group in groups[task]])
        ax.set_ylim(len(groups[task]) - 0.5, -0.5)
        ax.set_xlim(-0.03, 1.03)
        ax.set_title(TASKS[task])
        ax.set_xlabel("share of rows")
    style.legend_below(fig, axes[0, 0])
    return fig


def _kind(group: str) -> str:
    name, _, value = group.partition("=")
    if name == "carry":
        return "no carry" if value == "0" else f"{value} carr{'y' if value == '1' else 'ies'}"
    return f"{value} operations" if name == "ops" else value or "all"
