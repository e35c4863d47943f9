"""Where the arithmetic is: what probes read at each token and depth, and what wrong answers look like."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import Look, look
from redlib.results import select

TARGETS = {
    "first_operand": "first operand",
    "second_operand": "second operand",
    "operator": "operator",
    "value": "value",
    "range": "range",
    "tens_digit": "tens digit of the value",
    "units_digit": "units digit of the value",
}
SITES = {
    "pooled": Look("mean of all tokens", style.BLACK, "o", "-"),
    "first_operand": Look("first operand", style.SKY, "s", "--"),
    "operator": Look("operator", style.PURPLE, "v", (0, (1, 2))),
    "second_operand": Look("second operand", style.RED, "D", "-."),
    "last_token": Look("last token", style.GREEN, "^", ":"),
}
PROBES = {
    "linear": Look("linear probe", style.BLUE, "o", "--"),
    "mlp": Look("2-layer probe", style.RED, "D", "-"),
    "majority": Look("most frequent class", style.QUIET, "", ":"),
    "majority_of_range": Look("most frequent class of the true range", style.INK, "", "-."),
}
KINDS = {
    "off_by_1": "off by 1",
    "off_by_5": "off by 5",
    "off_by_10": "off by 10",
    "off_by_other": "off by another number",
    "right_units_digit": "units digit right",
    "right_tens_digit": "tens digit right",
    "right_parity": "parity right",
}
CLUSTERS = "95 % intervals over structures and seeds"
DEPTH = "decoder layers passed"


def _layers(rows: pd.DataFrame) -> list[int]:
    return sorted(rows["layer"].unique(), key=lambda layer: (layer < 0, layer))


def _depth_axis(ax, layers: Sequence[int]) -> None:
    ax.set_xticks(range(len(layers)), [str(layer) if layer >= 0 else "norm" for layer in layers])


def _panels(targets: Sequence[str], title: str, about: str, note: str) -> tuple[Figure, list]:
    """A panel a target, at most four across, with depth below the lowest ones."""
    across = min(4, len(targets)) if len(targets) != 6 else 3
    down = -(-len(targets) // across)
    fig, axes = style.canvas(
        (max(8.5, 3.3 * across + 0.6), 2.6 * down + 1.4), title, about, note, down, across, sharey=True
    )
    flat = list(axes.flat)
    for place, (ax, target) in enumerate(zip(flat, targets, strict=False)):
        ax.set_title(TARGETS[target])
        ax.set_ylim(-0.03, 1.03)
        if place + across >= len(targets):
            ax.set_xlabel(DEPTH)
    for ax in flat[len(targets) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy (share of rows)")
    return fig, flat


def _chosen(frame: pd.DataFrame, variant: str) -> tuple[pd.DataFrame, list[str]]:
    rows = select(frame, metric="accuracy", variant=variant, seed="all")
    return rows, [target for target in TARGETS if target in set(rows["target"])]


@style.styled
def draw_probe_targets(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="additions", site="pooled"
) -> Figure:
    """Accuracy of probes of one site by depth, a panel a target, and what needs no state. Reads arithmetic_probes:
    layer (-1 after the final norm), site, target, method, metric = accuracy, value, low, high."""
    rows, targets = _chosen(frame, variant)
    rows = select(rows, site=[site, "no_state"])
    states = rows[rows["site"] == site]
    layers = _layers(states)
    about = style.subtitle(
        rows[["split", "part"]], profile, backbone, f"{variant}, n = {rows['n'].max():,}, {CLUSTERS}"
    )
    title = f"What probes read from the {'pooled state' if site == 'pooled' else SITES[site].label}, by depth"
    fig, axes = _panels(targets, title, about, note)
    for ax, target in zip(axes, targets, strict=False):
        for method, line in select(states, target=target).groupby("method"):
            line = line.set_index("layer").reindex(layers)
            shade = PROBES[method]
            hollow = method == "linear"
            style.points(
                ax, range(len(layers)), line["value"], line["low"], line["high"], shade, hollow=hollow, line=True
            )
        for method in ("majority", "majority_of_range"):
            level = select(rows, site="no_state", target=target, method=method)["value"].iloc[0]
            shade = PROBES[method]
            ax.axhline(level, color=shade.color, linestyle=shade.line, linewidth=1.2, label=shade.label)
        _depth_axis(ax, layers)
    style.legend_below(fig, max(axes, key=lambda ax: len(ax.get_legend_handles_labels()[1])))  # one has every probe
    return fig


@style.styled
def draw_probe_sites(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    variant="additions",
    method="linear",
    targets: Sequence[str] | None = None,
) -> Figure:
    """Accuracy of one kind of probe by depth at every site, a panel a target (all, if none are named). Reads
    arithmetic_probes as `draw_probe_targets` does."""
    rows, every = _chosen(frame, variant)
    targets = every if targets is None else targets
    read = select(rows, method=method)
    layers = _layers(read)
    about = style.subtitle(
        rows[["split", "part"]], profile, backbone, f"{variant}, n = {rows['n'].max():,}, {CLUSTERS}"
    )
    fig, axes = _panels(targets, f"What a {PROBES[method].label} reads at each token, by depth", about, note)
    sites = [site for site in SITES if site in set(read["site"])]
    for ax, target in zip(axes, targets, strict=False):
        for place, site in enumerate(sites):
            line = select(read, target=target, site=site).set_index("layer").reindex(layers)
            at = np.arange(len(layers)) + 0.09 * (place - (len(sites) - 1) / 2)
            style.points(ax, at, line["value"], line["low"], line["high"], SITES[site], line=True)
        level = select(rows, site="no_state", target=target, method="majority_of_range")["value"].iloc[0]
        shade = PROBES["majority_of_range"]
        ax.axhline(level, color=shade.color, linestyle=shade.line, linewidth=1.2, label=shade.label)
        _depth_axis(ax, layers)
    style.legend_below(fig, axes[0], 3)
    return fig


@style.styled
def draw_fourier_map(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="additions", site="pooled"
) -> Figure:
    """R^2 of linear probes of Fourier components by period and depth, a panel a number; a bold cell's interval lies
    above zero. Reads arithmetic_fourier: layer, site, target, period, metric = r2, value, low."""
    rows = select(frame, metric="r2", variant=variant, site=site, seed="all")
    targets = [target for target in TARGETS if target in set(rows["target"])]
    layers, periods = _layers(rows), sorted(rows["period"].unique())
    extra = f"{variant}, n = {rows['n'].max():,}, bold: 95 % interval above zero"
    about = style.subtitle(rows[["split", "part"]], profile, backbone, extra)
    title = "Which Fourier components of the numbers a linear map reads"
    size = (max(9.5, 0.42 * len(layers) * len(targets) + 2), 0.42 * len(periods) + 2.3)
    fig, axes = style.canvas(size, title, about, note, 1, len(targets), sharey=True)
    for ax, target in zip(axes[0], targets, strict=True):
        mine = rows[rows["target"] == target]
        value, low = (
            mine.pivot(index="period", columns="layer", values=v).loc[periods, layers] for v in ("value", "low")
        )
        image = ax.imshow(value, cmap="Greys", vmin=0, vmax=1, aspect="auto")
        for (i, j), r2 in np.ndenumerate(value.to_numpy()):
            weight = "bold" if low.iloc[i, j] > 0 else "normal"
            shade = "white" if r2 > 0.55 else style.INK
            ax.text(
                j,
                i,
                f"{max(r2, 0):.1f}" if r2 > -0.05 else f"{r2:.1f}",
                ha="center",
                va="center",
                size=8,
                color=shade,
                weight=weight,
            )
        _depth_axis(ax, layers)
        ax.set_yticks(range(len(periods)), periods)
        ax.set_title(f"of the {TARGETS[target]}")
        ax.set_xlabel(DEPTH)
        ax.grid(visible=False)
    axes[0, 0].set_ylabel("period")
    fig.colorbar(image, ax=axes, shrink=0.85, label="R² (0 and less: white)")
    return fig


@style.styled
def draw_error_kinds(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="chosen", split="structure"
) -> Figure:
    """Kinds of wrong values and which digits they have right, by method; a line across: the share for a value drawn
    evenly from the predicted range. Reads arithmetic_errors: the kinds and <kind>_expected, value, low, high."""
    rows = select(frame, variant=variant, split=split, group="all", seed="all")
    select(rows, metric=list(KINDS))
    methods = [name for name in style.METHODS if name in set(rows["method"])]
    about = style.subtitle(rows[["split", "variant", "part"]], profile, backbone, CLUSTERS)
    title = "What wrong values look like: by how much they are off, and what is right about them"
    fig, axes = style.canvas((11.5, 4.9), title, about, note, 1, 2, sharey=True, width_ratios=[4, 3])
    kinds = list(KINDS)
    for ax, shown in zip(axes[0], (kinds[:4], kinds[4:]), strict=True):
        width = 0.8 / len(methods)
        for place, method in enumerate(methods):
            mine = rows[rows["method"] == method].set_index("metric")
            bars, chance = mine.reindex(shown), mine.reindex([f"{kind}_expected" for kind in shown])
            at = np.arange(len(shown)) + (place - (len(methods) - 1) / 2) * width
            shade, wrong = look(method), mine["n"].reindex(kinds).max()
            named = f"{shade.label} ({wrong:,} wrong)"
            style_of = {"color": shade.color, "hatch": shade.hatch, "edgecolor": "white", "label": named}
            ax.bar(at, bars["value"], 0.9 * width, **style_of)
            reach = np.clip([bars["value"] - bars["low"], bars["high"] - bars["value"]], 0, None)
            ax.errorbar(at, bars["value"], reach, fmt="none", color=style.INK, elinewidth=1.2, capsize=2)
            said = "drawn evenly from the predicted range" if method == methods[-1] else None
            ax.hlines(chance["value"], at - width / 2, at + width / 2, color=style.INK, linewidth=2.2, label=said)
        ax.set_xticks(range(len(shown)), [KINDS[kind].replace(" ", "\n", 1) for kind in shown])
        ax.grid(axis="x", visible=False)
    axes[0, 0].set_ylabel("share of the method's wrong values")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_signed_errors(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="chosen", split="structure"
) -> Figure:
    """Distribution of the error of wrong values, predicted minus true, a panel a method. Reads
    arithmetic_signed_errors: error, metric = error_share, value, n."""
    rows = select(frame, metric="error_share", variant=variant, split=split, seed="all")
    methods = [name for name in style.METHODS if name in set(rows["method"])]
    about = style.subtitle(rows[["split", "variant", "part"]], profile, backbone, "errors farther off are not shown")
    title = "How far wrong values lie from the true one"
    size = (max(9.0, 3.6 * len(methods)), 4.2)
    fig, axes = style.canvas(size, title, about, note, 1, len(methods), sharex=True, sharey=True)
    for ax, method in zip(axes[0], methods, strict=True):
        mine = rows[rows["method"] == method]
        step = np.select([mine["error"] % 10 == 0, mine["error"] % 5 == 0], [10, 5], 1)
        for multiple, color, hatch in ((1, "#b8b8b8", ""), (5, style.SKY, "//"), (10, style.BLACK, "")):
            bars = mine[step == multiple]
            words = {1: "other error", 5: "5, 15, 25", 10: "10, 20"}[multiple]
            ax.bar(bars["error"], bars["value"], 0.85, color=color, hatch=hatch, edgecolor="white", lw=0.3, label=words)
        ax.set_title(f"{look(method).label}, {mine['n'].max():,} wrong values")
        ax.set_xlabel("predicted minus true value")
    axes[0, 0].set_ylabel("share of the method's wrong values")
    style.legend_below(fig, axes[0, 0])
    return fig
