"""What the router does, how far it can be believed, and what happens when it is wrong.

Every figure has a column for each task and split; `recipe` says which recipe's rows are drawn.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import METRICS, Look, look
from redlib.results import select

INTERVALS = "95 % intervals over structures and seeds"
SPLITS = ("text", "structure")
ROUTED = ("red", "softmax_moe")
CURVES = ("red", "softmax_moe", "top1", "red_uniform", "moe_same_experts")
SAID = {"router": "range, by the router", "range": "range, by the output", "value": "value, by the output"}
AGREEMENT = {"router_accuracy": "first choice\nis right", "true_range_weight": "weight of\nthe true range"}
AGREEMENT |= {"router_entropy": "entropy (share\nof the largest)"}
AXES = {
    "dirichlet": "strength of random noise",
    "neighbour": "probability of a swap\nwith a neighbour",
    "wrong": "probability of a\nforced wrong expert",
    "temperature": "temperature\n(1: unchanged)",
}
BY_DISTANCE = {
    "value_accuracy": "value accuracy",
    "range_accuracy": "range accuracy",
    "router_entropy": "router entropy\n(share of the largest)",
    "range_overconfidence": "range confidence\nminus accuracy",
}
REGRETS = {"regret_expert": "best single expert", "regret_mixture": "best weights of all"}


def _of_recipe(frame: pd.DataFrame, recipe: str) -> pd.DataFrame:
    """The rows of one recipe on the splits that are drawn, over seeds."""
    variants = [v for v in frame["variant"].unique() if v.rpartition("/")[2] == recipe]
    splits = [split for split in SPLITS if split in set(frame["split"])]
    return select(frame, variant=variants or recipe, seed="all", split=splits or SPLITS)


def _grid(rows: pd.DataFrame, words: tuple[str, str], note: str, tall: Sequence[float], **grid):
    """A Chart with a column a task and split, a row for each height (inches): (fig, [(rows of the column, axes)])."""
    title, about = words
    panels = [(task, split) for task in sorted(rows["task"].unique()) for split in SPLITS]
    panels = [p for p in panels if ((rows["task"] == p[0]) & (rows["split"] == p[1])).any()]
    size = (max(7.5, 2.9 * len(panels) + 1.0), sum(tall) + 1.6)
    fig, axes = style.canvas(size, title, about, note, len(tall), len(panels), **grid)
    columns = []
    for (task, split), column in zip(panels, axes.T, strict=True):
        column[0].set_title(f"{task.replace('task', 'Task ')}, {split} split")
        columns.append((rows[(rows["task"] == task) & (rows["split"] == split)], column))
    return fig, columns


def _about(rows: pd.DataFrame, profile: str, backbone: str, extra: str) -> str:
    return style.subtitle(rows[["variant", "part"]], profile, backbone, extra)


def _line(ax: Axes, rows: pd.DataFrame, x: str, shape: Look, hollow: bool = False, band: bool = True) -> None:
    """A line through the values by column `x`, with its intervals as a band."""
    rows = rows.sort_values(x)
    at = rows[x].to_numpy(float)
    low, high = rows["low"].astype(float), rows["high"].astype(float)
    if band:
        ax.fill_between(at, low, high, color=shape.color, alpha=0.15, linewidth=0)
    face = style.PAPER if hollow else shape.color
    ax.plot(
        at,
        rows["value"],
        color=shape.color,
        linestyle=shape.line,
        marker=shape.marker,
        markerfacecolor=face,
        markersize=4,
        label=shape.label,
    )


@style.styled
def draw_expert_load(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", recipe="chosen", methods=ROUTED
) -> Figure:
    """Mean weight of each expert beside the share of rows whose range it is, and agreement with the true range. Reads
    routing: metrics load, true_share (group R1..RK), router_accuracy, true_range_weight, router_entropy (group all)."""
    rows = select(_of_recipe(frame, recipe), method=list(methods))
    names = sorted((g for g in rows["group"].unique() if g.startswith("R")), key=lambda name: int(name[1:]))
    about = _about(rows, profile, backbone, f"bars: share of rows whose range it is  ·  {INTERVALS}")
    words = ("How the router shares the work, and whether it agrees with the true range", about)
    fig, columns = _grid(rows, words, note, (2.3, 2.3), sharey="row", sharex="row")
    for here, (above, below) in columns:
        share = here[(here["metric"] == "true_share") & (here["method"] == methods[0])].set_index("group")["value"]
        above.bar(range(len(names)), share.reindex(names), color="#dddddd", edgecolor=style.QUIET, width=0.7)
        for i, method in enumerate(methods):
            shift = (i - (len(methods) - 1) / 2) * 0.3
            mine = here[here["method"] == method]
            for ax, places, by in (
                (above, names, mine[mine["metric"] == "load"].set_index("group")),
                (below, list(AGREEMENT), mine[mine["group"] == "all"].set_index("metric")),
            ):
                by = by.reindex(places)
                style.points(ax, np.arange(len(places)) + shift, by["value"], by["low"], by["high"], look(method))
        above.set_xticks(range(len(names)), names)
        below.set_xticks(range(len(AGREEMENT)), AGREEMENT.values(), size=7.5)
        below.set_xlim(-0.6, len(AGREEMENT) - 0.4)
        below.set_ylim(-0.03, 1.03)
    columns[0][1][0].set_ylabel("mean weight of the expert")
    columns[0][1][1].set_ylabel("share, 0 to 1")
    style.legend_below(fig, columns[0][1][0])
    return fig


@style.styled
def draw_reliability(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", recipe="chosen", methods=ROUTED
) -> Figure:
    """How often a claim of a given confidence is right. Reads routing_curves: curves reliability_router, _range,
    _value, metrics accuracy and confidence, x (the bin's centre)."""
    rows = select(_of_recipe(frame, recipe), method=list(methods), curve=[f"reliability_{said}" for said in SAID])
    about = _about(rows, profile, backbone, f"dashed: confidence as it should be  ·  {INTERVALS}")
    words = ("When router or output are sure, are they right?", about)
    fig, columns = _grid(rows, words, note, (2.5,) * len(SAID), sharex=True, sharey=True)
    for here, axes in columns:
        for ax, said in zip(axes, SAID, strict=True):
            ax.plot([0, 1], [0, 1], color=style.QUIET, linestyle="--", linewidth=1)
            for method in methods:
                mine = here[(here["method"] == method) & (here["curve"] == f"reliability_{said}")]
                by = mine[mine["metric"] == "accuracy"].set_index("x").sort_index()
                at = mine[mine["metric"] == "confidence"].set_index("x")["value"].reindex(by.index)
                style.points(ax, at, by["value"], by["low"], by["high"], look(method), line=True)
            ax.set_xlim(-0.03, 1.03)
            ax.set_ylim(-0.03, 1.03)
        axes[-1].set_xlabel("mean confidence of the bin")
    for ax, said in zip(columns[0][1], SAID.values(), strict=True):
        ax.set_ylabel(f"{said}\nshare that is right")
    style.legend_below(fig, columns[0][1][0])
    return fig


@style.styled
def draw_selective_accuracy(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", recipe="chosen", methods=ROUTED
) -> Figure:
    """Accuracy when only the surest texts are answered. Reads routing_curves: curves selective_confidence and
    selective_entropy, metrics value_accuracy and range_accuracy, x (coverage)."""
    scores = {"selective_confidence": "surest by value probability", "selective_entropy": "surest by router entropy"}
    metrics = ("value_accuracy", "range_accuracy")
    rows = select(_of_recipe(frame, recipe), method=list(methods), curve=list(scores), metric=metrics)
    about = _about(rows, profile, backbone, INTERVALS)
    words = ("What is gained by answering only when sure", about)
    fig, columns = _grid(rows, words, note, (2.4, 2.4), sharex=True, sharey="row")
    for here, axes in columns:
        for ax, metric in zip(axes, metrics, strict=True):
            for method in methods:
                shape = look(method)
                for curve, said in scores.items():
                    mine = here[(here["method"] == method) & (here["curve"] == curve) & (here["metric"] == metric)]
                    hollow = curve == "selective_entropy"
                    named = Look(f"{shape.label}, {said}", shape.color, shape.marker, ":" if hollow else "-")
                    _line(ax, mine, "x", named, hollow)
            ax.set_ylim(-0.03, 1.03)
        axes[-1].set_xlabel("share of rows that is answered")
    for ax, metric in zip(columns[0][1], metrics, strict=True):
        ax.set_ylabel(METRICS[metric].replace(" (share of rows)", "\nof the answered rows"))
    style.legend_below(fig, columns[0][1][0], 2)
    return fig


@style.styled
def draw_boundary_distance(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", recipe="chosen", methods=ROUTED
) -> Figure:
    """Accuracy, entropy and calibration by distance to the nearest range boundary. Reads routing_curves: curve
    distance, x (steps to the nearest value of another range), the metrics of BY_DISTANCE."""
    rows = select(_of_recipe(frame, recipe), method=list(methods), curve="distance", metric=list(BY_DISTANCE))
    about = _about(rows, profile, backbone, INTERVALS)
    words = ("What changes near the boundary of a range", about)
    fig, columns = _grid(rows, words, note, (1.9,) * len(BY_DISTANCE), sharex=True, sharey="row")
    for here, axes in columns:
        for ax, metric in zip(axes, BY_DISTANCE, strict=True):
            if metric.endswith("overconfidence"):
                ax.axhline(0, color=style.INK, linewidth=0.8)
            else:
                ax.set_ylim(-0.03, 1.03)
            for method in methods:
                _line(ax, here[(here["method"] == method) & (here["metric"] == metric)], "x", look(method))
        axes[-1].set_xlabel("steps from the true value\nto another range")
    for ax, words_of in zip(columns[0][1], BY_DISTANCE.values(), strict=True):
        ax.set_ylabel(words_of)
    style.legend_below(fig, columns[0][1][0])
    return fig


@style.styled
def draw_robustness(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    recipe="chosen",
    metric="value_accuracy",
    methods: Sequence[str] = CURVES,
) -> Figure:
    """Accuracy as the routing weights are corrupted in four ways. Reads robustness: corruption, strength, and of
    `metric` value, low and high."""
    rows = select(_of_recipe(frame, recipe), metric=metric, method=list(methods))
    about = _about(rows, profile, backbone, INTERVALS)
    words = (f"{METRICS[metric].partition(' (')[0].capitalize()} as the routing gets worse", about)
    fig, columns = _grid(rows, words, note, (2.3,) * len(AXES), sharey="col", sharex="row")
    for here, axes in columns:
        for ax, kind in zip(axes, AXES, strict=True):
            mine = here[here["corruption"] == kind]
            for method in methods:
                shape = replace(look(method), color=style.QUIET) if method.endswith("uniform") else look(method)
                same = method == "moe_same_experts"  # RED's line and band once more
                _line(ax, mine[mine["method"] == method], "strength", shape, same, band=not same)
            if kind == "temperature":
                ax.set_xscale("log")
                ax.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
            ax.set_xlabel(AXES[kind])
        top = axes[0].get_ylim()[1]
        axes[0].set_ylim(-0.03 * top, top)
    for ax in columns[0][1]:
        ax.set_ylabel(METRICS[metric].replace(" (", "\n("))
    style.legend_below(fig, columns[0][1][0], 5)
    return fig


@style.styled
def draw_regret(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", recipe="chosen", methods=ROUTED
) -> Figure:
    """Share of rows that lose more than so much log-probability against the best expert and the best weights. Reads
    routing_curves: curve regret, metrics regret_expert and regret_mixture, x (nats)."""
    rows = select(_of_recipe(frame, recipe), method=list(methods), curve="regret", metric=list(REGRETS))
    about = _about(rows, profile, backbone, INTERVALS)
    words = ("How much better another expert, or other weights, would have been on the same text", about)
    fig, columns = _grid(rows, words, note, (2.4,) * len(REGRETS), sharex=True, sharey=True)
    for here, axes in columns:
        for ax, metric in zip(axes, REGRETS, strict=True):
            for method in methods:
                _line(ax, here[(here["method"] == method) & (here["metric"] == metric)], "x", look(method))
            ax.set_xscale("log")
            ax.set_ylim(-0.03, 1.03)
        axes[-1].set_xlabel("regret: log-probability of the\ntrue value that is lost (nats)")
    for ax, against in zip(columns[0][1], REGRETS.values(), strict=True):
        ax.set_ylabel(f"against the {against}\nshare of rows with more regret")
    style.legend_below(fig, columns[0][1][0])
    return fig
