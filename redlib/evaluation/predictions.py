"""The long frame of predictions (one row an item, method and seed), checked and lined up by item."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

COLUMNS = ("task", "variant", "split", "part", "method", "seed", "group", "metric", "value", "n", "low", "high", "run")
NO_ANSWER = -1  # of a method that may fall silent; right for no row
BLOCK = ["split", "recipe", "part"]
PREDICTION_COLUMNS = (
    *("row", "structure", "value", "range", *BLOCK, "method", "seed"),
    *("predicted_value", "predicted_range", "confidence", "router_range"),
)


def check(predictions: pd.DataFrame, space) -> None:
    """ValueError naming the first thing that is wrong with a frame of predictions: a column, a value, a double row.

    NO_ANSWER may stand for a predicted value or range.
    """
    missing = [name for name in PREDICTION_COLUMNS if name not in predictions]
    if missing:
        raise ValueError(f"predictions lack the columns {', '.join(missing)}; needed: {', '.join(PREDICTION_COLUMNS)}")
    if predictions.empty:
        raise ValueError("predictions hold no row")
    for name, low, high in (
        ("value", space.lo, space.hi),
        ("predicted_value", space.lo, space.hi),
        ("range", 0, space.K - 1),
        ("predicted_range", 0, space.K - 1),
        ("router_range", -1, space.K - 1),
    ):
        outside = ~predictions[name].between(low, high)
        outside &= ~(name.startswith("predicted") & (predictions[name] == NO_ANSWER))
        if outside.any():
            raise ValueError(f"predictions: {name} {predictions[name][outside].iloc[0]} is outside {low}..{high}")
    values = np.asarray(predictions["value"], int) - space.lo
    if (np.asarray(space.range_index)[values] != np.asarray(predictions["range"], int)).any():
        raise ValueError("predictions: a true range is not the range of its true value in this label space")
    double = predictions.duplicated([*BLOCK, "method", "seed", "row"])
    if double.any():
        where = predictions[double].iloc[0]
        raise ValueError(f"predictions hold row {where['row']} of {where['method']} and seed {where['seed']} twice")


@dataclass(frozen=True)
class Method:
    """One method's predictions on a block's items; arrays (N,), valid where `there`."""

    there: np.ndarray
    predicted_value: np.ndarray
    predicted_range: np.ndarray
    router_range: np.ndarray

    @property
    def routes(self) -> bool:
        """Whether the method has a router."""
        return bool((self.router_range[self.there] >= 0).any())


@dataclass(frozen=True)
class Block:
    """The N items of one split, recipe and part over all seeds, and each method's predictions on them.

    kinds: masks (N,) of items by number of operations ("ops=2", and "ops>1" where some have one and some more), by
    operators ("pattern=mixed") and by how many steps were not in training ("unseen=some"), where a frame says so.
    """

    seeds: np.ndarray
    rows: np.ndarray
    structures: np.ndarray
    value: np.ndarray
    range: np.ndarray
    kinds: dict[str, np.ndarray]
    methods: dict[str, Method]


def align(block: pd.DataFrame) -> Block:
    """One (split, recipe, part) of a checked frame as a Block.

    ValueError when a method covers only some items of a seed: paired differences need the same items.
    """
    span = int(block["row"].max()) + 1
    keys, first, place = np.unique(
        np.asarray(block["seed"], np.int64) * span + np.asarray(block["row"], np.int64),
        return_index=True,
        return_inverse=True,
    )
    seeds = keys // span
    column = {name: np.asarray(block[name]) for name in ("structure", "value", "range", "method")}
    guesses = {name: np.asarray(block[name], int) for name in ("predicted_value", "predicted_range", "router_range")}
    methods = {}
    for name in sorted(set(column["method"])):
        mine = np.flatnonzero(column["method"] == name)
        there = np.zeros(len(keys), bool)
        there[place[mine]] = True
        for seed in np.unique(seeds[there]):
            items = seeds == seed
            if not there[items].all():
                raise ValueError(
                    f"method {name!r} predicts {there[items].sum()} of the {items.sum()} items of seed {seed} in "
                    f"{block['split'].iloc[0]}/{block['recipe'].iloc[0]}/{block['part'].iloc[0]}"
                )
        filled = {key: np.full(len(keys), -1) for key in guesses}
        for key, values in guesses.items():
            filled[key][place[mine]] = values[mine]
        methods[name] = Method(there, **filled)
    return Block(
        seeds=seeds,
        rows=keys % span,
        structures=column["structure"][first].astype(str),
        value=column["value"][first].astype(int),
        range=column["range"][first].astype(int),
        kinds=_kinds(block, first),
        methods=methods,
    )


def _kinds(block: pd.DataFrame, first: np.ndarray) -> dict[str, np.ndarray]:
    kinds = {}
    for name, prefix in (("operations", "ops"), ("pattern", "pattern"), ("unseen", "unseen")):
        if name in block:
            of_item = np.asarray(block[name])[first]
            kinds |= {f"{prefix}={kind}": of_item == kind for kind in np.unique(of_item)}
    if "ops=1" in kinds and not kinds["ops=1"].all():
        kinds["ops>1"] = ~kinds["ops=1"]
    return kinds


def variant(definition: str, recipe: str) -> str:
    """The slash-joined variant: data definition (may be empty), then recipe."""
    return f"{definition}/{recipe}" if definition else recipe
