"""What the parts of `red_plus` are worth: every setting that was tried, one thing changed at a time; how much data."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.fair import TASKS
from redlib.figures.style import METRICS, Look, look
from redlib.figures.task1 import INTERVALS
from redlib.results import select

QUESTIONS = {
    "readout": "readout",
    "depth": "where the trunk ends",
    "pooling": "depths that are read",
    "token_layers": "light layers over tokens",
    "ending": "how light layers end",
    "optimiser": "optimiser of the base",
    "weight_decay": "weight decay of the base",
    "data": "training rows",
    "base_share": "the base's share of them",
    "noise": "noise in training",
    "foreign_share": "an expert's share of other ranges",
    "rank": "rank of an expert",
    "adapter": "form of an expert",
    "router_target": "what the router is trained on",
    "experts": "experts",
}
WORDS = {
    "readout": {"fourier": "points on circles", "digits": "tens and units", "linear": "linear"},
    "layer": {"0": "embeddings"},
    "pooling": {"mean": "one depth", "mean_two_depths": "two depths"},
    "ending": {"mean": "mean over tokens", "turns": "angles, summed"},
    "optimiser": {"adamw": "AdamW", "muon": "Muon"},
    "adapter": {"gelu": "with a GELU", "linear": "linear"},
    "router_target": {"range": "its range", "value": "the answer", "both": "range and answer"},
}
BOTH = ("red_plus_base", "red_plus")


def part_name(changed: str, own: bool = False) -> str:
    """The value of a setting in words: `hidden state 4`, `rank 72 (own)`."""
    name, _, value = changed.partition("=")
    told = WORDS.get(name, {}).get(value)
    if told is None and name == "layer":
        told = f"hidden state {value}"
    elif told is None and name == "rows":
        told = f"{int(value):,}"
    elif told is None and name.endswith("share"):
        told = f"{float(value):.0%}"
    return f"{told or value}{' (own)' if own else ''}"


@style.styled
def draw_plus_parts(
    frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "", metric: str = "value_accuracy"
) -> Figure:
    """One metric of every setting, a panel a task, a block of lines a question; a line at the form as it is.

    Reads red_plus_parts: seed = all, columns question, changed, x, own.
    """
    rows = select(frame, seed="all", metric=metric)
    tasks = [task for task in TASKS if task in set(rows["task"])]
    lines = {task: _lines(rows[rows["task"] == task]) for task in tasks}
    most = max(at[-1] for at, *_ in lines.values())
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, INTERVALS)
    size = (2.0 + 4.6 * len(tasks), 0.2 * most + 2.3)
    title = f"RED plus with one thing changed: {METRICS[metric].partition(' (')[0]}"
    fig, axes = style.canvas(size, title, about, note, 1, len(tasks))
    for task, ax in zip(tasks, axes[0], strict=True):
        at, settings, heads = lines[task]
        mine = rows[rows["task"] == task].set_index(["question", "changed", "method"])
        for method, shift in zip(BOTH, (0.16, -0.16), strict=True):
            own = mine.loc[[(*setting[:2], method) for setting in settings]]
            points = (own["value"], at + shift, own["low"], own["high"])
            style.points(ax, *points, look(method), True, method == "red_plus_base")
        whole = mine[mine["own"] == 1].xs("red_plus", level="method")["value"].iloc[0]
        ax.axvline(whole, color=look("red_plus").color, linewidth=0.8, linestyle="--")
        ax.set_yticks(at, [part_name(*setting[1:]) for setting in settings])
        for place, question in heads:
            ax.text(0.0, place, QUESTIONS[question], transform=ax.get_yaxis_transform(), size=8.5, weight="bold")
        ax.set_ylim(at[-1] + 0.8, -0.6)
        ax.set_xlim(-0.03, 1.03)
        ax.set_title(TASKS[task])
        ax.set_xlabel("share of rows (dashed: RED plus as it is)")
    style.legend_below(fig, axes[0, 0])
    return fig


def _lines(rows: pd.DataFrame) -> tuple[np.ndarray, list[tuple[str, str, bool]], list[tuple[float, str]]]:
    """Where every setting stands, downwards, (question, changed, own) of each, and where each question is named."""
    at, settings, heads, place = [], [], [], 0.0
    for question in (name for name in QUESTIONS if name in set(rows["question"])):
        heads.append((place + 0.15, question))
        mine = rows[rows["question"] == question].drop_duplicates("changed").sort_values("x")
        for changed, own in mine[["changed", "own"]].itertuples(index=False):
            place += 1
            at.append(place)
            settings.append((question, changed, bool(own)))
        place += 1.2
    return np.array(at), settings, heads


@style.styled
def draw_plus_rows(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Accuracy by training rows, a panel a task, a line a metric and method. Reads red_plus_parts: question = data."""
    rows = select(frame, seed="all", question="data", metric=["value_accuracy", "range_accuracy"])
    tasks = [task for task in TASKS if task in set(rows["task"])]
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, INTERVALS)
    size = (max(7.0, 4.6 * len(tasks)), 4.0)
    fig, axes = style.canvas(size, "RED plus by training rows", about, note, 1, len(tasks), sharey=True)
    for task, ax in zip(tasks, axes[0], strict=True):
        for method in BOTH:
            for metric in ("range_accuracy", "value_accuracy"):
                mine = rows[(rows["task"] == task) & (rows["method"] == method) & (rows["metric"] == metric)]
                mine, shade = mine.sort_values("x"), look(method)
                label = f"{shade.label}, {METRICS[metric].partition(' (')[0]}"
                mark = {"marker": shade.marker if metric == "value_accuracy" else "o", "color": shade.color}
                hollow = {} if metric == "value_accuracy" else {"markerfacecolor": style.PAPER}
                ax.plot(mine["x"], mine["value"], shade.line, **mark, **hollow, label=label)
                ax.fill_between(mine["x"], mine["low"], mine["high"], color=shade.color, alpha=0.12, linewidth=0)
        ax.set_xscale("log")
        every = sorted(rows.loc[rows["task"] == task, "x"].unique())
        ax.set_xticks(every, [f"{int(x):,}" for x in every])
        ax.xaxis.minorticks_off()
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(TASKS[task])
        ax.set_xlabel("training rows of all parts")
    axes[0, 0].set_ylabel("share of rows")
    style.legend_below(fig, axes[0, 0], 2)
    return fig


@style.styled
def draw_plus_wordings(frame: pd.DataFrame, profile: str, backbone: str = "", note: str = "") -> Figure:
    """Bases of forms that were tried, asked in words that training lacks: over all groups of words, and a dot a group;
    hollow: in other words. Reads red_plus_wordings: groups all, seen and wording=G, columns changed, own.
    """
    rows = select(frame, metric="value_accuracy")
    over = select(rows, group="all", seed="all").sort_values(["own", "value"])
    order, every = list(over["changed"]), rows[rows["group"].str.startswith("wording=")]
    seen = select(rows, group="seen").set_index("changed").loc[order]
    about = style.subtitle(rows.drop(columns="variant"), profile, backbone, "95 % intervals over groups of words")
    title = "RED plus, base alone: forms tried for words that training lacks"
    fig, axes = style.canvas((7.5, 0.38 * len(order) + 2.1), title, about, note)
    ax, at = axes[0, 0], np.arange(len(order))
    place = [order.index(name) for name in every["changed"]]
    ax.plot(every["value"], place, "o", color=style.INK, markersize=3, alpha=0.5, label="one group of words")
    for of, shift, shape, hollow in (
        (over.set_index("changed"), 0.16, Look("words that training lacks", style.RED, "D"), False),
        (seen, -0.16, Look("other words", style.BLUE, "s"), True),
    ):
        style.points(ax, of["value"], at + shift, of["low"], of["high"], shape, horizontal=True, hollow=hollow)
    ax.set_yticks(at, [_form_name(name) for name in order])
    ax.set_xlabel(METRICS["value_accuracy"])
    style.legend_below(fig, ax)
    return fig


def _form_name(changed: str) -> str:
    """`hidden state 4, one depth, noise 0.0` of `layer=4, pooling=mean, noise=0.0`; `as it is` stays."""
    pieces = changed.split(", ")
    return ", ".join(part_name(one) if one.partition("=")[0] in WORDS else one.replace("=", " ") for one in pieces)
