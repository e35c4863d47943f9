"""All numbers of one method's routing that are no curve."""

import numpy as np
import pandas as pd

from redlib.routing.calibration import brier, ece
from redlib.routing.curves import confidences, right
from redlib.routing.load import load
from redlib.routing.rows import masked
from redlib.routing.weights import entropy, weights_of
from redlib.statistics import Resampler, Statistic


def summary(resample: Resampler, frame: pd.DataFrame, space) -> dict[tuple[str, str], Statistic]:
    """Load, entropy, agreement, calibration, and what a wrong route costs: {(group, metric): Statistic}.

    frame: one method's predictions, alpha_1..alpha_K and, for the range, range_1..range_K (probabilities) and
    range_confidence. Besides `load`'s: router_entropy (share of the largest), router_accuracy, true_range_weight (mean
    weight of the true range), <router|value|range>_ece, _brier (router and range over all ranges, value of the
    confidence that the answer is right) and _overconfidence (mean confidence minus accuracy). Groups route=right and
    route=wrong: value_accuracy, range_accuracy, and confidence (mean). In the group route=wrong a right value is a
    rescued route. `route_wrong_share` is the share of wrong routes.
    """
    weights, ranges = weights_of(frame, space), frame["range"].to_numpy()
    hits, claimed = right(frame), confidences(frame, space)
    everything = np.ones(len(frame), bool)
    scores = {"router": brier(weights, ranges), "value": brier(*claimed["value"])}
    if "range" in claimed:
        said = frame[[f"range_{k + 1}" for k in range(space.K)]].to_numpy()
        scores["range"] = brier(said, ranges)
    told = {
        **hits,
        "router_entropy": entropy(weights),
        "true_range_weight": weights[np.arange(len(frame)), ranges],
        "route_wrong_share": ~hits["router_accuracy"],
        **{f"{name}_brier": score for name, score in scores.items()},
        **{f"{name}_overconfidence": said - hit for name, (said, hit) in claimed.items()},
    }
    wanted = {("all", metric): (values, everything) for metric, values in told.items()}
    for group, mask in (("route=right", hits["router_accuracy"]), ("route=wrong", ~hits["router_accuracy"])):
        wanted |= {(group, metric): (hits[metric], mask) for metric in ("value_accuracy", "range_accuracy")}
        wanted[group, "confidence"] = (frame["confidence"].to_numpy(), mask)
        wanted[group, "router_entropy"] = (told["router_entropy"], mask)
    found = masked(resample, wanted, [metric for metric in told if metric.endswith("_overconfidence")])
    found |= {("all", f"{name}_ece"): ece(resample, said, hit) for name, (said, hit) in claimed.items()}
    return {**load(resample, weights, ranges, space), **found}
