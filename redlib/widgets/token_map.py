"""Token map: where the tokens of a picture go under a budget, what is answered, and what it costs."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ipywidgets
import numpy as np
import pandas as pd
from matplotlib.image import imsave

from redlib.widgets import svg
from redlib.widgets.panel import Panel, Shown, control, row

HEIGHTS = {"said": 28, "map": 330}
SHADES = ("#d9d9d9", "#56B4E9", "#0072B2", "#D55E00")  # of widths, from the smallest
SIDE, TOP, GAP = 256, 24, 28


@dataclass(frozen=True, eq=False)
class TokenMap:
    """One picture under one budget: `width` (side, side) of every token as a share of D, the answer and its
    probability, FLOPs as a share of the plain model's; `image` (canvas, canvas) uint8 and its label."""

    image: np.ndarray
    label: int
    budget: float
    width: np.ndarray
    predicted: int
    probability: float
    flops: float


def read_maps(frame: pd.DataFrame, images: np.ndarray) -> dict[tuple[int, float], TokenMap]:
    """Every picture and budget of the table nested_maps, by (picture, budget).

    images (n, canvas, canvas): the pictures that the rows are about, in their order. ValueError where there are fewer.
    """
    count = frame["group"].nunique()
    if len(images) < count:
        raise ValueError(f"the table is about {count} pictures, and {len(images)} are given")
    found = {}
    for group, rows in frame.groupby("group"):
        picture = int(str(group).partition("=")[2])
        label = int(rows.loc[rows["metric"] == "label", "value"].iloc[0])
        for budget, now in rows[rows["x"] > 0].groupby("x"):
            width = now[now["metric"] == "width"].sort_values("token")["value"].to_numpy()
            side = int(np.sqrt(len(width)))
            one = now[now["token"] < 0].set_index("metric")["value"]
            told = (int(one["predicted"]), float(one["probability"]), float(one["flops_ratio"]))
            about = (images[picture], label, float(budget), width.reshape(side, side))
            found[picture, float(budget)] = TokenMap(*about, *told)
    return found


def draw_tokens(m: TokenMap, shares: Sequence[float]) -> str:
    """The picture, the same under the colours of its tokens' widths, and a bar a width: how many tokens have it."""
    side = len(m.width)
    cell = SIDE / side
    png = io.BytesIO()
    imsave(png, m.image, cmap="gray", vmin=0, vmax=255, format="png")
    source = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
    parts = [svg.text(0, 14, "the picture", more='font-weight="bold"')]
    parts.append(svg.text(SIDE + GAP, 14, f"its tokens at budget {m.budget:g}", more='font-weight="bold"'))
    for left in (0, SIDE + GAP):
        look = 'style="image-rendering:pixelated"'
        parts.append(f'<image href="{source}" x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" {look}/>')
    for (y, x), width in np.ndenumerate(m.width):
        at, color = (SIDE + GAP + x * cell, TOP + y * cell), shade(width, shares)
        parts.append(svg.box(*at, cell, cell, color, 'fill-opacity="0.6" stroke="#fff" stroke-width="0.5"'))
        if np.isclose(width, shares[-1]):
            parts.append(f'<circle cx="{at[0] + cell / 2:.1f}" cy="{at[1] + cell / 2:.1f}" r="3" fill="#fff"/>')
    parts += _bars(m, shares)
    words = ", ".join(f"{count} at {name}" for name, count in counts(m, shares).items())
    return svg.picture(2 * SIDE + GAP + 190, TOP + SIDE + 10, f"tokens by width: {words}", parts)


def _bars(m: TokenMap, shares: Sequence[float]) -> list[str]:
    left, parts = 2 * (SIDE + GAP), []
    for k, (name, count) in enumerate(counts(m, shares).items()):
        y = TOP + 26 * k
        color = shade(shares[-1 - k], shares)
        parts.append(svg.text(left + 28, y + 13, name, "end"))
        parts.append(svg.box(left + 34, y, 90 * count / m.width.size, 18, color, 'stroke="currentColor"'))
        parts.append(svg.text(left + 38 + 90 * count / m.width.size, y + 13, f"{count}"))
    return parts


def counts(m: TokenMap, shares: Sequence[float]) -> Mapping[str, int]:
    """Tokens of every width, the largest first, by name (`D`, `D/2`, ...)."""
    names = {share: "D" if share == 1 else f"D/{round(1 / share)}" for share in reversed(shares)}
    return {name: int(np.isclose(m.width, share, atol=1e-3).sum()) for share, name in names.items()}


def shade(width: float, shares: Sequence[float]) -> str:
    """The colour of a width; the largest has the strongest."""
    place = int(np.argmin(np.abs(np.array(shares) - width)))
    return SHADES[max(0, len(SHADES) - len(shares) + place)]


def say(m: TokenMap) -> str:
    """Answer and cost in a line."""
    right = "right" if m.predicted == m.label else f"wrong: it is a {m.label}"
    about = f'data-predicted="{m.predicted}" data-budget="{m.budget:g}"'
    return (
        f'<div class="red-token-map" {about}>answer <b>{m.predicted}</b> ({right}), probability {m.probability:.2f}; '
        f"{m.flops:.0%} of the plain model's FLOPs</div>"
    )


class NestedMap(Panel):
    """A view of the table nested_maps: choose a picture, drag the budget.

    frame: nested_maps; images (n, canvas, canvas): its pictures. Nothing is computed but the drawing.
    """

    def __init__(self, frame: pd.DataFrame, images: np.ndarray, budget: float = 0.3):
        super().__init__(HEIGHTS)
        self.maps = read_maps(frame, images)
        widths = frame.loc[frame["metric"] == "width", "value"]
        self.shares = sorted({float(width) for width in widths})
        budgets = sorted({b for _, b in self.maps})
        names = {f"{p + 1}: a {m.label}": p for (p, b), m in sorted(self.maps.items()) if b == budgets[0]}
        self.picture = control(ipywidgets.Dropdown, "picture", 200, 60, options=list(names.items()))
        options = [(f"{b:g}", b) for b in budgets]
        start = min(budgets, key=lambda b: abs(b - budget))
        self.budget = control(ipywidgets.SelectionSlider, "budget", 420, 60, options=options, value=start)
        self.children = (row(self.picture, self.budget), self.status, *self.pieces.values())
        self.watch(self.picture, self.budget)
        self.refresh()

    def asked(self) -> tuple[int, float]:
        return self.picture.value, self.budget.value

    def answer(self, asked: tuple[int, float]) -> Shown:
        m = self.maps[asked]
        return Shown({"said": say(m), "map": draw_tokens(m, self.shares)})
