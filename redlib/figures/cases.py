"""Single questions: weights reported and measured, how an answer's logit adds up, and where the probability lies."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from redlib.explain import Explanation
from redlib.figures import style
from redlib.figures.style import SPLITS, look
from redlib.results import pick, select

SEEDS = "mean over seeds, 95 % intervals"


def _experts(frame: pd.DataFrame, prefix: str = "alpha_") -> int:
    """K, from the metrics that a frame has."""
    return sum(metric.startswith(prefix) for metric in frame["metric"].unique())


@style.styled
def draw_case_weights(
    frame: pd.DataFrame,
    reported: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    task: str = "task1",
    variant: str = "chosen",
) -> Figure:
    """The source's four questions: its weights beside ours on both splits. Reads cases (alpha_k, seed = all) and
    `claims.load()` (section 4.11)."""
    rows = select(frame, task=task, variant=variant, method="red", seed="all")
    told = reported[(reported["section"] == "4.11") & reported["metric"].str.startswith("alpha_")]
    questions, K = list(dict.fromkeys(told["group"])), _experts(rows)
    splits = [split for split in SPLITS if split in set(rows["split"])]
    title = "Routing weights of the source's four questions, reported and measured"
    size = (3.1 * len(questions) + 0.4, 4.1)
    about = style.subtitle(rows, profile, backbone, SEEDS)
    fig, axes = style.canvas(size, title, about, note, 1, len(questions), sharey=True)
    at = np.arange(K)
    for ax, question in zip(axes[0], questions, strict=True):
        theirs = told[told["group"] == question].set_index("metric")["number"]
        heights = [theirs.get(f"alpha_{k + 1}", np.nan) for k in at]
        ax.bar(at, heights, 0.8, color=style.PAPER, edgecolor=style.QUIET, hatch="///", label="reported by the source")
        for split, shift in zip(splits, (-0.14, 0.14), strict=False):
            mine = [pick(rows, split=split, group=question, metric=f"alpha_{k + 1}") for k in at]
            low, high, value = ([row[name] for row in mine] for name in ("low", "high", "value"))
            shown = replace(SPLITS[split], label=f"trained on split {split}")
            style.points(ax, at + shift, value, low, high, shown)
        ax.set_title(question)
        ax.set_xticks(at, [f"R{k + 1}" for k in at])
        ax.set_ylim(0, 1.04)
        ax.set_xlabel("expert")
    axes[0, 0].set_ylabel("routing weight")
    style.legend_below(fig, axes[0, 0])
    return fig


@style.styled
def draw_case_parts(
    frame: pd.DataFrame,
    reported: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    task: str = "task1",
    variant: str = "chosen",
    split: str = "structure",
) -> Figure:
    """How the logit of the true value adds up: the shared classifier, then each expert at its weight. Reads cases
    (shared, part_k; seed = all), and the order of the questions from `claims.load()` (section 4.11)."""
    rows = select(frame, task=task, variant=variant, split=split, method="red", seed="all")
    questions, K = list(dict.fromkeys(reported["group"][reported["section"] == "4.11"])), _experts(rows)
    title = "What each expert adds to the logit of the true value"
    about = style.subtitle(rows, profile, backbone, SEEDS)
    fig, axes = style.canvas((3.1 * len(questions) + 0.4, 3.7), title, about, note, 1, len(questions), sharey=True)
    names = ["shared", *(f"part_{k}" for k in range(1, K + 1))]
    for ax, question in zip(axes[0], questions, strict=True):
        mine = [pick(rows, group=question, metric=name) for name in names]
        steps = {"shared": mine[0]["value"], **{f"R{k}": row["value"] for k, row in enumerate(mine[1:], 1)}}
        ends = _waterfall(ax, steps)
        around = np.array([[row["value"] - row["low"], row["high"] - row["value"]] for row in mine]).T
        reach = np.nan_to_num(np.clip(around, 0, None))
        ax.errorbar(range(len(mine)), ends, yerr=reach, fmt="none", ecolor=style.INK, elinewidth=1, capsize=2)
        ax.set_title(question)
    axes[0, 0].set_ylabel("logit of the true value")
    return fig


def _waterfall(ax: Axes, steps: dict[str, float]) -> np.ndarray:
    """Bars that start where the one before ends, and the total; where each step ends."""
    ends = np.cumsum(list(steps.values()))
    starts = np.concatenate([[0], ends[:-1]])
    colors = [style.QUIET, *[style.BLUE if value >= 0 else style.ORANGE for value in list(steps.values())[1:]]]
    hatches = ["", *["" if value >= 0 else "///" for value in list(steps.values())[1:]]]
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        ax.bar(place, end - start, 0.7, bottom=start, color=colors[place], hatch=hatches[place], edgecolor=style.PAPER)
        if place < len(ends) - 1:
            ax.plot([place + 0.35, place + 0.65], [end, end], color=style.QUIET, linewidth=0.8)
    ax.bar(len(ends), ends[-1], 0.7, color=style.INK)
    ax.axhline(0, color=style.INK, linewidth=0.8)
    ax.margins(y=0.08)
    ax.set_xticks(range(len(ends) + 1), [*steps, "sum"])
    ax.tick_params(axis="x", labelsize=8)
    return ends


@style.styled
def draw_case_spread(
    frame: pd.DataFrame,
    reported: pd.DataFrame,
    profile: str,
    backbone: str = "",
    note: str = "",
    task: str = "task1",
    variant: str = "chosen",
) -> Figure:
    """How decided the router is: the distribution of the largest weight over test rows, a line a range, with the
    largest weights that the source reports. Reads case_spread (seed = all) and `claims.load()` (section 4.11)."""
    rows = select(frame, task=task, variant=variant, seed="all", metric="largest_at_most")
    told = reported[(reported["section"] == "4.11") & reported["metric"].str.startswith("alpha_")]
    largest = told.groupby("group", sort=False)["number"].max()
    splits = [split for split in SPLITS if split in set(rows["split"])]
    title = "How much weight the first choice gets, and how much the source reports"
    about = style.subtitle(rows, profile, backbone, SEEDS)
    fig, axes = style.canvas((5.2 * len(splits) + 0.4, 4.2), title, about, note, 1, len(splits), sharey=True)
    ranges = sorted(rows["group"].unique())
    looks = [look(name) for name in ("red", "softmax_moe", "global_head", "oracle_experts", "uniform_average")]
    for ax, split in zip(axes[0], splits, strict=True):
        for k, name in enumerate(ranges):
            mine, like = (
                rows[(rows["split"] == split) & (rows["group"] == name)].sort_values("x"),
                looks[k % len(looks)],
            )
            like = replace(like, label=name)
            style.points(ax, mine["x"], mine["value"], mine["low"], mine["high"], like, line=True)
        for place, value in enumerate(largest):
            ax.axvline(value, color=style.QUIET, linewidth=1.2, linestyle=":", label="" if place else "reported")
        ax.set_title(SPLITS[split].label)
        ax.set_xlabel("largest routing weight")
        ax.set_xlim(0.18, 1.02)
        ax.set_ylim(-0.03, 1.03)
    axes[0, 0].set_ylabel("share of test rows with at most that")
    style.legend_below(fig, axes[0, 0], 6)
    return fig


@style.styled
def draw_case_picks(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", rules: Sequence[str] = ()
) -> Figure:
    """The chosen questions, a line each: weights of the experts, the answer and the truth; those of `rules` first, in
    that order. Reads case_picks."""
    rows, places = select(frame, method="red"), {rule: place for place, rule in enumerate(rules)}
    order, K = rows.drop_duplicates("case")[["case", "group"]].sort_values("case"), _experts(rows)
    order = order.sort_values("case", key=lambda c: c.str.rstrip(" 0123456789").map(places).fillna(99), kind="stable")
    wide = rows.pivot(index="case", columns="metric", values="value").loc[order["case"]]
    weights = wide[[f"alpha_{k}" for k in range(1, K + 1)]].to_numpy()
    about = style.subtitle(rows, profile, backbone, f"seed {rows['seed'].iloc[0]}")
    title = "Questions chosen by rule, and how RED routes them"
    fig, axes = style.canvas((10.5, 0.42 * len(wide) + 1.9), title, about, note)
    ax = axes[0, 0]
    ax.imshow(weights, cmap="Greys", vmin=0, vmax=1.3, aspect="auto")
    for (row, k), weight in np.ndenumerate(weights):
        ax.text(k, row, f"{weight:.2f}", ha="center", va="center", size=8, color="white" if weight > 0.7 else style.INK)
    ax.set_xticks(range(K), [f"R{k + 1}" for k in range(K)])
    labels = [f"{case}\n{textwrap.shorten(text, 60)}" for case, text in order.itertuples(index=False)]
    ax.set_yticks(range(len(wide)), labels, size=8)
    ax.set_xlabel("weight of the expert")
    ax.grid(visible=False)
    said = ax.secondary_yaxis("right")
    answers = [f"{true:.0f}: says {answer:.0f}" for true, answer in wide[["true_value", "answer"]].to_numpy()]
    said.set_yticks(range(len(wide)), answers, size=8)
    return fig


@style.styled
def draw_explanation(e: Explanation, note: str = "") -> Figure:
    """One explanation: routing weights, how the answer's logit adds up, and the probability of every value."""
    title = textwrap.shorten(e.text, 90)
    truth = "" if e.expression is None else f"  ·  true value {e.true_value}"
    about = f"{e.method} says {e.answer.value} with probability {e.answer.probability:.3f}{truth}  ·  {e.model}"
    fig, axes = style.canvas((12.5, 3.7), title, about, note, 1, 3, width_ratios=(1, 1.3, 2))
    weights, parts, values = axes[0]
    shown = e.alpha if e.alpha is not None else e.range_probabilities
    weights.bar(range(e.labels.K), shown, 0.7, color=style.RED)
    weights.set_xticks(range(e.labels.K), e.labels.names)
    weights.set_ylim(0, 1.04)
    weights.set_title("routing weights" if e.alpha is not None else "range probabilities")
    _waterfall(parts, e.waterfall())
    parts.set_title(f"logit of {e.answer.value}")
    for k, (low, high) in enumerate(e.labels.bounds):
        values.axvspan(low - 0.5, high + 0.5, color=style.QUIET, alpha=0.08 if k % 2 else 0.22, linewidth=0)
        values.text((low + high) / 2, 1.0, e.labels.names[k], ha="center", size=8)
    values.bar(list(e.labels.values), e.probabilities, 0.9, color=style.BLUE)
    if e.true_range is not None:
        values.axvline(e.true_value, color=style.INK, linestyle=":", linewidth=1.2)
    values.set_ylim(0, 1.06)
    values.set_xlim(e.labels.lo - 0.5, e.labels.hi + 0.5)
    values.set_title("probability of every value (dotted: the true one)")
    values.set_xlabel("value")
    return fig


@style.styled
def draw_walk(explained: Sequence[Explanation], note: str = "") -> Figure:
    """Explanations along the second operand (`explain.read_walk`): routing weights, or range probabilities without a
    router, over bands for the true range; the answers as marks below, filled where they are right."""
    one, at = explained[0], [e.expression.terms[1] for e in explained]
    kind = "range probability" if one.alpha is None else "routing weight"
    title = f"{kind.capitalize()} of each expert as {one.expression.terms[0]} meets a growing second operand"
    fig, axes = style.canvas((10.5, 3.9), title, f"{one.method}  ·  {one.model}", note)
    ax, looks = axes[0, 0], ("red", "softmax_moe", "global_head", "oracle_experts", "uniform_average")
    for b, e in zip(at, explained, strict=True):
        shade = 0.08 if e.labels.names.index(e.true_range) % 2 else 0.22
        ax.axvspan(b - 0.5, b + 0.5, color=style.QUIET, alpha=shade, linewidth=0)
    for k, name in enumerate(one.labels.names):
        like = look(looks[k % len(looks)])
        shares = [(e.range_probabilities if e.alpha is None else e.alpha)[k] for e in explained]
        ax.plot(at, shares, color=like.color, marker=like.marker, markersize=3, linewidth=1.4, label=name)
    for right, fill in ((True, style.INK), (False, "none")):
        mine = [b for b, e in zip(at, explained, strict=True) if e.right is right]
        label = "right answer" if right else "wrong answer"
        ax.scatter(mine, [-0.07] * len(mine), s=18, facecolors=fill, edgecolors=style.INK, linewidths=0.8, label=label)
    ax.set_ylim(-0.12, 1.04)
    ax.set_xlim(at[0] - 0.5, at[-1] + 0.5)
    ax.set_xlabel("second operand (bands: the true range)")
    ax.set_ylabel(kind)
    style.legend_below(fig, ax, one.labels.K + 2)
    return fig
