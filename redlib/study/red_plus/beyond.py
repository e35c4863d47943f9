"""`red_plus` beyond its training domain: chains of more steps, larger operands and larger values."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import evaluation, models
from redlib.config import PlusForm, Profile
from redlib.expressions import Expression, LabelSpace
from redlib.features import Point
from redlib.study import red_plus
from redlib.study.data import feature_set, pool_stage, read_pool
from redlib.study.grouped import lined_up, shares
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

METHODS = ("red_plus", "red_plus_base")
ACCURACIES = ("value_accuracy", "range_accuracy")
LONGER, WIDE, NARROW = "longer", "wide", "trained=narrow"


def ask(method: models.Method, form: PlusForm, features: Stage, labels: LabelSpace, rows: np.ndarray) -> pd.DataFrame:
    """What a trained method says of some rows (n,) of a pool, from its features (`evaluation.predict`); NO_ANSWER of a
    text with more tokens than light layers have positions."""
    read = feature_set(features)
    if not form.layers:
        x = np.array(read.pooled(Point(form.layer, form.pooling))[rows])
        return evaluation.predict(method, torch.from_numpy(x), labels)
    states = read.states()
    order = np.argsort(states.lengths[rows], kind="stable")
    order = order[states.lengths[rows][order] <= form.positions]
    batches = np.array_split(order, max(1, len(order) // 250))
    said = pd.concat([evaluation.predict(method, states.batch(rows[part]), labels) for part in batches])
    silent = dict.fromkeys(("predicted_value", "predicted_range"), evaluation.NO_ANSWER) | {"router_range": -1}
    return said.set_axis(order).reindex(range(len(rows))).fillna(silent).astype(said.dtypes)


def seeds_of(profile: Profile, task: str) -> int:
    """How many trained seeds of the structure split are asked."""
    return min(profile.red_plus.beyond.seeds, red_plus.form(profile, task).seeds["structure"])


def parts_of(s: Setting, seeds: int) -> dict[str, Stage]:
    """The stages that train the parts of the first seeds."""
    return {f"{name} {n}": stage for n in range(seeds) for name, stage in red_plus.part_stages(s, n).items()}


# ---- more steps --------------------------------------------------------------------------------------------------


def longer_stage(profile: Profile) -> Stage:
    """What `red_plus` of Task 2, trained on two to four operations, says of five and six: predictions.parquet."""
    t, s = profile.task2, red_plus.setting(profile, "task2", "structure")
    rows, seeds = profile.red_plus.beyond.longer_rows, seeds_of(profile, "task2")
    pool = pool_stage("task2", rows, t.pool_seed, t.operands, s.labels, LONGER)
    features = red_plus.read_stage(profile, s.recipe, pool)

    def make(stage: Stage, out: Path) -> None:
        texts, every = read_pool(pool.folder), np.arange(rows)
        items = texts[["row", "structure", "value", "range", "operations"]]
        items = items.assign(pattern=[Expression.read(text).pattern for text in texts["expression"]])
        frames = []
        for seed in range(seeds):
            for name in METHODS:
                method = red_plus.trained(profile, "task2", seed=seed, method=name)
                said = ask(method, s.recipe, features, s.labels, every)
                about = {"split": "structure", "part": "test", "recipe": s.recipe.name, "method": name, "seed": seed}
                frames.append(items.assign(**about).join(said))
        pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")

    inputs = {"pool": pool, "features": features, **parts_of(s, seeds)}
    return Stage("red_plus on longer chains", 1, {"seeds": seeds}, make, inputs, 5 + seeds * rows * 1e-3)


# ---- larger numbers ----------------------------------------------------------------------------------------------


def wide_settings(profile: Profile) -> dict[str, Setting]:
    """Task 1 over larger operands and values, all parts trained anew, by variant: on how many rows."""
    b, t = profile.red_plus.beyond, profile.task1
    labels = LabelSpace(t.lo, b.hi, b.edges)
    pool = pool_stage("task1", b.wide_rows, t.pool_seed, b.operands, labels)
    fields = {"labels": labels, "pool": pool, "seeds": seeds_of(profile, "task1"), "methods": METHODS}
    return {f"rows={n}": red_plus.setting(profile, "task1", "structure", subset=n, **fields) for n in b.data}


def narrow_stage(profile: Profile) -> Stage:
    """What `red_plus` of Task 1, trained on its own domain, says of the test rows of the wider one: the same weights,
    their readout asked for more values. predictions.parquet."""
    wide = next(iter(wide_settings(profile).values()))
    own = red_plus.setting(profile, "task1", "structure")

    def make(stage: Stage, out: Path) -> None:
        data = Data(wide)
        frames = []
        for seed in range(wide.seeds):
            rows = data.rows["test"][seed]
            items = data.pool.iloc[rows][["row", "structure", "value", "range"]].reset_index(drop=True)
            parts = red_plus.load_parts(own, seed)
            parts["classifier"] = models.with_labels(parts["classifier"], wide.labels)
            for name in METHODS:
                method = models.assemble(name, wide.labels, parts, own.K)
                said = ask(method, own.recipe, wide.features, wide.labels, rows)
                frames.append(items.assign(method=name, seed=seed, part="test").join(said))
        pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")

    inputs = {"pool": wide.pool, "features": wide.features, **parts_of(own, wide.seeds)}
    return Stage("red_plus on larger numbers", 1, {"labels": asdict(wide.labels), "seeds": wide.seeds}, make, inputs, 5)


def _wide_rows(profile: Profile, stage: Stage) -> pd.DataFrame:
    """Accuracies by variant and by what is larger than in Task 1: no number (of pairs that the narrow training has not
    seen), an operand, the value."""
    t, names = profile.task1, list(stage.inputs)
    frames = {}
    for variant in (name for name in names if name.startswith(("rows=", "trained="))):
        said = pd.read_parquet(stage.inputs[variant].folder / "predictions.parquet").query("part == 'test'")
        frames |= {(variant, method): said[said["method"] == method] for method in METHODS}
    frames = lined_up(frames)
    items = next(iter(frames.values()))
    pool = read_pool(next(iter(wide_settings(profile).values())).pool.folder)
    largest = np.array([max(Expression.read(text).terms) for text in pool["expression"]])[items["row"]]
    above = items["value"].to_numpy() > t.hi
    beyond = ~above & (largest > t.operands[1])
    groups = {"larger=none": ~above & ~beyond & _new(profile, items), "larger=operand": beyond, "larger=value": above}
    hits = {key: _right(frame) for key, frame in frames.items()}
    added = {
        ((variant, METHODS[0]), f"{metric}_added"): tuple(((variant, method), metric) for method in METHODS)
        for variant in dict.fromkeys(key[0] for key in frames)
        for metric in ACCURACIES
    }
    found = shares(items, hits, ("variant", "method"), groups, added, profile.bootstrap)
    return found.assign(variant=f"{WIDE}/" + found["variant"], task="task1")


def _new(profile: Profile, items: pd.DataFrame) -> np.ndarray:
    """Which items (n,), of several seeds, are of pairs that the narrow training of their seed does not hold."""
    data = Data(red_plus.setting(profile, "task1", "structure"))
    known = [set(data.pool["structure"].iloc[rows]) for rows in data.rows["train"]]
    return np.array([pair not in known[seed] for pair, seed in zip(items["structure"], items["seed"], strict=True)])


def _right(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    pairs = zip(ACCURACIES, (("predicted_value", "value"), ("predicted_range", "range")), strict=True)
    return {metric: (frame[said] == frame[true]).to_numpy() for metric, (said, true) in pairs}


def beyond_tables(profile: Profile) -> Stage:
    """red_plus_beyond.csv: accuracies of red_plus and its base on test questions outside the training domain.

    Task 2, variant longer/chosen: chains of five and six operations, by number and by operators; longer_than_training,
    the share of them with more tokens than any training text, and too_long, with more than there are positions (counted
    as wrong). Task 1, variants wide/trained=narrow and wide/rows=N:
    additions of larger operands by what is larger than in Task 1 (groups larger=..., in none of them a pair that
    training has seen), <metric>_added is red_plus minus its base.
    """
    s = red_plus.setting(profile, "task2", "structure")
    wide = {name: red_plus.predictions_stage(made) for name, made in wide_settings(profile).items()}
    inputs = {LONGER: longer_stage(profile), NARROW: narrow_stage(profile), **wide}

    def make(stage: Stage, out: Path) -> None:
        frame = pd.read_parquet(stage.inputs[LONGER].folder / "predictions.parquet")
        options = {"reference": METHODS[0], "resamples": profile.bootstrap, "by_range": False}
        longer = evaluation.evaluate(frame, s.labels, "task2", LONGER, **options)
        below = [f"{metric}_below_{METHODS[0]}" for metric in ACCURACIES]
        longer = longer[longer["metric"].isin([*ACCURACIES, *below])]
        others = [_lengths(s, stage.inputs[LONGER]), _wide_rows(profile, stage)]
        found = pd.concat([longer.drop(columns="run"), *(fill(o, split="structure", part="test") for o in others)])
        save(profile, stage, out, {"red_plus_beyond": found})

    return Stage("red_plus beyond tables", 2, {"resamples": profile.bootstrap}, make, inputs, 10)


def _lengths(s: Setting, longer: Stage) -> pd.DataFrame:
    """The shares of the longer texts that are longer than all that the base was trained on, and than it can read."""
    if not s.recipe.layers:
        return pd.DataFrame()
    known, asked = (feature_set(features).states().lengths for features in (s.features, longer.inputs["features"]))
    longest = [known[rows].max() for rows in Data(s).rows["train"]]
    about = {
        "task": "task2",
        "variant": f"{LONGER}/{s.recipe.name}",
        "group": "all",
        "method": METHODS[1],
        "seed": "all",
    }
    shares = {
        "longer_than_training": np.mean([(asked > most).mean() for most in longest]),
        "too_long": (asked > s.recipe.positions).mean(),
    }
    return pd.DataFrame({"metric": list(shares), "value": list(shares.values()), "n": len(asked)}).assign(**about)


TABLES: dict[str, Callable[[Profile], Stage]] = {"red_plus_beyond": beyond_tables}
