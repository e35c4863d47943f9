"""The tables behind "where the arithmetic is": probes at named tokens by depth, and what the errors look like."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import transformers

from redlib import backbone, datasets, evaluation, features, phrasing, probes
from redlib.config import Profile
from redlib.phrasing import FIRST, OPERATOR, SECOND
from redlib.statistics import Resampler, Statistic
from redlib.study import methods, task1, task2
from redlib.study.data import open_backbone, pool_stage, read_pool, weights_id
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

COMPARED = ("red", "mlp_full_data", "fourier_full_data")  # whose errors are looked at
ADDITIONS, OPERATORS = "additions", "one operation"  # variants: texts of Task 1; texts of Task 2 with one operation
NO_SITE = "no_state"  # of what a state has no part in: the majority baselines
TENS, UNITS = "tens_digit", "units_digit"
COMPUTED = ("value", "range", TENS, UNITS)  # what the text does not say: targets of the 2-layer probes


def probe_tables(profile: Profile) -> Stage:
    """arithmetic_probes.csv and arithmetic_fourier.csv, both on validation rows of the structure split.

    arithmetic_probes: metric accuracy by variant, layer, site, target and method: linear, mlp (of what has to be
    computed), majority and majority_of_range (site no_state); above_baseline, the difference to majority_of_range (of
    the target range: to majority); units_minus_tens. arithmetic_fourier: metric r2 by layer, site, target and period.
    """
    a, t = profile.arithmetic, profile.task2
    single = pool_stage("task2", a.operator_rows, t.pool_seed, t.operands, task2.labels(profile), "single_heavy")
    pools = {ADDITIONS: task1.pool(profile, a.rows), OPERATORS: single}
    layers = list(dict.fromkeys((*a.layers, profile.chosen.layer)))
    config = a.model_dump(exclude={"rows", "operator_rows"}) | {"layers": layers, "resamples": profile.bootstrap}
    config |= {"backbone": profile.backbone.model_dump(), "weights_id": weights_id(profile.backbone)}
    config |= {"threads": torch.get_num_threads(), "versions": [torch.__version__, transformers.__version__]}

    def make(stage: Stage, out: Path) -> None:
        frames: dict[str, list[pd.DataFrame]] = {"arithmetic_probes": [], "arithmetic_fourier": []}
        for variant, pool in stage.inputs.items():
            texts = Texts.of(read_pool(pool.folder), a.seeds)
            states = texts.states(open_backbone(profile.backbone), layers)
            linear, components, waves = _closed(profile, texts, states)
            said = _baselines(texts) | linear | _networks(profile, texts, states)
            frames["arithmetic_probes"].append(_accuracies(said, texts, profile.bootstrap, variant))
            frames["arithmetic_fourier"].append(_fourier(components, waves, texts, profile.bootstrap, variant))
        save(profile, stage, out, {name: pd.concat(parts) for name, parts in frames.items()})

    seconds = 10 + (a.rows + a.operator_rows) * (0.01 + a.seeds * 0.001 * len(layers))
    return Stage("arithmetic probes", 1, config, make, pools, seconds)


@dataclass(frozen=True)
class Texts:
    """Texts of one operation, what they say, and by seed the rows that train, choose (penalty, epoch) and are scored.

    The choosing tenth of the training structures has no structure in common with the rows that train.
    """

    pool: pd.DataFrame
    spots: list[dict[str, tuple[int, int]]]
    operands: np.ndarray  # (N, 2), in the order in which the text says them
    train: list[np.ndarray]
    choose: list[np.ndarray]
    scored: list[np.ndarray]

    @classmethod
    def of(cls, pool: pd.DataFrame, seeds: int) -> "Texts":
        """The texts of a pool with one operation, divided by split `structure` for each of `seeds` seeds."""
        parts = [datasets.split(pool, "structure", seed).to_numpy() for seed in range(seeds)]
        single = (pool["operations"] == 1).to_numpy()
        pool = pool[single].reset_index(drop=True)
        spots = [phrasing.places(text) for text in pool["text"]]
        said = [
            [int(text[slice(*s[name])]) for name in (FIRST, SECOND)]
            for text, s in zip(pool["text"], spots, strict=True)
        ]
        divided: dict[str, list[np.ndarray]] = {"train": [], "choose": [], "validation": []}
        for seed, part in enumerate(parts):
            part = part[single].astype(object)
            known = np.unique(pool["structure"][part == "train"])
            chosen = np.random.default_rng([17, seed]).permutation(known)[: max(1, len(known) // 10)]
            part[(part == "train") & pool["structure"].isin(chosen).to_numpy()] = "choose"
            for name, rows in divided.items():
                rows.append(np.flatnonzero(part == name))
        return cls(pool, spots, np.array(said), *divided.values())

    def states(self, bone: backbone.Backbone, layers: Iterable[int]) -> dict[tuple[int, str], np.ndarray]:
        """{(layer, site): (N, d)} at the operands, the operator and the last token, and pooled."""
        texts = self.pool["text"].tolist()
        spans = features.token_spans(bone, texts, self.spots)
        return features.sites(bone, texts, {name: span[:, 1] for name, span in spans.items()}, layers)

    @cached_property
    def targets(self) -> dict[str, np.ndarray]:
        """Class numbers (N,) by name; `operator` only where texts differ in it."""
        value = self.pool["value"].to_numpy()
        minus = self.pool["expression"].str.contains(" - ", regex=False).to_numpy().astype(int)
        named = dict(zip((FIRST, SECOND), self.operands.T, strict=True)) | ({OPERATOR: minus} if minus.any() else {})
        named |= {"value": value, "range": self.pool["range"].to_numpy()}
        return named | {place: evaluation.digit(value, place) for place in (TENS, UNITS)}

    def resampler(self, resamples: int) -> Resampler:
        """Over the scored rows, seed after seed."""
        seeds = np.repeat(range(len(self.scored)), [len(rows) for rows in self.scored])
        rows = np.concatenate(self.scored)
        return Resampler(seeds, self.pool["structure"].to_numpy()[rows], self.pool["range"].to_numpy()[rows], resamples)


Said = dict[tuple, list[np.ndarray]]  # (layer, site, target, method or period) -> one array a seed


def _closed(profile: Profile, texts: Texts, states: Mapping) -> tuple[Said, Said, dict[tuple, np.ndarray]]:
    """What linear probes say of the targets, and of Fourier components by (target, period); and the true components."""
    operands = dict(zip((FIRST, SECOND), texts.operands.T, strict=True))
    numbers = operands | {"value": texts.pool["value"].to_numpy()}
    waves = {(name, p): probes.circle(y, p) for name, y in numbers.items() for p in profile.arithmetic.periods}
    classes: Said = {}
    components: Said = {}
    for place, x in states.items():
        divided = zip(texts.train, texts.choose, texts.scored, strict=True)
        by_seed = [probes.closed(x, texts.targets, waves, *parts) for parts in divided]
        classes |= {(*place, name, "linear"): [said[name] for said in by_seed] for name in texts.targets}
        components |= {(*place, *wave): [said[wave] for said in by_seed] for wave in waves}
    return classes, components, waves


def _networks(profile: Profile, texts: Texts, states: Mapping) -> Said:
    a = profile.arithmetic
    read = {place: x for place, x in states.items() if place[1] in a.network_sites}
    targets = {name: texts.targets[name] for name in COMPUTED}
    said = probes.network(read, targets, texts.train, texts.choose, texts.scored, a.hidden, a.training)
    return {(*place, target, "mlp"): of_seed for (place, target), of_seed in said.items()}


def _baselines(texts: Texts) -> Said:
    said: Said = {}
    for target, y in texts.targets.items():
        for method, within in (("majority", None), ("majority_of_range", texts.targets["range"])):
            known = [np.concatenate(both) for both in zip(texts.train, texts.choose, strict=True)]
            pairs = zip(known, texts.scored, strict=True)
            said[0, NO_SITE, target, method] = [probes.majority(y, learnt, rows, within) for learnt, rows in pairs]
    return said


def _accuracies(said: Said, texts: Texts, resamples: int, variant: str) -> pd.DataFrame:
    resampler, scored = texts.resampler(resamples), np.concatenate(texts.scored)
    hits = np.column_stack([np.concatenate(s) == texts.targets[key[2]][scored] for key, s in said.items()])
    accuracy = dict(zip(said, resampler.ratio(hits, np.ones(hits.shape)), strict=True))
    found = [(*key, "accuracy", statistic) for key, statistic in accuracy.items()]
    for (layer, site, target, method), statistic in accuracy.items():
        if site == NO_SITE:
            continue
        baseline = accuracy[0, NO_SITE, target, "majority" if target == "range" else "majority_of_range"]
        found.append((layer, site, target, method, "above_baseline", statistic - baseline))
        if target == UNITS:
            between = statistic - accuracy[layer, site, TENS, method]
            found.append((layer, site, target, method, "units_minus_tens", between))
    return _tidy(found, ["layer", "site", "target", "method", "metric"], variant)


def _fourier(said: Said, waves: Mapping[tuple, np.ndarray], texts: Texts, resamples: int, variant: str) -> pd.DataFrame:
    scored = np.concatenate(texts.scored)
    errors = [((waves[key[2:]][scored] - np.concatenate(s)) ** 2).sum(1) for key, s in said.items()]
    totals = []
    for true in (waves[key[2:]] for key in said):
        means = [np.tile(true[t].mean(0), (len(r), 1)) for t, r in zip(texts.train, texts.scored, strict=True)]
        totals.append(((true[scored] - np.concatenate(means)) ** 2).sum(1))
    both = np.column_stack([*errors, *totals])
    statistics = texts.resampler(resamples).ratio(both, np.ones(both.shape))
    r2 = map(explained, statistics[: len(said)], statistics[len(said) :])
    found = [(*key, statistic) for key, statistic in zip(said, r2, strict=True)]
    return _tidy(found, ["layer", "site", "target", "period"], variant).assign(method="linear", metric="r2")


def explained(error: Statistic, total: Statistic) -> Statistic:
    """R^2 from the mean squared error and the mean squared distance from the training mean, over the same resamples."""
    return replace(error, value=1 - error.value / total.value, draws=1 - error.draws / total.draws)


def _tidy(found: list[tuple], names: list[str], variant: str) -> pd.DataFrame:
    """(..., Statistic) as rows of a result table."""
    frame = pd.DataFrame([row[:-1] for row in found], columns=names)
    measured = pd.DataFrame([asdict(row[-1].overall()) for row in found])
    about = {"task": "task1" if variant == ADDITIONS else "task2", "variant": variant, "split": "structure"}
    return fill(frame.join(measured), **about, part="validation", group="all", seed="all")


def error_tables(profile: Profile) -> Stage:
    """arithmetic_errors.csv and arithmetic_signed_errors.csv: what wrong answers of Task 1 are like (test rows)."""
    setting = task1.setting(profile, "chosen", "structure")

    def make(stage: Stage, out: Path) -> None:
        frame = pd.read_parquet(stage.inputs["predictions"].folder / "predictions.parquet")
        frame = frame[(frame["part"] == "test") & (frame["recipe"] == "chosen")]
        kinds = evaluation.error_kinds(frame, setting.labels, COMPARED, resamples=profile.bootstrap)
        signed = evaluation.signed_errors(frame, setting.labels, COMPARED)
        save(profile, stage, out, {"arithmetic_errors": kinds, "arithmetic_signed_errors": signed})

    config = {"methods": list(COMPARED), "resamples": profile.bootstrap}
    return Stage("arithmetic errors", 1, config, make, {"predictions": methods.predictions_stage(setting)}, 5)


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "arithmetic_probes": probe_tables,
    "arithmetic_fourier": probe_tables,
    "arithmetic_errors": error_tables,
    "arithmetic_signed_errors": error_tables,
}
