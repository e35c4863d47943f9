"""Do RED's errors follow from what can be read of its features? Item by item: is it wrong where a linear probe is?

The probes read the very features that RED reads (recipe `chosen`, split structure, Task 1) and are fitted on training
rows; RED and probes are then compared on the test rows.
"""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import evaluation, phrasing, probes
from redlib.config import Profile
from redlib.phrasing import FIRST, SECOND
from redlib.statistics import Resampler, Statistic
from redlib.study import methods, task1
from redlib.study.arithmetic_tables import TENS, UNITS
from redlib.study.settings import Data
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

OUTCOMES = ("value", "range")  # of RED


def agreement_tables(profile: Profile) -> Stage:
    """arithmetic_agreement.csv: RED beside a linear probe of each target, on the same test rows, over seeds.

    probe_accuracy; and of each outcome (value, range) of RED: <outcome>_probe_right and <outcome>_probe_wrong, RED's
    accuracy on the rows where the probe is right and wrong; <outcome>_link, the first minus the second (paired);
    <outcome>_phi, the correlation of the two being right. Rows that do not exist in a seed leave that seed out.
    """
    a, s = profile.arithmetic, task1.setting(profile, "chosen", "structure")
    seeds = min(a.seeds, s.seeds)

    def make(stage: Stage, out: Path) -> None:
        frame = pd.read_parquet(stage.inputs["predictions"].folder / "predictions.parquet")
        mine = (frame["method"] == "red") & (frame["part"] == "test") & (frame["recipe"] == "chosen")
        said = frame[mine].set_index(["seed", "row"])
        data = Data(s)
        wanted = targets(data.pool)
        parts = [_of_seed(data, wanted, said.loc[seed], seed, a.rows) for seed in range(seeds)]
        both = pd.concat(parts, ignore_index=True)
        rows = [
            {"target": target, "metric": metric} | asdict(found.overall())
            for target in wanted
            for metric, found in linked(both, target, profile.bootstrap).items()
        ]
        kept = pd.DataFrame(rows).query("n > 0")
        about = {
            "variant": "chosen",
            "split": "structure",
            "part": "test",
            "method": "red",
            "group": "all",
            "seed": "all",
        }
        save(profile, stage, out, {"arithmetic_agreement": fill(kept, **about)})

    config = {"rows": a.rows, "seeds": seeds, "resamples": profile.bootstrap}
    return Stage(
        "arithmetic agreement", 1, config, make, {"predictions": methods.predictions_stage(s)}, 10 + seeds * 10
    )


def targets(pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """Class numbers (N,) by name: both operands in the order in which the text says them, the value and parts of it."""
    spots = [phrasing.places(text) for text in pool["text"]]
    operands = {
        name: np.array([int(text[slice(*spot[name])]) for text, spot in zip(pool["text"], spots, strict=True)])
        for name in (FIRST, SECOND)
    }
    value = pool["value"].to_numpy()
    places = {place: evaluation.digit(value, place) for place in (TENS, UNITS)}
    return operands | {"value": value, "range": pool["range"].to_numpy()} | places


def _of_seed(data: Data, wanted: dict[str, np.ndarray], said: pd.DataFrame, seed: int, most: int) -> pd.DataFrame:
    """The test rows of a seed: structure, range, whether RED's value and range are right, and whether each probe is.

    The probes are fitted on at most `most` training rows; a tenth of these rows' structures choose the penalty.
    """
    train, test = data.rows["train"][seed], data.rows["test"][seed]
    draw = np.random.default_rng([23, seed])
    train = np.sort(draw.permutation(train)[:most])
    structures = data.pool["structure"].to_numpy()
    known = np.unique(structures[train])
    chosen = np.isin(structures[train], draw.permutation(known)[: max(1, len(known) // 10)])
    guess = probes.closed(data.x.cpu().numpy(), wanted, {}, train[~chosen], train[chosen], test)
    red = said.loc[data.pool["row"].to_numpy()[test]]
    right = {name: guess[name] == y[test] for name, y in wanted.items()}
    outcomes = {f"red_{o}": (red[f"predicted_{o}"] == red[o]).to_numpy() for o in OUTCOMES}
    about = {"seed": seed, "structure": structures[test], "of_range": wanted["range"][test]}
    return pd.DataFrame(about | outcomes | right)


def linked(both: pd.DataFrame, target: str, resamples: int) -> dict[str, Statistic]:
    """How RED's being right hangs together with the probe's: see `agreement_tables`."""
    resample = Resampler(both["seed"], both["structure"], both["of_range"], resamples)
    probe, everything = both[target].to_numpy(), np.ones(len(both))
    found = {"probe_accuracy": resample.ratio(probe, everything)[0]}
    for outcome in OUTCOMES:
        red = both[f"red_{outcome}"].to_numpy()
        columns = np.column_stack([red & probe, red & ~probe, red, red & probe])
        under = np.column_stack([probe, ~probe, everything, everything])
        right, wrong, level, together = resample.ratio(columns, under)
        found |= {f"{outcome}_probe_right": right, f"{outcome}_probe_wrong": wrong, f"{outcome}_link": right - wrong}
        found[f"{outcome}_phi"] = phi(level, found["probe_accuracy"], together)
    return found


def phi(a: Statistic, b: Statistic, both: Statistic) -> Statistic:
    """Correlation of two yes-or-no variables from their shares and that of both; none where one of them is constant."""

    def of(part: str) -> np.ndarray:
        p, q, r = (getattr(statistic, part) for statistic in (a, b, both))
        spread = np.sqrt(np.clip(p * (1 - p) * q * (1 - q), 0, None))
        return np.divide(r - p * q, spread, out=np.full(np.shape(spread), np.nan), where=spread > 1e-9)

    return replace(a, value=of("value"), draws=of("draws"), signed=True)


TABLES: dict[str, Callable[[Profile], Stage]] = {"arithmetic_agreement": agreement_tables}
