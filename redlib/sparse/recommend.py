"""Which model to serve at a price, a batch size and a memory limit: a pure function of what was measured."""

import numpy as np
import pandas as pd

from redlib.sparse.serving import PRICE, cost_per_million

COLUMNS = ("model", "memory_gb", "fits", "tokens_per_second", "cost_per_million", "loss", "good", "compared", "choice")
BEST, PAIRED, APART = "the best", "paired difference", "intervals"  # how a loss was compared with that of the best


def recommend(options: pd.DataFrame, batch: int, limit_gb: float, price: float = PRICE) -> pd.DataFrame:
    """Every model at one batch size (COLUMNS), the recommended one marked in `choice`: the cheapest that fits the
    memory and is good, that is, whose loss is not measurably above that of the best that fits: their paired difference
    reaches down to zero or, where none was measured, their intervals overlap (`compared` says which).

    options: columns model, batch, memory_bytes, tokens_per_second, loss, loss_low and loss_high (NaN: no loss was
    measured, and the model cannot be recommended), and `above_<other>` where there are paired differences: the low end
    of the loss minus that of the other. No choice where nothing fits. ValueError for a price or limit that is not
    positive and for a batch that was not measured.
    """
    if not limit_gb > 0:
        raise ValueError(f"a memory limit must be positive, got {limit_gb}")
    here = options[options["batch"] == batch]
    if here.empty:
        measured = ", ".join(str(size) for size in sorted(options["batch"].unique()))
        raise ValueError(f"no model was measured at a batch of {batch}; measured: {measured}")
    table = here.assign(memory_gb=here["memory_bytes"] / 1e9)
    table["fits"] = table["memory_gb"] <= limit_gb
    table["cost_per_million"] = [cost_per_million(rate, price) for rate in table["tokens_per_second"]]
    table = _judged(table)
    able = table[table["fits"] & table["good"]]
    table["choice"] = table.index == (able["cost_per_million"].idxmin() if len(able) else -1)
    return table.sort_values("cost_per_million")[list(COLUMNS)].reset_index(drop=True)


def _judged(table: pd.DataFrame) -> pd.DataFrame:
    """The table with `good` and `compared`."""
    able = table[table["fits"] & table["loss"].notna()]
    if able.empty:
        return table.assign(good=False, compared="")
    best = able.loc[able["loss"].idxmin()]
    gap = table.get(f"above_{best['model']}", pd.Series(np.nan, table.index))
    good = (gap <= 0).where(gap.notna(), table["loss_low"] <= best["loss_high"])
    compared = gap.notna().map({True: PAIRED, False: APART}).where(table["loss"].notna(), "")
    first = table["model"] == best["model"]
    return table.assign(good=good | first, compared=compared.mask(first, BEST))


def said(table: pd.DataFrame, batch: int, limit_gb: float, price: float) -> str:
    """What a table of `recommend` says, in a sentence."""
    where = f"a batch of {batch}, {1e3 * limit_gb:,.3g} MB and ${price:g} an hour"
    chosen = table[table["choice"]]
    if chosen.empty:
        return f"With {where} no model with a measured loss fits."
    row, best = chosen.iloc[0], table.loc[table["compared"] == BEST, "model"].iloc[0]
    reason = "the best of those that fit"
    if row["model"] != best:
        reason = f"its loss is not measurably above that of {best}, {reason} (by {row['compared']})"
    return f"With {where}: {row['model']}, at ${row['cost_per_million']:.3g} per million tokens; {reason}."
