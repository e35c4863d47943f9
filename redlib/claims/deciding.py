"""The six verdicts, and how one follows from what was measured under every reading of a claim."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from redlib.claims.judging import DIGITS, FAILS, HOLDS, OPEN, behind, judge, together
from redlib.results import cell

REPRODUCED, EXCEEDED, MISSED = "reproduced", "exceeded", "not reproduced"
CONTRADICTED, ONLY, UNTESTED = "contradicted", "holds only under", "not testable here"
OWN = "its document's own arithmetic, nothing measured"  # the parenthesis of a number that its own document gives
MEANINGS = {
    REPRODUCED: (
        "the number lies in our interval, or the test of the sentence holds; with "
        f"({OWN}) the number follows from the table or the formula beside it, which is all that was tested"
    ),
    EXCEEDED: "our interval lies above the number, or above the gain that the sentence states",
    ONLY: "not so where the headline is read, but under the condition in parentheses",
    MISSED: "below the number under every reading, or the interval reaches over the border of the test",
    CONTRADICTED: "the opposite was measured, or the source's own arithmetic rules it out",
    UNTESTED: "the reason is in parentheses",
}
VERDICTS = tuple(MEANINGS)
SHOWN = 3  # conditions that are named, the rest are counted


@dataclass(frozen=True)
class Tried:
    """A claim under one reading: what was read `where`, whether it holds there (`result`), and if the number lies
    `beyond` the reported one. `value`, `low`, `high`, `n` where the measurement is one number; `shown` in words."""

    where: dict[str, str]
    result: str
    shown: str
    beyond: bool = False
    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    n: float = np.nan


@dataclass(frozen=True)
class Verdict:
    """A verdict, its parenthesis (condition or reason) and the reading that the headline stands for."""

    verdict: str
    why: str = ""
    headline: Tried = field(default_factory=lambda: Tried({}, OPEN, ""))

    @property
    def said(self) -> str:
        """`holds only under (split text)`, or the verdict alone."""
        told = self.verdict in (ONLY, UNTESTED) or self.why == OWN
        return f"{self.verdict} ({self.why})" if told else self.verdict


def compare(rows: pd.DataFrame, where: dict[str, str], word: str, number: float) -> Tried:
    """Rows against `equal`, `within`, `above` or `below` a number; all of them have to hold, and the worst is shown.

    `equal` holds where the number lies in the interval or below it (`beyond`); `within` only inside. Rows without an
    interval are points. ValueError for another word.
    """
    if word not in ("equal", "within", "above", "below"):
        raise ValueError(f"unknown rule {word!r}; valid rules: equal, within, above, below")
    value, low, high = rows[["value", "low", "high"]].to_numpy(dtype=float, na_value=np.nan).T
    low, high = np.where(np.isnan(low), value, low), np.where(np.isnan(high), value, high)
    if word in ("equal", "within"):
        above = low - DIGITS > number
        fits = (~above & (number <= high + DIGITS)) | (above & (word == "equal"))
        results = [HOLDS if fit else FAILS for fit in fits]
        worst = int(np.abs(value - number).argmax() if word == "within" else value.argmin())
    else:
        above, sign = np.zeros(len(rows), bool), -1.0 if word == "below" else 1.0
        ends = np.sort(sign * np.stack([low, high]), axis=0).T
        results = [judge(first, last, sign * number) for first, last in ends]
        worst = int((sign * value).argmin())
    row = rows.iloc[worst]
    one = len(rows) == 1
    shown = cell(row, n=True) if one else f"worst of {len(rows)}: {cell(row)}, {_name(row, rows)}"
    return Tried(where, together(results), shown, bool(above.all()), **behind(row))


def _name(row: pd.Series, rows: pd.DataFrame) -> str:
    """What tells a row from the others."""
    columns = [column for column in ("method", "group", "metric") if rows[column].nunique() > 1]
    return " ".join(str(row[column]) for column in columns)


def decide(tried: Sequence[Tried], otherwise: str) -> Verdict:
    """The verdict on readings of one claim, the headline's first; `otherwise` is said of a headline that fails.

    A headline that fails or is undecided while another reading holds makes it `holds only under`. ValueError for none.
    """
    if not tried:
        raise ValueError("a verdict needs one reading or more")
    first = tried[0]
    if first.result == HOLDS:
        return Verdict(EXCEEDED if first.beyond else REPRODUCED, "", first)
    others = [conditions(one.where, first.where) for one in tried[1:] if one.result == HOLDS]
    if others:
        return Verdict(ONLY, _fewest(others), first)
    if first.result == OPEN:
        return Verdict(MISSED, "the interval reaches over the border", first)
    return Verdict(otherwise, f"under none of {len(tried)} readings" if len(tried) > 1 else "", first)


def conditions(where: dict[str, str], home: dict[str, str]) -> tuple[str, ...]:
    """How a reading differs from the headline's, in words."""
    words = []
    for column, value in where.items():
        if column == "variant":
            words += _of_variant(value.split("/"), home.get(column, "").split("/"))
        elif value != home.get(column):
            words.append(f"{column} {value}")
    return tuple(words)


def _of_variant(parts: list[str], home: list[str]) -> list[str]:
    """The parts of a variant that differ: a recipe comes last, before it the definition of the data; of programs
    (gold or predicted) the whole."""
    if parts == home:
        return []
    if len(parts) != len(home) or parts[-1] in ("gold", "predicted"):
        return [f"variant {'/'.join(parts)}"]
    names = ("definition", "recipe")[-len(parts) :]
    return [f"{name} {part}" for name, part, other in zip(names, parts, home, strict=False) if part != other]


def _fewest(others: list[tuple[str, ...]]) -> str:
    """The conditions, without those that only add to another one."""
    kept = [mine for mine in others if not any(set(other) < set(mine) for other in others)]
    kept = sorted(dict.fromkeys(kept), key=len)
    more = f"; {len(kept) - SHOWN} more" if len(kept) > SHOWN else ""
    return "; ".join(" with ".join(words) for words in kept[:SHOWN]) + more
