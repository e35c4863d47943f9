"""What noise and depths do for wordings that Task 1 has not seen: bases that are trained without one more group
of operator words than the phrasing split keeps for its test, asked in the words of that group."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import modules
from redlib.config import Profile
from redlib.features import Point
from redlib.phrasing import GROUPS
from redlib.study import red_plus, task1
from redlib.study.data import features_stage
from redlib.study.grouped import shares
from redlib.study.red_plus.factors import AS_IT_IS
from redlib.study.red_plus.parts import HiddenData, make_base
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

TASK, SPLIT, SEED = "task1", "phrasing", 0
METRIC = "value_accuracy"

Right = dict[tuple[str, int], np.ndarray]  # by candidate and group that its base lacks


def candidates(profile: Profile) -> dict[str, dict]:
    """What is changed of the form, by name: `as it is` and every other pair of what is read and a noise."""
    own, asked = red_plus.form(profile, TASK), profile.red_plus.wordings
    reads = dict.fromkeys(((own.layer, own.pooling), *asked.reads))
    pairs = product(reads, dict.fromkeys((own.noise, *asked.noises)))
    changes = [{"layer": layer, "pooling": pooling, "noise": noise} for (layer, pooling), noise in pairs]
    changes = [{name: value for name, value in one.items() if value != getattr(own, name)} for one in changes]
    return {", ".join(f"{name}={value}" for name, value in one.items()) or AS_IT_IS: one for one in changes}


def setting(profile: Profile, change: dict) -> Setting:
    """The phrasing split of one seed, with as many texts as `red_plus_parts` has, read everywhere that is tried."""
    form, asked = red_plus.form(profile, TASK), profile.red_plus.parts
    pool = task1.pool(profile, rows=asked.rows[TASK])
    reads = {(form.layer, form.pooling), *profile.red_plus.wordings.reads}
    points = tuple(Point(*read) for read in sorted(reads))
    read = features_stage(pool, profile.backbone, points, None)
    return red_plus.setting(profile, TASK, SPLIT, pool=pool, features=read, seeds=SEED + 1, **change)


def base_stage(s: Setting, group: int) -> Stage:
    """The base of a setting, of whose training and validation rows those of a group of wordings are left out.

    ValueError for the group that the split keeps for its test, and for one that there is not."""
    whole = red_plus.base_stage(s, SEED)
    valid = [other for other in range(GROUPS) if other != whole.config["held_out"]]
    if group not in valid:
        what = "are those of the test" if group < GROUPS else "are not there"
        raise ValueError(f"wordings {group} {what}; valid red_plus.wordings.groups: {', '.join(map(str, valid))}")
    config = {**whole.config, "without": group}

    def make(stage: Stage, out: Path) -> None:
        make_base(s, SEED, out, stage.checkpoint, without=group)

    return Stage(f"red_plus base without wordings {group}", 1, config, make, whole.inputs, whole.seconds, whole.bytes)


def wording_tables(profile: Profile) -> Stage:
    """red_plus_wordings.csv: value_accuracy of the base alone by what is changed of the form (columns changed, own), on
    rows that were left out for their wording (group wording=G, and all over every G) and on validation rows in other
    words (group seen); <metric>_change: the candidate minus the form as it is, paired. Intervals over every G hold the
    spread between them. Test rows are not read."""
    made, left_out = candidates(profile), profile.red_plus.wordings.groups
    settings = {name: setting(profile, change) for name, change in made.items()}
    stages = {(name, group): base_stage(s, group) for name, s in settings.items() for group in left_out}

    def make(stage: Stage, out: Path) -> None:
        right = {place: _right(settings[place[0]], base.folder) for place, base in stages.items()}
        data = Data(settings[AS_IT_IS])
        found = pd.concat([_unseen(data, right, left_out, profile), _seen(data, right, left_out, profile)])
        variant = [red_plus.form(profile, TASK).name + ("" if n == AS_IT_IS else f"/{n}") for n in found["changed"]]
        found = found.assign(variant=variant, own=(found["changed"] == AS_IT_IS).astype(int), method="red_plus_base")
        save(profile, stage, out, {"red_plus_wordings": fill(found, split=SPLIT, part="validation")})

    inputs = {f"{name}, {group}": base for (name, group), base in stages.items()}
    inputs["pool"] = settings[AS_IT_IS].pool
    config = {"resamples": profile.bootstrap, "candidates": list(made), "left_out": list(left_out)}
    return Stage("red_plus wordings", 1, config, make, inputs, 5)


@torch.no_grad()
def _right(s: Setting, folder: Path) -> np.ndarray:
    """Whether the base alone says the value of a text, (N,) over the pool."""
    data, classifier = HiddenData(s, folder), modules.load(folder / "base.safetensors")[0]["classifier"]
    return (classifier.to(data.x.device)(data.x[None])[0].argmax(-1).cpu() == data.value).numpy()


def _unseen(data: Data, right: Right, left_out: tuple[int, ...], profile: Profile) -> pd.DataFrame:
    """Every left-out group of wordings stands where `shares` has a seed: each has a base of its own."""
    rows = {group: np.flatnonzero(data.pool["group"] == group) for group in left_out}
    found = _shares(data, right, rows, profile)
    named = {str(turn): f"wording={group}" for turn, group in enumerate(left_out)}
    seeds = dict.fromkeys(named, str(SEED))
    return found.assign(group=found["seed"].map(named).fillna("all"), seed=found["seed"].map(seeds).fillna("all"))


def _seen(data: Data, right: Right, left_out: tuple[int, ...], profile: Profile) -> pd.DataFrame:
    asked, of_row = data.rows["validation"][SEED], data.pool["group"].to_numpy()
    found = _shares(data, right, {group: asked[of_row[asked] != group] for group in left_out}, profile)
    return found[found["seed"] == "all"].assign(group="seen")


def _shares(data: Data, right: Right, rows: dict[int, np.ndarray], profile: Profile) -> pd.DataFrame:
    items = pd.concat([data.pool.iloc[of_group].assign(seed=turn) for turn, of_group in enumerate(rows.values())])
    names = dict.fromkeys(name for name, _ in right)
    hits = {(name,): {METRIC: np.concatenate([right[name, g][rows[g]] for g in rows])} for name in names}
    own = (AS_IT_IS,), METRIC
    changes = {((name,), f"{METRIC}_change"): (((name,), METRIC), own) for name in names if name != AS_IT_IS}
    return shares(items, hits, ("changed",), differences=changes, resamples=profile.bootstrap)


TABLES: dict[str, Callable[[Profile], Stage]] = {"red_plus_wordings": wording_tables}
