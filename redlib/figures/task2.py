"""Task 2: accuracy by length and operators, the definitions of steps compared, the router by part, and what parts that
have seen additions alone do with chains."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import METRICS, SPLITS, Look, look
from redlib.figures.task1 import INTERVALS, REPORTED
from redlib.results import select

DEFINITIONS = {
    "operations": Look("steps: operations", style.BLUE, "o"),
    "single_heavy": Look("steps: single heavy", style.ORANGE, "s"),
    "operands": Look("steps: operands", style.GREEN, "^"),
}
PATTERNS = {
    "pattern=addition": "additions only",
    "pattern=subtraction": "subtractions only",
    "pattern=mixed": "both operators",
    "pattern=boundary": "value at a boundary",
}
ARMS = {  # end of the variant, method -> how it is called; drawn upwards
    ("/experts=task1,router=task1", "global_head"): "global head of Task 1",
    ("", "global_head"): "global head of Task 2",
    ("/experts=task1,router=task1", "red"): "RED of Task 1",
    ("/experts=task1,router=task2", "red"): "RED of Task 1, router of Task 2",
    ("", "red"): "RED of Task 2",
}
COUNTS = "n: test rows over all seeds, text / structure"


def kind_name(group: str) -> str:
    """A group of rows in words: `ops=2` -> `2 operations`."""
    if group.startswith("ops="):
        number = group.removeprefix("ops=")
        return f"{number} operation{'s' * (number != '1')}"
    return {"all": "all rows", "ops>1": "several operations", **PATTERNS}.get(group, group)


def _groups(rows: pd.DataFrame) -> list[str]:
    """The lengths, then the operators, that the rows have."""
    there = set(rows["group"])
    return sorted(group for group in there if group.startswith("ops=")) + [name for name in PATTERNS if name in there]


def _splits(rows: pd.DataFrame) -> list[str]:
    """Both splits, or the one that a definition has."""
    return [split for split in ("text", "structure") if split in set(rows["split"])]


def _end(rows: pd.DataFrame, metric: str) -> float:
    """Where the axis of an accuracy ends: of ranges at 1, of values, which are often near 0, where the rows do."""
    return 1.0 if metric == "range_accuracy" else float(np.clip(rows[["value", "high"]].max().max(), 0.1, 1.0))


def _dots(ax: Axes, rows: pd.DataFrame, down: str, order: Sequence[str], titled: bool = True, end: float = 1.0) -> None:
    """Accuracies in one panel: a line an entry of `order` (column `down`), a colour a split; n in the title."""
    splits = style.dots_by_split(ax, rows, down, order)
    ax.set_xlim(-0.03 * end, 1.03 * end)
    ax.locator_params(axis="x", nbins=4)
    counts = [f"{rows.loc[rows['split'] == split, 'n'].max():,}" for split in splits]
    title = f"{kind_name(rows['group'].iloc[0])}\nn = {' / '.join(dict.fromkeys(counts))}"
    ax.set_title(title if titled else "", size=9)


@style.styled
def draw_accuracy_by_kind(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    metric="value_accuracy",
    variant="operations/chosen",
) -> Figure:
    """All methods by number of operations and by operators. Reads task2: groups ops=<number> and pattern=<operators>;
    seed = all, part = test."""
    rows = select(frame, seed="all", part="test", variant=variant, metric=metric)
    rows = rows[rows["split"].isin(_splits(rows))]
    split = _splits(rows)[-1]
    order = select(rows, group="all", split=split).sort_values("value", kind="stable")["method"].tolist()
    groups = _groups(rows)
    end = _end(rows[rows["group"].isin(groups)], metric)
    about = style.subtitle(rows, profile, backbone, f"{COUNTS}  ·  {INTERVALS}")
    word = METRICS[metric].partition(" (")[0].capitalize()
    size = (1.75 * len(groups) + 2.4, 0.31 * len(order) + 2.7)
    title = f"{word} by number of operations and by operators"
    fig, axes = style.canvas(size, title, about, note, 1, len(groups), sharey=True, sharex=True)
    for ax, group in zip(axes[0], groups, strict=True):
        _dots(ax, rows[rows["group"] == group], "method", order, end=end)
        ax.set_xlabel("share of rows")
    axes[0, 0].set_yticks(range(len(order)), [look(name).label for name in order])
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_definitions(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    recipe="chosen",
    methods: Sequence[str] = ("red", "softmax_moe", "global_head", "uniform_average", "fourier_full_data"),
) -> Figure:
    """The same methods under every definition of steps. Reads task2: variants <definition>/<recipe>; seed = all,
    part = test, group = all, value_accuracy and range_accuracy."""
    metrics = ("value_accuracy", "range_accuracy")
    variants = [f"{name}/{recipe}" for name in DEFINITIONS if f"{name}/{recipe}" in set(frame["variant"])]
    rows = select(frame, seed="all", part="test", group="all", variant=variants, method=list(methods), metric=metrics)
    splits = _splits(rows)
    about = style.subtitle(rows, profile, backbone, INTERVALS)
    size = (max(7.5, 2.2 * len(variants) + 4.4), 2.6 * len(splits) + 1.7)
    title = "The same methods under each definition of steps"
    fig, axes = style.canvas(size, title, about, note, len(splits), 2, sharey=True, sharex=True)
    at = np.arange(len(variants))
    for i, split in enumerate(splits):
        for ax, metric in zip(axes[i], metrics, strict=True):
            here = rows[(rows["split"] == split) & (rows["metric"] == metric)]
            for k, method in enumerate(methods):
                mine = here[here["method"] == method].set_index("variant").reindex(variants)
                shift = (k - (len(methods) - 1) / 2) * 0.13
                style.points(ax, at + shift, mine["value"], mine["low"], mine["high"], look(method))
            for x, n in zip(at, here.groupby("variant")["n"].max().reindex(variants), strict=True):
                said = "not trained" if pd.isna(n) else f"n = {int(n):,}"
                ax.text(x, 1.1, said, size=8, ha="center", va="center")
            ax.set_xticks(at, [name.partition("/")[0].replace("_", " ") for name in variants])
            ax.set_xlim(-0.5, len(variants) - 0.5)
            ax.set_ylim(-0.03, 1.18)
            ax.set_yticks(np.linspace(0, 1, 6))
            ax.set_title(METRICS[metric].partition(" (")[0] if i == 0 else "")
        axes[i, 0].set_ylabel(f"{split} split\nshare of rows")
    for ax in axes[-1]:
        ax.set_xlabel("definition of steps")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_router_by_part(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", recipe="chosen"
) -> Figure:
    """RED's router on every part and on all rows together, beside the source's numbers (4.7.3). Reads
    `claims.beside(task2, ("4.7.3",))`: metric router_accuracy or router_macro_f1, part, reported, variant, split."""
    metrics = {"router_accuracy": "accuracy", "router_macro_f1": "macro-F1 over the ranges"}
    parts = [*style.PARTS, "all"]
    variants = [f"{name}/{recipe}" for name in DEFINITIONS if f"{name}/{recipe}" in set(frame["variant"])]
    rows = select(frame, variant=variants, metric=list(metrics), part=parts)
    splits = _splits(rows)
    about = style.subtitle(rows.drop(columns="part"), profile, backbone, INTERVALS)
    title = "RED's router by part, beside the source's numbers"
    fig, axes = style.canvas((9, 2.6 * len(splits) + 1.6), title, about, note, len(splits), 2, sharey=True, sharex=True)
    at = np.arange(len(parts))
    for i, split in enumerate(splits):
        for ax, (metric, word) in zip(axes[i], metrics.items(), strict=True):
            here = rows[(rows["split"] == split) & (rows["metric"] == metric)]
            for k, variant in enumerate(variants):
                mine = here[here["variant"] == variant].set_index("part").reindex(parts)
                shift = (k - (len(variants) - 1) / 2) * 0.18
                shade = DEFINITIONS[variant.partition("/")[0]]
                style.points(ax, at + shift, mine["measured"], mine["low"], mine["high"], shade)
            stated = here.drop_duplicates("part").set_index("part").reindex(parts)["reported"]
            ax.plot(at, stated, REPORTED.marker, color=REPORTED.color, markersize=8, label=REPORTED.label)
            ax.set_xticks(at, parts)
            ax.set_ylim(-0.03, 1.05)
            ax.set_title(word if i == 0 else "")
        axes[i, 0].set_ylabel(f"{split} split\nrouter's first choice")
    for ax in axes[-1]:
        ax.set_xlabel("part of the split (all: the three together)")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_reported_by_definition(
    frame: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    metric="value_accuracy",
    recipe="chosen",
    split="text",
    methods: Sequence[str] = ("global_head", "uniform_average", "softmax_moe", "red"),
) -> Figure:
    """The source's accuracy of each method and range (4.7.1, 4.7.2) beside ours under every definition. Reads
    `claims.beside(task2, ("4.7.1", "4.7.2"))`: method, group, metric, reported, variant, split, measured."""
    variants = [f"{name}/{recipe}" for name in DEFINITIONS if f"{name}/{recipe}" in set(frame["variant"])]
    rows = select(frame, metric=metric, variant=variants, method=list(methods), split=split)
    rows = rows[rows["reported_metric"] == "accuracy"]
    groups = sorted(rows["group"].unique(), key=lambda group: (group != "all", group))
    about = style.subtitle(rows, profile, backbone, INTERVALS)
    word = METRICS[metric].partition(" (")[0]
    title = f"The source's accuracy on Task 2 beside {word} measured here"
    fig, axes = style.canvas((2.9 * len(methods) + 0.6, 4.4), title, about, note, 1, len(methods), sharey=True)
    at = np.arange(len(groups))
    for ax, method in zip(axes[0], methods, strict=True):
        for k, variant in enumerate(variants):
            mine = rows[(rows["method"] == method) & (rows["variant"] == variant)].set_index("group").reindex(groups)
            shift = (k - (len(variants) - 1) / 2) * 0.22
            shade = DEFINITIONS[variant.partition("/")[0]]
            style.points(ax, at + shift, mine["measured"], mine["low"], mine["high"], shade)
        stated = rows[rows["method"] == method].drop_duplicates("group").set_index("group").reindex(groups)["reported"]
        ax.plot(at, stated, REPORTED.marker, color=REPORTED.color, markersize=8, label=REPORTED.label)
        ax.set_xticks(at, groups)
        ax.set_ylim(-0.03, 1.05)
        ax.set_title(look(method).label)
        ax.set_xlabel("range of the result")
    axes[0, 0].set_ylabel(METRICS[metric])
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_transfer(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", definition="operations"
) -> Figure:
    """Parts trained on additions alone beside parts of Task 2, on the chains of one definition. Reads task2_transfer:
    variants <definition>/chosen[/<arm>]; seed = all, part = test, value_accuracy and range_accuracy."""
    metrics = ("value_accuracy", "range_accuracy")
    variants = {f"{definition}/chosen{arm}": arm for arm, _ in ARMS}
    rows = select(frame, seed="all", part="test", variant=list(variants), metric=metrics)
    rows = rows[rows["split"].isin(SPLITS)]
    names = [ARMS[variants[variant], method] for variant, method in zip(rows["variant"], rows["method"], strict=True)]
    groups = ["all", *_groups(rows)]
    order = list(ARMS.values())
    about = style.subtitle(
        rows.drop(columns="variant"), profile, backbone, f"steps {definition}  ·  {COUNTS}  ·  {INTERVALS}"
    )
    title = "What parts that were trained on additions alone do with chains"
    size = (1.6 * len(groups) + 2.6, 5.6)
    fig, axes = style.canvas(size, title, about, note, 2, len(groups), sharey=True, sharex="row")
    rows = rows.assign(arm=names)[rows["group"].isin(groups)]
    for line, metric in zip(axes, metrics, strict=True):
        mine = rows[rows["metric"] == metric]
        for ax, group in zip(line, groups, strict=True):
            here = mine[mine["group"] == group]
            _dots(ax, here, "arm", order, titled=metric == metrics[0], end=_end(mine, metric))
            ax.set_xlabel(f"{metric.partition('_')[0]} accuracy")
        line[0].set_yticks(range(len(order)), order)
    style.legend_below(fig, axes[0, 0])
    return fig
