"""Aggregates that the figures draw: bias by true value, confusion of ranges, maps over operand pairs.

All give tidy rows (COLUMNS, seed `all`) and extra columns that say where a row lies. They describe predictions, so they
carry no interval.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from redlib.evaluation.predictions import BLOCK, COLUMNS, check, variant
from redlib.expressions import Expression

KEYS = [*BLOCK, "method"]
QUANTILES = {"predicted_q05": 0.05, "predicted_q50": 0.50, "predicted_q95": 0.95}


def _select(predictions: pd.DataFrame, space, methods: Sequence[str] | None) -> pd.DataFrame:
    check(predictions, space)
    if methods is None:
        return predictions
    unknown = sorted(set(methods) - set(predictions["method"]))
    if unknown:
        known = ", ".join(sorted(set(predictions["method"].astype(str))))
        raise ValueError(f"no predictions of method {', '.join(unknown)}; present: {known}")
    return predictions[predictions["method"].isin(list(methods))]


def _tidy(frame: pd.DataFrame, extra: list[str], task: str, definition: str, run: str) -> pd.DataFrame:
    """Columns split, recipe, part, method, group, metric, value, n and `extra` -> COLUMNS and `extra`."""
    frame = frame.assign(
        task=task,
        variant=[variant(definition, recipe) for recipe in frame["recipe"]],
        seed="all",
        low=np.nan,
        high=np.nan,
        run=run,
    )
    return frame[[*COLUMNS, *extra]].reset_index(drop=True)


def bias_by_value(
    predictions: pd.DataFrame, space, methods=None, task: str = "task1", definition: str = "", run: str = ""
) -> pd.DataFrame:
    """Where predictions lie, by true value (extra column `true_value`; group is its range).

    Metrics: signed_error (mean of predicted minus true), signed_error_sd, same_range (share predicted inside the true
    range), predicted_q05 / q50 / q95 of the predicted value, and predicted_share against true_share: the share of all
    rows predicted as this value, and the share whose truth it is.
    """
    chosen = _select(predictions, space, methods)
    work = chosen[KEYS].assign(
        true_value=chosen["value"],
        predicted=chosen["predicted_value"],
        error=chosen["predicted_value"] - chosen["value"],
        same=(_ranges(chosen["predicted_value"], space) == chosen["range"]).astype(float),
    )
    grouped = work.groupby([*KEYS, "true_value"], observed=True)
    table = grouped.agg(
        signed_error=("error", "mean"), signed_error_sd=("error", lambda e: e.std(ddof=0)), same_range=("same", "mean")
    )
    quantiles = grouped["predicted"].quantile(list(QUANTILES.values())).unstack()
    for name, quantile in QUANTILES.items():
        table[name] = quantiles[quantile]
    long = table.melt(ignore_index=False, var_name="metric", value_name="value")
    long["n"] = grouped.size().reindex(long.index)
    both = [long.reset_index(), _shares(work, "predicted"), _shares(work, "true_value")]
    frame = pd.concat(both, ignore_index=True)
    frame["group"] = np.array(space.names)[_ranges(frame["true_value"], space)]
    return _tidy(frame, ["true_value"], task, definition, run)


def _ranges(values, space) -> np.ndarray:
    return np.asarray(space.range_index)[np.asarray(values, int) - space.lo]


def _shares(work: pd.DataFrame, column: str) -> pd.DataFrame:
    counts = work.groupby([*KEYS, column], observed=True).size()
    totals = counts.groupby(level=KEYS, observed=True).transform("sum")
    frame = (counts / totals).rename("value").to_frame().assign(n=totals)
    frame["metric"] = "true_share" if column == "true_value" else "predicted_share"
    return frame.reset_index().rename(columns={column: "true_value"})


def range_confusion(
    predictions: pd.DataFrame, space, methods=None, task: str = "task1", definition: str = "", run: str = ""
) -> pd.DataFrame:
    """Share of a true range's rows (group R1..RK) predicted in each range (extra column `predicted_range`, R1..RK).

    Metric range_share for the output's range, router_share for the router's first choice; n: rows of the true range.
    """
    chosen = _select(predictions, space, methods)
    parts = []
    for metric, column in (("range_share", "predicted_range"), ("router_share", "router_range")):
        rows = chosen[chosen[column] >= 0]
        counts = rows.groupby([*KEYS, "range", column], observed=True).size().unstack(fill_value=0)
        counts = counts.reindex(columns=range(space.K), fill_value=0)
        shares = counts.div(counts.sum(axis=1), axis=0).stack().rename("value").to_frame()
        shares["n"] = counts.sum(axis=1).reindex(shares.index.droplevel(-1)).to_numpy()
        parts.append(shares.rename_axis([*KEYS, "range", "predicted"]).reset_index().assign(metric=metric))
    frame = pd.concat(parts, ignore_index=True)
    names = np.array(space.names)
    frame["group"] = names[frame["range"].to_numpy(int)]
    frame["predicted_range"] = names[frame["predicted"].to_numpy(int)]
    return _tidy(frame, ["predicted_range"], task, definition, run)


def operand_map(
    predictions: pd.DataFrame, pool: pd.DataFrame, space, methods=None, task="task1", definition="", run=""
) -> pd.DataFrame:
    """Error rates by ordered operand pair (extra columns `first`, `second`; group is the range of the true value).

    pool: columns row and expression ("12 + 27"). Metrics value_error and range_error; n counts predictions over seeds.
    ValueError when a predicted row is not in the pool or its expression has not exactly two terms.
    """
    chosen = _select(predictions, space, methods)
    texts = pool.set_index("row")["expression"]
    absent = ~chosen["row"].isin(texts.index)
    if absent.any():
        raise ValueError(f"row {chosen['row'][absent].iloc[0]} is predicted but is not in the pool")
    expression = chosen["row"].map(texts)
    pairs = {text: Expression.read(text).terms for text in expression.unique()}
    longer = [text for text, terms in pairs.items() if len(terms) != 2]
    if longer:
        raise ValueError(f"an operand map needs two operands, got {longer[0]!r}")
    work = chosen[[*KEYS, "range"]].assign(
        first=expression.map({text: terms[0] for text, terms in pairs.items()}),
        second=expression.map({text: terms[1] for text, terms in pairs.items()}),
        value_error=(chosen["predicted_value"] != chosen["value"]).astype(float),
        range_error=(chosen["predicted_range"] != chosen["range"]).astype(float),
    )
    grouped = work.groupby([*KEYS, "range", "first", "second"], observed=True)
    long = grouped[["value_error", "range_error"]].mean().melt(ignore_index=False, var_name="metric")
    long["n"] = grouped.size().reindex(long.index)
    frame = long.reset_index()
    frame["group"] = np.array(space.names)[frame["range"].to_numpy(int)]
    return _tidy(frame, ["first", "second"], task, definition, run)
