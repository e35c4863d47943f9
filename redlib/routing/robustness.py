"""Accuracy as the routing weights are corrupted, and whether RED loses less by it than a mixture."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from redlib.models import range_probabilities
from redlib.routing.corrupt import CORRUPTIONS, NEUTRAL, corrupt
from redlib.routing.experts import Experts
from redlib.statistics import Resampler, Statistic

METRICS = ("value_accuracy", "range_accuracy")
JUDGED = ("red", "red_plus", "softmax_moe", "top1")  # the methods whose losses are compared
Hits = dict[tuple[str, float, str], np.ndarray]  # (corruption, strength, metric): which rows (N,) are right
LESS, MORE, SAME = "RED loses less", "RED loses more", "no measurable difference"


def hits(
    experts: Experts,
    value: np.ndarray,
    ranges: np.ndarray,
    hard: bool = False,
    corruptions: Mapping[str, Sequence[float]] = CORRUPTIONS,
    seed: int = 0,
) -> Hits:
    """Which of N rows are right under every corruption and strength: (N,) by (corruption, strength, metric).

    value, ranges (N,): true class and true range; `hard`: the largest corrupted weight takes all (top-1). A sequence
    of strengths starts or passes through NEUTRAL, where the weights are the router's own.
    """
    own, found = experts.alpha.numpy(), {}
    for kind, strengths in corruptions.items():
        for strength in strengths:
            weights = corrupt(own, kind, strength, ranges, seed)
            if hard:
                weights = np.eye(own.shape[1], dtype=own.dtype)[weights.argmax(1)]
            logits = experts.answer(weights)
            found[kind, strength, "value_accuracy"] = logits.argmax(-1).numpy() == value
            said = range_probabilities(logits, experts.labels).argmax(-1)
            found[kind, strength, "range_accuracy"] = said.numpy() == ranges
    return found


def flat(
    experts: Experts, value: np.ndarray, ranges: np.ndarray, corruptions: Mapping[str, Sequence[float]] = CORRUPTIONS
) -> Hits:
    """The same of value and ranges (N,) for equal weights, which no corruption of the router reaches."""
    logits = experts.answer(np.full(tuple(experts.alpha.shape), 1 / experts.labels.K))
    said = range_probabilities(logits, experts.labels).argmax(-1).numpy()
    right = {"value_accuracy": torch.argmax(logits, -1).numpy() == value, "range_accuracy": said == ranges}
    return {(kind, s, metric): right[metric] for kind, all_ in corruptions.items() for s in all_ for metric in METRICS}


def robustness(
    resample: Resampler, methods: Mapping[str, Hits], reference: str = "red"
) -> dict[tuple[str, str, float, str], Statistic]:
    """{(method, corruption, strength, metric): Statistic} of the `hits` (N,) of every method on the same N rows.

    The two accuracies of every method; of those JUDGED also <accuracy>_drop, what is lost from the own uncorrupted
    accuracy, and <accuracy>_kept, the share of it that is left. Of all but RED each of these as <metric>_below_red:
    RED's number minus theirs on the same rows, under the same corruption.
    """
    points = [(method, *point) for method, hits in methods.items() for point in hits]
    columns = np.column_stack([hit for hits in methods.values() for hit in hits.values()])
    found = dict(zip(points, resample.ratio(columns, np.ones(columns.shape)), strict=True))
    for method, kind, strength, metric in points:
        if method in JUDGED and strength != NEUTRAL[kind]:
            plain, now = found[method, kind, NEUTRAL[kind], metric], found[method, kind, strength, metric]
            found[method, kind, strength, f"{metric}_drop"] = plain - now
            found[method, kind, strength, f"{metric}_kept"] = _share(now, plain)
    for method, *rest in list(found):
        if method != reference:
            *point, metric = rest
            theirs, ours = found[method, *rest], found[reference, *rest]
            found[method, *point, f"{metric}_below_{reference}"] = ours - theirs
    return found


def _share(part: Statistic, whole: Statistic) -> Statistic:
    """part / whole; a seed whose whole is zero has no share."""

    def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.divide(a, b, out=np.full(a.shape, np.nan), where=b > 0)

    ratio = divide(part.value, whole.value)
    return Statistic(**{**vars(part), "value": ratio, "draws": divide(part.draws, whole.draws)})


def verdicts(frame: pd.DataFrame, other: str = "softmax_moe", metrics: Sequence[str] = METRICS) -> pd.DataFrame:
    """Does RED lose less than `other` under the same corruption? (the source, 4.7.3)

    frame: the table of `robustness`. A row a task, variant, split, metric, corruption and strength, with RED's drop
    minus the other's (`value`, `low`, `high`; negative: RED loses less) and `verdict`; the share kept, RED's minus the
    other's (`kept`, `kept_low`, `kept_high`), NaN where the other had nothing to lose, and `kept_verdict`.
    """
    keys = ["task", "variant", "split", "corruption", "strength"]
    parts = []
    for metric in metrics:
        mine = frame[frame["method"] == other]
        lost = mine[mine["metric"] == f"{metric}_drop_below_red"].set_index(keys)[["value", "low", "high"]]
        kept = mine[mine["metric"] == f"{metric}_kept_below_red"].set_index(keys)[["value", "low", "high"]]
        kept = kept.set_axis(["kept", "kept_low", "kept_high"], axis=1)
        parts.append(lost.join(kept).reset_index().assign(metric=metric))
    made = pd.concat(parts, ignore_index=True)
    made["verdict"] = np.select([made["high"] < 0, made["low"] > 0], [LESS, MORE], SAME)
    made["kept_verdict"] = np.select([made["kept_low"] > 0, made["kept_high"] < 0], [LESS, MORE], SAME)
    return made


def half_lost(frame: pd.DataFrame, metric: str = "value_accuracy") -> pd.DataFrame:
    """The first tried strength beyond the neutral one at which a method keeps less than half of its own accuracy.

    frame: the table of `robustness`. A row a task, variant, split, method and corruption; `strength` is NaN where
    half is never lost.
    """
    kept = frame[frame["metric"] == f"{metric}_kept"]
    kept = kept[kept["strength"] > kept["corruption"].map(NEUTRAL).astype(float)]
    keys = ["task", "variant", "split", "method", "corruption"]
    first = kept.assign(strength=kept["strength"].where(kept["value"] < 0.5)).groupby(keys)["strength"].min()
    return first.reset_index()
