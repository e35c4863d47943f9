"""The table of claims, by kind, document, verdict and words."""

from pathlib import Path
from typing import Any

import anywidget
import pandas as pd
import traitlets

EVERY = "all"
FILTERS = ("kind", "document", "verdict")
SHOWN = {
    "claim_id": "claim",
    "section": "section",
    "words": "what is claimed",
    "reported": "reported",
    "shown": "measured",
    "as_range": "if the range is meant",
    "said": "verdict",
    "notebook": "notebook",
}


class ClaimTable(anywidget.AnyWidget):
    """Three choices and a field for words above the claims that fit, with their number.

    checked: a frame with the columns of SHOWN and FILTERS, a claim a row. Setting `kind`, `document`, `verdict` or
    `words` filters; a value that no claim has is a TraitError that names the valid ones.
    """

    _esm = Path(__file__).parent / "claim_table.js"
    choices = traitlets.Dict().tag(sync=True)
    kind = traitlets.Unicode(EVERY).tag(sync=True)
    document = traitlets.Unicode(EVERY).tag(sync=True)
    verdict = traitlets.Unicode(EVERY).tag(sync=True)
    words = traitlets.Unicode("").tag(sync=True)
    table = traitlets.Unicode("").tag(sync=True)
    said = traitlets.Unicode("").tag(sync=True)

    def __init__(self, checked: pd.DataFrame):
        self.checked = checked
        super().__init__(choices={name: [EVERY, *dict.fromkeys(checked[name])] for name in FILTERS})
        self.observe(self._show, [*FILTERS, "words"])
        self._show()

    @traitlets.validate(*FILTERS)
    def _known(self, proposal: dict[str, Any]) -> str:
        valid = self.choices.get(proposal["trait"].name, [EVERY])
        if proposal["value"] not in valid:
            raise traitlets.TraitError(f"no claim has {proposal['value']!r}; valid: {', '.join(valid)}")
        return proposal["value"]

    def _show(self, change: Any = None) -> None:
        rows = fitting(self.checked, self.kind, self.document, self.verdict, self.words)
        with self.hold_sync():
            self.said = f"{len(rows)} of {len(self.checked)} claims"
            self.table = as_html(rows)


def fitting(
    checked: pd.DataFrame, kind: str = EVERY, document: str = EVERY, verdict: str = EVERY, words: str = ""
) -> pd.DataFrame:
    """The claims of a kind, document and verdict (EVERY: any) in whose shown columns all of `words` occur."""
    rows = checked
    for name, value in zip(FILTERS, (kind, document, verdict), strict=True):
        rows = rows if value == EVERY else rows[rows[name] == value]
    text = rows[list(SHOWN)].astype(str).agg(" ".join, axis=1).str.lower() if len(rows) else pd.Series(dtype=str)
    for word in words.lower().split():
        rows, text = rows[text.str.contains(word, regex=False)], text[text.str.contains(word, regex=False)]
    return rows


def as_html(rows: pd.DataFrame) -> str:
    """The shown columns as an HTML table; text is escaped."""
    return shown(rows).to_html(index=False, border=0, na_rep="–")


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of SHOWN under the names that a reader sees: the widget's static twin."""
    return rows[list(SHOWN)].rename(columns=SHOWN).replace("", "–")
