"""Sliders for a layer of sparse experts, and what it saves."""

import html
from typing import Any

import ipywidgets

from redlib import sparse

DIMENSIONS = tuple(2**power for power in range(4, 14))
LABELS = {"num_experts": "experts E", "active_experts": "active k", "input_dim": "inputs", "output_dim": "outputs"}


class SavingsWidget(ipywidgets.VBox):
    """Four sliders (experts, active ones, input and output dimension) above the table of `sparse.view`.

    What cannot be, such as more active experts than there are, is said in the place of the table.
    """

    def __init__(self, num_experts: int = 16, active_experts: int = 2, input_dim: int = 256, output_dim: int = 512):
        wide = {"layout": {"width": "420px"}, "continuous_update": False}
        self.sliders: dict[str, Any] = {
            "num_experts": ipywidgets.IntSlider(num_experts, 1, 1024, **wide),
            "active_experts": ipywidgets.IntSlider(active_experts, 1, 64, **wide),
            "input_dim": ipywidgets.SelectionSlider(options=DIMENSIONS, value=input_dim, **wide),
            "output_dim": ipywidgets.SelectionSlider(options=DIMENSIONS, value=output_dim, **wide),
        }
        for name, slider in self.sliders.items():
            slider.description = LABELS[name]
            slider.observe(self._show, "value")
        self.table = ipywidgets.HTML()
        super().__init__([*self.sliders.values(), self.table])
        self._show()

    def _show(self, change: Any = None) -> None:
        try:
            self.table.value = as_html(*(slider.value for slider in self.sliders.values()))
        except ValueError as error:
            self.table.value = f"<p><b>Not possible:</b> {html.escape(str(error))}.</p>"


def as_html(num_experts: int, active_experts: int, input_dim: int, output_dim: int) -> str:
    """The table of `sparse.view` as HTML; ValueError as there."""
    frame = sparse.view(num_experts, active_experts, input_dim, output_dim)
    shown = frame.rename(columns={"comparison": "compared with", "against": "its operations", "saved": "saved (%)"})
    counts = dict.fromkeys(("operations", "its operations"), "{:,}".format)
    return shown.to_html(index=False, border=0, formatters=counts | {"saved (%)": "{:.1f}".format})
