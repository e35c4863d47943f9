"""Runs the study: what the notebooks read is computed first, then they are executed: one after another, or, where all
read a record and nothing is computed, one a core.

A notebook is current when a key over its source, the profile, the library and what it reads (tables, benchmarks) is the
one its executed copy was made with; a current notebook is skipped, so a run that stopped continues where it stopped.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import nbformat
from filelock import Timeout
from nbformat import NotebookNode

from redlib import config, paths
from redlib.config import Profile
from redlib.results.provenance import known_runs, record_run
from redlib.study import judged
from redlib.study.data import fetch_backbone
from redlib.study.executing import NotebookError, check, execute, figures_named
from redlib.study.notebooks import Notebook
from redlib.study.stage import Say, Stage
from redlib.study.tables import TABLES, available, committed, ready

MOST = 4  # notebooks at a time: a kernel may hold a backbone
Tables = Mapping[str, Callable[[Profile], Stage]]


@dataclass(frozen=True)
class Plan:
    """What a run would do: stages to make, each once, and notebooks to execute."""

    stages: tuple[Stage, ...]
    notebooks: tuple[Notebook, ...]

    @property
    def seconds(self) -> float:
        """Rough estimate of the time that the stages take."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def bytes(self) -> int:
        """Rough estimate of the disk that the stages take."""
        return sum(stage.bytes for stage in self.stages)


@dataclass(frozen=True)
class Runner:
    """One profile's run. `folder` holds the notebooks' sources, `tables` says which stage makes which table."""

    name: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = field(default_factory=lambda: paths.root() / "notebooks")
    tables: Tables = field(default_factory=lambda: TABLES)

    @cached_property
    def profile(self) -> Profile:
        """The profile of that name with the overrides."""
        return config.load(self.name, dict(self.overrides))

    @cached_property
    def out(self) -> Path:
        """Where this run writes: notebooks/, figures/ and results/."""
        return paths.runs(self.profile.name)

    @property
    def _given(self) -> dict[str, Any]:
        return {"profile": self.profile.name, "overrides": dict(self.overrides)}

    @cached_property
    def _library(self) -> str:
        sources = [*(paths.root() / "redlib").rglob("*.py"), *(paths.root() / "data").glob("claims*.csv")]
        files = sorted(file for file in sources if file.is_file())
        return paths.digest({str(file.relative_to(paths.root())): paths.digest(file.read_bytes()) for file in files})

    def executed(self, notebook: Notebook) -> Path:
        """The executed copy of a notebook."""
        return self.out / "notebooks" / f"{notebook.name}.ipynb"

    def sidecar(self, notebook: Notebook) -> dict:
        """What is recorded beside an executed copy: key, overrides, figures, seconds; empty when there is none."""
        try:
            return json.loads(self.executed(notebook).with_suffix(".json").read_text())
        except (OSError, ValueError):
            return {}

    def stages(self, notebook: Notebook) -> dict[str, Stage]:
        """The stage behind every table of a notebook, of the optional ones those whose work is done; none in a profile
        that reads a record."""
        if self.profile.reads:
            return {}
        made = {name: self._table(name)(self.profile) for name in (*notebook.tables, *notebook.optional)}
        return {name: stage for name, stage in made.items() if name in notebook.tables or ready(stage)}

    def _table(self, name: str) -> Callable[[Profile], Stage]:
        if name not in self.tables:
            raise ValueError(f"unknown table {name!r}; valid tables: {', '.join(sorted(self.tables))}")
        return self.tables[name]

    def key(self, notebook: Notebook) -> str:
        """Everything that an executed copy depends on, as one hash."""
        reads = {name: stage.key for name, stage in self.stages(notebook).items()}
        if self.profile.reads:
            there = [name for name in notebook.optional if available(self.profile, name)]
            named = (*notebook.tables, *there)
            reads = {name: paths.digest(committed(self.profile, name).read_bytes()) for name in named}
            index = paths.modules() / "index.json"  # with the digest of every shipped module
            reads |= {"modules": paths.digest(index.read_bytes())} if index.is_file() else {}
        reads |= {"judged": judged.digest(self.profile)} if notebook.judges else {}
        reads |= {"benchmarks": _benchmarks()} if notebook.timed else {}
        source = paths.digest((self.folder / f"{notebook.name}.ipynb").read_bytes())
        parts = {"source": source, "profile": self.profile.model_dump(mode="json"), "overrides": dict(self.overrides)}
        return paths.digest({**parts, "library": self._library, "reads": reads})

    def current(self, notebook: Notebook) -> bool:
        """Whether the executed copy and its tables are there and were made from what is there now."""
        there = self.executed(notebook).is_file() and all(
            (self.out / "results" / f"{name}.csv").is_file() for name in self.stages(notebook)
        )
        return there and self.sidecar(notebook).get("key") == self.key(notebook)

    def plan(self, notebooks: Iterable[Notebook], force: bool = False) -> Plan:
        """Stages that are missing and notebooks that would run; writes nothing."""
        notebooks = tuple(notebooks)
        self._check(notebooks)
        stale = tuple(notebook for notebook in notebooks if force or not self.current(notebook))
        tables = [stage for notebook in stale for stage in self.stages(notebook).values()]
        missing = {stage.key: stage for table in tables for stage in table.missing()}
        return Plan(tuple(missing.values()), stale)

    def run(self, notebooks: Iterable[Notebook], force: bool = False, say: Say = print) -> None:
        """Make what is missing and execute what is not current; stops at the first failure with NotebookError."""
        notebooks, start = tuple(notebooks), time.perf_counter()
        self._check(notebooks)
        if not self.profile.reads:
            fetch_backbone(self.profile.backbone)  # once, before what is computed from it is looked for
        clocks = [_with_clock(say, f"{n}/{len(notebooks)} {it.name}", start) for n, it in enumerate(notebooks, 1)]
        with self._alone(say):
            if self.profile.reads:
                self._side_by_side(notebooks, force, clocks)
                return
            for notebook, clock in zip(notebooks, clocks, strict=True):
                self._one(notebook, force, clock)

    def _side_by_side(self, notebooks: Iterable[Notebook], force: bool, clocks: Iterable[Say]) -> None:
        """One notebook a core, up to MOST, where no stage needs the cores; a failure lets what runs end and starts no
        other."""
        with ThreadPoolExecutor(min(os.cpu_count() or 1, MOST)) as pool:
            try:
                list(pool.map(self._one, notebooks, repeat(force), clocks))
            finally:
                pool.shutdown(cancel_futures=True)

    def on_record(self, notebooks: Iterable[Notebook], say: Say = print) -> tuple[Notebook, ...]:
        """The notebooks whose tables the record holds; a line names every other one and what it lacks.

        A profile that does not read a record makes what it needs: all of them. FileNotFoundError, as for a single
        notebook, when there is none left.
        """
        notebooks, lacking = tuple(notebooks), {}
        for notebook in notebooks if self.profile.reads else ():
            folder = paths.results(self.profile.reads)
            lacking[notebook] = [name for name in notebook.tables if not (folder / f"{name}.csv").is_file()]
        kept = tuple(notebook for notebook in notebooks if not lacking.get(notebook))
        if not kept:
            self._check(notebooks)
        for notebook, names in lacking.items():
            if names:
                say(f"{notebook.name} is left out: the record of {self.profile.reads} has no {', '.join(names)} yet")
        return kept

    def _check(self, notebooks: Iterable[Notebook]) -> None:
        """What cannot work is said before hours of work, not after."""
        for notebook in notebooks:
            check(self.folder / f"{notebook.name}.ipynb", self._given)
            for name in notebook.tables:
                committed(self.profile, name) if self.profile.reads else self._table(name)

    def _one(self, notebook: Notebook, force: bool, say: Say) -> None:
        if not force and self.current(notebook):
            say("current, skipped")
            return
        for name, stage in self.stages(notebook).items():
            stage.run(say)
            self._keep_table(name, stage)
        key, start = self.key(notebook), time.perf_counter()
        say("executing")
        failed = self.executed(notebook).with_suffix(".failed.ipynb")
        try:
            done = execute(self.folder / f"{notebook.name}.ipynb", self._given)
        except NotebookError as error:
            if error.notebook is None:
                raise
            paths.write_text(failed, nbformat.writes(error.notebook) + "\n")
            raise NotebookError(f"{error}\nthe failed notebook is {_short(failed)}", error.notebook) from None
        paths.write_text(self.executed(notebook), nbformat.writes(done) + "\n")
        seconds = time.perf_counter() - start
        record = {"key": key, "overrides": dict(self.overrides), "figures": self._figures(done)}
        record |= {"seconds": round(seconds, 1)}
        paths.write_json(self.executed(notebook).with_suffix(".json"), record)
        failed.unlink(missing_ok=True)
        say(f"done in {seconds:.1f} s")

    def _keep_table(self, name: str, stage: Stage) -> None:
        """Copy a table, and what is known of the runs behind it, to where a reader looks for it."""
        file = stage.folder / f"{name}.csv"
        if not file.is_file():
            raise FileNotFoundError(f"stage {stage.name!r} made no table {file.name} in {stage.folder}")
        paths.write_bytes(self.out / "results" / file.name, file.read_bytes())
        for run, about in known_runs(stage.folder).items():
            record_run(self.out / "results", run, about)

    def _figures(self, done: NotebookNode) -> list[str]:
        """The figures that an executed notebook says it wrote and that are there."""
        return sorted(name for name in figures_named(done) if (self.out / "figures" / name).is_file())

    def _alone(self, say: Say):
        """Two papermill processes at once can race for a port: runs of all profiles queue for one lock."""
        lock = paths.lock(self.out.parent / "run")
        try:
            return lock.acquire(timeout=0)
        except Timeout:
            say("another run is executing notebooks; waiting for it to end")
            return lock.acquire()


def _benchmarks() -> dict[str, str]:
    """What benchmarks recorded, as hashes by file."""
    return {file.name: paths.digest(file.read_bytes()) for file in sorted(paths.results("bench").glob("*.csv"))}


def _with_clock(say: Say, where: str, start: float) -> Say:
    def line(text: str) -> None:
        minutes, seconds = divmod(int(time.perf_counter() - start), 60)
        say(f"[{minutes:3d}:{seconds:02d}] {where}: {text.strip()}")

    return line


def _short(path: Path) -> str:
    """Relative to the project where it lies inside it."""
    return str(path.relative_to(paths.root()) if path.is_relative_to(paths.root()) else path)
