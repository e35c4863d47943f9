"""Sparse mixtures against dense transformers: quality against speed and memory, where the time goes, growth."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from redlib.figures import style
from redlib.figures.style import Look
from redlib.results import select

MODELS = {
    "dense_a": Look("dense A (equal active)", style.BLACK, "o", "-"),
    "dense_b": Look("dense B (equal total)", style.QUIET, "s", "-"),
    "dense_b_int8": Look("dense B, 8-bit weights", style.QUIET, "P", ":"),
    "dense_b_int4": Look("dense B, 4-bit weights", style.QUIET, "*", ":"),
    "moe_top1": Look("experts, top 1", style.BLUE, "^", "--"),
    "moe_top2": Look("experts, top 2", style.SKY, "v", "--"),
    "alchemist_soft_3": Look("3 specialists, all run", style.RED, "D", "-."),
    "alchemist_sparse_3": Look("3 specialists, one runs", style.ORANGE, "d", "-."),
    "alchemist_soft_4": Look("4 specialists, all run", style.PURPLE, "X", ":"),
    "alchemist_sparse_4": Look("4 specialists, one runs", style.GREEN, "p", ":"),
}
TIMES = {
    "attention": Look("attention", style.SKY),
    "router": Look("router", style.ORANGE, hatch="//"),
    "dispatch": Look("dispatch", style.RED, hatch="xx"),
    "products": Look("expert or feed-forward products", style.GREEN, hatch=".."),
    "rest": Look("the rest (norms, head, Python)", "#dddddd"),
}
BACKENDS = {
    "backend=eager": Look("eager", style.BLACK, "o", "-"),
    "backend=batched_mm": Look("batched", style.BLUE, "s", "--"),
    "backend=grouped_mm": Look("grouped", style.RED, "^", ":"),
}
SPREAD = "from the smallest to the largest repeat"


def _look(name: str) -> Look:
    return MODELS.get(name) or style.look(name)


@style.styled
def draw_quality_speed(
    quality: pd.DataFrame, serving: pd.DataFrame, batch: int, profile: str, note: str = ""
) -> Figure:
    """Held-out loss against new tokens a second and against memory, a point a trained model. Reads sparse_quality
    (metric loss, group all) and sparse_serving (variant serving) at one batch of the profile's prompt."""
    loss = select(quality, metric="loss", group="all", seed="all").set_index("method")
    rows = select(serving, variant="serving", batch=batch)
    prompt = select(serving, variant="serving")["prompt"].mode().iloc[0]
    rows = select(rows, prompt=prompt)
    about = f"structure split  ·  test part  ·  profile {profile}  ·  {batch} requests, prompts of {prompt} tokens"
    about += f"  ·  loss: 95 % intervals; speed: {SPREAD}"
    fig, axes = style.canvas((11.0, 5.0), "Quality against speed and memory", about, note, 1, 2, sharey=True)
    speed = select(rows, metric="system_tokens_per_second").set_index("method")
    memory = select(rows, metric="bytes", group="all").set_index("method")
    for name in [name for name in MODELS if name in loss.index]:
        own, shade = loss.loc[name], _look(name)
        for ax, x in ((axes[0, 0], speed.loc[name]), (axes[0, 1], memory.loc[name])):
            scale = 1e-6 if ax is axes[0, 1] else 1.0
            style.points(ax, [scale * x["value"]], [own["value"]], [own["low"]], [own["high"]], shade)
            if pd.notna(x["low"]):
                ax.hlines(own["value"], scale * x["low"], scale * x["high"], color=shade.color, linewidth=1.2)
    axes[0, 0].set_xlabel("new tokens per second, all requests (log scale)")
    axes[0, 1].set_xlabel("memory: weights, cache, activations (MB, log scale)")
    axes[0, 0].set_ylabel("held-out loss per token (lower is better)")
    for ax in axes[0]:
        ax.set_xscale("log")
    style.legend_below(fig, axes[0, 0], 4)
    return fig


@style.styled
def draw_time_parts(time: pd.DataFrame, profile: str, note: str = "") -> Figure:
    """Shares of the time by what it is spent on, a bar a model and a panel a batch. Reads sparse_time, metric share."""
    rows = select(time, metric="share")
    batches = sorted(set(rows["batch"]))
    about = f"profile {profile}  ·  prompts of {rows['prompt'].iloc[0]} tokens  ·  medians, seconds of the process"
    fig, axes = style.canvas((11.0, 4.6), "Where the time of an answer goes", about, note, 1, len(batches), sharey=True)
    names = [name for name in MODELS if name in set(rows["method"])]
    for ax, batch in zip(axes[0], batches, strict=True):
        here = select(rows, batch=batch).pivot(index="method", columns="group", values="value").loc[names]
        start = pd.Series(0.0, names)
        for part, shade in TIMES.items():
            bar = {"facecolor": shade.color, "hatch": shade.hatch, "edgecolor": style.INK, "label": shade.label}
            ax.barh([MODELS[n].label for n in names], 100 * here[part], left=start, height=0.7, linewidth=0.5, **bar)
            start += 100 * here[part]
        ax.set_title(f"{batch} request{'s' if batch > 1 else ''} at a time")
        ax.set_xlabel("share of the time (%)")
        ax.set_xlim(0, 100)
    axes[0, 0].invert_yaxis()
    style.legend_below(fig, axes[0, 0], 5)
    return fig


@style.styled
def draw_growth(growth: pd.DataFrame, profile: str, note: str = "") -> Figure:
    """Speed as the models become wider, as experts are added, and by back end and batch. Reads sparse_growth."""
    about = f"profile {profile}  ·  bars: {SPREAD}  ·  left and middle: untrained models, right: trained experts, top 1"
    fig, axes = style.canvas((11.0, 4.6), "How speed grows", about, note, 1, 3)
    wide, many, batched = axes[0]
    rows = select(growth, curve="width", metric="user_tokens_per_second")
    for name in dict.fromkeys(rows["method"]):
        _line(wide, select(rows, method=name), _look(name))
    wide.set_xlabel("width d (log scale)")
    wide.set_ylabel("tokens per second, one request (log scale)")
    rows = select(growth, curve="experts", metric="system_tokens_per_second")
    for batch, color, marker in zip(sorted(set(rows["batch"])), (style.BLUE, style.ORANGE), "os", strict=False):
        _line(many, select(rows, batch=batch), Look(f"batch {batch}", color, marker))
    many.set_xlabel("experts of a layer, one active (log scale)")
    many.set_ylabel("tokens per second, all requests (log scale)")
    rows = select(growth, curve="batch", method="moe_top1", metric="system_tokens_per_second")
    for name, shade in BACKENDS.items():
        _line(batched, select(rows, variant=name), shade)
    batched.set_xlabel("requests at a time (log scale)")
    for ax in axes[0]:
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.legend()
    return fig


def _line(ax: Axes, rows: pd.DataFrame, shade: Look) -> None:
    rows = rows.sort_values("x")
    style.points(ax, rows["x"], rows["value"], rows["low"], rows["high"], shade, line=True)


@style.styled
def draw_protocols(serving: pd.DataFrame, profile: str, note: str = "") -> Figure:
    """The same models by the serving document's way of measuring and by a benchmark's. Reads sparse_serving."""
    flawed = select(serving, variant="source", metric="tokens_per_second").set_index("method")["value"]
    rows = select(serving, variant="serving", batch=1, metric="user_tokens_per_second")
    real = rows[rows["prompt"] == select(serving, variant="serving")["prompt"].mode().iloc[0]].set_index("method")
    names = [name for name in MODELS if name in flawed.index]
    about = f"profile {profile}  ·  one request at a time  ·  the serving document's: prompts of 16 tokens, all run"
    fig, axes = style.canvas((9.0, 4.6), "Tokens per second, by two protocols", about, note)
    ax, down = axes[0, 0], range(len(names))
    said = "the serving document's: prompt tokens read"
    ax.scatter([flawed[n] for n in names], down, marker="X", color=style.RED, label=said, zorder=3)
    own = real.loc[names]
    benchmark = Look("a serving benchmark's: new tokens written", style.BLUE)
    style.points(ax, own["value"], down, own["low"], own["high"], benchmark, True)
    ax.set_yticks(list(down), [MODELS[name].label for name in names])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlabel("tokens per second (log scale)")
    style.legend_below(fig, ax)
    return fig
