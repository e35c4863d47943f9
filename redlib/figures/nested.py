"""Nested experts: capacities by budget, accuracy by FLOPs, where tokens go, agreement with the mask, speed."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from redlib.figures import style
from redlib.figures.style import Look
from redlib.results import select

METHODS = {
    "plain": Look("plain, all tokens at full width", style.BLACK, "o", "-"),
    "narrow": Look("plain, fewer features", style.BLACK, "o", ":"),
    "nested": Look("nested experts", style.RED, "D", "-"),
    "gate": Look("nested, router trained by the gate", style.GREEN, "p", "--"),
    "nested_by_lot": Look("the same model, places by lot", style.RED, "d", ":"),
    "random": Look("trained with places by lot", style.ORANGE, "P", "--"),
    "width": Look("all tokens at one width (warm start)", style.QUIET, "x", ":"),
    "drop": Look("top-k tokens, others dropped", style.BLUE, "s", "--"),
    "depths": Look("mixture of depths", style.GREEN, "^", "-."),
    "merge": Look("plain, tokens merged", style.PURPLE, "v", "--"),
    "grouped": Look("grouped (the nested document)", style.SKY, "X", "-"),
    "grouped_weighted": Look("grouped, outputs weighted", style.SKY, "<", ":"),
    "router_start": Look("router before the arms are trained", style.QUIET, "h", "--"),
}
BASELINES = {
    "brightness": Look("brightness of the patch", style.BLACK, "", ":"),
    "contrast": Look("contrast of the patch", style.BLACK, "", (0, (1, 4))),
    "supervised_pixels": Look("told the mask, from pixels", style.GREEN, "", "--"),
    "supervised_tokens": Look("told the mask, from tokens", style.GREEN, "", "-"),
}
SHADES = ("#d9d9d9", style.SKY, style.BLUE, style.RED)  # of widths, from the smallest
HATCHES = ("", "..", "//", "xx")
COST = "FLOPs of a picture, share of the plain model's"


def _shades(groups: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and hatch of every width (groups width=<share>), from the smallest."""
    order = sorted(set(groups), key=lambda name: float(name.partition("=")[2]))
    turn = range(len(SHADES) - len(order), len(SHADES)) if len(order) <= len(SHADES) else [0] * len(order)
    return {name: (SHADES[k], HATCHES[k]) for name, k in zip(order, turn, strict=True)}


def share_name(group: str) -> str:
    """`width=0.125` as `D/8`."""
    part = round(1 / float(group.partition("=")[2]))
    return "D" if part == 1 else f"D/{part}"


@style.styled
def draw_capacities(frame: pd.DataFrame) -> Figure:
    """Share of the tokens for every width by budget. Reads nested_curves: curve = capacity."""
    rows = select(frame, curve="capacity")
    shades = _shades(rows["group"])
    about = "closed form: as even as the budget allows, with a bonus for larger experts"
    fig, axes = style.canvas((7.5, 4.4), "What a budget buys", about)
    wide = rows.pivot(index="x", columns="group", values="value")[list(shades)]
    ax, foot = axes[0, 0], np.zeros(len(wide))
    for name, (color, hatch) in shades.items():
        top = foot + wide[name].to_numpy()
        label, edge = share_name(name), style.INK
        ax.fill_between(wide.index, foot, top, facecolor=color, hatch=hatch, edgecolor=edge, linewidth=0.4, label=label)
        foot = top
    ax.set_xlim(wide.index.min(), wide.index.max())
    ax.set_ylim(0, 1)
    ax.set_xlabel("budget: mean width of a token, share of D")
    ax.set_ylabel("share of the tokens")
    style.legend_below(fig, ax)
    return fig


@style.styled
def draw_nested_block(shares: Sequence[float]) -> Figure:
    """What tokens of each width (shares of D, from the smallest) read and write in a block; nothing is measured."""
    about = "filled: what is read, computed or written; empty: left out, or unchanged"
    titles = ("the token", "input projection", "attention, all tokens", "output projection", "added to the token")
    size = (10.0, 1.6 + 1.15 * len(shares))
    fig, axes = style.canvas(size, "One block, by the width of a token", about, "", len(shares), len(titles))
    shades = _shades([f"width={share:g}" for share in shares])
    for row, (share, (color, hatch)) in zip(axes, zip(shares, shades.values(), strict=True), strict=True):
        # (across, down) of what is filled, and whether it is a vector of features
        pieces = ((share, 1, True), (1, share, False), (1, 1, True), (share, 1, False), (share, 1, True))
        for ax, (across, down, vector), title in zip(row, pieces, titles, strict=True):
            height = 0.25 if vector else 1.0
            look = {"edgecolor": style.INK, "linewidth": 0.8}
            ax.add_patch(Rectangle((0, 1 - down * height), across, down * height, facecolor=color, hatch=hatch, **look))
            ax.add_patch(Rectangle((0, 1 - height), 1, height, fill=False, **look))
            ax.set_xlim(-0.05, 1.05)
            ax.set_ylim(-0.05, 1.05)
            ax.set_aspect("equal")
            _bare(ax)
            ax.set_axis_off()
            ax.set_title(title if share == shares[0] else "", size=9)
        label = share_name(f"width={share:g}")
        row[0].text(-0.15, 0.87, label, ha="right", va="center", transform=row[0].transData)
    return fig


@style.styled
def draw_clutter(
    images: np.ndarray, mask: np.ndarray, labels: Sequence[int], profile: str, note: str = "", count: int = 6
) -> Figure:
    """Pictures (n, canvas, canvas) and the tokens (n, N) that matter in them, outlined."""
    count = min(count, len(images))
    about = f"held-out pictures  ·  framed: tokens that hold ink of the digit  ·  profile {profile}"
    fig, axes = style.canvas((max(7.0, 1.7 * count), 3.2), "Digits in clutter", about, note, 1, count)
    for ax, image, matters, label in zip(axes[0], images, mask, labels, strict=False):
        side = int(np.sqrt(len(matters)))
        ax.imshow(image, cmap="gray", vmin=0, vmax=255, extent=(0, side, side, 0))
        for token in np.flatnonzero(matters):
            ax.add_patch(Rectangle((token % side, token // side), 1, 1, fill=False, edgecolor=style.ORANGE))
        ax.set_title(f"a {label}")
        _bare(ax)
    return fig


def _bare(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.grid(False)


@style.styled
def draw_accuracy_flops(frame: pd.DataFrame, profile: str, note: str = "", methods: Sequence[str] = ()) -> Figure:
    """Accuracy on held-out pictures by FLOPs of a picture. Reads nested: metrics accuracy and flops_ratio."""
    rows = _costed(frame, select(frame, metric="flops_ratio"))
    about = style.subtitle(rows, profile, extra="all placements of held-out digits; bars: 95 %")
    fig, axes = style.canvas((9.5, 5.2), "Accuracy by FLOPs of a picture", about, note)
    _accuracy(axes[0, 0], rows, methods)
    axes[0, 0].set_xlabel(COST)
    style.legend_below(fig, axes[0, 0], 3)
    return fig


@style.styled
def draw_accuracy_clock(
    frame: pd.DataFrame, clock: pd.DataFrame, profile: str, note: str = "", methods: Sequence[str] = ()
) -> Figure:
    """Accuracy on held-out pictures by the time that one takes. Reads nested and nested_clock: metric clock_ratio."""
    rows = _costed(frame, select(clock, metric="clock_ratio"))
    about = style.subtitle(rows, profile, extra="medians of rounds on this machine; bars: 95 %")
    fig, axes = style.canvas((9.5, 5.2), "Accuracy by seconds of a picture", about, note)
    _accuracy(axes[0, 0], rows, methods)
    axes[0, 0].set_xlabel("seconds of a picture, share of the plain model's")
    style.legend_below(fig, axes[0, 0], 3)
    return fig


def _costed(frame: pd.DataFrame, cost: pd.DataFrame) -> pd.DataFrame:
    """Accuracy over all seeds with what it costs, in the column value_cost."""
    right = select(frame, seed="all", metric="accuracy")
    return right.merge(cost[["method", "x", "value"]], on=["method", "x"], suffixes=("", "_cost"))


def _accuracy(ax: Axes, rows: pd.DataFrame, methods: Sequence[str]) -> None:
    narrow = rows["method"].str.startswith("plain_") | (rows["method"] == "plain")
    lines = {"narrow": rows[narrow]} if narrow.sum() > 1 else {}
    named = [name for name in METHODS if name != "narrow" and (not methods or name in methods)]
    lines |= {name: rows[rows["method"] == name] for name in named}
    for name, line in lines.items():
        if len(line):
            line = line.sort_values("value_cost")
            style.points(
                ax, line["value_cost"], line["value"], line["low"], line["high"], METHODS[name], line=len(line) > 1
            )
    whole = rows[rows["method"] == "plain"].iloc[0]
    ax.axhline(whole["value"], color=style.INK, linewidth=0.8, alpha=0.5)
    ax.set_ylabel("accuracy (share of pictures)")


@style.styled
def draw_token_maps(
    frame: pd.DataFrame, images: np.ndarray, budgets: Sequence[float], profile: str, note: str = "", count: int = 4
) -> Figure:
    """Pictures (n, canvas, canvas), tokens that matter, and every token's width by budget. Reads nested_maps."""
    about = style.subtitle(frame, profile, extra="one model for all budgets; the answer above each map")
    size = (1.75 * (2 + len(budgets)), 1.75 * count + 1.6)
    fig, axes = style.canvas(size, "Where the tokens go", about, note, count, 2 + len(budgets))
    side = int(np.sqrt((frame["token"] >= 0).groupby([frame["group"], frame["metric"], frame["x"]]).sum().max()))
    shades = _shades([f"width={share:g}" for share in set(frame[frame["metric"] == "width"]["value"])])
    values = [float(name.partition("=")[2]) for name in shades]
    for row in range(count):
        mine = select(frame, group=f"picture={row}")
        label = int(select(mine, metric="label")["value"].iloc[0])
        axes[row, 0].imshow(images[row], cmap="gray", vmin=0, vmax=255)
        axes[row, 0].set_title(f"a {label}", size=9)
        matters = select(mine, metric="matters").sort_values("token")["value"].to_numpy().reshape(side, side)
        axes[row, 1].imshow(matters, cmap="gray_r", vmin=0, vmax=1.5)
        axes[row, 1].set_title("what matters", size=9)
        for ax, budget in zip(axes[row, 2:], budgets, strict=True):
            now = mine[np.isclose(mine["x"], budget)]
            width = select(now, metric="width").sort_values("token")["value"].to_numpy()
            index = np.searchsorted(values, width - 1e-9).reshape(side, side)
            _blocks(ax, images[row], index, [color for color, _ in shades.values()])
            said, sure = (select(now, metric=m)["value"].iloc[0] for m in ("predicted", "probability"))
            ax.set_title(f"{budget:g}: {said:.0f} ({sure:.2f})", size=9)
        for ax in axes[row]:
            _bare(ax)
    _legend(fig, axes[0, 0], shades)
    return fig


def _blocks(ax: Axes, image: np.ndarray, index: np.ndarray, colors: Sequence[str]) -> None:
    """A picture under the colours of its tokens' widths; a dot in the largest, so that grey print shows them too."""
    extent = (0, index.shape[1], index.shape[0], 0)
    ax.imshow(image, cmap="gray", vmin=0, vmax=255, extent=extent)
    rgba = np.array([[int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)] for color in colors])
    ax.imshow(np.dstack([rgba[index], np.full(index.shape, 0.62)]), extent=extent)
    largest = np.argwhere(index == len(colors) - 1)
    ax.plot(largest[:, 1] + 0.5, largest[:, 0] + 0.5, linestyle="none", marker="o", color=style.PAPER, markersize=2.5)


def _legend(fig: Figure, ax: Axes, shades: dict[str, tuple[str, str]]) -> None:
    for name, (color, _) in shades.items():
        ax.plot([], [], marker="s", linestyle="none", color=color, markeredgecolor=style.INK, label=share_name(name))
    style.legend_below(fig, ax)


@style.styled
def draw_mask_agreement(frame: pd.DataFrame, profile: str, note: str = "") -> Figure:
    """AUC of routers and baselines against the mask, and mean widths, by budget. Reads nested_routing."""
    rows = select(frame, seed="all")
    about = style.subtitle(rows, profile, extra="AUC within a picture, mean over held-out digits; bars: 95 %")
    title = "Does the router look where the digit is?"
    fig, axes = style.canvas((11.0, 5.0), title, about, note, 1, 2)
    left, right = axes[0]
    for name in ("router_start", "nested", "gate"):
        mine = rows[(rows["method"] == name) & (rows["metric"] == "mask_auc_width")].sort_values("x")
        if len(mine):
            style.points(left, mine["x"], mine["value"], mine["low"], mine["high"], METHODS[name], line=True)
    for name, shade in BASELINES.items():
        value = select(rows, method=name, metric="mask_auc")["value"].iloc[0]
        left.axhline(value, color=shade.color, linestyle=shade.line, linewidth=1.2, label=shade.label)
    left.axhline(0.5, color=style.QUIET, linewidth=0.8)
    left.set_title("AUC of the width that a token gets")
    left.set_ylabel("AUC against the mask")
    mine = rows[rows["method"] == "nested"]
    for metric, shade in (
        ("mask_width", Look("tokens of the digit", style.RED, "D", "-")),
        ("other_width", Look("other tokens", style.BLUE, "s", "--")),
    ):
        line = select(mine, metric=metric).sort_values("x")
        style.points(right, line["x"], line["value"], line["low"], line["high"], shade, line=True)
    right.set_title("nested experts: mean width of a token")
    right.set_ylabel("share of D")
    right.set_ylim(0, 1.03)
    right.legend(loc="upper left")
    for ax in (left, right):
        ax.set_xlabel("budget")
    style.legend_below(fig, left, 4)
    return fig


@style.styled
def draw_nested_speed(frame: pd.DataFrame, profile: str, note: str = "") -> Figure:
    """Speed over the faster plain model by width of the model, speed of training steps, and memory of activations.
    Reads nested_speed."""
    dims = sorted({int(name.partition("=")[2]) for name in frame["variant"]})
    budgets = sorted(set(frame[frame["metric"] == "speedup"]["x"]))
    about = f"untrained models on this machine; lines: budgets; bars: 95 % over rounds  ·  profile {profile}"
    fig, axes = style.canvas((12.0, 4.8), "What nested experts save on a clock and in memory", about, note, 1, 3)
    panels = {
        "speedup": "inference, plain seconds by own",
        "train_speedup": "training step, plain seconds by own",
        "activation_ratio": "peak of a training step's activations, by plain",
    }
    colors = (style.RED, style.ORANGE, style.GREEN, style.BLUE, style.PURPLE)
    for ax, (metric, title) in zip(axes[0], panels.items(), strict=True):
        for method, line, marker in (("nested", "-", "D"), ("grouped", ":", "X")):
            for budget, color in zip(budgets, colors, strict=False):
                mine = frame[(frame["method"] == method) & (frame["metric"] == metric) & np.isclose(frame["x"], budget)]
                mine = mine.set_index("variant").loc[[f"D={dim}" for dim in dims]]
                look = Look(f"{method}, budget {budget:g}", color, marker, line)
                style.points(ax, range(len(dims)), mine["value"], mine["low"], mine["high"], look, line=True)
        ax.axhline(1, color=style.INK, linewidth=0.8)
        ax.set_title(title)
        ax.set_xticks(range(len(dims)), [str(dim) for dim in dims])
        ax.set_xlabel("features of the model, D")
    axes[0, 0].set_ylabel("ratio")
    style.legend_below(fig, axes[0, 0], 4)
    return fig
