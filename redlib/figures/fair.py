"""The fair comparison: every arm beside RED, and the way from RED to the softmax mixture in steps of one change."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from redlib.figures import style
from redlib.figures.sections import draw_changes, lay_out, name_rows
from redlib.figures.style import METRICS, SPLITS
from redlib.figures.task1 import BOTH, INTERVALS
from redlib.models.arms import PATH
from redlib.results import cell, direction, pick, select

LABELS = {  # "+": on top of the row above
    "red": "RED",
    "moe_same_experts": "RED's experts mixed as logits",
    "base_dropped": "base term dropped",
    "base_never": "base term dropped, experts trained without it",
    "scale_tenth": "experts at scale 0.1",
    "scale_learned": "experts at a learned scale",
    "router_linear": "linear router",
    "router_answer": "router trained on the answer",
    "router_one_epoch": "router trained for one epoch",
    "weights_top1": "top-1 weights",
    "weights_uniform": "equal weights",
    "experts_mlp": "heads with a hidden layer as experts",
    "experts_linear": "linear heads as experts",
    "dropped_tenth": "base term dropped, scale 0.1",
    "dropped_answer": "base term dropped, router on the answer",
    "tenth_answer": "scale 0.1, router on the answer",
    "dropped_tenth_answer": "all three",
    "mlp_mixture": "+ base term dropped",
    "linear_mixture": "+ linear heads, no hidden layer",
    "softmax_moe": "+ router trained on the answer: softmax mixture",
    "moe_linear_gate": "+ linear router",
    "moe_one_epoch": "+ router trained for one epoch",
    "moe_with_base": "base term kept",
    "moe_mlp": "heads with a hidden layer",
    "moe_top1": "top-1 weights",
    "moe_uniform": "equal weights",
    "red_logit_scale": "linear heads at scale 0.1",
    "public_two_layer": "+ hidden layer, trained on the base: public heads",
    "public_red": "+ linear router: public RED",
    "public_scale_one": "+ scale 1",
    "public_no_base": "+ base term dropped",
    "public_answer": "+ router trained on the answer",
    "public_moe": "+ router trained for one epoch: public mixture",
    "public_all": "public RED, every expert at weight 1",
}
SECTIONS = {
    "ONE CHANGE FROM RED": tuple(LABELS)[1:13],
    "TWO AND THREE CHANGES TOGETHER": tuple(LABELS)[13:17],
    "STEP BY STEP FROM RED TO THE MIXTURE": PATH[1:],
    "ONE CHANGE FROM THE MIXTURE": ("moe_with_base", "moe_mlp", "moe_top1", "moe_uniform"),
    "THE AUTHORS' PUBLIC FORM": tuple(LABELS)[-8:],
}
TASKS = {"task1": "Task 1", "task2": "Task 2"}
LOSS, GAIN, NOTHING = (style.RED, "//"), (style.GREEN, ".."), ("#d8d8d8", "")  # a step's colour and hatch


@style.styled
def draw_arms(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Every arm minus RED on the same rows, the tasks and splits that there are. Reads fair: value_accuracy_change and
    range_accuracy_change against reference = red; seed = all; one variant a task."""
    metrics = ("value_accuracy", "range_accuracy")
    rows = select(frame, seed="all", reference="red", metric=[f"{metric}_change" for metric in metrics])
    places, headings = lay_out(SECTIONS)
    tasks, splits = _there(rows)
    about = style.subtitle(rows, profile, backbone, f"paired, {INTERVALS}  ·  +: on top of the row above")
    size = (4.4 + 4.8 * len(tasks), 0.235 * (len(places) + len(headings)) + 2.4)
    title = "What each change does: every arm minus RED on the same texts"
    fig, axes = style.canvas(size, title, about, note, 1, 2 * len(tasks), sharey=True)
    panels = [(task, metric) for task in tasks for metric in metrics]
    for ax, (task, metric) in zip(axes[0], panels, strict=True):
        draw_changes(ax, rows[(rows["task"] == task) & (rows["metric"] == f"{metric}_change")], places, splits)
        ax.set_title(f"{TASKS[task]}: {METRICS[metric].partition(' (')[0]}")
        ax.set_xlabel("arm minus RED (share of rows)")
    name_rows(axes[0, 0], places, headings, LABELS.__getitem__)
    style.legend_below(fig, axes[0, 0])
    return fig


def _there(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The tasks and splits of a frame, as they are drawn."""
    return [name for name in TASKS if name in set(rows["task"])], [name for name in BOTH if name in set(rows["split"])]


def path_steps(
    frame: pd.DataFrame, task: str, split: str, path: Sequence[str] = PATH, metric: str = "value_accuracy"
) -> pd.DataFrame:
    """A path of arms, one row an arm: method, changed, before and after (accuracy), value, low, high (the paired change
    from the arm before), n. The first row is the first arm's accuracy with its own interval.

    LookupError where the table lacks an arm or the difference to the one before.
    """
    rows = select(frame, task=task, split=split, seed="all")
    level = [pick(rows, method=name, metric=metric) for name in path]
    change = [pick(rows, method=name, metric=f"{metric}_change", reference=before) for before, name in pairwise(path)]
    steps = pd.DataFrame([level[0], *change])[["method", "changed", "value", "low", "high", "n"]]
    after = [row["value"] for row in level]
    return steps.assign(before=[0.0, *after[:-1]], after=after).reset_index(drop=True)


@style.styled
def draw_path(
    frame: pd.DataFrame,
    reported: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    path: Sequence[str] = PATH,
    metric="value_accuracy",
) -> Figure:
    """The path as a waterfall, tasks down and splits across, the source's two numbers under it.

    Reads fair, one variant a task (`path_steps`), and the claims of 4.9.1: task, method (red, moe_no_residual), number.
    """
    rows = select(frame, seed="all", method=list(path), metric=metric)
    tasks, splits = _there(rows)
    about = style.subtitle(rows, profile, backbone, f"whiskers: paired change from the row above, {INTERVALS}")
    size = (4.5 + 4.5 * len(splits), (0.33 * (len(path) + 2) + 0.9) * len(tasks) + 1.6)
    start = LABELS[path[0]].rpartition(": ")[2]
    title = f"From {start} to the mixture in steps of one change"
    fig, axes = style.canvas(size, title, about, note, len(tasks), len(splits), sharex=True, sharey=True)
    for task, line in zip(tasks, axes, strict=True):
        ends = select(reported, task=task).set_index("method")["number"]
        for split, ax in zip(splits, line, strict=True):
            _waterfall(ax, path_steps(frame, task, split, path, metric))
            for place, name in enumerate(("red", "moe_no_residual"), len(path)):
                ax.barh(-place, ends[name], height=0.6, facecolor=style.PAPER, edgecolor=style.INK, hatch="xx")
                apart = f"  ({ends[name] - ends['red']:+.3f})" if name != "red" else ""
                ax.text(ends[name] + 0.02, -place, f"{ends[name]:.3f}{apart}", va="center", size=8)
            ax.axhline(0.5 - len(path), color=style.QUIET, linewidth=0.8)
            ax.set_title(f"{TASKS[task]}: {SPLITS[split].label}")
        line[0].set_xlim(0, 1.42)
        line[0].set_xticks(np.linspace(0, 1, 6))
        names = [start, *(LABELS[name] for name in path[1:]), "the source: RED (4.9.1)", "the source: mixture (4.9.1)"]
        line[0].set_yticks([-i for i in range(len(names))], names)
    for ax in axes[-1]:
        ax.set_xlabel(METRICS[metric])
    kinds = {"loss": LOSS, "gain": GAIN, "no measurable difference": NOTHING}
    patches = [Patch(facecolor=c, hatch=h, edgecolor=style.INK, label=label) for label, (c, h) in kinds.items()]
    fig.legend(handles=patches, loc="outside lower center", ncols=len(patches))
    return fig


def _waterfall(ax: Axes, steps: pd.DataFrame) -> None:
    first = steps.iloc[0]
    ax.barh(0, first["after"], height=0.6, color=style.SKY, edgecolor=style.INK)
    ax.text(first["after"] + 0.02, 0, cell(first), va="center", size=8)
    for place, row in enumerate(steps.iloc[1:].to_dict("records"), 1):
        color, hatch = {1: GAIN, -1: LOSS, 0: NOTHING}[direction(pd.Series(row))]
        left, right = sorted((row["before"], row["after"]))
        ax.barh(-place, right - left, left=left, height=0.6, color=color, edgecolor=style.INK, hatch=hatch)
        ax.vlines(row["before"], -place - 0.3, 1.3 - place, color=style.QUIET, linewidth=0.8)
        reach = [[row["value"] - row["low"]], [row["high"] - row["value"]]]
        ax.errorbar(row["after"], -place, xerr=reach, color=style.INK, elinewidth=1.2, capsize=2)
        said = f"{row['value']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
        ax.text(max(right, row["before"] + row["high"]) + 0.02, -place, said, va="center", size=8)
