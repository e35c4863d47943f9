"""Makes a finished run the record: tables to data/results, figures to figures/, executed notebooks, README tables;
or some finished tables alone.

Everything is checked before anything is copied. A profile that is not the one of record publishes its tables only.
"""

import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pandas as pd

from redlib import claims, config, paths, results
from redlib.config import Profile
from redlib.results.provenance import RUNS, cpu_model, known_runs, record_run
from redlib.study import judged
from redlib.study.notebooks import Notebook
from redlib.study.readme import END, START, headline, markdown, page
from redlib.study.runner import Runner
from redlib.study.stage import Say, Stage
from redlib.study.tables import stages

__all__ = ["END", "START", "headline", "markdown", "problems", "publish", "publish_tables"]
VERSIONS = "versions.json"  # beside the figures: with what they were drawn
DRAWN_WITH = ("matplotlib", "numpy", "pandas", "pillow", "scipy", "seaborn", "torch")
LINK = re.compile(r"\]\((\d\d_\w+\.ipynb)")  # from one notebook to another
CLAIMS = (  # of claims.csv
    *("claim_id", "document", "section", "kind", "words", "reported", "shown", "measured", "low", "high", "n"),
    *("setting", "as_range", "verdict", "why", "notebook", "command"),
)


def publish(runner: Runner, notebooks: Iterable[Notebook], say: Say = print) -> None:
    """Copy a complete, current run into the project; ValueError naming everything that stands in the way."""
    notebooks, name = tuple(notebooks), runner.profile.name
    found = problems(runner, notebooks)
    if found:
        raise ValueError(f"profile {name!r} cannot be published: " + "; ".join(found))
    of_record = name in ("record", config.PROFILES["record"].reads)
    tables = paths.results(runner.profile.reads) if runner.profile.reads else runner.out / "results"
    judging = any(notebook.judges for notebook in notebooks)
    checked = claims.check(judged.record(runner.profile)) if judging else None
    readme = page(tables, (paths.root() / "README.md").read_text(encoding="utf-8"), checked) if of_record else ""
    if not runner.profile.reads:
        _replace(sorted(tables.glob("[!.]*.csv")), paths.results(name), say)
        _provenance(tables, paths.results(name))
    if checked is not None:
        results.write_csv(checked[list(CLAIMS)], paths.results(runner.profile.measured) / "claims.csv")
    if not of_record:
        say(f"figures, executed notebooks and README stay as they are: {name} is not the profile of record")
        return
    figures = {figure for notebook in notebooks for figure in runner.sidecar(notebook)["figures"]}
    paths.write_json(runner.out / "figures" / VERSIONS, drawing_versions())
    _replace([runner.out / "figures" / name for name in sorted({*figures, VERSIONS})], paths.root() / "figures", say)
    executed = paths.root() / "notebooks" / "executed"
    _replace([runner.executed(notebook) for notebook in notebooks], executed, say)
    _lead_to_sources(executed)
    paths.write_text(paths.root() / "README.md", readme)
    say("tables in README.md")


def publish_tables(profile: Profile, names: Iterable[str], say: Say = print) -> None:
    """Make some tables and copy them among the committed ones of their profile, which keep all others and their runs.

    ValueError naming everything that stands in the way, before anything is made: an unknown table, a profile that is
    no evidence, sources that are not committed.
    """
    made = stages(profile, names)
    if found := _no_record(profile):
        raise ValueError(f"tables of profile {profile.name!r} cannot be published: " + "; ".join(found))
    tables = {name: results.load(stage.run(say), name) for name, stage in made.items()}
    folder = paths.results(profile.name)
    for stage in made.values():
        for run, about in known_runs(stage.folder).items():
            record_run(folder, run, _with_own_time(stage, about))
    for name, stage in made.items():
        paths.write_bytes(folder / f"{name}.csv", (stage.folder / f"{name}.csv").read_bytes())
        say(f"{name}.csv: {len(tables[name]):,} rows")
    _provenance(folder, folder)


def _with_own_time(stage: Stage, about: dict) -> dict:
    """What a run says of itself, with the seconds of the stage that wrote it: while it ran nobody knew them."""
    if about.get("config") != paths.digest(stage.key):
        return about
    own = stage.record["seconds"]
    return about | {"seconds": round(about["seconds"] + own, 1), "stages": about["stages"] | {stage.name: own}}


def drawing_versions() -> dict[str, str]:
    """Of what decides how a figure looks, by name: of packages, and the processor, which rounds what models say."""
    return {name: metadata.version(name) for name in DRAWN_WITH} | {"cpu": cpu_model()}


def problems(runner: Runner, notebooks: Iterable[Notebook]) -> list[str]:
    """What keeps a run from becoming the record, one clause each; empty when nothing does."""
    profile = runner.profile
    found = _no_record(profile)
    if runner.overrides:
        found.append(f"it was given overrides ({', '.join(runner.overrides)})")
    for notebook in notebooks:
        if not runner.executed(notebook).is_file():
            found.append(f"{notebook.name} has not been executed")
        elif not runner.current(notebook):
            found.append(f"{notebook.name} is out of date (run it again)")
        found += [
            f"{notebook.name}'s figure {figure} is missing"
            for figure in runner.sidecar(notebook).get("figures", ())
            if not (runner.out / "figures" / figure).is_file()
        ]
    return found


def _no_record(profile: Profile) -> list[str]:
    """Why nothing of a profile can be a record now, one clause each."""
    machinery = f"{profile.name} on backbone {profile.backbone.name} only proves the machinery and is no evidence"
    found = [] if profile.evidence else [machinery]
    changed = _uncommitted()
    if changed:
        found.append(f"uncommitted changes in {', '.join(changed[:5])}{' ...' if len(changed) > 5 else ''}")
    return found


def _uncommitted() -> list[str]:
    """Sources of results that git sees as changed; none where the project is not a git checkout."""
    if not (paths.root() / ".git").exists():
        return []
    command = ["git", "status", "--porcelain", "--", "redlib", "notebooks/*.ipynb", "pyproject.toml"]
    lines = subprocess.run(command, cwd=paths.root(), capture_output=True, text=True, check=True).stdout.splitlines()
    return [line[3:] for line in lines if not line[3:].startswith("notebooks/executed/")]


def _provenance(tables: Path, folder: Path) -> None:
    """The runs that the published rows name, and no others."""
    named = {run for file in folder.glob("[!.]*.csv") for run in pd.read_csv(file, dtype=str).get("run", ())}
    paths.write_json(folder / RUNS, {run: about for run, about in known_runs(tables).items() if run in named})


def _lead_to_sources(folder: Path) -> None:
    """Links to notebooks that have no executed copy lead to their sources."""

    def target(link: re.Match) -> str:
        return link[0] if (folder / link[1]).is_file() else f"](../{link[1]}"

    for file in folder.glob("*.ipynb"):
        text = file.read_text(encoding="utf-8")
        if (linked := LINK.sub(target, text)) != text:
            paths.write_text(file, linked)


def _replace(files: list[Path], folder: Path, say: Say) -> None:
    """The folder then holds these files and no older ones."""
    names = {file.name for file in files}
    for file in files:
        paths.write_bytes(folder / file.name, file.read_bytes())
    for old in sorted(folder.glob("[!.]*")):
        if old.is_file() and old.name not in names:
            old.unlink()
            say(f"removed {old.relative_to(paths.root())}: no longer made")
    say(f"{len(names)} files in {folder.relative_to(paths.root())}")
