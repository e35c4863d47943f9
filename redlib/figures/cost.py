"""What methods cost: parameters by rank, the break-even rank, shares of the backbone, memory, accuracy against cost."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from redlib.cost import front, with_cost
from redlib.figures import style
from redlib.figures.style import METRICS, SPLITS, Look, look
from redlib.figures.task1 import INTERVALS
from redlib.results import select

FORMS = {
    "global_head": look("global_head"),
    "uniform_average": look("uniform_average"),
    "softmax_moe": look("softmax_moe"),
    "red/4.10": Look("RED, formula of 4.10", style.ORANGE, "P", "--"),
    "red/4.4": Look("RED, as 4.4 defines it", style.RED, "D", "-"),
    "red/public": Look("RED, the authors' public form", style.GREEN, "X", "-."),
}
ADDED = {"router": Look("router", style.SKY, "X", ":"), "softmax_moe": look("softmax_moe"), "red": look("red")}
PARTS = {  # of memory
    "weights": Look("weights", style.SKY),
    "gradients": Look("gradients", style.ORANGE, hatch="//"),
    "optimiser": Look("optimiser state", style.GREEN, hatch=".."),
    "working": Look("activations and temporaries", style.PURPLE, hatch="xx"),
}
COSTS = {"parameters": "parameters beyond the backbone (log scale)", "extra_flops": "extra FLOPs a text (log scale)"}


@style.styled
def draw_parameters_by_rank(frame: pd.DataFrame, variant: str, ranks: Sequence[int]) -> Figure:
    """Parameters of each formula by rank, one panel a number of classes. Reads cost_curves: curve = rank. `ranks` are
    marked."""
    rows = select(frame, variant=variant, curve="rank")
    groups = sorted(set(rows["group"]), key=lambda name: -int(name.partition("=")[2]))
    about = f"{variant}  ·  beyond the backbone, to leading order  ·  grey: the ranks of the source (4.9.3)"
    fig, axes = style.canvas((11.0, 4.8), "Parameters by rank of an expert", about, "", 1, len(groups), sharey=True)
    for ax, group in zip(axes[0], groups, strict=True):
        for rank in ranks:
            ax.axvline(rank, color=style.QUIET, linewidth=6, alpha=0.3, zorder=0)
        _lines(ax, select(rows, group=group), FORMS, "formula ")
        ax.set_title(f"{group.partition('=')[2]} classes")
        ax.set_xlabel("rank r (log scale)")
    axes[0, 0].set_ylabel("parameters (log scale)")
    style.legend_below(fig, axes[0, 0], 3)
    return fig


@style.styled
def draw_break_even(frame: pd.DataFrame, variants: Sequence[str], marked: dict[str, Sequence[int]]) -> Figure:
    """The rank below which RED has fewer parameters than the mixture, by classes, one panel a backbone. Reads
    cost_curves: curve = classes. `marked`: for each backbone the ranks of the source."""
    rows = select(frame, variant=list(variants), curve="classes")
    about = "below a line RED is smaller than the mixture, above it larger  ·  grey: the ranks of the source (4.9.3)"
    title = "The rank at which RED and the mixture have as many parameters"
    fig, axes = style.canvas((11.0, 4.8), title, about, "", 1, len(variants), sharey=True)
    forms = {name: shade for name, shade in FORMS.items() if name.startswith("red/")}
    for ax, variant in zip(axes[0], variants, strict=True):
        for rank in marked[variant]:
            ax.axhline(rank, color=style.QUIET, linewidth=6, alpha=0.3, zorder=0)
        _lines(ax, select(rows, variant=variant), forms, "formula ")
        ax.set_title(variant)
        ax.set_xlabel("classes C (log scale)")
    axes[0, 0].set_ylabel("break-even rank (log scale)")
    style.legend_below(fig, axes[0, 0], 3)
    return fig


@style.styled
def draw_shares(
    frame: pd.DataFrame, variants: Sequence[str], ranks: dict[str, int], border: float, lengths: tuple[float, float]
) -> Figure:
    """What router, mixture and RED add to a pass through the whole backbone, by length of the text. Reads cost_curves:
    curve = tokens. `ranks`: RED's, by backbone; `border`: the source's claim; `lengths`: shortest and longest text."""
    rows = select(frame, variant=list(variants), curve="tokens", group="all layers")
    about = f"horizontal line: the source's bound on the router, {border:.1%}  ·  grey: lengths of the texts of Task 1"
    title = "What a method adds to the FLOPs of the backbone"
    fig, axes = style.canvas((11.0, 4.8), title, about, "", 1, len(variants), sharey=True)
    for ax, variant in zip(axes[0], variants, strict=True):
        ax.axvspan(*lengths, color=style.QUIET, alpha=0.25, zorder=0)
        ax.axhline(border, color=style.INK, linewidth=1)
        _lines(ax, select(rows, variant=variant, rank=ranks[variant]), ADDED)
        ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %")
        ax.set_title(f"{variant}, rank {ranks[variant]}")
        ax.set_xlabel("tokens of the text (log scale)")
    axes[0, 0].set_ylabel("share of the backbone's FLOPs (log scale)")
    style.legend_below(fig, axes[0, 0])
    return fig


def _lines(ax: Axes, rows: pd.DataFrame, looks: dict[str, Look], prefix: str = "") -> None:
    for name, shade in looks.items():
        line = select(rows, method=prefix + name).sort_values("x")
        every = max(1, len(line) // 6)
        ax.plot(
            line["x"],
            line["value"],
            color=shade.color,
            linestyle=shade.line,
            marker=shade.marker,
            markevery=every,
            label=shade.label,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")


@style.styled
def draw_memory(costs: pd.DataFrame, curves: pd.DataFrame, variant: str, border: float) -> Figure:
    """Memory by what it holds (each part where it is largest), and its peak by length. Reads cost and cost_curves
    (curve = length): metric bytes. `border`: the source's bound, GB."""
    rows = select(costs, variant=variant, metric="bytes").assign(value=lambda f: f["value"] / 1e9)
    about = (
        f"{variant}, batch 16, two top layers trained  ·  bytes of tensors, counted  ·  line: {border:g} GB (4.10.3)"
    )
    fig, axes = style.canvas((11.0, 4.4), "Memory of training and inference", about, "", 1, 2, width_ratios=(1.25, 1))
    names = sorted(set(rows["method"]), reverse=True)
    left, right = axes[0]
    starts = pd.Series(0.0, names)
    for part, shade in PARTS.items():
        size = select(rows, group=part).set_index("method")["value"].reindex(names)
        bars = {"facecolor": shade.color, "hatch": shade.hatch, "edgecolor": style.INK, "label": shade.label}
        left.barh(names, size, left=starts, height=0.6, **bars)
        starts += size
    peak = select(rows, group="peak").set_index("method")["value"].reindex(names)
    left.plot(peak, names, "D", markersize=7, color="white", markeredgecolor=style.INK, label="peak of all together")
    left.axvline(border, color=style.INK, linewidth=1)
    left.set_xlabel("GB (1e9 bytes)")
    left.invert_yaxis()
    lengths = select(curves, variant=variant, curve="length").assign(value=lambda f: f["value"] / 1e9)
    for name, dashes, shade, away in (
        ("training, float32", "-", PARTS["working"], 12),
        ("inference, float32", "--", PARTS["weights"], -16),
    ):
        line = select(lengths, method=name).sort_values("x")
        right.plot(line["x"], line["value"], dashes, marker="o", color=shade.color)
        at = (line["x"].iloc[1], line["value"].iloc[1])
        right.annotate(name, at, (0, away), textcoords="offset points", ha="center", size=8.5)
    right.axhline(border, color=style.INK, linewidth=1)
    right.set_xscale("log", base=2)
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.set_ylim(0)
    right.set_xlabel("tokens of every text (log scale)")
    right.set_ylabel("peak, GB")
    style.legend_below(fig, left)
    return fig


@style.styled
def draw_pareto(
    scores: pd.DataFrame,
    costs: pd.DataFrame,
    rank: int,
    profile: str,
    backbone: str = "",
    note: str = "",
    variant: str = "chosen",
    metric: str = "value_accuracy",
) -> Figure:
    """Accuracy against parameters and against FLOPs of all methods, splits down; a line joins those that none beats.
    Reads task1 (seed = all, part = test, group = all) and cost; `rank`: of the experts."""
    keys = {"seed": "all", "part": "test", "group": "all", "metric": metric, "variant": variant}
    splits = [split for split in ("structure", "text") if split in set(select(scores, **keys)["split"])]
    rows = with_cost(select(scores, **keys, split=splits), costs, rank)
    about = style.subtitle(rows, profile, backbone, f"{INTERVALS}  ·  line: methods that none beats at their cost")
    title = "Accuracy against cost, all methods"
    fig, axes = style.canvas((11.0, 3.2 * len(splits) + 1.9), title, about, note, len(splits), 2, sharey="row")
    for split, line in zip(splits, axes, strict=True):
        here = rows[rows["split"] == split]
        for ax, cost in zip(line, COSTS, strict=True):
            best = here[front(here, cost)].sort_values(cost)
            ax.plot(best[cost], best["value"], color=style.QUIET, linewidth=1, drawstyle="steps-post", zorder=0)
            for row in here.itertuples():
                at = (getattr(row, cost), row.value)
                style.points(ax, [at[0]], [at[1]], [row.low], [row.high], look(row.method))
            ax.set_xscale("log")
            ax.set_ylim(-0.03, 1.03)
        line[0].set_ylabel(f"{METRICS[metric]}\n{SPLITS[split].label}")
    for ax, label in zip(axes[-1], COSTS.values(), strict=True):
        ax.set_xlabel(label)
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_rank_pareto(
    selection: pd.DataFrame, costs: pd.DataFrame, profile: str, backbone: str = "", note: str = ""
) -> Figure:
    """RED's accuracy against its parameters as the rank grows. Reads selection (seed = all; rows at the profile's own
    depth and pooling) and cost."""
    own = selection[selection["own"] == 1].iloc[0]
    rows = select(selection, seed="all", group="all", method="red", layer=own["layer"], pooling=own["pooling"])
    rows = with_cost(rows, costs)
    about = style.subtitle(rows[["split", "part"]], profile, backbone, f"{INTERVALS}  ·  labels: rank")
    fig, axes = style.canvas((7.5, 4.2), "What RED gains from more parameters", about, note)
    looks = {"value_accuracy": Look("value", style.RED, "D"), "range_accuracy": Look("range", style.BLUE, "s", "--")}
    ax = axes[0, 0]
    for metric, shade in looks.items():
        line = select(rows, metric=metric).sort_values("rank")
        style.points(ax, line["parameters"], line["value"], line["low"], line["high"], shade, line=True)
    for row in line.itertuples():
        ax.annotate(str(row.rank), (row.parameters, row.value), (4, 6), textcoords="offset points", size=8)
    ax.set_xscale("log")
    ax.set_ylim(-0.03, 1.08)
    ax.set_xlabel(COSTS["parameters"])
    ax.set_ylabel("accuracy on validation rows")
    style.legend_below(fig, ax)
    return fig


@style.styled
def draw_savings(frame: pd.DataFrame) -> Figure:
    """Savings by what they are set against, a group of bars a layer. Reads views of redlib.sparse joined, with a column
    `layer` that names each."""
    kinds = list(dict.fromkeys(frame["comparison"]))
    layers = list(dict.fromkeys(frame["layer"]))
    about = "per cent of the operations saved against each, below zero: more work  ·  a multiply-add is one operation"
    size = (10.5, 0.3 * len(kinds) * len(layers) + 2.4)
    fig, axes = style.canvas(size, "What a layer of sparse experts saves", about)
    ax = axes[0, 0]
    shades = (style.SKY, style.BLUE, style.GREEN, style.ORANGE, style.RED)
    hatches = ("", "//", "..", "xx", "--")
    for turn, (kind, color, hatch) in enumerate(zip(kinds, shades, hatches, strict=True)):
        rows = frame[frame["comparison"] == kind].set_index("layer").loc[layers, "saved"]
        at = [place + 0.16 * (turn - (len(kinds) - 1) / 2) for place in range(len(layers))]
        bars = ax.barh(at, rows, height=0.14, facecolor=color, hatch=hatch, edgecolor=style.INK, label=kind)
        ax.bar_label(bars, fmt="%.1f", padding=3, size=8)
    ax.axvline(0, color=style.INK, linewidth=0.8)
    ax.margins(x=0.1)
    ax.set_yticks(range(len(layers)), layers)
    ax.invert_yaxis()
    ax.set_xlabel("saved (%)")
    style.legend_below(fig, ax, 2)
    return fig
