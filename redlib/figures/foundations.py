"""Data, probes and training: what stands behind the results."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from redlib.figures import style
from redlib.figures.style import METRICS, PARTS, SPLITS, Look, look
from redlib.results import select


def _ranges(frame: pd.DataFrame) -> list[str]:
    return sorted((g for g in frame["group"].unique() if g != "all"), key=lambda g: int(g.removeprefix("R")))


def _bars(ax, frame: pd.DataFrame, parts: Sequence[str]) -> None:
    """Grouped bars: ranges across, parts side by side, the number on top."""
    groups = _ranges(frame)
    for i, part in enumerate(parts):
        rows = frame[frame["part"] == part].set_index("group")["value"].reindex(groups, fill_value=0)
        at = np.arange(len(groups)) + (i - (len(parts) - 1) / 2) * 0.27
        shade = PARTS[part]
        bars = ax.bar(at, rows, 0.25, color=shade.color, hatch=shade.hatch, edgecolor="white", label=shade.label)
        ax.bar_label(bars, [f"{value:,.0f}" for value in rows], size=6.5, padding=1, rotation=90)
    ax.set_xticks(range(len(groups)), groups)
    ax.margins(y=0.22)
    ax.grid(axis="x", visible=False)


def _splits(frame: pd.DataFrame) -> list[str]:
    return [split for split in SPLITS if split in set(frame["split"])]


@style.styled
def draw_data_balance(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Rows of every part and range, for every split. Reads data_checks: split, part, group, metric = rows, value."""
    rows = select(frame, metric="rows", part=list(PARTS))
    splits = _splits(rows)
    about = style.subtitle(rows[["split"]], profile, backbone, "seed 0")
    title = "Every part holds the same number of rows of each range"
    fig, axes = style.canvas((max(8.5, 3.9 * len(splits)), 4.2), title, about, note, 1, len(splits), sharey=True)
    for ax, split in zip(axes[0], splits, strict=True):
        _bars(ax, rows[rows["split"] == split], list(PARTS))
        ax.set_title(SPLITS[split].label)
        ax.set_xlabel("range of the result")
    axes[0, 0].set_ylabel("rows")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_pair_counts(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Distinct operand pairs of every part and range. Reads data_checks: metrics expressions (ordered pairs) and
    structures (unordered pairs), split, part, group, value."""
    rows = select(frame, metric=["expressions", "structures"], part=list(PARTS))
    splits = _splits(rows)
    about = style.subtitle(rows[["split"]], profile, backbone, "seed 0")
    title = "How many different operand pairs stand behind the rows of each range"
    fig, axes = style.canvas(
        (max(8.5, 3.9 * len(splits)), 6.4), title, about, note, 2, len(splits), sharex=True, sharey="row"
    )
    for j, split in enumerate(splits):
        for i, (metric, words) in enumerate((("expressions", "ordered pairs"), ("structures", "unordered pairs"))):
            _bars(axes[i, j], rows[(rows["split"] == split) & (rows["metric"] == metric)], list(PARTS))
            axes[i, 0].set_ylabel(f"distinct {words}")
        axes[0, j].set_title(SPLITS[split].label)
        axes[1, j].set_xlabel("range of the result")
    style.legend_below(fig, axes[0, 0])
    return fig


POOLINGS = {
    "mean": Look("mean of all tokens", style.BLUE, "o"),
    "mean_skip_first": Look("mean without the first token", style.RED, "s"),
    "last": Look("last token", style.GREEN, "^"),
    "mean_two_depths": Look("mean at two depths", style.PURPLE, "D"),
}
PROBES = {"linear": "--", "mlp": "-"}


_READ = {
    "value_accuracy": Look("value accuracy", "#0072b2", "o"),
    "range_accuracy": Look("range accuracy", "#d55e00", "s"),
}


@style.styled
def draw_selection(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """RED at the profile's depth, pooling and rank (own = 1) and with one of them changed. Reads selection: seed = all,
    metric (value_accuracy, range_accuracy), layer, pooling, rank, own, value, low, high."""
    rows = select(frame, seed="all", method="red", metric=["value_accuracy", "range_accuracy"])
    extra = "grey band: the profile's own; 95 % intervals over structures and seeds"
    about = style.subtitle(rows[["split", "part"]], profile, backbone, extra)
    title = "RED by depth, pooling and rank: validation accuracy with one of them changed"
    fig, axes = style.canvas((11.5, 4.2), title, about, note, 1, 3, sharey=True)
    own = rows[rows["own"] == 1].iloc[0]
    names = {"layer": "state after layer", "pooling": "pooling over the tokens", "rank": "rank r of the experts"}
    for ax, (name, label) in zip(axes[0], names.items(), strict=True):
        fixed = {other: own[other] for other in names if other != name}
        line = select(rows, **fixed)
        order = list(line.drop_duplicates(name).sort_values(name)[name])
        for metric in _READ:
            part = line[line["metric"] == metric].set_index(name).reindex(order)
            style.points(ax, range(len(order)), part["value"], part["low"], part["high"], _READ[metric], line=False)
        ax.axvline(order.index(own[name]), color=style.QUIET, linewidth=8, alpha=0.35, zorder=0)
        ax.set_xticks(range(len(order)), [str(value) for value in order])
        ax.set_xlabel(label)
        ax.set_ylim(-0.02, 1.02)
    axes[0, 0].set_ylabel("accuracy on validation rows")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_probe_depth(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Accuracy of probes by depth. Reads probes: layer (-1 after the final norm), pooling, method (linear, mlp), metric
    (value_accuracy, range_accuracy), seed = all, value, low, high."""
    rows = select(frame, seed="all", metric=["value_accuracy", "range_accuracy"])
    layers = sorted(rows["layer"].unique(), key=lambda layer: (layer < 0, layer))
    about = style.subtitle(rows[["split", "part"]], profile, backbone, "bars: 95 % intervals")
    title = "How much of the answer a probe reads at each depth of the frozen backbone"
    fig, axes = style.canvas((10.5, 4.6), title, about, note, 1, 2)
    for ax, metric in zip(axes[0], ("value_accuracy", "range_accuracy"), strict=True):
        for (pooling, method), line in rows[rows["metric"] == metric].groupby(["pooling", "method"]):
            line = line.set_index("layer").reindex(layers)
            base = POOLINGS[pooling]
            shade = Look(f"{base.label}, {method}", base.color, base.marker, PROBES[method])
            style.points(
                ax,
                range(len(layers)),
                line["value"],
                line["low"],
                line["high"],
                shade,
                hollow=method == "linear",
                line=True,
            )
        ax.set_xticks(range(len(layers)), [str(layer) if layer >= 0 else "norm" for layer in layers])
        ax.set_xlabel("decoder layers passed (0: embeddings, norm: after the final norm)")
        ax.set_ylabel(METRICS[metric])
        ax.set_ylim(0, 1.02)
    style.legend_below(fig, axes[0, 0], 3)
    return fig


@style.styled
def draw_training_curves(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="chosen", split="structure"
) -> Figure:
    """Losses by epoch for every trained part. Reads task1_curves: method (the part), epoch, metric train_loss or
    valid_loss, value, low and high (smallest and largest member)."""
    rows = select(frame, variant=variant, split=split, metric=["train_loss", "valid_loss"])
    names = list(dict.fromkeys(rows["method"]))
    across = min(4, len(names))
    down = -(-len(names) // across)
    about = style.subtitle(rows[["split", "variant"]], profile, backbone, "bands: smallest to largest member")
    title = "Losses by epoch"
    fig, axes = style.canvas((max(7.5, 3 * across), 1.5 + 2.4 * down), title, about, note, down, across)
    for ax, name in zip(axes.flat, names, strict=False):
        for metric, shade in (("train_loss", PARTS["train"]), ("valid_loss", PARTS["validation"])):
            line = rows[(rows["method"] == name) & (rows["metric"] == metric)].sort_values("epoch")
            ax.plot(line["epoch"], line["value"], color=shade.color, linestyle=shade.line, label=shade.label)
            ax.fill_between(line["epoch"], line["low"], line["high"], color=shade.color, alpha=0.2, linewidth=0)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        ax.set_title(name.replace("_", " "))
    for ax in axes[:, 0]:
        ax.set_ylabel("cross-entropy (nats)")
    for ax in list(axes.flat)[len(names) :]:
        ax.set_visible(False)
    for ax in list(axes.flat)[max(0, len(names) - across) : len(names)]:
        ax.set_xlabel("epoch")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_learning_curve(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", metric="value_accuracy"
) -> Figure:
    """Accuracy by training rows. Reads task1_learning: rows, method, split, seed = all, metric, value, low, high;
    variants that end in /pairs or /pairs_balanced (one row a pair) are drawn as separate large points."""
    rows = select(frame, metric=metric, seed="all", group="all")
    splits = _splits(rows)
    about = style.subtitle(rows[["split"]], profile, backbone, "95 % intervals over structures and seeds")
    title = "Accuracy by number of training rows"
    fig, axes = style.canvas((max(8.0, 4.8 * len(splits)), 4.6), title, about, note, 1, len(splits), sharey=True)
    apart = rows["variant"].str.contains("/pairs")
    for ax, split in zip(axes[0], splits, strict=True):
        for method, line in rows[(rows["split"] == split) & ~apart].groupby("method"):
            line = line.sort_values("rows")
            style.points(ax, line["rows"], line["value"], line["low"], line["high"], look(method), line=True)
        for method, line in rows[(rows["split"] == split) & apart].groupby("method"):
            shade = Look("", look(method).color, look(method).marker)
            style.points(ax, line["rows"], line["value"], line["low"], line["high"], shade, hollow=True)
        ax.set_xscale("log")
        ax.set_title(SPLITS[split].label)
        ax.set_xlabel("training rows (log scale)")
    axes[0, 0].set_ylabel(METRICS[metric])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if apart.any():
        hollow = {"marker": "o", "color": style.QUIET, "markerfacecolor": style.PAPER}
        handles.append(Line2D([], [], linestyle="none", **hollow))
        labels.append("hollow: one text a pair (the source's de-duplication)")
    shown = [(handle, label) for handle, label in zip(handles, labels, strict=True) if label]
    fig.legend(*zip(*shown, strict=True), loc="outside lower center", ncols=3)
    return fig
