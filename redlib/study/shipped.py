"""The small trained modules that are shipped in data/modules, so that any question can be explained without training.

A folder a model, <task>-<recipe>-<split>: modules.safetensors with its passport, and structures.txt.xz, the structures
of its training rows. index.json says what is there, from which profile and seed, and how large it is.
"""

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from redlib import explain, models, modules, paths
from redlib.config import Profile
from redlib.expressions import LabelSpace
from redlib.study import methods, task1, task2
from redlib.study.data import feature_set, open_backbone
from redlib.study.settings import Data, Setting
from redlib.study.stage import Say

FORMAT = "redlib-shipped/1"
INDEX, MODULES, STRUCTURES = "index.json", "modules.safetensors", "structures.txt.xz"
MOST_A_FILE, MOST_IN_ALL = 30_000_000, 60_000_000  # bytes
SEED = 0
COMPARED = 200  # test rows whose answers are compared before and after
LARGE_CONTROLS = ("mlp_full_data",)  # as large as RED itself, and second to the Fourier network everywhere


@dataclass(frozen=True)
class Item:
    """One model to ship: every method but the large controls. `half`: parts that are kept in bfloat16."""

    task: str
    recipe: str
    split: str
    half: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.task}-{self.recipe}-{self.split}"

    def setting(self, profile: Profile) -> Setting:
        make = task1.setting if self.task == "task1" else task2.setting
        return make(profile, self.recipe, self.split)


PLAN = (
    *(Item(task, "chosen", split) for task in ("task1", "task2") for split in ("structure", "text")),
    Item("task1", "source", "structure", half=("base",)),
)


def ship(profile: Profile, say: Say = print) -> None:
    """Write data/modules from a profile's trained stages, in place of what was there.

    ValueError for a profile that is no evidence, never trains or has not been trained, and for modules over the limits.
    """
    if profile.reads or not profile.evidence:
        why = "never trains" if profile.reads else "only proves the machinery and is no evidence"
        raise ValueError(f"profile {profile.name!r} cannot be shipped: it {why}; ship laptop or full")
    write(profile, paths.modules(), say)


def write(profile: Profile, folder: Path, say: Say = print) -> None:
    """Write the planned models of a profile into a folder, checked before they replace what is there."""
    open_backbone(profile.backbone)
    planned = {item: item.setting(profile) for item in PLAN}
    there = {item: s for item, s in planned.items() if s.seeds > SEED}
    for item in planned.keys() - there.keys():
        say(f"{item.name}: profile {profile.name} does not train it")
    missing = [
        made.name for s in there.values() for stage in methods.part_stages(s).values() for made in stage.missing()
    ]
    if missing:
        run = f"python -m redlib run --profile {profile.name} --chapters all"
        raise ValueError(f"{len(missing)} stages are not trained yet, {missing[0]!r} first; `{run}` trains them")
    with paths.atomic_folder(folder) as out:
        entries = {item.name: _write_model(item, s, profile, out / item.name) for item, s in there.items()}
        index = {"format": FORMAT, "profile": profile.name, "seed": SEED, "modules": entries}
        (out / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
        found = list(problems(out))
        if found:
            raise ValueError(f"the modules cannot be shipped: {'; '.join(found)}")
        for name, entry in sorted(entries.items()):
            size, equal = f"{entry['bytes'] / 1e6:.1f} MB", f"{entry['agreement']:.1%} of RED's answers as before"
            say(f"{name}: {size}, {len(entry['methods'])} methods, {equal}")
        say(f"{len(entries)} models, {paths.size(out) / 1e6:.1f} MB")


def _write_model(item: Item, s: Setting, profile: Profile, out: Path) -> dict[str, Any]:
    """One model's files; its entry of the index."""
    backbone, data = open_backbone(profile.backbone), Data(s)
    wanted = [name for name in s.methods if name not in LARGE_CONTROLS]
    trained = methods.load_parts(s, SEED, backbone)
    parts = {name: trained[name] for name in sorted({"base"} | models.needs(wanted))}
    about = s.passport(SEED) | {"profile": profile.name, "metrics": _metrics(s, data, parts)}
    texts = data.pool["text"].iloc[data.rows["test"][SEED]].tolist()
    probe = modules.Probe.of(backbone, texts, s.recipe.layer, s.recipe.pooling, s.recipe.tuned_layers)
    modules.save(out / MODULES, parts, about, probe=probe, half=item.half)
    keys = sorted(set(data.pool["structure"].iloc[data.rows["train"][SEED]]))
    (out / STRUCTURES).write_bytes(lzma.compress("\n".join(keys).encode()))
    return {
        "task": item.task,
        "definition": s.definition,
        "recipe": item.recipe,
        "split": item.split,
        "seed": SEED,
        "backbone": profile.backbone.name,
        "weights_id": about["weights_id"],
        "methods": wanted,
        "bytes": (out / MODULES).stat().st_size,
        "sha256": paths.digest((out / MODULES).read_bytes()),
        "structures": len(keys),
        "agreement": _agreement(s, data, parts, modules.load(out / MODULES, backbone)[0]),
    }


def _agreement(s: Setting, data: Data, before: dict[str, nn.Module], after: dict[str, nn.Module]) -> float:
    """Share of test rows to which RED gives the same value before and after writing."""
    said = [_said(s, data, parts) for parts in (before, after)]
    return float((said[0] == said[1]).double().mean())


def _metrics(s: Setting, data: Data, parts: dict[str, nn.Module]) -> dict[str, float]:
    """RED's value and range accuracy on the compared test rows, for the passport."""
    rows = data.rows["test"][SEED][:COMPARED]
    said = _said(s, data, parts)
    right = {"value": said == data.value[rows], "range": torch.tensor(s.labels.range_index)[said] == data.range[rows]}
    accuracies = {f"red_{name}_accuracy": round(float(hit.double().mean()), 4) for name, hit in right.items()}
    return accuracies | {"test_rows": len(rows)}


@torch.no_grad()
def _said(s: Setting, data: Data, parts: dict[str, nn.Module]) -> torch.Tensor:
    """RED's answers (n,) as classes to the compared test rows."""
    rows = data.rows["test"][SEED][:COMPARED]
    x = feature_set(s.features).states().batch(rows) if s.recipe.tuned_layers else data.x[rows].cpu()
    return models.assemble("red", s.labels, parts)(x).logits.argmax(-1)


def read_index(folder: Path) -> dict[str, Any]:
    """What is shipped; FileNotFoundError says what writes it, ValueError that the index is not ours."""
    file = folder / INDEX
    if not file.is_file():
        make = "python -m redlib ship --profile full"
        raise FileNotFoundError(f"no modules are shipped in {folder.parent.name}/{folder.name}; `{make}` writes them")
    try:
        index = json.loads(file.read_text())
    except ValueError:
        index = {}
    if index.get("format") != FORMAT:
        raise ValueError(f"{file.name} in {folder} is no index of shipped modules ({FORMAT})")
    return index


def open_model(folder: Path, name: str, backbone: Any) -> explain.Model:
    """A shipped model, ready for an explainer; ValueError for another backbone than the one it was trained on."""
    parts, passport = modules.load(folder / name / MODULES, backbone)
    seen = explain.Structures.of(lzma.decompress((folder / name / STRUCTURES).read_bytes()).decode().split("\n"))
    task, recipe, split = passport["task"], passport["recipe"], passport["split"]
    said = f"{task}, recipe {recipe}, split {split}, seed {passport['seed']}, profile {passport['profile']} (shipped)"
    return explain.Model(said, LabelSpace(**passport["labels"]), parts, seen)


def problems(folder: Path) -> Iterator[str]:
    """What is wrong with shipped modules, a clause each: limits, and an index that files do not bear out."""
    index = read_index(folder)
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        if file.stat().st_size > MOST_A_FILE:
            yield f"{file.relative_to(folder)} has {file.stat().st_size:,} bytes, the most is {MOST_A_FILE:,}"
    total = paths.size(folder)
    if total > MOST_IN_ALL:
        yield f"all files have {total:,} bytes, the most is {MOST_IN_ALL:,}"
    there = {path.name for path in folder.iterdir() if path.is_dir()}
    if there != index["modules"].keys():
        yield f"the index names {', '.join(sorted(index['modules']))}, and there are {', '.join(sorted(there))}"
    for name, entry in index["modules"].items():
        if name in there:
            yield from _problems(folder / name, entry, index)


def _problems(folder: Path, entry: dict[str, Any], index: dict[str, Any]) -> Iterator[str]:
    if paths.digest((folder / MODULES).read_bytes()) != entry["sha256"]:
        yield f"{folder.name}'s {MODULES} is not the file that the index is about"
        return
    passport = modules.read_passport(folder / MODULES)
    told = {**entry, "profile": index["profile"]}
    for key in ("task", "definition", "recipe", "split", "seed", "weights_id", "profile"):
        if passport[key] != told[key]:
            yield f"{folder.name}'s passport says {key} {passport[key]!r}, and the index {told[key]!r}"
    lacking = models.needs(entry["methods"]) - passport["parts"].keys()
    if lacking:
        yield f"{folder.name} lacks the parts {', '.join(sorted(lacking))} of its methods"
