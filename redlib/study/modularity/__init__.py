"""Is RED modular? Every operation of `modules.Library` on the study's trained RED of Task 1 (RQ3; the source, 4.4.4).

A stage a split trains the few experts that the study has not and writes what every changed RED says of the test rows.
"""

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import evaluation, modules
from redlib.config import Profile, Training
from redlib.models import take
from redlib.modules import Library
from redlib.modules.probe import drift
from redlib.study import methods, task1
from redlib.study.data import open_backbone
from redlib.study.modularity.parts import (
    PART_OF_ROWS,
    Bank,
    Questions,
    elsewhere,
    experts,
    grown_classifier,
    joined,
    own,
    reused,
    wider,
)
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage

SPLITS = ("text", "structure")
SETS = ("task1", "beyond", "minus")  # of test questions: RED's own, larger sums, subtractions
Changed = tuple[str, Library, tuple[str, ...]]  # a name, a library, and the sets that it answers


def settings(profile: Profile) -> list[Setting]:
    """Task 1, recipe `chosen`, on the splits that have seeds."""
    made = [task1.setting(profile, "chosen", split) for split in SPLITS]
    return [s for s in made if s.seeds]


def inputs(s: Setting) -> dict[str, Stage]:
    """What the study has trained of RED."""
    parts = {"base": methods.base_stage(s), "experts": methods.experts_stage(s), "routers": methods.routers_stage(s)}
    return {"pool": s.pool, "features": s.features, **parts}


def modularity_stage(profile: Profile, s: Setting) -> Stage:
    """predictions.parquet (the long frame, and which `questions` a row is of), measured.csv, and of each seed the new
    experts and RED as module files."""
    seeds = min(profile.modularity.seeds, s.seeds)
    others = elsewhere(profile, s.split, seeds)
    config = {"seeds": seeds, "labels": asdict(s.labels), "part_of_rows": PART_OF_ROWS}
    reads = inputs(s) | {
        f"{name} {kind}": getattr(o, kind) for name, o in others.items() for kind in ("pool", "features")
    }
    seconds = 5 + seeds * s.pool.config["rows"] * 6e-4
    return Stage(f"modularity ({s.name})", 1, config, partial(_make, s, others), reads, seconds, 1 << 24)


def _make(s: Setting, others: dict[str, Setting], stage: Stage, out: Path) -> None:
    seeds = range(stage.config["seeds"])
    bank = reused(stage, len(seeds))
    questions = {name: Questions.of(Data(o), s.labels) for name, o in others.items()}
    questions["task1"] = Questions.of(Data(s, stage.inputs["base"].folder), s.labels)
    new = train_parts(s, bank, questions)
    frames, measured = [], []
    for seed in seeds:
        mine = {name: own({"classifier": bank["classifier"], name: part}, seed)[name] for name, part in new.items()}
        modules.save(out / f"experts-{seed}.safetensors", mine, s.passport(seed))
        start = Library.of(s.labels, own(bank, seed), passport=modules.complete(s.passport(seed)))
        changed = list(changes(s, start, bank, mine, questions, seed))
        frames += [
            answers(library, questions[kind], kind, name, s, seed) for name, library, kinds in changed for kind in kinds
        ]
        half = {name: library for name, library, _ in changed if name.endswith("_bf16")}
        measured += list(_files(s, start, half, questions["task1"], out, seed))
    pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")
    pd.DataFrame(measured, columns=["method", "metric", "seed", "value"]).to_csv(out / "measured.csv", index=False)


def middle(s: Setting) -> tuple[str, tuple[int, int], list[tuple[int, int]]]:
    """The range in the middle: its name, its bounds and those of its halves."""
    k = s.labels.K // 2
    lo, hi = s.labels.bounds[k]
    cut = (lo + hi) // 2
    return s.labels.names[k], (lo, hi), [(lo, cut), (cut + 1, hi)]


def train_parts(s: Setting, bank: Bank, questions: dict[str, Questions]) -> Bank:
    """Experts for the middle range from another start (`start`), from a part of its rows (`rows`), from Task 2
    (`task2`) and for each of its halves (`half_1`, `half_2`); for subtraction (`minus`) and for the range beyond
    (`beyond`), with the classifier that this one needs (`classifier`). A member a seed."""
    seeds = range(len(bank["classifier"].weight))
    _, bounds, halves = middle(s)
    known, wide = questions["task1"], wider(s.labels)[0]

    def both(of: Questions, within=None) -> list[tuple[np.ndarray, np.ndarray]]:
        return [(of.rows("train", seed, within), of.rows("validation", seed, within)) for seed in seeds]

    few = [(known.data.by_range(train, PART_OF_ROWS, seed), v) for seed, (train, v) in enumerate(both(known, bounds))]
    wanted = {
        "start": ("experts, another start", known, both(known, bounds)),
        "rows": ("experts", known, few),
        "task2": ("experts", questions["task2"], both(questions["task2"], bounds)),
        "half_1": ("experts", known, both(known, halves[0])),
        "half_2": ("experts", known, both(known, halves[1])),
        "minus": ("experts", questions["minus"], both(questions["minus"])),
    }
    made: Bank = {name: experts(s, bank, kind, of, rows, seeds) for name, (kind, of, rows) in wanted.items()}
    beyond = questions["beyond"]
    made["classifier"] = grown_classifier(s, bank, known, beyond, wide.C - s.labels.C)
    grown = bank | {"classifier": made["classifier"]}
    made["beyond"] = experts(s, grown, "experts", beyond, both(beyond), seeds)
    return made


def changes(
    s: Setting, red: Library, bank: Bank, new: Bank, questions: dict[str, Questions], seed: int
) -> Iterator[Changed]:
    """Every changed RED of one seed, the untouched one first."""
    mine = ("task1",)
    yield "red", red, SETS
    for verb in ("remove", "disable"):
        for name in red.names:
            yield f"{verb}_{name}", _done(red, lambda own, v=verb, n=name: getattr(own, v)(n)), mine
    yield "base", _done(red, lambda own: [own.disable(name) for name in own.names]), SETS
    name, _, _ = middle(s)
    about = s.passport(seed)
    for kind in ("start", "rows", "task2"):
        yield f"replace_{kind}", _done(red, lambda own, k=kind: own.replace(name, new[k], about)), mine
    if len(bank["classifier"].weight) > 1:
        yield "replace_seed", _done(red, lambda own: own.replace(name, _other_seed(s, bank, name, seed), about)), mine
    pieces = {f"{name}a": new["half_1"], f"{name}b": new["half_2"]}
    halves = _done(red, lambda own: own.split(name, pieces))
    yield "split", halves, mine
    yield "split_refit", _done(halves, lambda own: _refit_halves(s, own, questions, seed)), mine
    yield from _half(s, red, name)
    yield from _added(s, red, new, questions, seed, "minus")
    wide, _ = wider(s.labels)
    grown = _done(red, lambda own: own.widen(wide, new["classifier"]))
    yield "grown", grown, ("task1", "beyond")
    yield from _added(s, grown, new, questions, seed, "beyond")


def column_loop(s: Setting) -> Training:
    """How a column is fitted alone: by the loss, and faster. It starts so low that for epochs no answer changes."""
    return s.recipe.routers.model_copy(update={"monitor": "loss", "lr": 10 * s.recipe.routers.lr})


def _done(red: Library, change) -> Library:
    copy = red.copy()
    change(copy)
    return copy


def _other_seed(s: Setting, bank: Bank, name: str, seed: int):
    """The same range's expert of another seed: trained behind another classifier, on another draw of the rows."""
    other = (seed + 1) % len(bank["classifier"].weight)
    return take(bank["experts"], [other * s.labels.K + s.labels.names.index(name)])


def _added(
    s: Setting, red: Library, new: Bank, questions: dict[str, Questions], seed: int, kind: str
) -> Iterator[Changed]:
    """An added expert with its column by the rule, then with that column refitted alone on both kinds of rows."""
    name = s.labels.names[0].rstrip("0123456789") + str(s.labels.K + 1) if kind == "beyond" else kind
    about = s.passport(seed) | {"labels": red.labels}
    added = _done(red, lambda own: own.add(name, new[kind], about))
    yield f"add_{kind}", added, ("task1", kind)
    known, other = questions["task1"], questions[kind]
    targets = [s.labels.names[k] for k in known.data.range.tolist()] + [name] * len(other.x)
    rows = [np.concatenate([known.rows(p, seed), len(known.x) + other.rows(p, seed)]) for p in ("train", "validation")]
    x = joined(known, other)[0]
    yield (
        f"add_{kind}_refit",
        _done(added, lambda own: own.refit([name], x.cpu(), targets, *rows, column_loop(s), seed)),
        (
            "task1",
            kind,
        ),
    )


def _refit_halves(s: Setting, split: Library, questions: dict[str, Questions], seed: int) -> None:
    name, _, halves = middle(s)
    known = questions["task1"]
    targets = np.array(s.labels.names)[known.data.range.numpy()].astype(object)
    for letter, (lo, hi) in zip("ab", halves, strict=True):
        targets[(known.values >= lo) & (known.values <= hi)] = name + letter
    rows = (known.rows(part, seed) for part in ("train", "validation"))
    split.refit([f"{name}a", f"{name}b"], known.x.cpu(), list(targets), *rows, column_loop(s), seed)


def _half(s: Setting, red: Library, name: str) -> Iterator[Changed]:
    """One expert, then every part, rounded to bfloat16."""
    one, every = red.copy(), red.copy()
    for p in (*one.expert(name).parameters(), *every.parameters(), *every.buffers()):
        p.data = p.data.bfloat16().float()
    yield "replace_bf16", one, ("task1",)
    yield "all_bf16", every, ("task1",)


@torch.no_grad()
def answers(library: Library, questions: Questions, kind: str, name: str, s: Setting, seed: int) -> pd.DataFrame:
    """The long frame's test rows of one library, with `questions`, the set they are from; ranges are the study's, and
    for `beyond` the one above them."""
    rows = questions.data.rows["test"][seed]
    items = questions.data.pool.iloc[rows][["row", "structure", "value", "range"]].reset_index(drop=True)
    items = items.assign(range=s.labels.K) if kind == "beyond" else items
    said = evaluation.predict(library, questions.x[rows].cpu(), library.labels)
    said = said[["predicted_value", "predicted_range", "confidence"]]
    about = {"split": s.split, "part": "test", "recipe": s.recipe.name, "method": name, "seed": seed, "questions": kind}
    return pd.concat([items.assign(router_range=-1, **about), said], axis=1)


@torch.no_grad()
def _files(
    s: Setting, red: Library, half: dict[str, Library], known: Questions, out: Path, seed: int
) -> Iterator[tuple[str, str, int, float]]:
    """RED written as a module file with its probe batch and read again: logits whose bits differ; and the drift of
    rounded ones. Measured on the test rows."""
    rows = known.data.rows["test"][seed]
    backbone, texts = open_backbone(s.features), known.data.pool["text"].iloc[rows].tolist()
    probe = modules.Probe.of(backbone, texts, s.recipe.layer, s.recipe.pooling)
    red.save(out / f"red-{seed}.safetensors", probe=probe)
    x = known.x[rows].cpu()
    again, before = Library.load(out / f"red-{seed}.safetensors", backbone)(x).logits, red(x).logits
    yield "reload", "differing_logits", seed, float((again != before).sum())
    for name, library in half.items():
        yield name, "logit_drift", seed, drift(library(x).logits, before)
