"""What `red_plus` has learned, and when: errors by digit and kind of question, Fourier components by layer, onset."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from redlib import evaluation, models, probes
from redlib.config import Profile
from redlib.expressions import Expression
from redlib.features import Point
from redlib.statistics import Resampler
from redlib.study import red_plus
from redlib.study.arithmetic_tables import explained
from redlib.study.data import feature_set, read_pool
from redlib.study.grouped import lined_up, shares
from redlib.study.parts import batch
from redlib.study.red_plus.beyond import METHODS, parts_of
from redlib.study.red_plus.factors import onset
from redlib.study.red_plus.parts import Data
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

DIGITS = ("units_digit", "tens_digit")
UNSEEN = ("structure", "phrasing")  # splits whose test has what training has not


def error_tables(profile: Profile) -> Stage:
    """red_plus_errors.csv, test rows of structure and phrasing: value_accuracy and accuracies of units and tens digit,
    of all rows and of those with so many operations (ops=2), operators (pattern=mixed), and operations that carry into
    the tens or borrow from them (carry=1), <metric>_added, red_plus minus its base; group all also has what wrong
    values are like (`evaluation.error_kinds`). red_plus_onset.csv, validation rows of every split: when the base begins
    to know (`red_plus.factors.onset`)."""
    every = [s for task in red_plus.TASKS for s in red_plus.settings(profile, task)]
    inputs = {f"{s.task} {s.split}": red_plus.predictions_stage(s) for s in every}

    def make(stage: Stage, out: Path) -> None:
        unseen = [s for s in every if s.split in UNSEEN]
        errors = [_errors(profile, s, stage.inputs[f"{s.task} {s.split}"].folder) for s in unseen]
        onsets = [_about(onset(red_plus.history(s)), s, "validation") for s in every]
        frames = {"red_plus_errors": pd.concat(errors), "red_plus_onset": pd.concat(onsets)}
        save(profile, stage, out, frames)

    return Stage("red_plus errors", 2, {"resamples": profile.bootstrap}, make, inputs, 10)


def _about(frame: pd.DataFrame, s: Setting, part: str) -> pd.DataFrame:
    variant = f"{s.definition}/{s.recipe.name}".lstrip("/")
    return fill(frame, task=s.task, variant=variant, split=s.split, part=part)


def _errors(profile: Profile, s: Setting, folder: Path) -> pd.DataFrame:
    said = pd.read_parquet(folder / "predictions.parquet").query("part == 'test'")
    frames = lined_up({(method,): said[said["method"] == method] for method in METHODS})
    items = next(iter(frames.values()))
    found = shares(
        items,
        {key: _right(frame) for key, frame in frames.items()},
        ("method",),
        _kinds(items, read_pool(s.pool.folder)),
        {((METHODS[0],), "value_accuracy_added"): tuple(((method,), "value_accuracy") for method in METHODS)},
        profile.bootstrap,
    )
    kinds = evaluation.error_kinds(said, s.labels, METHODS, s.task, s.definition, profile.bootstrap)
    kinds = kinds[~kinds["metric"].isin(found["metric"])]
    return pd.concat([_about(found, s, "test"), kinds.drop(columns="run")])


def _right(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    said, true = frame["predicted_value"], frame["value"]
    of_digit = {f"{d}_accuracy": evaluation.digit(said, d) == evaluation.digit(true, d) for d in DIGITS}
    return {"value_accuracy": (said == true).to_numpy(), **of_digit}


def _kinds(items: pd.DataFrame, pool: pd.DataFrame) -> dict[str, np.ndarray]:
    """Masks of the rows by operations, operators and carries; those of a kind that all rows share are left out."""
    read = [Expression.read(text) for text in pool["expression"].to_numpy()[items["row"]]]
    columns = {
        "ops": np.array([len(e.operators) for e in read]),
        "pattern": np.array([e.pattern for e in read]),
        "carry": np.array([e.carries for e in read]),
    }
    groups = {"all": np.ones(len(items), bool)}
    for name, column in columns.items():
        found = np.unique(column)
        groups |= {f"{name}={kind}": column == kind for kind in found if len(found) > 1}
    return groups


# ---- Fourier components by layer ---------------------------------------------------------------------------------


def fourier_tables(profile: Profile) -> Stage:
    """red_plus_fourier.csv: how much of the Fourier components of the value a linear probe finds (metric r2 by period),
    on validation rows of the structure split, at every site of `red_plus` in order (columns x, site): the trunk,
    the light layers, h, and h with what the experts add."""
    made = {task: red_plus.setting(profile, task, "structure") for task in red_plus.TASKS}
    seeds = {task: min(profile.arithmetic.seeds, s.seeds) for task, s in made.items()}
    inputs = {}
    for task, s in made.items():
        inputs |= {f"{task} {name}": stage for name, stage in parts_of(s, seeds[task]).items()}
        inputs |= {f"{task} pool": s.pool, f"{task} features": s.features}

    def make(stage: Stage, out: Path) -> None:
        frames = [_components(profile, s, seeds[task]) for task, s in made.items()]
        save(profile, stage, out, {"red_plus_fourier": pd.concat(frames)})

    config = {"rows": profile.arithmetic.rows, "seeds": seeds, "resamples": profile.bootstrap}
    return Stage("red_plus fourier", 1, config, make, inputs, 10 + profile.arithmetic.rows * 5e-3)


def _components(profile: Profile, s: Setting, seeds: int) -> pd.DataFrame:
    """Rows of one task: at every site, squared errors of the probes over those of the training mean."""
    data = Data(s)
    waves = {p: probes.circle(data.pool["value"].to_numpy(), p) for p in s.recipe.periods}
    errors: dict[tuple, list[np.ndarray]] = {}
    items = []
    for seed in range(seeds):
        rows = [np.sort(part) for part in _divided(data, seed, profile.arithmetic.rows)]
        every = np.concatenate(rows)
        train, choose, scored = np.split(np.arange(len(every)), np.cumsum([len(part) for part in rows])[:-1])
        numbers = {str(p): wave[every] for p, wave in waves.items()}
        items.append(data.pool.iloc[rows[2]][["structure", "range"]].assign(seed=seed))
        for place, (site, x) in enumerate(sites(s, seed, every).items()):
            said = probes.closed(x, {}, numbers, train, choose, scored)
            for p, wave in numbers.items():
                apart = [(wave[scored] - other) ** 2 for other in (said[p], wave[train].mean(0))]
                errors.setdefault((place, site, p), []).append(np.stack([one.sum(1) for one in apart], 1))
    frame = pd.concat(items, ignore_index=True)
    resampler = Resampler(frame["seed"], frame["structure"], frame["range"], profile.bootstrap)
    rows = []
    for (place, site, p), of_seed in errors.items():
        both = np.concatenate(of_seed)
        r2 = explained(*resampler.ratio(both, np.ones(both.shape))).overall()
        rows.append({"x": float(place), "site": site, "period": int(p), "target": "value", **asdict(r2)})
    about = {"method": "linear", "metric": "r2", "group": "all", "seed": "all"}
    return _about(pd.DataFrame(rows).assign(**about), s, "validation")


def _divided(data: Data, seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that fit the probes, that choose their penalty, and that they are scored on, without a structure in common:
    a tenth of the structures of `rows` training rows choose."""
    generator = np.random.default_rng([23, seed])
    known = generator.permutation(data.rows["train"][seed])[:rows]
    structures = data.pool["structure"].to_numpy()[known]
    names = generator.permutation(np.unique(structures))
    chooses = np.isin(structures, names[: max(1, len(names) // 10)])
    return known[~chooses], known[chooses], generator.permutation(data.rows["validation"][seed])[:rows]


@torch.no_grad()
def sites(s: Setting, seed: int, rows: np.ndarray, chunk: int = 250) -> dict[str, np.ndarray]:
    """What stands at every site for some rows (n,) of the pool, (n, width of the site) each; of tokens, their mean."""
    parts, read = red_plus.load_parts(s, seed), feature_set(s.features)
    if s.recipe.layers:
        states, found = read.states(), []
        for some in np.array_split(rows, max(1, len(rows) // chunk)):
            tokens, mask = (tensor.cpu() for tensor in batch(states, some))
            means = (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            found.append([means, *(stream[0] for stream in parts["base"].each(tokens, mask))])
        streams = [torch.cat(of_site) for of_site in zip(*found, strict=True)]
        layers = [f"light layer {number + 1}" for number in range(s.recipe.layers)]
        named = dict(zip(("trunk", "first map", *layers, "h"), streams, strict=True))
    else:
        x = torch.from_numpy(np.array(read.pooled(Point(s.recipe.layer, s.recipe.pooling))[rows]))
        named = {"trunk": x, "h": parts["base"](x)[0]}
    return {site: x.numpy() for site, x in (named | {"h and experts": _with_experts(parts, named["h"])}).items()}


def _with_experts(parts: dict, h: Tensor) -> Tensor:
    alpha = torch.softmax(parts["router"](h)[0], -1)
    return h + models.mix(alpha, parts["experts"](h))


TABLES: dict[str, Callable[[Profile], Stage]] = {
    "red_plus_errors": error_tables,
    "red_plus_onset": error_tables,
    "red_plus_fourier": fourier_tables,
}
