"""What lies under the cache and the runs: an inventory, and what `clean` would free.

Only folders that this project makes are listed or removed, whatever else $REDLIB_CACHE may hold.
"""

import json
import shutil
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from redlib import config, paths
from redlib.config import Profile
from redlib.study.stage import RECORD, Stage
from redlib.study.tables import TABLES

CACHED = ("stages", "features", "backbones")
LEFTOVERS = (".tmp", ".old")
UNTOUCHED = 3600  # seconds after which a temporary is taken for the leftover of an interrupted write


@dataclass(frozen=True)
class Artefact:
    """One thing on disk: `kind` is stage, features, backbones, run or leftover; `note` says how it was made."""

    kind: str
    name: str
    path: Path
    note: str = ""

    @property
    def bytes(self) -> int:
        """What it takes on disk."""
        return paths.size(self.path)


def inventory() -> list[Artefact]:
    """Everything of this project under the cache and the runs, stages first."""
    found = [_stage(path.parent) for path in sorted((paths.cache() / "stages").glob(f"[!.]*/[!.]*/{RECORD}"))]
    for kind in CACHED[1:]:
        found += [Artefact(kind, path.name, path, _meta(path)) for path in sorted((paths.cache() / kind).glob("[!.]*"))]
    found += [_run(name) for name in config.PROFILES if paths.runs(name).is_dir()]
    return found + leftovers()


def _stage(folder: Path) -> Artefact:
    try:
        record = json.loads((folder / RECORD).read_text())
        settings = json.dumps(record["config"], sort_keys=True)
        return Artefact("stage", record["name"], folder, f"{record['seconds']} s, {settings}")
    except (OSError, ValueError, LookupError):
        return Artefact("stage", folder.parent.name, folder, f"its {RECORD} cannot be read")


def _meta(folder: Path) -> str:
    file = folder / "meta.json"
    return " ".join(file.read_text().split()) if file.is_file() else ""


def _run(name: str) -> Artefact:
    out = paths.runs(name)
    count = {part: len(list((out / part).glob(pattern))) for part, pattern in _PARTS.items()}
    failed = sorted(path.name for path in (out / "notebooks").glob("*.failed.ipynb"))
    note = (
        f"{count['notebooks'] - len(failed)} executed notebooks, {count['figures']} figures, {count['results']} tables"
    )
    return Artefact("run", name, out, note + (f", failed: {', '.join(failed)}" if failed else ""))


_PARTS = {"notebooks": "[!.]*.ipynb", "figures": "[!.]*.png", "results": "[!.]*.csv"}


def leftovers() -> list[Artefact]:
    """Temporaries that an interrupted write left behind, untouched for an hour (a younger one may be in use)."""
    places = [paths.cache() / kind for kind in CACHED] + [paths.runs(name) for name in config.PROFILES]
    hidden = (path for place in places for path in place.rglob(".*") if path.suffix in LEFTOVERS)
    return [
        Artefact("leftover", path.name, path) for path in sorted(hidden) if time.time() - _touched(path) > UNTOUCHED
    ]


def _touched(path: Path) -> float:
    return max(file.stat().st_mtime for file in (path, *path.rglob("*")))


def everything() -> list[Artefact]:
    """The whole cache and all runs."""
    cached = [Artefact("cache", kind, paths.cache() / kind) for kind in CACHED if (paths.cache() / kind).is_dir()]
    return cached + [_run(name) for name in config.PROFILES if paths.runs(name).is_dir()]


def of_profile(profile: Profile) -> list[Artefact]:
    """The run of a profile and the folders of its stages, what they read included (other profiles may share them)."""
    folders: dict[Path, Stage] = {}
    waiting = [] if profile.reads else [table(profile) for table in TABLES.values()]
    while waiting:
        stage = waiting.pop()
        if stage.folder not in folders:
            folders[stage.folder] = stage
            waiting += stage.inputs.values()
    found = [_stage(folder) for folder in sorted(folders) if folder.is_dir()]
    return found + ([_run(profile.name)] if paths.runs(profile.name).is_dir() else [])


def remove(artefacts: Iterable[Artefact]) -> None:
    """Delete them, each under a new name first, so that a cut-off deletion leaves nothing that looks whole."""
    for artefact in artefacts:
        if artefact.path.is_file():
            artefact.path.unlink()
            continue
        doomed = artefact.path.with_name(f".{artefact.path.name.strip('.')}.{uuid.uuid4().hex[:8]}.old")
        artefact.path.rename(doomed)
        shutil.rmtree(doomed)
