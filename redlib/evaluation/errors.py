"""By how much wrong values are wrong, and which of their digits are right: is an answer a slip or a guess?

A wrong value is compared with one drawn evenly from the range that was predicted, the true value left out: a method
that knew the range and nothing else would look like that.
"""

import zlib
from collections.abc import Sequence

import numpy as np
import pandas as pd

from redlib.evaluation.maps import KEYS, _select, _tidy
from redlib.statistics import Resampler

STEPS = (1, 5, 10)
ERROR_KINDS = (*(f"off_by_{step}" for step in STEPS), "off_by_other")
PLACES = {"units_digit": 1, "tens_digit": 10}
RIGHT = {**{f"right_{place}": place for place in PLACES}, "right_parity": "parity"}


def digit(values, place: str) -> np.ndarray:
    """The "units_digit", "tens_digit" or "parity" of whole numbers (the tens digit of 100 is 0)."""
    values = np.asarray(values, int)
    if place == "parity":
        return values % 2
    if place not in PLACES:
        raise ValueError(f"unknown digit {place!r}; valid digits: {', '.join(PLACES)}, parity")
    return values // PLACES[place] % 10


def error_kinds(
    predictions: pd.DataFrame,
    space,
    methods: Sequence[str] | None = None,
    task: str = "task1",
    definition: str = "",
    resamples: int = 1000,
    run: str = "",
) -> pd.DataFrame:
    """What the wrong values of a frame of predictions are like, as tidy rows (COLUMNS, group all, seed all).

    Of the wrong rows: off_by_1, off_by_5, off_by_10 and off_by_other, shares that add up to 1; right_units_digit,
    right_tens_digit and right_parity; for each of these <metric>_expected, the share for a value drawn evenly from the
    predicted range, and <metric>_above_expected. Of all rows: units_digit_accuracy, tens_digit_accuracy,
    parity_accuracy. Of either, units_minus_tens: right units digits minus right tens digits
    (wrong_units_minus_tens of the wrong rows). Intervals resample structures within their range, then seeds. A method
    without wrong rows has no rows about them.
    """
    frames = []
    for names, rows in _select(predictions, space, methods).groupby(KEYS, observed=True):
        rows = rows.sort_values(["seed", "row"])  # the same resamples for every method
        stream = zlib.crc32("/".join(map(str, names[:-1])).encode())
        resampler = Resampler(rows["seed"], rows["structure"].astype(str), rows["range"], resamples, stream)
        true, said = rows["value"].to_numpy(int), rows["predicted_value"].to_numpy(int)
        found = _of_wrong(true, said, space, resampler) | _of_all(true, said, resampler)
        metrics = {metric: statistic.overall() for metric, statistic in found.items()}
        kept = {metric: e for metric, e in metrics.items() if e.n}
        about = {**dict(zip(KEYS, names, strict=True)), "group": "all", "metric": list(kept)}
        about |= {"value": [e.value for e in kept.values()], "n": [e.n for e in kept.values()]}
        tidy = _tidy(pd.DataFrame(about), [], task, definition, run)
        frames.append(tidy.assign(low=[e.low for e in kept.values()], high=[e.high for e in kept.values()]))
    return pd.concat(frames, ignore_index=True)


def _properties(true: np.ndarray, said: np.ndarray) -> dict[str, np.ndarray]:
    """What may be true of a wrong value, whatever the two shapes broadcast to."""
    off = np.abs(said - true)
    kinds = {f"off_by_{step}": off == step for step in STEPS}
    kinds["off_by_other"] = ~np.isin(off, STEPS)
    return kinds | {metric: digit(said, place) == digit(true, place) for metric, place in RIGHT.items()}


def _of_wrong(true: np.ndarray, said: np.ndarray, space, resampler: Resampler) -> dict:
    wrong = true != said
    found = _properties(true, said)
    expected = _expected(space)
    ranges = np.asarray(space.range_index)[said - space.lo]
    by_chance = [expected[metric][true - space.lo, ranges] for metric in found]
    columns = np.column_stack([*found.values(), *by_chance]) * wrong[:, None]
    shares = resampler.ratio(columns, np.repeat(wrong[:, None], columns.shape[1], 1))
    measured = dict(zip(found, shares[: len(found)], strict=True))
    chance = dict(zip(found, shares[len(found) :], strict=True))
    made = {f"{metric}_expected": statistic for metric, statistic in chance.items()}
    made |= {f"{metric}_above_expected": measured[metric] - chance[metric] for metric in found}
    made["wrong_units_minus_tens"] = measured["right_units_digit"] - measured["right_tens_digit"]
    return measured | made


def _of_all(true: np.ndarray, said: np.ndarray, resampler: Resampler) -> dict:
    hits = np.column_stack([digit(said, place) == digit(true, place) for place in RIGHT.values()])
    shares = resampler.ratio(hits, np.ones(hits.shape))
    found = {f"{place}_accuracy": share for place, share in zip(RIGHT.values(), shares, strict=True)}
    found["units_minus_tens"] = found["units_digit_accuracy"] - found["tens_digit_accuracy"]
    return found


def _expected(space) -> dict[str, np.ndarray]:
    """By property: its share among the other values of a range, (C true values, K predicted ranges)."""
    values = np.array(space.values)
    other = values[:, None] != values
    member = np.eye(space.K)[list(space.range_index)]  # (C, K)
    total = np.maximum(other @ member, 1)  # a range of one value cannot be wrong
    return {name: (holds & other) @ member / total for name, holds in _properties(values[:, None], values).items()}


def signed_errors(
    predictions: pd.DataFrame,
    space,
    methods: Sequence[str] | None = None,
    reach: int = 25,
    task: str = "task1",
    definition: str = "",
    run: str = "",
) -> pd.DataFrame:
    """How wrong values lie about the true one: share of the wrong rows by `error`, predicted minus true, from -reach to
    reach; n is the number of wrong rows. Tidy rows (COLUMNS, metric error_share, group and seed all), no intervals."""
    chosen = _select(predictions, space, methods)
    work = chosen[KEYS].assign(error=chosen["predicted_value"] - chosen["value"])
    work = work[work["error"] != 0]
    total = work.groupby(KEYS, observed=True).size().rename("n")
    counts = work.groupby([*KEYS, "error"], observed=True).size().rename("count").reset_index().merge(total, on=KEYS)
    near = counts[counts["error"].abs() <= reach].reset_index(drop=True)
    near = near.assign(group="all", metric="error_share", value=near["count"] / near["n"])
    return _tidy(near, ["error"], task, definition, run)
