"""The table of the fair comparison: accuracy of every arm, and paired differences between arms."""

import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.evaluation.predictions import Block, align, variant
from redlib.models.arms import ARMS, CROSSED, crossed
from redlib.statistics import Estimate, Resampler, Statistic
from redlib.study import fair
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import save


def fair_tables(profile: Profile) -> Stage:
    """fair.csv: accuracy of every arm, and its paired differences to RED and to the arm that it is one change from."""
    wanted = fair.settings(profile)
    inputs = {f"{s.task}, {s.name}": fair.comparison_stage(s, profile.fair.seeds) for s in wanted}

    def make(stage: Stage, out: Path) -> None:
        frames = []
        for s, made in zip(wanted, stage.inputs.values(), strict=True):
            predictions = pd.read_parquet(made.folder / "predictions.parquet")
            frames.append(tidy(predictions, pd.read_csv(made.folder / "measured.csv"), s, profile.bootstrap))
        save(profile, stage, out, {"fair": pd.concat(frames, ignore_index=True)})

    return Stage("fair tables", 2, {"resamples": profile.bootstrap}, make, inputs, 10)


def tidy(predictions: pd.DataFrame, measured: pd.DataFrame, s: Setting, resamples: int) -> pd.DataFrame:
    """Tidy rows of one setting, with columns `reference` and `changed` (what the arm does otherwise than that one).

    value_accuracy, range_accuracy, router_accuracy of each seed and over seeds; over seeds also <metric>_change, the
    arm minus the reference on the same rows, against RED and against the arm's own reference; scale (learned) and
    logit_difference (identity: largest difference over largest logit). Method `crossing` has <metric>_effect, see
    `effects`. Intervals as in `evaluate`.
    """
    evaluation.check(predictions, s.labels)
    block = align(predictions)
    resampler = Resampler(block.seeds, block.structures, block.range, resamples, stream(s))
    rows: list[dict] = []
    for metric, numbers in _accuracies(block, resampler).items():
        for name, number in numbers.items():
            own = ARMS[name].reference if name in ARMS else "red"
            for i, seed in enumerate(resampler.seeds):
                rows.append(_row(name, own, metric, number.of_seed(i), str(seed)))
            rows.append(_row(name, own, metric, number.overall()))
            for reference in {"red", own} - {name}:
                if reference in numbers:
                    change = (number - numbers[reference]).overall()
                    rows.append(_row(name, reference, f"{metric}_change", change))
        for changed, effect in effects(numbers).items():
            about = {"method": "crossing", "seed": "all", "metric": f"{metric}_effect", "reference": "red"}
            rows.append({**about, "changed": changed, **asdict(effect.overall())})
    for name, metric, seed, value in measured[["method", "metric", "seed", "value"]].itertuples(index=False):
        rows.append(_row(name, "red", metric, Estimate(value, np.nan, np.nan, pd.NA), str(seed)))
    about = {"task": s.task, "variant": variant(s.definition, s.recipe.name), "split": s.split, "part": "test"}
    return pd.DataFrame(rows).assign(group="all", **about)


def effects(numbers: Mapping[str, Statistic]) -> dict[str, Statistic]:
    """What each change of CROSSED does, and what they do to each other, over all combinations of them.

    numbers: an accuracy of every arm. Of one change: with it minus without it, mean over what the others are. Of two or
    three, joined by " x ": by how much that of the first differs where the others are made too.
    """
    cells, found = crossed(), {}
    one = numbers["red"]
    for size in range(1, len(CROSSED) + 1):
        for together in combinations(CROSSED, size):
            share = 2 ** (size - len(CROSSED))
            value, draws = (
                share * sum(_sign(levels, together) * getattr(numbers[arm], part) for levels, arm in cells.items())
                for part in ("value", "draws")
            )
            reach = np.full(len(value), 2.0 ** (size - 1))
            name = " x ".join(f"{setting}={CROSSED[setting][1]}" for setting in together)
            found[name] = replace(one, value=value, draws=draws, signed=True, ceiling=reach)
    return found


def _sign(levels: tuple, together: tuple[str, ...]) -> int:
    """-1 to the number of changes of `together` that are not made."""
    made = dict(zip(CROSSED, levels, strict=True))
    return (-1) ** sum(made[setting] != CROSSED[setting][1] for setting in together)


def stream(s: Setting) -> int:
    """The seed of a setting's resamples: that of `evaluate`, so that equal rows have equal intervals."""
    return zlib.crc32(f"{s.split}/{s.recipe.name}/test".encode())


def _accuracies(block: Block, resampler: Resampler) -> dict[str, dict[str, Statistic]]:
    """Each accuracy of each arm; that of the router only for arms that have one."""
    guesses = {
        "value_accuracy": {name: m.predicted_value == block.value for name, m in block.methods.items()},
        "range_accuracy": {name: m.predicted_range == block.range for name, m in block.methods.items()},
        "router_accuracy": {name: m.router_range == block.range for name, m in block.methods.items() if m.routes},
    }
    everything = np.ones(len(block.rows))
    return {
        metric: {name: resampler.ratio(hit, everything)[0] for name, hit in hits.items()}
        for metric, hits in guesses.items()
    }


def _row(name: str, reference: str, metric: str, e: Estimate, seed: str = "all") -> dict:
    if name == fair.SAME:
        changed = "mixed as logits"
    else:
        changes = ARMS[name].changes(ARMS[reference]).items()
        changed = ", ".join(f"{field}={value}" for field, value in changes) or "nothing"
    about = {"method": name, "seed": seed, "metric": metric, "reference": reference, "changed": changed}
    return {**about, "value": e.value, "n": e.n, "low": e.low, "high": e.high}


TABLES = {"fair": fair_tables}
