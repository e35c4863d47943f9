"""What all widgets have in common: controls, pieces of fixed height, a status line, and answers that come in time.

A callback may run on any thread. It takes the next number, asks a pure function outside of the lock, and shows what
comes back only if nobody has taken a later number since: a late answer never replaces a newer one.
"""

import html
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import torch
import traitlets

from redlib.execution import Solution
from redlib.explain import Explainer, Explanation, Reading

BUSY_AFTER = 0.2  # seconds
REMEMBERED = 64  # texts whose readings are kept
SPOKEN = (ValueError, ArithmeticError, OSError)  # errors whose message is a sentence for readers


@dataclass(frozen=True, eq=False)
class Shown:
    """What a panel has to show: a piece of HTML by name, and the explanation or solution that they are about."""

    pieces: Mapping[str, str]
    explanation: Explanation | Solution | None = None
    extra: Any = None


class CopyCode(anywidget.AnyWidget):
    """A button that copies `code`, beside the code itself."""

    _esm = Path(__file__).with_name("copy.js")
    code = traitlets.Unicode("").tag(sync=True)


class Panel(ipywidgets.VBox):
    """Base of the widgets: `asked()` reads the controls, `answer(asked)` is pure, `show(shown)` writes it.

    `explanation` is the one that is shown, None while an error is; `pieces` are HTML widgets by name.
    """

    def __init__(self, heights: Mapping[str, int], **kwargs: Any):
        self.lock = threading.RLock()
        self.explanation: Explanation | Solution | None = None
        self.pieces = {name: _piece(height) for name, height in heights.items()}
        self.status = _piece(28)
        self.copy = CopyCode(layout={"width": "100%", "height": "32px"})
        self._asked = self._shown = 0
        self._quiet = False
        super().__init__(**kwargs)

    def asked(self) -> Any:
        """The state of the controls, as one value."""
        raise NotImplementedError

    def answer(self, asked: Any) -> Shown:
        """What there is to show for a state of the controls; ValueError in one sentence where there is nothing."""
        raise NotImplementedError

    def show(self, shown: Shown) -> None:
        """Write an answer to the widgets; the lock is held."""
        self.explanation = shown.explanation
        self.copy.code = "" if shown.explanation is None else shown.explanation.code()
        for name, piece in self.pieces.items():
            piece.value = shown.pieces.get(name, "")

    def watch(self, *controls: ipywidgets.Widget) -> None:
        """Ask again whenever one of them changes."""
        for control in controls:
            control.observe(self.refresh, "value")

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Controls that are set in here ask nothing."""
        with self.lock:
            before, self._quiet = self._quiet, True
            try:
                yield
            finally:
                self._quiet = before

    def refresh(self, change: Any = None) -> None:
        """Ask for the present state of the controls and show what comes back; an error is shown too."""
        with self.lock:
            if self._quiet:
                return
            self._asked += 1
            number, asked = self._asked, self.asked()
        busy = threading.Timer(BUSY_AFTER, self._say_busy, [number])
        busy.daemon = True
        busy.start()
        said, shown = "", Shown({})
        try:
            with torch.inference_mode():  # the mode is each thread's own
                shown = self.answer(asked)
        except Exception as error:  # nobody else would ever see it
            said = _alert(error)
        finally:
            busy.cancel()
        with self.lock, self.quietly():
            if number == self._asked:
                self._shown = number
                self.status.value = said
                self.show(shown)

    def _say_busy(self, number: int) -> None:
        with self.lock:
            if number == self._asked > self._shown:
                self.status.value = '<span role="status">⏳ working …</span>'


def _piece(height: int) -> ipywidgets.HTML:
    layout = {"height": f"{height}px", "min_height": f"{height}px", "overflow": "auto", "margin": "0"}
    return ipywidgets.HTML(layout=layout)


def _alert(error: Exception) -> str:
    words = str(error) if isinstance(error, SPOKEN) else f"{type(error).__name__}: {error}"
    return f'<span role="alert" style="color:#D55E00"><b>Not possible:</b> {html.escape(words)}</span>'


def row(*widgets: ipywidgets.Widget) -> ipywidgets.Box:
    """Widgets side by side; what does not fit goes to the next line."""
    return ipywidgets.Box(widgets, layout={"flex_flow": "row wrap", "align_items": "center", "overflow": "hidden"})


def control(kind: type, description: str, width: int = 220, label: int = 80, **options: Any) -> Any:
    """A labelled control that reports a value when it is settled, not at every key."""
    style = {"description_width": f"{label}px"}
    tooltip = options.pop("tooltip", description)
    return kind(description=description, tooltip=tooltip, style=style, layout={"width": f"{width}px"}, **options)


def methods_control(names: Sequence[str]) -> ipywidgets.Dropdown:
    """A choice of the method that is explained."""
    return control(ipywidgets.Dropdown, "method", 260, options=list(names), value="red" if "red" in names else names[0])


def reader(explainer: Explainer) -> Any:
    """read(text) -> Reading, which remembers the last texts."""

    @lru_cache(maxsize=REMEMBERED)
    def read(text: str) -> Reading:
        return explainer.read([text])[0]

    return read
