"""A picture of the Fourier readout: a value as one point on each of several circles."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from redlib.figures import style
from redlib.figures.style import Look

DRAWN = (Look("", style.BLUE, "o", "--"), Look("", style.ORANGE, "s", "-."))


def value_circles(values: Sequence[int], periods: Sequence[int], target: int) -> pd.DataFrame:
    """Where every value lies on the circle of every period: one row a period and value, x and y of the point, and
    `score`, its product with the point of `target` (1 where the two points are the same)."""
    grid = pd.MultiIndex.from_product([periods, values], names=["period", "value"]).to_frame(index=False)
    angle = 2 * np.pi * grid["value"] / grid["period"]
    apart = 2 * np.pi * (grid["value"] - target) / grid["period"]
    return grid.assign(x=np.cos(angle), y=np.sin(angle), score=np.cos(apart), target=target)


@style.styled
def draw_value_circles(
    frame: pd.DataFrame, profile: str = "", backbone: str = "", note: str = "", periods: Sequence[int] = (10, 100)
) -> Figure:
    """Two of the circles, and the score of every value against the target's points. Reads `value_circles(...)`.

    periods: the two; where the frame lacks one, the middle one and the longest of those that it has."""
    target, there = frame["target"].iloc[0], sorted(frame["period"].unique())
    periods = periods if set(periods) <= set(there) else (there[(len(there) - 1) // 2], there[-1])
    count = frame["period"].nunique()
    about = f"every value as a point  ·  star: the value {target}  ·  no training, geometry only"
    title = "The Fourier readout says a value as points on circles"
    fig, axes = style.canvas((11.5, 4.4), title, about, note, 1, 3, width_ratios=(1, 1, 1.5))
    for ax, period, shade in zip(axes[0], periods, DRAWN, strict=False):
        points = frame[frame["period"] == period].set_index("value")
        ax.plot(points["x"], points["y"], shade.marker, color=shade.color, markersize=4, linestyle="none")
        ax.plot(*points.loc[target, ["x", "y"]], "*", color=style.INK, markersize=14)
        for residue in sorted({value % period for value in points.index})[:: max(1, period // 10)]:
            here = [value for value in points.index if value % period == residue]
            x, y = points.loc[here[0], ["x", "y"]]
            words = ", ".join(map(str, here[:2])) + (", …" if here[2:] else "")
            ax.text(1.38 * x, 1.2 * y, words, ha="center", va="center", size=7.5)
        ax.set_aspect("equal")
        ax.set_xlim(-1.8, 1.8)
        ax.set_ylim(-1.45, 1.45)
        ax.set_title(f"period {period}")
        ax.set_xlabel(f"cos(2π v / {period})")
        ax.set_ylabel(f"sin(2π v / {period})")
    _scores(axes[0, 2], frame, periods)
    axes[0, 2].set_title(f"score of every value v, when the points say {target}")
    axes[0, 2].set_xlabel("value v")
    axes[0, 2].set_ylabel("product with the value's points")
    axes[0, 2].axvline(target, color=style.INK, linewidth=0.8)
    handles, labels = axes[0, 2].get_legend_handles_labels()
    labels[-1] = f"mean of all {count} periods"
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    return fig


def _scores(ax, frame: pd.DataFrame, periods: Sequence[int]) -> None:
    for period, shade in zip(periods, DRAWN, strict=False):
        line = frame[frame["period"] == period]
        ax.plot(line["value"], line["score"], shade.line, color=shade.color, linewidth=1, label=f"period {period}")
    mean = frame.groupby("value")["score"].mean()
    ax.plot(mean.index, mean, color=style.RED, linewidth=2, label="mean of all periods")
