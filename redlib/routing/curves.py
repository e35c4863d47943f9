"""The curves of one method: reliability, selective accuracy, and what changes with the distance to a range boundary."""

import numpy as np
import pandas as pd

from redlib.routing.calibration import reliability, selective
from redlib.routing.rows import masked
from redlib.routing.weights import entropy, weights_of
from redlib.statistics import Resampler, Statistic

SOURCES = ("router", "value", "range")


def right(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """Which rows (N,) of predictions are right: value_accuracy, range_accuracy, router_accuracy."""
    return {
        "value_accuracy": (frame["predicted_value"] == frame["value"]).to_numpy(),
        "range_accuracy": (frame["predicted_range"] == frame["range"]).to_numpy(),
        "router_accuracy": (frame["router_range"] == frame["range"]).to_numpy(),
    }


def confidences(frame: pd.DataFrame, space) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What is claimed and whether it is right, (N,) each: the router's largest weight for the range, the output's
    largest value probability, and (column range_confidence, where there is one) its largest range probability."""
    hits = right(frame)
    claimed = {"router": weights_of(frame, space).max(1), "value": frame["confidence"].to_numpy()}
    if "range_confidence" in frame:
        claimed["range"] = frame["range_confidence"].to_numpy()
    return {source: (said, hits[f"{source}_accuracy"]) for source, said in claimed.items()}


def boundary_distance(space) -> np.ndarray:
    """How far each value (C,) is from the nearest value of another range: 1 for both sides of a boundary."""
    if space.K < 2:
        raise ValueError("a label space of one range has no boundary")
    edges = np.array(space.edges) + 0.5
    return (np.abs(np.array(space.values)[:, None] - edges).min(1) + 0.5).astype(int)


def by_distance(resample: Resampler, frame: pd.DataFrame, space) -> dict[tuple[int, str], Statistic]:
    """By distance of the true value to the nearest boundary: the three accuracies, router_entropy (share of the
    largest), and confidence minus accuracy of router, value and range (`router_overconfidence`, ...)."""
    distance = boundary_distance(space)[frame["value"].to_numpy() - space.lo]
    told = {**right(frame), "router_entropy": entropy(weights_of(frame, space))}
    gaps = {f"{name}_overconfidence": said - hit for name, (said, hit) in confidences(frame, space).items()}
    wanted = {
        (int(d), metric): (values, distance == d)
        for d in np.unique(distance)
        for metric, values in {**told, **gaps}.items()
    }
    return masked(resample, wanted, gaps)


def curves(resample: Resampler, frame: pd.DataFrame, space) -> dict[tuple[str, float, str], Statistic]:
    """Every curve of one method's predictions, {(curve, x, metric): Statistic}.

    reliability_router / _value / _range: x the bin's centre. selective_confidence, selective_entropy: x the coverage,
    answering first where the value probability is high, or where the router's entropy is low. distance: x the distance
    to the nearest boundary.
    """
    hits = {metric: hit for metric, hit in right(frame).items() if metric != "router_accuracy"}
    seeds = frame["seed"].to_numpy()
    found: dict[str, dict] = {}
    for source, (said, hit) in confidences(frame, space).items():
        found[f"reliability_{source}"] = reliability(resample, said, hit)
    found["selective_confidence"] = selective(resample, frame["confidence"].to_numpy(), seeds, hits)
    found["selective_entropy"] = selective(resample, -entropy(weights_of(frame, space)), seeds, hits)
    found["distance"] = by_distance(resample, frame, space)
    return {(curve, *key): s for curve, statistics in found.items() for key, s in statistics.items()}
