"""Boundary explorer: one operand held, the other slid across the boundaries of the ranges."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import ipywidgets

from redlib import explain
from redlib.explain import Explainer, Explanation
from redlib.widgets import pieces, svg
from redlib.widgets.panel import REMEMBERED, Panel, Shown, control, methods_control, row

HEIGHTS = {"verdict": 36, "walk": 218, "weights": 172, "waterfall": 172, "distribution": 174, "notes": 132}
LOOKS = (  # colour and dashes of each expert's line
    *(("#0072B2", ""), ("#E69F00", "6 3"), ("#009E73", "2 2"), ("#CC79A7", "8 3 2 3"), ("#56B4E9", "1 3")),
    ("#8a8a8a", "10 2"),
)
LEFT, WIDTH, TOP, FOOT = 40, 600, 26, 168


def draw_walk(explained: Sequence[Explanation], second: int) -> str:
    """Weights (range probabilities, without a router) along the second operand, over bands for the true range; below
    them a circle for each answer, filled where it is right. The upright line is at `second`."""
    places, step = [e.expression.terms[1] for e in explained], WIDTH / len(explained)
    at = [LEFT + (i + 0.5) * step for i in range(len(places))]
    kind = "range probabilities" if explained[0].alpha is None else "routing weights"
    title = f"{kind} by the second operand"
    parts = [svg.text(LEFT, 10, f"{title} (circles: the answer, filled if right)", more='font-weight="bold"')]
    for x, b, e in zip(at, places, explained, strict=True):
        k, fill = e.labels.names.index(e.true_range), "currentColor" if e.right else "none"
        parts.append(svg.band(x - step / 2, TOP, step, FOOT - TOP, k))
        parts.append(f'<circle cx="{x:.1f}" cy="{FOOT + 11}" r="3.5" fill="{fill}" stroke="currentColor"/>')
        parts += [svg.text(x, FOOT + 30, f"{b}", "middle")] if b % 5 == 0 else []
    parts += _curves(at, explained)
    here = at[places.index(second)]
    parts += [svg.line(here, TOP, here, FOOT + 18, 'stroke-width="2"')]
    parts += [svg.text(LEFT - 4, TOP + 8, "1", "end"), svg.text(LEFT - 4, FOOT, "0", "end")]
    right = sum(bool(e.right) for e in explained)
    return svg.picture(710, 210, f"{title} {places[0]} to {places[-1]}; {right} of {len(places)} are right", parts)


def _curves(at: Sequence[float], explained: Sequence[Explanation]) -> Iterator[str]:
    for k, name in enumerate(explained[0].labels.names):
        color, dashes = LOOKS[k % len(LOOKS)]
        look = f'stroke="{color}" stroke-dasharray="{dashes}" stroke-width="2" fill="none"'
        shares = [float((e.range_probabilities if e.alpha is None else e.alpha)[k]) for e in explained]
        places = (f"{x:.1f},{FOOT - share * (FOOT - TOP):.1f}" for x, share in zip(at, shares, strict=True))
        yield f'<polyline points="{" ".join(places)}" {look}/>'
        yield f'<line x1="648" x2="674" y1="{36 + 18 * k}" y2="{36 + 18 * k}" {look}/>'
        yield svg.text(680, 40 + 18 * k, name)


class BoundaryExplorer(Panel):
    """A view of `explain.read_walk`: all second operands of a first one are read together, sliding only looks."""

    def __init__(self, explainer: Explainer, first: int = 12, operator: str = "+"):
        super().__init__(HEIGHTS)
        self.explainer = explainer
        self._readings = lru_cache(maxsize=REMEMBERED)(lambda a, sign: explain.read_walk(explainer, a, sign))
        self._explained = lru_cache(maxsize=REMEMBERED)(
            lambda a, sign, method: explainer.explain_all(self._readings(a, sign), method)
        )
        low, high = explainer.operands
        self.first = control(ipywidgets.BoundedIntText, "first", 150, 40, min=low, max=high, value=first)
        self.operator = control(
            ipywidgets.Dropdown, "operator", 130, 62, options=list(explain.operators(explainer.task)), value=operator
        )
        self.method = methods_control(explainer.methods)
        inside = explain.seconds(explainer, first, operator)
        self.second = control(
            ipywidgets.IntSlider, "second", 660, 50, min=inside[0], max=inside[-1], value=inside[len(inside) // 2]
        )
        self.children = (
            row(self.first, self.operator, self.method),
            self.second,
            self.status,
            self.pieces["verdict"],
            self.pieces["walk"],
            row(self.pieces["weights"], self.pieces["waterfall"]),
            self.pieces["distribution"],
            self.pieces["notes"],
            self.copy,
        )
        for held in (self.first, self.operator):
            held.observe(self._hold, "value")
        self.watch(self.second, self.method)
        self.refresh()

    def _hold(self, change: Any) -> None:
        """Another row of the map: the slider keeps its place as far as the row has it."""
        with self.lock, self.quietly():
            try:
                inside = explain.seconds(self.explainer, self.first.value, self.operator.value)
            except ValueError:  # said by the answer
                inside = range(self.second.min, self.second.max + 1)
            ends = {"min": inside[0], "max": inside[-1]}
            value = min(max(self.second.value, ends["min"]), ends["max"])
            self.second.max, self.second.min = max(ends["max"], self.second.min), ends["min"]
            self.second.max, self.second.value = ends["max"], value
        self.refresh()

    def asked(self) -> tuple[int, str, int, str]:
        return self.first.value, self.operator.value, self.second.value, self.method.value

    def answer(self, asked: tuple[int, str, int, str]) -> Shown:
        first, operator, second, method = asked
        explained = self._explained(first, operator, method)
        e = explained[second - explained[0].expression.terms[1]]
        return Shown({**pieces.explanation(e), "walk": draw_walk(explained, second)}, e)
