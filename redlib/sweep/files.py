"""Sweep files: TOML that names a profile and the runs to make, checked before anything is made."""

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from redlib import config
from redlib.config import Profile
from redlib.study import ablations
from redlib.study.ablations import Run

ABLATIONS = "ablations"  # instead of a file: every run behind the tables of the ablations
TUNED = "tuned"  # and every run that tunes layers of the backbone: hours
STUDY = {ABLATIONS: False, TUNED: True}
KEYS = ("profile", "overrides", "runs", "grid")


def read(file: str, profile: str = "auto", overrides: Mapping[str, Any] | None = None) -> tuple[Profile, list[Run]]:
    """The profile and the distinct runs of a sweep file, or of `ablations` or `tuned`; `profile` where the file names
    none.

    ValueError names an unknown key or setting with the valid ones, a value that is impossible, and a file without
    runs; FileNotFoundError, a file that is not there. A profile that reads a record makes no runs.
    """
    if file in STUDY:
        made = config.load(profile, dict(overrides or {}))
        runs = ablations.runs(made, STUDY[file])
    else:
        content = _content(Path(file))
        given = {**content.get("overrides", {}), **(overrides or {})}
        made = config.load(content.get("profile", profile), given)
        runs = [_run(fields, where) for where, fields in _described(content, file)]
    if made.reads:
        raise ValueError(f"profile {made.name!r} reads the results of {made.reads} and makes no runs; name that one")
    return made, list(dict.fromkeys(runs))


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():
        study = " or ".join(map(repr, STUDY))
        raise FileNotFoundError(f"no sweep file at {path}; give a TOML file, or {study} for those of the study")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from None
    for key, value in content.items():
        if key not in KEYS:
            raise ValueError(f"{path.name}: unknown key {key!r}; valid keys: {', '.join(KEYS)}")
        kind = {"profile": str, "runs": list}.get(key, dict)
        if not isinstance(value, kind):
            raise ValueError(f"{path.name}: {key!r} must be a {kind.__name__}, it is a {type(value).__name__}")
    return content


def _described(content: Mapping[str, Any], file: str) -> list[tuple[str, dict[str, Any]]]:
    """(where it stands, its settings) of every run: each of `runs` with every combination of `grid`."""
    name, grid = Path(file).name, content.get("grid", {})
    listed = content.get("runs", [{}] if grid else [])
    for setting, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{name}: grid {setting!r} must be a list of values")
    wrong = [entry for entry in listed if not isinstance(entry, dict)]
    if wrong or not listed:
        what = f"an entry of runs is {wrong[0]!r}" if wrong else "there are no runs"
        raise ValueError(f"{name}: {what}; a run is a table [[runs]] of settings, or a combination of [grid]")
    made = []
    for number, fields in enumerate(listed, 1):
        twice = sorted(fields.keys() & grid.keys())
        if twice:
            raise ValueError(f"{name}: run {number} sets {twice[0]!r}, and so does the grid")
        for values in itertools.product(*grid.values()):
            made.append((f"{name}, run {number}", {**fields, **dict(zip(grid, values, strict=True))}))
    return made


def _run(fields: Mapping[str, Any], where: str) -> Run:
    try:
        return Run(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            said = f"unknown setting {name!r}; valid settings: {', '.join(Run.model_fields)}"
        elif first["loc"]:
            said = f"setting {name!r} cannot be {first['input']!r}: {first['msg']}"
        else:
            said = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"{where}: {said}") from None
