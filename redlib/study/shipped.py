"""The small trained modules that are shipped in data/modules, so that any question can be explained and solved without
training.

A folder a model: modules.safetensors with its passport, and for most structures.txt.xz, the structures of its training
rows. index.json says what is there, from which profile and seed, and how large it is; models of several profiles can
stand side by side.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import nn

from redlib import decomposer, explain, models, modules, paths
from redlib.config import Profile
from redlib.expressions import LabelSpace
from redlib.features import Point
from redlib.study.data import open_backbone
from redlib.study.shipping import (
    MODULES,
    PLAN,
    PLUS,
    SEED,
    STRUCTURES,
    Item,
    open_parts,
    structures,
    write_model,
)
from redlib.study.stage import Say

FIRST, FORMAT = "redlib-shipped/1", "redlib-shipped/2"  # what can be read; the last one is written
INDEX = "index.json"
KEYS = ("task", "definition", "recipe", "split", "seed", "weights_id", "profile")  # an entry's and a passport's
MOST_A_FILE, MOST_IN_ALL = 30_000_000, 60_000_000  # bytes


def ship(profile: Profile, say: Say = print) -> None:
    """Write data/modules from a profile's trained stages, in place of what was there.

    ValueError for a profile that is no evidence, never trains or has not been trained, and for modules over the limits.
    """
    if profile.reads or not profile.evidence:
        machinery = f"on backbone {profile.backbone.name} only proves the machinery and is no evidence"
        why = "never trains" if profile.reads else machinery
        raise ValueError(f"profile {profile.name!r} cannot be shipped: it {why}; ship laptop or full")
    write(profile, paths.modules(), say)


def write(profile: Profile, folder: Path, say: Say = print) -> None:
    """Write the planned models that a profile has trained into a folder, checked before they replace what is there.

    A model that it has not trained is named and stays as it was shipped before.
    """
    open_backbone(profile.backbone)
    lacking = {item: _lacking(item, profile) for item in PLAN}
    if all(lacking.values()):
        stages = [stage for item in PLAN if item.seeds(profile) > SEED for stage in _missing(item, profile)]
        run = f"python -m redlib run --profile {profile.name} --chapters all"
        raise ValueError(f"{len(stages)} stages are not trained yet, {stages[0]!r} first; `{run}` trains them")
    old = read_index(folder)["modules"] if (folder / INDEX).is_file() else {}
    with paths.atomic_folder(folder) as out:
        entries = {item.name: _write(item, profile, out) for item in PLAN if not lacking[item]}
        for item in (item for item in PLAN if lacking[item]):
            stays = f"the one of profile {old[item.name]['profile']} stays" if item.name in old else "none is shipped"
            say(f"{item.name}: profile {profile.name} {lacking[item]}; {stays}")
            if item.name in old:
                shutil.copytree(folder / item.name, out / item.name)
                entries[item.name] = old[item.name]
        for name in sorted(old.keys() - {item.name for item in PLAN}):
            say(f"{name}: no longer among the models that are shipped, and left out")
        (out / INDEX).write_text(json.dumps({"format": FORMAT, "modules": entries}, indent=1, sort_keys=True) + "\n")
        found = list(problems(out))
        if found:
            raise ValueError(f"the modules cannot be shipped: {'; '.join(found)}")
        for name, entry in sorted(entries.items()):
            size, equal = f"{entry['bytes'] / 1e6:.1f} MB", f"{entry['agreement']:.1%} of its answers as before"
            say(f"{name}: {size}, profile {entry['profile']}, {equal}")
        say(f"{len(entries)} models, {paths.size(out) / 1e6:.1f} MB")


def _lacking(item: Item, profile: Profile) -> str:
    """Why a profile has not this model to ship, as a clause; "" where it has."""
    if item.seeds(profile) <= SEED:
        return "does not train it"
    missing = _missing(item, profile)
    return f"has not trained it yet ({len(missing)} stages are missing, {missing[0]!r} first)" if missing else ""


def _missing(item: Item, profile: Profile) -> list[str]:
    return list(dict.fromkeys(made.name for stage in item.stages(profile) for made in stage.missing()))


def _write(item: Item, profile: Profile, out: Path) -> dict[str, Any]:
    entry, file = write_model(item, profile, out / item.name), out / item.name / MODULES
    return entry | {"bytes": file.stat().st_size, "sha256": paths.digest(file.read_bytes())}


def read_index(folder: Path) -> dict[str, Any]:
    """What is shipped; FileNotFoundError says what writes it, ValueError that the index is not ours."""
    file = folder / INDEX
    if not file.is_file():
        make = "python -m redlib ship --profile full"
        raise FileNotFoundError(f"no modules are shipped in {folder.parent.name}/{folder.name}; `{make}` writes them")
    try:
        index = json.loads(file.read_text())
    except ValueError:
        index = None
    if not _is_index(index):
        raise ValueError(f"{file.name} in {folder} is no index of shipped modules ({FORMAT})")
    if index["format"] == FIRST:  # one profile for all
        index["modules"] = {name: entry | {"profile": index["profile"]} for name, entry in index["modules"].items()}
    return index


def _is_index(index: Any) -> bool:
    known = isinstance(index, dict) and index.get("format") in (FIRST, FORMAT)
    entries = index.get("modules") if known else None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        return False
    said = KEYS if index["format"] == FORMAT else [key for key in KEYS if key != "profile"]
    return all(key in entry for entry in entries.values() for key in (*said, "structures"))


def entry_of(folder: Path, **keys: Any) -> str | None:
    """The name of the shipped model whose entry says all of this (task=, recipe=, split=, ...), or None."""
    if not (folder / INDEX).is_file():
        return None
    found = read_index(folder)["modules"].items()
    return next((name for name, entry in found if all(entry[key] == value for key, value in keys.items())), None)


def open_model(folder: Path, name: str, backbone: Any, **wanted: Any) -> explain.Model:
    """A shipped model, ready for an explainer; refusals as `open_checked`."""
    parts, passport, _ = open_checked(folder, name, backbone, **wanted)
    seen = explain.Structures.of(structures(folder / name))
    known = read_index(folder)["modules"][name]["structures"]
    if len(seen) != known:
        raise ValueError(f"{name}'s {STRUCTURES} holds {len(seen)} structures, and the index says {known}")
    task, recipe, split = passport["task"], passport["recipe"], passport["split"]
    what = recipe if recipe == PLUS else f"recipe {recipe}"
    said = f"{task}, {what}, split {split}, seed {passport['seed']}, profile {passport['profile']} (shipped)"
    kinds = tuple(models.PLUS if recipe == PLUS else models.METHODS)
    return explain.Model(said, LabelSpace(**passport["labels"]), parts, seen, kinds)


def open_checked(
    folder: Path, name: str, backbone: Any, **wanted: Any
) -> tuple[dict[str, nn.Module], dict[str, Any], Point]:
    """Parts and passport of a shipped model, and where its base reads; ValueError for another backbone than the one it
    was trained on, for a damaged file, for one that is not the model that the index says it is, and for a passport that
    does not say what is `wanted`."""
    found = open_parts(folder / name, backbone, **wanted)
    for disagreement in _disagreements(name, found[1], read_index(folder)["modules"][name]):
        raise ValueError(disagreement)
    return found


def _disagreements(name: str, passport: dict[str, Any], entry: dict[str, Any]) -> Iterator[str]:
    for key in KEYS:
        if passport[key] != entry[key]:
            yield f"{name}'s passport says {key} {passport[key]!r}, and the index {entry[key]!r}"


def open_planner(folder: Path, name: str, backbone: Any) -> decomposer.Planner:
    """A shipped planner; ValueError for another backbone than the one it was trained on."""
    return decomposer.load(folder / name / MODULES, backbone)


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
            yield from _problems(folder / name, entry)


def _problems(folder: Path, entry: dict[str, Any]) -> Iterator[str]:
    if paths.digest((folder / MODULES).read_bytes()) != entry["sha256"]:
        yield f"{folder.name}'s {MODULES} is not the file that the index is about"
        return
    passport = modules.read_passport(folder / MODULES)
    yield from _disagreements(folder.name, passport, entry)
    needed = models.needs(name for name in entry["methods"] if name in models.METHODS | models.PLUS)
    lacking = needed - passport["parts"].keys()
    if lacking:
        yield f"{folder.name} lacks the parts {', '.join(sorted(lacking))} of its methods"
