"""Which model to serve at a price, a batch size and a memory limit: a pure function of what was measured."""

import pandas as pd

from redlib.sparse.serving import PRICE, cost_per_million

COLUMNS = ("model", "memory_gb", "fits", "tokens_per_second", "cost_per_million", "loss", "good", "choice")


def recommend(options: pd.DataFrame, batch: int, limit_gb: float, price: float = PRICE) -> pd.DataFrame:
    """Every model at one batch size (COLUMNS), the recommended one marked in `choice`: the cheapest that fits the
    memory and is good, that is, whose loss interval reaches down to the loss of the best that fits.

    options: columns model, batch, memory_bytes, tokens_per_second, loss, loss_low (NaN: no loss was measured, and the
    model cannot be recommended). No choice where nothing fits. ValueError for a price or limit that is not positive and
    for a batch that was not measured.
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
    best = table.loc[table["fits"], "loss"].min()
    table["good"] = table["loss_low"] <= best
    able = table[table["fits"] & table["good"]]
    table["choice"] = table.index == (able["cost_per_million"].idxmin() if len(able) else -1)
    return table.sort_values("cost_per_million")[list(COLUMNS)].reset_index(drop=True)


def said(table: pd.DataFrame, batch: int, limit_gb: float, price: float) -> str:
    """What a table of `recommend` says, in a sentence."""
    where = f"a batch of {batch}, {1e3 * limit_gb:,.3g} MB and {price:g} an hour"
    chosen = table[table["choice"]]
    if chosen.empty:
        return f"With {where} no model with a measured loss fits."
    row = chosen.iloc[0]
    return f"With {where}: {row['model']}, at {row['cost_per_million']:.4g} per million tokens."
