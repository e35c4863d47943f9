"""Sliders for price, batch and memory, and the model that is then recommended."""

import html
from typing import Any

import ipywidgets
import pandas as pd

from redlib.sparse.recommend import recommend, said
from redlib.sparse.serving import PRICE

NAMES = {
    "memory_gb": "memory (MB)",
    "tokens_per_second": "tokens per second",
    "cost_per_million": "cost ($ per million tokens)",
    "loss": "held-out loss",
    "good": "good enough",
    "compared": "compared by",
}


class RecommendationWidget(ipywidgets.VBox):
    """Price of an hour, requests at a time and memory limit (MB) above the table of `sparse.recommend`.

    options: the frame that `recommend` reads. What cannot be is said in the place of the table.
    """

    def __init__(self, options: pd.DataFrame, price: float = PRICE):
        self.options = options
        batches = sorted(int(batch) for batch in options["batch"].unique())
        most = options["memory_bytes"].max() / 1e6
        self.sliders: dict[str, Any] = {
            "price": ipywidgets.FloatSlider(price, min=0.0, max=max(5.0, 2 * price), step=0.001, readout_format=".3f"),
            "batch": ipywidgets.SelectionSlider(options=batches, value=batches[0]),
            "limit": ipywidgets.FloatLogSlider(1.2 * most, base=10, min=-2, max=4, step=0.02, readout_format=".3g"),
        }
        labels = {"price": "price of an hour ($)", "batch": "requests at a time", "limit": "memory limit (MB)"}
        for name, slider in self.sliders.items():
            slider.description = labels[name]
            slider.layout.width, slider.style.description_width = "460px", "150px"
            slider.continuous_update = False
            slider.observe(self._show, "value")
        self.table = ipywidgets.HTML()
        super().__init__([*self.sliders.values(), self.table])
        self._show()

    def _show(self, change: Any = None) -> None:
        price, batch, limit = (self.sliders[name].value for name in ("price", "batch", "limit"))
        try:
            self.table.value = as_html(self.options, batch, limit / 1e3, price)
        except ValueError as error:
            self.table.value = f"<p><b>Not possible:</b> {html.escape(str(error))}.</p>"


def as_html(options: pd.DataFrame, batch: int, limit_gb: float, price: float) -> str:
    """The sentence and the table of `recommend` as HTML; ValueError as there."""
    table = recommend(options, batch, limit_gb, price)
    shown = table.assign(memory_gb=1e3 * table["memory_gb"], choice=table["choice"].map({True: "◀ choice", False: ""}))
    shown = shown.rename(columns=NAMES)
    forms = {
        NAMES["memory_gb"]: "{:.3f}".format,
        NAMES["tokens_per_second"]: "{:,.0f}".format,
        NAMES["cost_per_million"]: "{:.3g}".format,
        NAMES["loss"]: "{:.3f}".format,
    }
    sentence = html.escape(said(table, batch, limit_gb, price))
    rows = shown.to_html(index=False, border=0, formatters=forms, na_rep="–")
    return f'<p class="red-recommendation">{sentence}</p>{rows}'
