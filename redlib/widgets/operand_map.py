"""Operand map: how far off the answer to every pair of operands is; a click explains a pair."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from redlib import explain
from redlib.explain import Explainer
from redlib.widgets import pieces, svg
from redlib.widgets.panel import Panel, Shown, control, methods_control, reader, row

HEIGHTS = {"told": 28, "verdict": 36, "weights": 172, "waterfall": 172, "distribution": 174, "notes": 132}
METRIC = "value_error"
OPERATORS = {"addition": "+", "subtraction": "-"}
SHADES = (  # up to this many off: shade of too low, shade of too high
    (0, "#ffffff", "#ffffff"),
    (2, "#d8daeb", "#fee0b6"),
    (9, "#b2abd2", "#fdb863"),
    (29, "#8073ac", "#e08214"),
    (10**9, "#542788", "#b35806"),
)
NO_PAIR = "#bdbdbd"
LEFT, TOP, CELL = 34, 6, 8


def shade(error: float) -> str:
    """The colour of a signed error: white is right, violet too low, orange too high, darker the further off."""
    low, high = next(colors for most, *colors in SHADES if abs(error) <= most)
    return low if error < 0 else high


def draw_map(errors: Mapping[tuple[int, int], float], operands: tuple[int, int]) -> str:
    """A cell for each (first, second), first upwards; a pair without an answer is grey."""
    low, high = operands
    cells, size = high - low + 1, (high - low + 1) * CELL
    by_shade = defaultdict(list)
    for (first, second), error in errors.items():
        by_shade[shade(error)].append(f"M{LEFT + (second - low) * CELL} {TOP + (high - first) * CELL}h8v8h-8z")
    parts = [svg.box(LEFT, TOP, size, size, NO_PAIR)]
    parts += [f'<path fill="{color}" d="{"".join(paths)}"/>' for color, paths in by_shade.items()]
    for value in range(-(-low // 10) * 10, high + 1, 10):
        at = (value - low + 0.5) * CELL
        parts.append(svg.text(LEFT + at, TOP + size + 13, f"{value}", "middle"))
        parts.append(svg.text(LEFT - 4, TOP + size - at + 4, f"{value}", "end"))
    parts.append(svg.text(LEFT + size / 2, TOP + size + 27, "second operand", "middle"))
    turned = f'transform="rotate(-90 10 {TOP + size / 2})"'
    parts.append(svg.text(10, TOP + size / 2, "first operand", "middle", turned))
    right = sum(error == 0 for error in errors.values())
    label = f"map of {cells} by {cells} pairs, {right} of {len(errors)} answered rightly"
    return svg.picture(LEFT + size + 8, TOP + size + 34, label, parts)


def legend() -> str:
    """What the shades mean."""
    names = ["30 or more", "10 to 29", "3 to 9", "1 or 2"]
    low = zip((color for _, color, _ in reversed(SHADES)), [f"{n} too low" for n in names], strict=False)
    high = zip((color for _, _, color in SHADES[1:]), [f"{n} too high" for n in reversed(names)], strict=True)
    shades = [*low, (SHADES[0][1], "right"), *high, (NO_PAIR, "no such pair")]
    square = '<span style="display:inline-block;width:11px;height:11px;border:1px solid #888;background:{}"></span> {}'
    return '<div style="font-size:11px">' + " &nbsp;".join(square.format(*pair) for pair in shades) + "</div>"


class PairMap(anywidget.AnyWidget):
    """The picture of a map. `pair` is the chosen cell: a click or the arrow keys move it."""

    _esm = Path(__file__).with_name("pair_map.js")
    picture = traitlets.Unicode("").tag(sync=True)
    label = traitlets.Unicode("map of errors; arrow keys move to another pair").tag(sync=True)
    geometry = traitlets.List().tag(sync=True)  # first and last operand, left and top edge, size of a cell
    pair = traitlets.List().tag(sync=True)


class OperandMap(Panel):
    """A view of a table of maps and of `explainer.explain` for the chosen pair, in the canonical wording.

    frame: operand_maps (task, split, method, metric, operator, first, second, value: predicted minus true value); the
    rows of the explainer's task and split are shown. ValueError where it has none.
    """

    def __init__(self, explainer: Explainer, frame: pd.DataFrame, pair: tuple[int, int] = (12, 27)):
        super().__init__(HEIGHTS)
        self.explainer, self._read = explainer, reader(explainer)
        rows = frame[frame["metric"] == METRIC]
        rows = rows[(rows["task"] == explainer.task) & (rows["split"] == explainer.split)]
        if rows.empty:
            raise ValueError(f"the table has no map of {explainer.task}, split {explainer.split}, metric {METRIC}")
        self.operator = OPERATORS[rows["operator"].iloc[0]]
        self.errors = {
            str(method): dict(zip(zip(of["first"], of["second"], strict=True), of["value"], strict=True))
            for method, of in rows.groupby("method")
        }
        low, high = explainer.operands
        self.method = methods_control(list(self.errors))
        operand = {"min": low, "max": high}
        self.first = control(ipywidgets.BoundedIntText, "first", 150, 60, value=pair[0], **operand)
        self.second = control(ipywidgets.BoundedIntText, "second", 150, 60, value=pair[1], **operand)
        size = (high - low + 1) * CELL
        layout = {"width": f"{LEFT + size + 10}px", "height": f"{TOP + size + 40}px"}
        self.map = PairMap(geometry=[low, high, LEFT, TOP, CELL], pair=list(pair), layout=layout)
        self.children = (
            row(self.method, self.first, self.second),
            ipywidgets.HTML(legend()),
            row(self.map, ipywidgets.VBox([self.pieces["weights"], self.pieces["waterfall"]])),
            self.status,
            *(self.pieces[name] for name in ("told", "verdict", "distribution", "notes")),
            self.copy,
        )
        self._listen()
        self._draw()
        self.refresh()

    def _listen(self) -> None:
        self.method.observe(self._draw, "value")
        self.watch(self.method)
        self.map.observe(self._click, "pair")
        for operand in (self.first, self.second):
            operand.observe(self._type, "value")

    def _draw(self, change: Any = None) -> None:
        self.map.picture = draw_map(self.errors[self.method.value], self.explainer.operands)

    def _click(self, change: Any) -> None:
        with self.lock:
            if self._quiet:
                return
            with self.quietly():
                self.first.value, self.second.value = self.map.pair
        self.refresh()

    def _type(self, change: Any) -> None:
        with self.lock:
            if self._quiet:
                return
            with self.quietly():
                self.map.pair = [self.first.value, self.second.value]
        self.refresh()

    def asked(self) -> tuple[int, int, str]:
        return self.first.value, self.second.value, self.method.value

    def answer(self, asked: tuple[int, int, str]) -> Shown:
        first, second, method = asked
        error = self.errors[method].get((first, second))
        if error is None:
            raise ValueError(f"{first} {self.operator} {second} has no result in the label space; choose another pair")
        text = explain.question(self.explainer.task, first, self.operator, second)
        e = self.explainer.explain(self._read(text), method)
        told, now = f"On the map {first} {self.operator} {second} is {_off(error)}.", e.answer.value - e.true_value
        if error != now:
            told += f" Computed anew it is {_off(now)}: the map is of another model or machine."
        return Shown({**pieces.explanation(e), "told": told}, e)


def _off(error: float) -> str:
    return "answered rightly" if error == 0 else f"{abs(error):.0f} too {'low' if error < 0 else 'high'}"
