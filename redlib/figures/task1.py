"""Task 1: accuracy, memorisation, errors, routing, and the source's numbers beside ours."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import METRICS, SPLITS, Look, look
from redlib.results import select

INTERVALS = "95 % intervals over structures and seeds"
BOTH = ("text", "structure")


def _best_last(frame: pd.DataFrame, metric: str) -> list[str]:
    """Methods by their number on the structure split (drawn upwards)."""
    rows = frame[(frame["metric"] == metric) & (frame["group"] == "all") & (frame["split"] == BOTH[1])]
    return rows.sort_values("value", kind="stable")["method"].tolist()


@style.styled
def draw_accuracy_by_range(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", metric="value_accuracy", variant="chosen"
) -> Figure:
    """All methods, overall and by range, both splits. Reads task1: seed = all, part = test, metric, group, value,
    low, high."""
    rows = select(frame, seed="all", part="test", variant=variant, metric=metric, split=BOTH)
    methods = _best_last(rows, metric)
    groups = sorted(g for g in rows["group"].unique() if g == "all" or g.startswith("R"))
    groups = [*(g for g in groups if g == "all"), *(g for g in groups if g != "all")]
    about = style.subtitle(rows, profile, backbone, INTERVALS)
    title = f"{METRICS[metric].partition(' (')[0].capitalize()}, overall and by range of the result"
    size = (2.0 * len(groups) + 2.2, 0.31 * len(methods) + 2.4)
    fig, axes = style.canvas(size, title, about, note, 1, len(groups), sharey=True, sharex=True)
    for ax, group in zip(axes[0], groups, strict=True):
        style.dots_by_split(ax, rows[rows["group"] == group], "method", methods)
        ax.set_title("all ranges" if group == "all" else group)
        ax.set_xlabel("share of rows")
    axes[0, 0].set_yticks(range(len(methods)), [look(name).label for name in methods])
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_memorisation_gap(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", variant="chosen"
) -> Figure:
    """Text minus structure accuracy of every method. Reads task1: value_accuracy and range_accuracy of both splits, and
    their _gap rows (split text-structure); seed = all, part = test, group = all."""
    keys = {"seed": "all", "part": "test", "variant": variant, "group": "all"}
    metrics = ("value_accuracy", "range_accuracy")
    rows = select(frame, **keys, metric=metrics, split=BOTH)
    gaps = select(frame, **keys, metric=[f"{m}_gap" for m in metrics], split="text-structure")
    methods = _best_last(rows, "value_accuracy")
    about = style.subtitle(rows, profile, backbone, f"numbers: text minus structure, {INTERVALS}")
    title = "What each method loses on operand pairs that it has never seen"
    fig, axes = style.canvas((12.5, 0.34 * len(methods) + 2.2), title, about, note, 1, 2, sharey=True)
    at = np.arange(len(methods))
    for ax, metric in zip(axes[0], metrics, strict=True):
        wide = rows[rows["metric"] == metric].set_index(["split", "method"])
        ends = [wide.loc[split].reindex(methods) for split in BOTH]
        ax.hlines(at, ends[0]["value"], ends[1]["value"], color=style.QUIET, linewidth=2)
        for split, end in zip(BOTH, ends, strict=True):
            style.points(ax, end["value"], at, end["low"], end["high"], SPLITS[split], True, split == "structure")
        gap = gaps[gaps["metric"] == f"{metric}_gap"].set_index("method").reindex(methods)
        for y, row in zip(at, gap.itertuples(), strict=True):
            ax.text(1.06, y, f"{row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}]", va="center", size=8)
        ax.set_xlim(-0.02, 1.55)
        ax.set_xticks(np.linspace(0, 1, 6))
        ax.set_xlabel(METRICS[metric])
    axes[0, 0].set_yticks(at, [look(name).label for name in methods])
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_operand_map(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "global_head"),
    metric="value_error",
    variant="chosen",
    split="structure",
) -> Figure:
    """Error rate of every ordered operand pair. Reads task1_pairs: first, second, method, metric, value, group."""
    rows = select(frame, metric=metric, variant=variant, split=split, method=list(methods))
    low, high = rows[["first", "second"]].min().min(), rows[["first", "second"]].max().max()
    about = style.subtitle(rows, profile, backbone, "grey: never held out  ·  lines: range boundaries")
    title = "Which operand pairs each method gets wrong when it has not seen them"
    size = (4.4 * len(methods) + 1.3, 5.4)
    fig, axes = style.canvas(size, title, about, note, 1, len(methods), sharex=True, sharey=True)
    edges = (rows["first"] + rows["second"]).groupby(rows["group"]).max().sort_values().to_numpy()[:-1]
    for ax, method in zip(axes[0], methods, strict=True):
        grid = np.full((high - low + 1, high - low + 1), np.nan)
        mine = rows[rows["method"] == method]
        grid[mine["first"] - low, mine["second"] - low] = mine["value"]
        frame_of = (low - 0.5, high + 0.5, low - 0.5, high + 0.5)
        ax.set_facecolor("#d0d0d0")
        image = ax.imshow(
            grid, origin="lower", extent=frame_of, cmap="cividis", vmin=0, vmax=1, interpolation="nearest"
        )
        for edge in edges:
            first = np.array([max(low - 0.5, edge + 0.5 - (high + 0.5)), min(high + 0.5, edge + 0.5 - (low - 0.5))])
            ax.plot(edge + 0.5 - first, first, color=style.RED, linewidth=1, linestyle="--")
        ax.set_title(look(method).label)
        ax.set_xlabel("second operand")
        ax.grid(visible=False)
    axes[0, 0].set_ylabel("first operand")
    fig.colorbar(image, ax=axes, shrink=0.85, label=METRICS[metric])
    return fig


@style.styled
def draw_range_confusion(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe", "global_head", "uniform_average"),
    metric="range_share",
    variant="chosen",
    split="structure",
) -> Figure:
    """Share of each true range predicted in each range. Reads task1_confusion: group, predicted_range, metric
    (range_share or router_share), value."""
    rows = select(frame, metric=metric, variant=variant, split=split, method=list(methods))
    names = sorted(rows["group"].unique(), key=lambda name: int(name[1:]))
    about = style.subtitle(rows, profile, backbone, "each row of cells sums to one")
    what = "router" if metric == "router_share" else "output"
    title = f"Which range the {what} takes each range for"
    size = (max(7.5, 2.75 * len(methods) + 0.9), 4.1)
    fig, axes = style.canvas(size, title, about, note, 1, len(methods), sharey=True)
    for ax, method in zip(axes[0], methods, strict=True):
        mine = rows[rows["method"] == method]
        grid = mine.pivot(index="group", columns="predicted_range", values="value").reindex(names, axis=0)[names]
        image = ax.imshow(grid, cmap="Blues", vmin=0, vmax=1)
        for (i, j), share in np.ndenumerate(grid.to_numpy()):
            ax.text(
                j, i, f"{share:.2f}", ha="center", va="center", size=8, color="white" if share > 0.55 else style.INK
            )
        ax.set_xticks(range(len(names)), names)
        ax.set_yticks(range(len(names)), names)
        ax.set_title(look(method).label)
        ax.set_xlabel(f"range of the {what}")
        ax.grid(visible=False)
    axes[0, 0].set_ylabel("true range")
    fig.colorbar(image, ax=axes, shrink=0.8, label="share of the true range's rows")
    return fig


@style.styled
def draw_router_reliability(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe"),
    variant="chosen",
) -> Figure:
    """How often routers are right, and what a wrong route costs. Reads task1: router_accuracy (group all, every part),
    value_accuracy and range_accuracy of groups route=right and route=wrong (part test); seed = all."""
    metrics = ("router_accuracy", "value_accuracy", "range_accuracy")
    rows = select(frame, seed="all", variant=variant, method=list(methods), split=BOTH, metric=metrics)
    parts = [p for p in ("train", "validation", "test") if p in set(rows["part"])]
    routes = ["route=right", "route=wrong"]
    panels = [
        ("router_accuracy", "part", parts, rows[rows["group"] == "all"]),
        ("value_accuracy", "group", routes, rows[rows["part"] == "test"]),
        ("range_accuracy", "group", routes, rows[rows["part"] == "test"]),
    ]
    about = style.subtitle(
        rows[["split", "variant"]], profile, backbone, f"accuracies by route: test part  ·  {INTERVALS}"
    )
    title = "How often the router is right, and what a wrong route costs"
    fig, axes = style.canvas((11, 6.2), title, about, note, 2, 3, sharey=True, sharex="col")
    for i, split in enumerate(BOTH):
        for ax, (metric, column, places, source) in zip(axes[i], panels, strict=True):
            here = source[(source["split"] == split) & (source["metric"] == metric)]
            for k, method in enumerate(methods):
                mine = here[here["method"] == method].set_index(column).reindex(places)
                at = np.arange(len(places)) + (k - (len(methods) - 1) / 2) * 0.22
                style.points(ax, at, mine["value"], mine["low"], mine["high"], look(method))
            for x, place in enumerate(places):
                n = here[here[column] == place].set_index("method")["n"].reindex(methods)
                counts = ["none" if pd.isna(rows) else f"{rows:,.0f}" for rows in n]
                said = "n = " + (counts[0] if len(set(counts)) == 1 else " / ".join(counts))
                ax.text(x, 1.12, said, size=7.5, ha="center", va="center")
            ax.set_xticks(range(len(places)), [p.replace("route=", "route ") for p in places])
            ax.set_xlim(-0.5, len(places) - 0.5)
            ax.set_ylim(-0.05, 1.2)
            ax.set_yticks(np.linspace(0, 1, 6))
            ax.set_title(METRICS[metric].partition(" (")[0] if i == 0 else "")
        axes[i, 0].set_ylabel(f"{split} split\nshare of rows")
    for ax, words in zip(
        axes[1], ("part of the split", "first choice of the router", "first choice of the router"), strict=True
    ):
        ax.set_xlabel(words)
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_bias_by_value(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    methods: Sequence[str] = ("red", "softmax_moe", "global_head", "uniform_average"),
    variant="chosen",
) -> Figure:
    """Signed error by true value, with the middle 90 % of the predictions. Reads task1_bias: true_value, group, metrics
    signed_error, predicted_q05, predicted_q95."""
    metrics = ["signed_error", "predicted_q05", "predicted_q95"]
    rows = select(frame, variant=variant, split=BOTH, method=list(methods), metric=metrics)
    about = style.subtitle(rows, profile, backbone, "band: 5 to 95 % of predictions  ·  dashed: range boundaries")
    title = "Does a method drift? Signed error by true value"
    size = (2.9 * len(methods) + 0.8, 5.8)
    fig, axes = style.canvas(size, title, about, note, 2, len(methods), sharex=True, sharey=True)
    edges = rows.groupby("group")["true_value"].max().sort_values().to_numpy()[:-1] + 0.5
    for i, split in enumerate(BOTH):
        for ax, method in zip(axes[i], methods, strict=True):
            mine = rows[(rows["split"] == split) & (rows["method"] == method)]
            wide = mine.pivot(index="true_value", columns="metric", values="value")
            shade = SPLITS[split]
            band = [wide[name] - wide.index for name in metrics[1:]]
            ax.fill_between(wide.index, *band, color=shade.color, alpha=0.22, linewidth=0, step="mid")
            ax.plot(wide.index, wide["signed_error"], color=shade.color, linewidth=1.2)
            ax.axhline(0, color=style.INK, linewidth=0.7)
            for edge in edges:
                ax.axvline(edge, color=style.QUIET, linewidth=0.7, linestyle="--")
            ax.set_title(look(method).label if i == 0 else "")
            ax.grid(axis="x", visible=False)
        axes[i, 0].set_ylabel(f"{split} split\npredicted minus true value")
    for ax in axes[1]:
        ax.set_xlabel("true value")
    return fig


REPORTED = Look("reported by the source", style.INK, "x")


@style.styled
def draw_reported_beside_measured(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    metric="value_accuracy",
    variant="chosen",
    methods: Sequence[str] = ("global_head", "uniform_average", "softmax_moe", "red"),
) -> Figure:
    """The source's accuracy of each method and range beside ours. Reads `claims.beside(task1)`: method, group, metric,
    reported, variant, split, measured, low, high."""
    rows = select(frame, metric=metric, variant=variant, method=list(methods), split=BOTH)
    rows = rows[rows["reported_metric"] == "accuracy"]
    groups = sorted(rows["group"].unique(), key=lambda group: (group != "all", group))
    about = style.subtitle(rows, profile, backbone, INTERVALS)
    word = METRICS[metric].partition(" (")[0]
    title = f"The source's accuracy beside {word} measured here"
    fig, axes = style.canvas((2.9 * len(methods) + 0.6, 4.4), title, about, note, 1, len(methods), sharey=True)
    for ax, method in zip(axes[0], methods, strict=True):
        for split, shift in zip(BOTH, (-0.14, 0.14), strict=True):
            mine = rows[(rows["method"] == method) & (rows["split"] == split)].set_index("group").reindex(groups)
            at = np.arange(len(groups))
            hollow = split == "structure"
            style.points(ax, at + shift, mine["measured"], mine["low"], mine["high"], SPLITS[split], hollow=hollow)
        ax.plot(at, mine["reported"], REPORTED.marker, color=REPORTED.color, markersize=8, label=REPORTED.label)
        ax.set_xticks(at, groups)
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(look(method).label)
        ax.set_xlabel("range of the result")
    axes[0, 0].set_ylabel(METRICS[metric])
    style.legend_below(fig, axes[0, 0])
    return fig
