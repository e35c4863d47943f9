"""What changing its experts does to RED, and what the number of ranges does."""

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.sections import draw_changes, lay_out, name_rows
from redlib.figures.style import METRICS, SPLITS
from redlib.figures.task1 import BOTH, INTERVALS
from redlib.results import select

SECTIONS = {  # heading -> methods; those that end in _ stand for one a range
    "ONE EXPERT REMOVED": ("remove_",),
    "ONE EXPERT SWITCHED OFF": ("disable_", "base"),
    "ANOTHER EXPERT IN THE MIDDLE": (
        *("replace_start", "replace_rows", "replace_task2", "replace_seed", "replace_bf16", "all_bf16"),
    ),
    "TWO EXPERTS IN THE MIDDLE": ("split", "split_refit"),
    "ONE EXPERT MORE": ("add_minus", "add_minus_refit", "grown", "add_beyond", "add_beyond_refit"),
}
LABELS = {
    "base": "all switched off: the base",
    "replace_start": "middle: another start",
    "replace_rows": "middle: a tenth of its questions",
    "replace_task2": "middle: chains of Task 2",
    "replace_seed": "middle: another seed's RED",
    "replace_bf16": "middle: bfloat16",
    "all_bf16": "every part: bfloat16",
    "split": "middle in two: weight shared",
    "split_refit": "middle in two: columns refitted",
    "add_minus": "subtraction: column by the rule",
    "add_minus_refit": "subtraction: column refitted",
    "grown": "range beyond: classifier only",
    "add_beyond": "range beyond: column by the rule",
    "add_beyond_refit": "range beyond: column refitted",
}
VERBS = {"remove_": "removed", "disable_": "switched off"}
SAME = {"rank": "same rank each", "parameters": "same parameters in all"}


def change_name(method: str) -> str:
    """What a row of the table modularity did to RED, in words."""
    for prefix, done in VERBS.items():
        if method.startswith(prefix):
            return f"{method.removeprefix(prefix)} {done}"
    return LABELS.get(method, method)


@style.styled
def draw_modularity(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Every changed RED minus the untouched one on the same questions of Task 1. Reads modularity:
    value_accuracy_change and range_accuracy_change of variant chosen; seed = all, group = all."""
    metrics = ("value_accuracy", "range_accuracy")
    keys = {"seed": "all", "group": "all", "variant": "chosen", "metric": [f"{metric}_change" for metric in metrics]}
    rows = select(frame, **keys)
    splits = [split for split in BOTH if split in set(rows["split"])]
    places, headings = lay_out(_there(rows["method"].unique()))
    about = style.subtitle(rows, profile, backbone, f"paired, {INTERVALS}")
    size = (11.0, 0.24 * (len(places) + len(headings)) + 2.3)
    title = "What changing its experts does to RED: changed minus untouched on the same texts"
    fig, axes = style.canvas(size, title, about, note, 1, 2, sharey=True)
    for ax, metric in zip(axes[0], metrics, strict=True):
        draw_changes(ax, rows[rows["metric"] == f"{metric}_change"], places, splits)
        ax.set_title(METRICS[metric].partition(" (")[0])
        ax.set_xlabel("change in share of rows (left of zero: worse than RED)")
    name_rows(axes[0, 0], places, headings, change_name)
    style.legend_below(fig, axes[0, 0])
    return fig


def _there(methods: Iterable[str]) -> dict[str, list[str]]:
    """The sections that have methods, with theirs; LookupError for a method without a section."""
    found = {
        heading: [m for name in names for m in sorted(methods) if m == name or (name[-1] == "_" and m.startswith(name))]
        for heading, names in SECTIONS.items()
    }
    lost = set(methods) - {name for names in found.values() for name in names}
    if lost:
        raise LookupError(f"no place for {', '.join(sorted(lost))} in the figure of changes")
    return {heading: names for heading, names in found.items() if names}


@style.styled
def draw_numbers_of_ranges(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Accuracy by the number of equal ranges, with each expert as large, or all together. Reads modularity_ranges:
    value_accuracy and range_accuracy; seed = all. Dotted: RED with the study's own ranges."""
    metrics = ("value_accuracy", "range_accuracy")
    rows = select(frame, seed="all", group="all", metric=list(metrics))
    rows = rows.assign(K=rows["method"].str.extract(r"K=(\d+)", expand=False).astype(float))
    splits = [split for split in BOTH if split in set(rows["split"])]
    extra = f"recipe chosen  ·  {INTERVALS}  ·  dotted: the study's own ranges"
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, extra)
    title = "RED with its values cut into more or fewer ranges of equal width"
    fig, axes = style.canvas((11.0, 5.2), title, about, note, 1, 2)
    for ax, metric in zip(axes[0], metrics, strict=True):
        for split in splits:
            for same, shift in zip(SAME, (-0.08, 0.08), strict=True):
                here = rows[(rows["metric"] == metric) & (rows["split"] == split)]
                here = here[here["variant"].str.endswith(f"same={same}")]
                mine = here[here["K"].notna()].sort_values("K")
                look = replace(SPLITS[split], label=f"{split}, {SAME[same]}", line="-" if same == "rank" else "--")
                hollow = same == "parameters"
                style.points(ax, mine["K"] + shift, mine["value"], mine["low"], mine["high"], look, False, hollow, True)
            ax.axhline(here.loc[here["method"] == "red", "value"].iloc[0], color=SPLITS[split].color, linestyle=":")
        ax.set_xticks(sorted(rows["K"].dropna().unique()))
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("number of ranges, one expert each")
        ax.set_ylabel(METRICS[metric])
    style.legend_below(fig, axes[0, 0], 2)
    return fig
