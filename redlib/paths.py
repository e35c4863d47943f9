"""Where every artefact lives, and the one way to write it: to a temporary name, flushed, then renamed.

A reader therefore sees the old artefact or the new one, never half of one; a failed write leaves the old one intact.
"""

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock

ROOT = Path(__file__).resolve().parents[1]


def root() -> Path:
    """The project's folder (the one that holds pyproject.toml)."""
    return ROOT


def cache() -> Path:
    """Root of everything that can be computed again: $REDLIB_CACHE, default data/cache."""
    return _from_root("REDLIB_CACHE", "data/cache")


def runs(profile: str) -> Path:
    """What a run of a profile writes (executed notebooks, figures, tables); ignored by git."""
    return _from_root("REDLIB_RUNS", "data/runs") / profile


def _from_root(variable: str, default: str) -> Path:
    """The folder that a variable names; ValueError where that is a file.

    Relative paths start at the project's folder: JupyterLab, papermill and a shell stand in different ones.
    """
    path = (ROOT / Path(os.environ.get(variable) or default).expanduser()).resolve()
    if path.is_file():
        raise ValueError(f"{path} is a file, and ${variable} (default {default}) must name a folder")
    return path


def results(profile: str) -> Path:
    """The committed tables of a profile."""
    return ROOT / "data" / "results" / profile


def modules() -> Path:
    """The small trained modules that are shipped."""
    return ROOT / "data" / "modules"


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is flushed and renamed to `path`, on failure removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Like `atomic_file` for a folder: the filled temporary folder replaces `path` in one rename."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        old = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.old")
        if path.exists():
            os.replace(path, old)
        os.replace(temporary, path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically, line endings as they are."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes atomically."""
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, data: Any) -> None:
    """Write readable, sorted JSON atomically."""
    write_text(path, json.dumps(data, indent=2, sort_keys=True) + "\n")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock(path: Path, timeout: float = -1) -> FileLock:
    """A lock between processes for the artefact at `path` (re-entrant in one process's lock object)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"), timeout=timeout)


def digest(data: Any) -> str:
    """Hex sha256 of plain data (as sorted JSON) or bytes: the key of an artefact."""
    raw = data if isinstance(data, bytes) else json.dumps(data, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(raw).hexdigest()


def size(path: Path) -> int:
    """Bytes under a file or folder."""
    path = Path(path)
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
