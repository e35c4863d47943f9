"""Operand maps: what one trained method says of every ordered pair of operands, each exactly once."""

import numpy as np
import pandas as pd

from redlib.evaluation.sweeps import entropy

NEEDED = ("first", "second", "operator", "template", "value", "range")


def pair_maps(population: pd.DataFrame, said: pd.DataFrame, space, seen: np.ndarray) -> pd.DataFrame:
    """Tidy rows (group, metric, value, n; first, second, operator, in_training) of one seed's answers.

    population: N texts, every ordered pair once in each wording, the canonical wording first; said: what `predict`
    says of them; seen: (N,), whether the pair is in that seed's training rows.
    Metrics of the canonical wording: value_error and range_error (predicted minus true, in values and in ranges) and,
    for a method with a router, weight_entropy (nats); <metric>_wordings is the mean over the n wordings.
    Raises ValueError for missing columns, other lengths, and a pair that a wording has twice or not at all.
    """
    missing = [name for name in NEEDED if name not in population]
    if missing:
        raise ValueError(f"a population lacks the columns {', '.join(missing)}; needed: {', '.join(NEEDED)}")
    if not len(population) == len(said) == len(seen):
        raise ValueError(f"{len(population)} texts, {len(said)} answers and {len(seen)} marks do not go together")
    keys = ["operator", "first", "second"]
    work = (
        population[[*keys, "template", "range"]]
        .reset_index(drop=True)
        .assign(
            in_training=np.asarray(seen, int),
            value_error=said["predicted_value"].to_numpy() - population["value"].to_numpy(),
            range_error=said["predicted_range"].to_numpy() - population["range"].to_numpy(),
        )
    )
    metrics = ["value_error", "range_error"]
    alpha = said[[f"alpha_{k + 1}" for k in range(space.K)]].to_numpy(float)
    if not np.isnan(alpha).any():
        work["weight_entropy"] = entropy(alpha)
        metrics.append("weight_entropy")
    canonical = _once(work, keys)
    grouped = work.groupby(keys, sort=False)
    means = grouped[metrics].mean().reset_index()
    pairs = canonical[[*keys, "in_training", "range"]]
    made = [pairs.assign(metric=name, value=canonical[name].to_numpy(float), n=1) for name in metrics]
    n = grouped.size().to_numpy()
    made += [pairs.assign(metric=f"{name}_wordings", value=means[name].to_numpy(), n=n) for name in metrics]
    frame = pd.concat(made, ignore_index=True)
    return frame.assign(group=np.array(space.names)[frame["range"].to_numpy(int)]).drop(columns="range")


def _once(work: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """The rows of the first wording; ValueError unless every wording has exactly the same pairs, once each."""
    wordings = work["template"].unique()
    canonical = work[work["template"] == wordings[0]].reset_index(drop=True)
    double = work.duplicated([*keys, "template"])
    if double.any():
        pair = work[double].iloc[0]
        raise ValueError(f"pair {pair['first']}, {pair['second']} stands twice in wording {pair['template']!r}")
    if len(work) != len(canonical) * len(wordings):
        raise ValueError(f"the {len(wordings)} wordings of a population must have the same pairs, once each")
    return canonical
