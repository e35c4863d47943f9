"""A picture of residual mixing in two dimensions, for the first notebook."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style

EXPERTS = {"R1": style.BLUE, "R2": style.ORANGE, "R3": style.GREEN}
ARROWS = {"R1": "-", "R2": "--", "R3": ":"}


def toy_mixing() -> pd.DataFrame:
    """A made-up case: h in two dimensions, three experts' residuals, and the weights of a right and a wrong route.

    One row a route and expert: route, expert, alpha, x and y of h, dx and dy of the expert's residual.
    """
    residuals = {"R1": (-1.3, 0.55), "R2": (1.45, 0.9), "R3": (0.45, -1.35)}
    routes = {
        "right route": (0.10, 0.80, 0.10),
        "uncertain route": (0.30, 0.45, 0.25),
        "wrong route": (0.10, 0.15, 0.75),
    }
    return pd.DataFrame(
        [
            {"route": route, "expert": expert, "alpha": alpha, "x": -0.15, "y": -0.1, "dx": dx, "dy": dy}
            for route, alphas in routes.items()
            for (expert, (dx, dy)), alpha in zip(residuals.items(), alphas, strict=True)
        ]
    )


@style.styled
def draw_toy_mixing(frame: pd.DataFrame, profile: str = "", backbone: str = "", note: str = "") -> Figure:
    """h, every expert's weighted residual, and where their sum lands among the classes. Reads `toy_mixing()`."""
    routes = list(dict.fromkeys(frame["route"]))
    about = "a made-up example  ·  grey: each expert's full residual  ·  shaded: classes of the one shared classifier"
    title = "RED moves one vector by the weighted sum of what every expert would do"
    fig, axes = style.canvas((3.3 * len(routes), 4.6), title, about, note, 1, len(routes), sharex=True, sharey=True)
    for ax, route in zip(axes[0], routes, strict=True):
        _panel(ax, frame[frame["route"] == route])
        ax.set_title(route)
    axes[0, 0].set_ylabel("second hidden dimension (arbitrary units)")
    style.legend_below(fig, axes[0, 0], 3)
    return fig


def _panel(ax, rows: pd.DataFrame) -> None:
    _classes(ax, rows)
    x, y = rows[["x", "y"]].iloc[0]
    for row in rows.itertuples():
        ax.annotate(
            "", (x + row.dx, y + row.dy), (x, y), arrowprops={"arrowstyle": "->", "color": "#b0b0b0", "linewidth": 0.9}
        )
        ax.text(x + 1.13 * row.dx, y + 1.13 * row.dy, row.expert, ha="center", va="center", color=EXPERTS[row.expert])
    at = np.array([x, y])
    for row in rows.itertuples():
        step = at + row.alpha * np.array([row.dx, row.dy])
        label = f"weighted residual of {row.expert}"
        ax.plot(*zip(at, step, strict=True), color=EXPERTS[row.expert], linestyle=ARROWS[row.expert], lw=3, label=label)
        at = step
    ax.plot(x, y, "o", color=style.INK, label="h, the frozen vector")
    ax.plot(*at, "*", color=style.INK, markersize=13, label="h plus the weighted sum")
    shares = ", ".join(f"{row.expert} {row.alpha:.2f}" for row in rows.itertuples())
    ax.set_xlabel(f"first hidden dimension (arbitrary units)\nweights {shares}")


def _classes(ax, rows: pd.DataFrame) -> None:
    """Regions of a linear classifier whose class vectors point where the experts push."""
    side = np.linspace(-2, 2, 201)
    grid = np.stack(np.meshgrid(side, side), -1)
    winner = (grid @ rows[["dx", "dy"]].to_numpy().T).argmax(-1)
    colors = [EXPERTS[expert] for expert in rows["expert"]]
    ax.contourf(side, side, winner, levels=np.arange(len(colors) + 1) - 0.5, colors=colors, alpha=0.13)
    ax.set_xlim(-2, 2)
    ax.set_ylim(-2, 2)
    ax.set_aspect("equal")
    ax.grid(visible=False)
