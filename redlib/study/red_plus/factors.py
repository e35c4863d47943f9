"""What each part of `red_plus` is worth: its form with one thing changed at a time, on validation rows of the structure
split, and what it takes to train each.

Every base, every expert bank and every router of a seed is a stage of its own, shared where nothing before it differs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.features import Point
from redlib.study import red_plus, task1, task2
from redlib.study.data import features_stage, read_pool
from redlib.study.grouped import lined_up, shares
from redlib.study.red_plus.parts import groups
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

WHOLE, BASE = METHODS = ("red_plus", "red_plus_base")
ACCURACIES = ("value_accuracy", "range_accuracy")
FIELDS = {  # what a question changes, of the form but for `subset`
    "readout": "readout",
    "depth": "layer",
    "pooling": "pooling",
    "token_layers": "layers",
    "ending": "ending",
    "optimiser": "optimiser",
    "weight_decay": "weight_decay",
    "data": "subset",
    "base_share": "base_share",
    "noise": "noise",
    "foreign_share": "foreign_share",
    "rank": "rank",
    "adapter": "adapter",
    "router_target": "router_target",
    "experts": "groups",
}
OF_BASE = ("optimiser", "weight_decay")  # fields of the base's training, not of the form
NAMES = {"subset": "rows", "groups": "experts"}  # of fields, as a table says them
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Part:
    """One run under a question: a task's form with one field at a value, its `own` or another; `x` is where it stands
    among the others."""

    task: str
    question: str
    value: str | float | None
    x: float
    own: bool

    @property
    def change(self) -> dict:
        """The field that is changed and its value; empty for the form as it is."""
        return {} if self.own else {FIELDS[self.question]: self.value}

    @property
    def changed(self) -> str:
        """The field and its value: `rank=24`."""
        name = FIELDS[self.question]
        return f"{NAMES.get(name, name)}={self.value}"

    @property
    def name(self) -> str:
        """Task and what is changed, as runs are called."""
        return f"{self.task}, {AS_IT_IS if self.own else self.changed}"


def parts(profile: Profile) -> list[Part]:
    """Every run that the profile asks for, by task and question: the form as it is, then the values tried."""
    return [
        part
        for task, questions in profile.red_plus.parts.questions.items()
        for question in questions
        for part in _of_question(profile, task, question)
    ]


def _of_question(profile: Profile, task: str, question: str) -> list[Part]:
    asked, form = profile.red_plus.parts, red_plus.form(profile, task)
    values = {
        "readout": asked.readouts,
        "depth": asked.depths.get(task, ()),
        "pooling": asked.poolings,
        "token_layers": asked.token_layers,
        "ending": asked.endings,
        "optimiser": asked.optimisers,
        "weight_decay": asked.weight_decays,
        "data": asked.data,
        "base_share": asked.base_shares,
        "noise": asked.noises,
        "foreign_share": asked.foreign_shares,
        "rank": asked.ranks,
        "adapter": asked.adapters,
        "router_target": asked.router_targets,
        "experts": asked.experts,
    }[question]
    field = FIELDS[question]
    room = task1 if task == "task1" else task2
    unset = {"subset": asked.rows[task] * 8 // 10, "groups": room.labels(profile).K}  # a tenth each validates and tests
    unset |= {name: getattr(form.base, name) for name in OF_BASE}
    own = unset.get(field) or getattr(form, field)
    tried = [value for value in values if field == "groups" or value != own]
    found = [Part(task, question, own, 0.0 if isinstance(own, str) else float(own), True)]
    for place, value in enumerate(tried, 1):
        found.append(Part(task, question, value, float(place) if isinstance(value, str) else float(value), False))
    return found


def setting(profile: Profile, part: Part) -> Setting:
    """The setting of one run: as many texts, seeds and epochs as all runs have, and the part's own change."""
    asked, form = profile.red_plus.parts, red_plus.form(profile, part.task)
    epochs, change = asked.epochs[part.task], part.change
    loop = {"max_epochs": epochs, "patience": max(epochs, form.base.patience)}
    loop |= {name: change.pop(name) for name in OF_BASE if name in change}
    if change.get("layers") == 0:  # a network on pooled features has no hidden layers for Muon
        loop["optimiser"] = "adamw"
    pool = (task1 if part.task == "task1" else task2).pool(profile, rows=asked.rows[part.task])
    base = form.base.model_copy(update=loop)
    fields = {"base": base, "seeds": asked.seeds, "pool": pool, "methods": METHODS} | change
    if part.question == "depth" and not part.own and not form.layers:
        points = tuple(Point(layer, form.pooling) for layer in sorted(asked.depths[part.task]))
        fields["features"] = features_stage(pool, profile.backbone, points, None)
    return red_plus.setting(profile, part.task, "structure", **fields)


def part_tables(profile: Profile) -> Stage:
    """red_plus_parts.csv: every run of every question (columns question, changed, x, own), on validation rows.

    value_accuracy, range_accuracy and router_accuracy (is the largest weight on the expert that the row belongs to) of
    red_plus and of its base alone; <metric>_change: the run minus the form as it is; <metric>_added: red_plus minus its
    own base; both paired. onset_epoch: the first epoch in which the base's accuracy is at least half of its best, and
    best_accuracy; their low and high are the smallest and largest seed.
    """
    wanted = parts(profile)
    made = {part: setting(profile, part) for part in wanted}
    inputs = {part.name: red_plus.predictions_stage(s) for part, s in made.items()}

    def make(stage: Stage, out: Path) -> None:
        folders = {part: stage.inputs[part.name].folder for part in made}
        tasks = dict.fromkeys(part.task for part in made)
        frames = [_measured({p: s for p, s in made.items() if p.task == task}, folders, profile) for task in tasks]
        save(profile, stage, out, {"red_plus_parts": pd.concat(frames)})

    config = {"resamples": profile.bootstrap, "asked": [[part.question, part.name] for part in wanted]}
    return Stage("red_plus parts tables", 1, config, make, inputs, 10 + 0.5 * len(made))


def _measured(made: dict[Part, Setting], folders: dict[Part, Path], profile: Profile) -> pd.DataFrame:
    """The rows of one task: shares of every different run, then each under its questions."""
    runs = {part.name: part for part in made}  # the form as it is stands under every question
    frames = {}
    for name, part in runs.items():
        said = pd.read_parquet(folders[part] / "predictions.parquet").query("part == 'validation'")
        frames |= {(name, method): said[said["method"] == method] for method in METHODS}
    frames = lined_up(frames)
    hits = {key: _hits(frame, made[runs[key[0]]], key[1]) for key, frame in frames.items()}
    own = next(part for part in made if part.own)
    differences = {}
    for name in runs:
        for metric in ACCURACIES:
            added = ((name, WHOLE), metric), ((name, BASE), metric)
            differences[(name, WHOLE), f"{metric}_added"] = added
            changes = {m: (((name, m), metric), ((own.name, m), metric)) for m in METHODS if name != own.name}
            differences |= {((name, m), f"{metric}_change"): both for m, both in changes.items()}
    items = next(iter(frames.values()))
    found = shares(items, hits, ("name", "method"), differences=differences, resamples=profile.bootstrap)
    found = pd.concat([found, *(onset(red_plus.history(made[part])).assign(name=name) for name, part in runs.items())])
    return _under_questions(found, made)


def _hits(frame: pd.DataFrame, s: Setting, method: str) -> dict[str, np.ndarray]:
    hits = {
        "value_accuracy": frame["predicted_value"] == frame["value"],
        "range_accuracy": frame["predicted_range"] == frame["range"],
    }
    if method == WHOLE:
        experts = groups(s, read_pool(s.pool.folder)["value"].to_numpy())
        mine = np.array(experts.range_index)[frame["value"].to_numpy() - s.labels.lo]
        hits["router_accuracy"] = frame["router_range"] == mine
    return {metric: hit.to_numpy(bool) for metric, hit in hits.items()}


def _under_questions(found: pd.DataFrame, made: dict[Part, Setting]) -> pd.DataFrame:
    frames = []
    for part, s in made.items():
        named = [s.definition, s.recipe.name, "" if part.own else part.changed]
        about = {"variant": "/".join(filter(None, named)), "question": part.question, "changed": part.changed}
        mine = found[found["name"] == part.name]
        frames.append(mine.assign(**about, x=part.x, own=int(part.own), task=part.task))
    return fill(pd.concat(frames), split="structure", part="validation").drop(columns="name")


def onset(history: pd.DataFrame) -> pd.DataFrame:
    """onset_epoch and best_accuracy of the base from histories of training, by seed and over seeds (smallest and
    largest seed as low and high, n seeds); a base that was never right has no onset."""
    curve = history[history["name"] == "red_plus base"]
    found = pd.DataFrame({str(seed): evaluation.onset(one) for seed, one in curve.groupby("member")}).T
    rows = []
    for metric, every in found.items():
        numbers = every.dropna()
        rows += [(metric, seed, number, number, number, 1) for seed, number in numbers.items()]
        if len(numbers):
            rows.append((metric, "all", numbers.mean(), numbers.min(), numbers.max(), len(numbers)))
    return pd.DataFrame(rows, columns=["metric", "seed", "value", "low", "high", "n"]).assign(method=BASE, group="all")


TABLES: dict[str, Callable[[Profile], Stage]] = {"red_plus_parts": part_tables}
