"""What makes Task 2 hard: recipe `chosen` on the same chains in one wording or in many, and on chains whose signs are
balanced or as they fall. Not the source's."""

import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import datasets, probes
from redlib.config import Profile
from redlib.datasets import chains
from redlib.datasets.chains import Stratum
from redlib.datasets.pool import frame
from redlib.evaluation.predictions import Block, align
from redlib.expressions import Chains, Expression, LabelSpace
from redlib.phrasing import TASK2, TEMPLATES
from redlib.statistics import Resampler, Statistic, unpaired_difference
from redlib.study import methods, task2
from redlib.study.data import read_pool
from redlib.study.settings import Setting, compose
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

STEPS = "operations"
WORDINGS = ("all", "canonical")
SIGNS = ("even", "drawn")  # + and - equally frequent over all, or every order of signs as often as it has values
METHODS = ("red", "router_only", "mlp_full_data")
SIGNS_ALONE = "signs_alone"  # the commonest range among training chains with as many + and as many -
METRICS = ("value_accuracy", "range_accuracy")
ARMS = tuple(product(WORDINGS, SIGNS))


def variant(wordings: str, signs: str) -> str:
    """What the tables call one of ARMS."""
    return f"{STEPS}/chosen/wordings={wordings},signs={signs}"


def pool_stage(profile: Profile, wordings: str, signs: str) -> Stage:
    """A pool of distinct chains, a text each: the same chains for both `wordings`."""
    t = profile.task2
    config = {"rows": profile.hardness.rows, "seed": t.pool_seed, "operands": list(t.operands), "steps": STEPS}
    config |= {"labels": asdict(task2.labels(profile)), "wordings": wordings, "signs": signs}
    return Stage("hardness pool", 1, config, _make_pool, seconds=2 + config["rows"] * 2e-4, bytes=config["rows"] * 60)


def _make_pool(stage: Stage, out: Path) -> None:
    c = stage.config
    labels, about = LabelSpace(**c["labels"]), f"hardness/{c['signs']}/{c['seed']}"
    drawn = draw(c["rows"], c["signs"], tuple(c["operands"]), labels, random.Random(about))
    rng = random.Random(f"{about}/wordings")
    template = {
        "canonical": lambda chain: TEMPLATES[datasets.CANONICAL["task2"]],
        "all": lambda chain: rng.choice([t for t in TASK2 if t.wording.least <= len(chain.operators)]),
    }[c["wordings"]]
    datasets.save(frame([(chain, template(chain)) for chain in drawn], labels), out / "pool.parquet")


def draw(rows: int, signs: str, operands: tuple[int, int], labels: LabelSpace, rng: random.Random) -> list[Expression]:
    """Distinct chains in the proportions of steps `operations`, rows/K of every range; `signs` are even or drawn.

    Signs that a range has too few chains for are all taken, and others of that length make up for them. ValueError
    where a range has too few chains of some length.
    """
    steps = replace(chains.STEPS[STEPS], even_signs=signs == "even")
    strata = []
    for bounds in labels.bounds:
        made = {(n, plus): Chains(plus, n - plus, bounds, operands) for n in steps.percent for plus in range(n + 1)}
        strata.append({stratum: of for stratum, of in made.items() if of.count})
    drawn = []
    for name, of_range, wanted in zip(
        labels.names, strata, chains.quotas(rows // labels.K, steps, strata), strict=True
    ):
        for stratum, count in _within(wanted, {stratum: of.count for stratum, of in of_range.items()}, name).items():
            of = of_range[stratum]
            drawn += [of[number] for number in rng.sample(range(of.count), count)]
    rng.shuffle(drawn)
    return drawn


def _within(wanted: Mapping[Stratum, int], there: Mapping[Stratum, int], name: str) -> dict[Stratum, int]:
    """What is wanted of every stratum of the range `name`, moved within a length to where chains are left."""
    moved = dict(wanted)
    for n in {n for n, _ in wanted}:
        alike = sorted((s for s in wanted if s[0] == n), key=lambda s: there[s] - wanted[s])  # the scarce first
        if sum(wanted[s] for s in alike) > sum(there[s] for s in alike):
            count, exist = sum(wanted[s] for s in alike), sum(there[s] for s in alike)
            raise ValueError(f"{count} chains are wanted from {name} with {n} signs, and {exist} exist")
        over = 0
        for position, stratum in enumerate(alike):
            share = over if position == len(alike) - 1 else over // (len(alike) - position)
            moved[stratum] = min(wanted[stratum] + share, there[stratum])
            over += wanted[stratum] - moved[stratum]
    return moved


def settings(profile: Profile) -> dict[tuple[str, str], Setting]:
    """The setting of every arm, by wordings and signs: one seed of the structure split."""
    fields = {"task": "task2", "labels": task2.labels(profile), "seeds": 1, "methods": METHODS}
    return {
        arm: compose(
            profile,
            pool_stage(profile, *arm),
            "chosen",
            "structure",
            definition="{} wordings, {} signs".format(*arm),
            **fields,
        )
        for arm in ARMS
    }


def hardness_tables(profile: Profile) -> Stage:
    """task2_hardness.csv: accuracies of every arm on validation rows of the structure split, and their changes.

    Variant: the arm; method: a trained one, or signs_alone (range only). <metric>_change: minus the arm `reference`,
    which differs in `changed`; paired where only the wordings differ, since both arms have the same chains. The
    accuracies themselves have their own arm as reference.
    """
    wanted = settings(profile)
    inputs = {variant(*arm): methods.predictions_stage(s) for arm, s in wanted.items()}

    def make(stage: Stage, out: Path) -> None:
        found = {
            arm: _accuracies(s, stage.inputs[variant(*arm)].folder, profile.bootstrap) for arm, s in wanted.items()
        }
        rows = [row for arm in ARMS for row in (*_levels(arm, found), *_changes(arm, found))]
        about = {"task": "task2", "split": "structure", "part": "validation", "group": "all", "seed": "0"}
        save(profile, stage, out, {"task2_hardness": fill(pd.DataFrame(rows), **about)})

    return Stage("hardness tables", 1, {"resamples": profile.bootstrap}, make, inputs, 5)


Found = dict[tuple[str, str], Statistic]  # (method, metric)


def _accuracies(s: Setting, folder: Path, resamples: int) -> Found:
    predictions = pd.read_parquet(folder / "predictions.parquet")
    predictions = predictions[predictions["part"] == "validation"]
    block = align(predictions)
    stream = zlib.crc32(s.pool.config["signs"].encode())  # alike for the arms that have the same chains
    resample = Resampler(block.seeds, block.structures, block.range, resamples, stream)
    hits = {(name, "value_accuracy"): m.predicted_value == block.value for name, m in block.methods.items()}
    hits |= {(name, "range_accuracy"): m.predicted_range == block.range for name, m in block.methods.items()}
    hits[SIGNS_ALONE, "range_accuracy"] = _signs_alone(read_pool(s.pool.folder), block) == block.range
    columns = np.column_stack(list(hits.values()))
    return dict(zip(hits, resample.ratio(columns, np.ones(columns.shape)), strict=True))


def _signs_alone(pool: pd.DataFrame, block: Block) -> np.ndarray:
    """The range (N,) that is commonest among the training chains with the same numbers of + and -."""
    counts = pool["expression"].str.count(r" \+ ") * 10 + pool["expression"].str.count(" - ")
    train = np.flatnonzero(datasets.split(pool, "structure", 0).to_numpy() == "train")
    return probes.majority(pool["range"].to_numpy(), train, block.rows, counts.to_numpy())


def _levels(arm: tuple[str, str], found: dict[tuple[str, str], Found]) -> list[dict]:
    return [
        {"variant": variant(*arm), "method": method, "metric": metric, "reference": variant(*arm), "changed": "nothing"}
        | asdict(statistic.overall())
        for (method, metric), statistic in found[arm].items()
    ]


def _changes(arm: tuple[str, str], found: dict[tuple[str, str], Found]) -> list[dict]:
    """This arm minus those that have the first wordings, or the first signs, and all else alike."""
    (wordings, signs), rows = arm, []
    for changed, reference in (
        (f"wordings={wordings}", (WORDINGS[0], signs)),
        (f"signs={signs}", (wordings, SIGNS[0])),
    ):
        if reference == arm:
            continue
        same_chains = reference[1] == signs
        for (method, metric), statistic in found[arm].items():
            other = found[reference][method, metric]
            difference = (statistic - other).overall() if same_chains else unpaired_difference(statistic, other)
            about = {"variant": variant(*arm), "method": method, "metric": f"{metric}_change"}
            rows.append(about | {"reference": variant(*reference), "changed": changed} | asdict(difference))
    return rows


TABLES: dict[str, Callable[[Profile], Stage]] = {"task2_hardness": hardness_tables}
