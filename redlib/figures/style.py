"""One style for every figure: a colour, marker, line and hatch a method, a title block, and reproducible files.

Figures are `Chart`s, never pyplot's: nothing is shared between threads or notebooks. The style is applied under a lock
while a figure is drawn or written, and matplotlib's own settings stay as they were.
"""

import functools
import io
import textwrap
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from redlib import paths

INK, QUIET, PAPER = "#222222", "#8a8a8a", "#ffffff"
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"  # the Okabe-Ito palette: safe for colour-blind
YELLOW, BLUE, RED, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
RC = {
    "font.family": ["DejaVu Sans", "sans-serif"],  # the second one for readers of an SVG who lack the first
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.edgecolor": QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "redlib",
    "svg.fonttype": "none",  # text stays text: it can be searched and edited, and takes a fraction of the room
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
}
DPI, SHOWN = 150, 100  # dots an inch: of what is saved, and of what notebooks show
COLOURS = 256
_LOCK = threading.RLock()  # matplotlib's settings are global while they are changed


@dataclass(frozen=True)
class Look:
    """How a method, split or part is drawn; distinguishable by marker, line and hatch alone."""

    label: str
    color: str
    marker: str = "o"
    line: str | tuple = "-"
    hatch: str = ""


METHODS = {
    "red": Look("RED", RED, "D", "-", ""),
    "softmax_moe": Look("softmax mixture", BLUE, "s", "--", "//"),
    "global_head": Look("global head", BLACK, "o", ":", "xx"),
    "oracle_experts": Look("oracle experts", GREEN, "^", "-.", ".."),
    "uniform_average": Look("uniform average", PURPLE, "v", (0, (1, 2)), "\\\\"),
    "red_uniform": Look("RED, equal weights", ORANGE, "d", "--", "--"),
    "top1": Look("RED, top-1 weights", ORANGE, "P", "-.", "++"),
    "router_only": Look("router only", SKY, "X", ":", "oo"),
    "moe_same_experts": Look("mixture of RED's experts", RED, "x", ":", "||"),
    "red_logit_scale": Look("RED, logits scaled 0.1", PURPLE, "p", "--", "**"),
    "red_plus": Look("RED plus", PURPLE, "*", "-", "///"),
    "red_plus_base": Look("RED plus, base alone", BLACK, "*", ":", "xx/"),
    "red_plus_top1": Look("RED plus, top-1 weights", ORANGE, "*", "-.", "++/"),
    "red_plus_uniform": Look("RED plus, equal weights", ORANGE, "*", "--", "--/"),
    "red_plus_value_router": Look("RED plus, routed by value", SKY, "*", (0, (1, 2)), "**/"),
    "global_head_full_data": Look("global head, all rows", QUIET, "h", "--", "xxx"),
    "mlp_full_data": Look("plain network, all rows", SKY, "<", "-", "\\"),
    "fourier_full_data": Look("Fourier network, all rows", GREEN, "H", "-", "OO"),
    "oracle_operator": Look("RED, true operation", GREEN, "^", "--", "oo."),
    "red_by_range": Look("RED, an expert a range", SKY, ">", "--", "//."),
    "planner_searched": Look("planner, searched", PURPLE, "8", "-", "//o"),
    "planner_grounded": Look("planner, grounded", SKY, "p", "-.", "---"),
    "planner": Look("planner", GREEN, ">", "-", "ooo"),
    "planner_unrestricted": Look("planner, unrestricted", BLUE, "<", ":", "\\\\\\"),
    "symbolic": Look("symbolic program", QUIET, "|", ":", "..."),
}
SPLITS = {
    "text": Look("text split (pairs may repeat)", BLUE, "o", "-", ""),
    "structure": Look("structure split (unseen pairs)", RED, "s", "--", "//"),
    "phrasing": Look("phrasing split (unseen wording)", GREEN, "^", ":", ".."),
}
PARTS = {
    "train": Look("train", SKY, "o", "-", ""),
    "validation": Look("validation", ORANGE, "s", "--", "//"),
    "test": Look("test", BLACK, "^", ":", ""),
}
METRICS = {
    "value_accuracy": "value accuracy (share of rows)",
    "range_accuracy": "range accuracy (share of rows)",
    "router_accuracy": "router accuracy (share of rows)",
    "value_error": "wrong values (share of held-out rows)",
    "range_error": "wrong ranges (share of held-out rows)",
    "macro_f1": "macro-F1 over the labels present",
    "macro_f1_99": "macro-F1 over all 99 labels",
    "range_macro_f1": "macro-F1 over the ranges",
}


def look(name: str) -> Look:
    """How a method is drawn; a name without a look gets one that depends on the name only."""
    if name in METHODS:
        return METHODS[name]
    turn = zlib.crc32(name.encode())
    colors, markers, lines = (BLACK, ORANGE, SKY, GREEN, BLUE, RED, PURPLE), "os^vDPX<>", ("-", "--", "-.", ":")
    return Look(
        name.replace("_", " "), colors[turn % 7], markers[turn // 7 % 9], lines[turn // 63 % 4], "/" * (1 + turn % 3)
    )


class Chart(Figure):
    """A figure that notebooks show as a PNG, without pyplot and from any thread.

    Pictures have the COLOURS that tell them best, so that a study's worth of them stays small; what is shown is
    smaller, too. The picture is kept until something in the figure changes: what is saved and then shown is drawn once.
    """

    _picture: Image.Image | None = None

    @property
    def stale(self) -> bool:
        """Whether something changed since the figure was drawn."""
        return Figure.stale.fget(self)

    @stale.setter
    def stale(self, changed: bool) -> None:
        Figure.stale.fset(self, changed)
        if changed:
            self._picture = None

    @property
    def picture(self) -> Image.Image:
        """The picture at DPI, in all its colours."""
        if self._picture is None:
            drawn = io.BytesIO()
            _print(self, drawn, "png", pil_kwargs={"compress_level": 0})
            self._picture = Image.open(drawn).convert("RGB")
        return self._picture

    @property
    def png(self) -> bytes:
        """The picture at DPI, as saved."""
        return _few_colours(self.picture, DPI)

    def _repr_png_(self) -> bytes:
        size = [side * SHOWN // DPI for side in self.picture.size]
        return _few_colours(self.picture.resize(size, Image.Resampling.HAMMING), SHOWN)


def _few_colours(image: Image.Image, dpi: int) -> bytes:
    drawn = io.BytesIO()
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(drawn, "png", dpi=(dpi, dpi))
    return drawn.getvalue()


def styled(draw: Callable) -> Callable:
    """Run a draw function in the one style, then fix the layout: it would move a little with every rendering."""

    @functools.wraps(draw)
    def inside(*args, **kwargs):
        with _LOCK, matplotlib.rc_context(RC):
            fig = draw(*args, **kwargs)
            for _ in range(2 if any(ax.get_aspect() != "auto" for ax in fig.axes) else 1):  # a shape is settled later
                fig.get_layout_engine().execute(fig)
            fig.set_layout_engine(None)  # "none" would leave a placeholder, for which every rendering draws twice
            return fig

    return inside


def canvas(
    size: tuple[float, float], title: str, subtitle: str, note: str = "", rows: int = 1, columns: int = 1, **grid
) -> tuple[Chart, np.ndarray]:
    """A Chart (size in inches) with a title block, `note` in a visible box under it, and axes (rows, columns)."""
    width, height = size
    fig = Chart(figsize=size, layout="constrained")
    FigureCanvasAgg(fig)
    lines = textwrap.wrap(subtitle, int(width * 14.5))
    top = 0.42 + 0.19 * len(lines) + (0.3 if note else 0)
    fig.text(0.01, 1 - 0.08 / height, title, va="top", size=13, weight="bold")
    fig.text(0.01, 1 - 0.36 / height, "\n".join(lines), va="top", size=9, color="#555555", linespacing=1.3)
    if note:
        box = {"facecolor": YELLOW, "edgecolor": INK, "pad": 3}
        fig.text(0.015, 1 - (top - 0.22) / height, note, va="top", size=9, weight="bold", bbox=box)
    fig.get_layout_engine().set(rect=(0, 0, 1, 1 - top / height))
    return fig, fig.subplots(rows, columns, squeeze=False, **grid)


def subtitle(frame: pd.DataFrame, profile: str, backbone: str = "", extra: str = "") -> str:
    """What the rows are: split, recipe or variant, part, profile, backbone."""

    def named(column: str, word: str) -> str:
        order = list(SPLITS) if column == "split" else []
        values = sorted(set(frame[column].astype(str))) if column in frame else []
        values.sort(key=lambda value: order.index(value) if value in order else len(order))
        return f"{word} {', '.join(values)}" if values else ""

    parts = [named("split", "split"), named("variant", "recipe"), named("part", "part")]
    parts += [f"profile {profile}", backbone, extra]
    return "  ·  ".join(part for part in parts if part)


def points(ax: Axes, x, y, low, high, style: Look, horizontal: bool = False, hollow: bool = False, line=False) -> None:
    """Points with their intervals; an interval that is NaN is not drawn."""
    x, y, low, high = (np.asarray(v, float) for v in (x, y, low, high))
    along = y if not horizontal else x
    reach = np.nan_to_num(np.clip(np.stack([along - low, high - along]), 0, None))
    ax.errorbar(
        x,
        y,
        **{"xerr" if horizontal else "yerr": reach},
        fmt=style.marker,
        color=style.color,
        markerfacecolor=PAPER if hollow else style.color,
        markeredgecolor=style.color,
        linestyle=style.line if line else "none",
        elinewidth=1.2,
        capsize=2,
        label=style.label,
    )


def dots_by_split(ax: Axes, rows, down: str, order) -> list[str]:
    """Accuracies in one panel: a line an entry of `order` (column `down`), upwards, and on it a dot a split, which are
    returned: both, or the one that the rows have."""
    splits = [split for split in ("text", "structure") if split in set(rows["split"])]
    for split, shift in zip(splits, np.linspace(0.15, -0.15, 2) if len(splits) > 1 else [0.0], strict=True):
        mine = rows[rows["split"] == split].set_index(down).reindex(order)
        at = np.arange(len(order)) + shift
        points(ax, mine["value"], at, mine["low"], mine["high"], SPLITS[split], True, split == "structure")
    ax.set_xlim(-0.03, 1.03)
    ax.set_ylim(-0.6, len(order) - 0.4)
    return splits


def legend_below(fig: Figure, ax: Axes, columns: int = 4) -> None:
    """The legend of an axes below the whole figure."""
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))


def save(fig: Chart, folder: Path, name: str) -> tuple[Path, Path]:
    """Write <folder>/<name>.png and .svg atomically; the same figure gives the same bytes. Returns both paths."""
    png, svg = (Path(folder) / f"{name}.{kind}" for kind in ("png", "svg"))
    with paths.atomic_file(svg) as temporary:
        _print(fig, temporary, "svg", metadata={"Date": None, "Creator": None})
    paths.write_bytes(png, fig.png)  # last: to matplotlib, drawing the other one changes the figure
    return png, svg


def _print(fig: Figure, target, kind: str, **more) -> None:
    with _LOCK, matplotlib.rc_context(RC):
        fig.savefig(target, format=kind, dpi=DPI, **more)
