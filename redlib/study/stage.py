"""A stage is a pure function of its own configuration that writes one folder atomically.

Its key hashes that configuration, the keys of what it reads and a version bumped by hand when its code changes
meaning. Same key: the folder is there already, and the stage is skipped.
"""

import contextlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from redlib import paths, training

Say = Callable[[str], None]
RECORD = "stage.json"


@dataclass(frozen=True)
class Stage:
    """`make(stage, out)` fills the folder `out`; `config` is plain data; `seconds` and `bytes` are rough estimates."""

    name: str
    version: int
    config: Mapping[str, Any]
    make: Callable[["Stage", Path], None]
    inputs: Mapping[str, "Stage"] = field(default_factory=dict)
    seconds: float = 1.0
    bytes: int = 1 << 16

    @cached_property
    def key(self) -> str:
        """Everything that changes the stage's result, as one hash."""
        return paths.digest({"name": self.name, "version": self.version, "config": self.config, "reads": self._reads})

    @property
    def _reads(self) -> dict[str, str]:
        return {name: stage.key for name, stage in self.inputs.items()}

    @property
    def folder(self) -> Path:
        """Where the stage lies in the cache, by its name and key."""
        readable = re.sub(r"[^\w.=-]+", "-", self.name).strip("-")
        return paths.cache() / "stages" / readable / self.key[:20]

    @property
    def checkpoint(self) -> Path:
        """Where a training of hours keeps its state, to go on after it was cut off; gone when the stage is done."""
        return self.folder.with_name(f".{self.folder.name}.checkpoint")

    @property
    def done(self) -> bool:
        """Whether the folder is there and whole (every recorded file with its recorded size)."""
        return self.folder.is_dir() and self.damage() is None

    def damage(self) -> str | None:
        """What is wrong with the folder on disk, in a few words; None if nothing is."""
        try:
            files = json.loads((self.folder / RECORD).read_text())["files"]
        except (OSError, ValueError, LookupError, TypeError):
            return f"its {RECORD} cannot be read"
        for name, size in files.items():
            file = self.folder / name
            if not file.is_file():
                return f"{name} is missing"
            if file.stat().st_size != size:
                return f"{name} has {file.stat().st_size} bytes instead of {size}"
        return None

    @property
    def record(self) -> dict[str, Any]:
        """What was written when the stage was made: configuration, what it read, seconds."""
        return json.loads((self.folder / "stage.json").read_text())

    def upstream(self) -> list["Stage"]:
        """Every stage that this one reads, directly or not, each once."""
        found: dict[str, Stage] = {}
        for stage in self.inputs.values():
            found |= {s.key: s for s in [*stage.upstream(), stage]}
        return list(found.values())

    def spent(self) -> dict[str, float]:
        """Seconds that the making of every stage upstream took, by name; stages of one name are added up."""
        seconds: dict[str, float] = {}
        for stage in self.upstream():
            seconds[stage.name] = round(seconds.get(stage.name, 0.0) + stage.record["seconds"], 2)
        return seconds

    def missing(self) -> Iterator["Stage"]:
        """This stage and what it reads, in order of making, each once, without those that are done."""
        yield from self._missing(set())

    def _missing(self, seen: set[str]) -> Iterator["Stage"]:
        if self.key in seen or self.done:
            return
        seen.add(self.key)
        for stage in self.inputs.values():
            yield from stage._missing(seen)
        yield self

    def run(self, say: Say = print, force: bool = False) -> Path:
        """Make the folder if it is missing or damaged (or with `force`), what it reads first; return it."""
        if self.done and not force:
            return self.folder
        for stage in self.inputs.values():
            stage.run(say)
        with paths.lock(self.folder):
            if self.done and not force:  # another process made it while this one waited
                return self.folder
            if force:
                self.checkpoint.unlink(missing_ok=True)
            self._make(say)
        return self.folder

    def _make(self, say: Say) -> None:
        if self.folder.is_dir() and (damage := self.damage()):
            say(f"  stage {self.name}: the copy in the cache is damaged ({damage}) and is made again")
        say(f"  stage {self.name}: started (about {self.seconds:.0f} s)")
        start = time.perf_counter()
        with paths.atomic_folder(self.folder) as out:
            with _told(say):
                self.make(self, out)
            files = {str(file.relative_to(out)): file.stat().st_size for file in out.rglob("*") if file.is_file()}
            record = {"name": self.name, "version": self.version, "key": self.key, "config": self.config}
            record |= {"reads": self._reads, "files": files, "seconds": round(time.perf_counter() - start, 2)}
            paths.write_json(out / RECORD, record)
        self.checkpoint.unlink(missing_ok=True)
        say(f"  stage {self.name}: done in {time.perf_counter() - start:.1f} s")


@contextlib.contextmanager
def _told(say: Say) -> Iterator[None]:
    """What training logs about its epochs is said, on whichever thread it trains."""
    handler = logging.Handler()
    handler.emit = lambda record: say(f"    {record.getMessage()}")
    training.LOG.addHandler(handler)
    training.LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        training.LOG.removeHandler(handler)
