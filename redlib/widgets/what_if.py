"""What-if panel: sliders for the weights and for every expert, and the answer that follows."""

from collections.abc import Collection, Sequence
from math import isclose
from typing import Any

import ipywidgets

from redlib import explain
from redlib.explain import Explainer, Intervention
from redlib.widgets import pieces
from redlib.widgets.inspector import QUESTION
from redlib.widgets.panel import Panel, Shown, control, methods_control, reader, row

NO_WEIGHT = 1e-9
STEP = 0.01  # of the sliders of the weights
HEIGHTS = {"verdict": 36, "tipping": 44, "weights": 172, "waterfall": 172, "distribution": 174, "notes": 132}


def rebalance(weights: Sequence[float], moved: int | None, locked: Collection[int]) -> tuple[float, ...]:
    """K weights in 0..1 that add up to 1 again after one was `moved` (None: all count alike).

    `locked` ones stay, then the moved one as far as there is room; the others share the rest in proportion, or alike
    where all of them are 0. Where nothing is left to give, the sum stays another than 1.
    """
    new = [min(max(float(weight), 0.0), 1.0) for weight in weights]
    fixed = [k for k in locked if k != moved]
    room = max(1.0 - sum(new[k] for k in fixed), 0.0)
    free = [k for k in range(len(new)) if k not in fixed and k != moved]
    if moved is not None:
        new[moved] = min(new[moved], room) if free else room
        room = max(room - new[moved], 0.0)
    total = sum(new[k] for k in free)
    for k in free:
        new[k] = room * (new[k] / total) if total > NO_WEIGHT else room / len(free)
    return tuple(new)


class WhatIfPanel(Panel):
    """A view of `explainer.explain(reading, method, intervention)` and `explain.tipping`; no move needs the backbone.

    While nobody has moved a weight they are the router's, softer or harder by the temperature, and the sliders show
    them, rounded to their steps. Moving one fixes all of them and puts the temperature back to 1; moving the
    temperature gives them back to the router. `intervention` is what the controls say; `weights` are those in force.
    """

    def __init__(self, explainer: Explainer, text: str = QUESTION):
        super().__init__(HEIGHTS)
        self.explainer, self._read = explainer, reader(explainer)
        labels = self.labels = explainer.labels
        self.by_hand, self.weights = False, (0.0,) * labels.K
        self.text = control(ipywidgets.Text, "question", 460, value=text, continuous_update=False)
        self.method = methods_control(explainer.routed)
        self.normalise = _button("keep the sum at 1", 150, True, "the other weights make room for the one that moves")
        self.temperature = control(
            ipywidgets.FloatLogSlider, "temperature", 320, 95, value=1.0, min=-1, max=1, step=0.02, readout_format=".2f"
        )
        self.noise_seed = control(ipywidgets.BoundedIntText, "noise seed", 150, min=0, max=9999)
        self.reset = ipywidgets.Button(description="reset", tooltip="undo every change", layout={"width": "80px"})
        self.weight = [
            _slider(f"{name} {low}-{high}", 320, 0.0, 1.0, STEP, 0.0, f"weight of {name}")
            for name, (low, high) in zip(labels.names, labels.bounds, strict=True)
        ]
        self.lock_weight = [_button("lock", 60, False, f"hold the weight of {name}") for name in labels.names]
        self.drop = [_button("drop", 60, False, f"leave {name} out") for name in labels.names]
        self.scale = [
            _slider("scale", 220, -1.0, 3.0, 0.05, 1.0, f"times the part of {name}", 40) for name in labels.names
        ]
        self.noise = [
            _slider("noise", 220, 0.0, 2.0, 0.05, 0.0, f"noise on {name}, by its length", 40) for name in labels.names
        ]
        self._arrange()
        self._listen()
        self.refresh()

    def _arrange(self) -> None:
        experts = zip(self.weight, self.lock_weight, self.drop, self.scale, self.noise, strict=True)
        self.children = (
            row(self.text, self.method, self.reset),
            row(self.normalise, self.temperature, self.noise_seed),
            *(row(*controls) for controls in experts),
            self.status,
            self.pieces["verdict"],
            self.pieces["tipping"],
            row(self.pieces["weights"], self.pieces["waterfall"]),
            self.pieces["distribution"],
            self.pieces["notes"],
            self.copy,
        )

    def _listen(self) -> None:
        self.watch(self.text, self.method, self.noise_seed, *self.drop, *self.scale, *self.noise)
        for k, slider in enumerate(self.weight):
            slider.observe(lambda change, k=k: self._move(k), "value")
        self.normalise.observe(lambda change: self._move(None) if change["new"] and self.by_hand else None, "value")
        self.temperature.observe(self._soften, "value")
        self.reset.on_click(self._undo)

    @property
    def intervention(self) -> Intervention:
        """What the controls say is to be changed."""
        names = self.labels.names
        return Intervention(
            weights=self.weights if self.by_hand else None,
            drop=tuple(name for name, button in zip(names, self.drop, strict=True) if button.value),
            scale={name: s.value for name, s in zip(names, self.scale, strict=True) if s.value != 1.0},
            noise={name: s.value for name, s in zip(names, self.noise, strict=True) if s.value != 0.0},
            temperature=1.0 if self.by_hand else self.temperature.value,
            noise_seed=self.noise_seed.value,
        )

    def _move(self, moved: int | None) -> None:
        """A weight was moved by hand, or (None) the weights are to add up to 1 again."""
        with self.lock:
            if self._quiet or (moved is not None and self._echo(moved)):
                return
            with self.quietly():
                self.by_hand, self.temperature.value = True, 1.0
                new = [self.weight[k].value if k == moved else weight for k, weight in enumerate(self.weights)]
                if self.normalise.value:
                    locked = {k for k, button in enumerate(self.lock_weight) if button.value}
                    new = rebalance(new, moved, locked)
                self._set_weights(new)
        self.refresh()

    def _echo(self, k: int) -> bool:
        """Whether a slider only says what it was given: a browser sends it back, rounded to its steps."""
        return abs(self.weight[k].value - _rounded(self.weights[k])) < STEP / 4

    def _soften(self, change: Any) -> None:
        with self.lock:
            if self._quiet or (self.by_hand and isclose(change["new"], 1.0)):
                return
            self.by_hand = False
        self.refresh()

    def _undo(self, button: Any = None) -> None:
        with self.quietly():
            self.by_hand, self.temperature.value, self.noise_seed.value = False, 1.0, 0
            self.normalise.value = True
            for k in range(self.labels.K):
                self.lock_weight[k].value = self.drop[k].value = False
                self.scale[k].value, self.noise[k].value = 1.0, 0.0
        self.refresh()

    def _set_weights(self, weights: Sequence[float]) -> None:
        self.weights = tuple(weights)
        for slider, weight in zip(self.weight, weights, strict=True):
            slider.value = _rounded(weight)

    def asked(self) -> tuple[str, str, Intervention]:
        return self.text.value, self.method.value, self.intervention

    def answer(self, asked: tuple[str, str, Intervention]) -> Shown:
        text, method, change = asked
        reading = self._read(text)
        before = self.explainer.explain(reading, method)
        e = self.explainer.explain(reading, method, change)
        shown = pieces.explanation(e, ("before", before.alpha), before)
        return Shown({**shown, "tipping": pieces.how_wrong(e, explain.tipping(e))}, e)

    def show(self, shown: Shown) -> None:
        super().show(shown)
        if shown.explanation is not None and not self.by_hand:
            self._set_weights(shown.explanation.alpha)


def _rounded(weight: float) -> float:
    return round(round(weight / STEP) * STEP, 9)


def _slider(
    description: str, width: int, low: float, high: float, step: float, value: float, tooltip: str, label: int = 80
) -> ipywidgets.FloatSlider:
    options = {"min": low, "max": high, "step": step, "value": value, "readout_format": ".2f", "tooltip": tooltip}
    return control(ipywidgets.FloatSlider, description, width, label, **options)


def _button(description: str, width: int, value: bool, tooltip: str) -> ipywidgets.ToggleButton:
    layout = {"width": f"{width}px"}
    return ipywidgets.ToggleButton(description=description, value=value, tooltip=tooltip, layout=layout)
