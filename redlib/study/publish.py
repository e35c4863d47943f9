"""Makes a finished run the record: tables to data/results, figures to figures/, executed notebooks, README headline.

Everything is checked before anything is copied. A profile that is not the one of record publishes its tables only.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from redlib import config, paths, results
from redlib.results.provenance import RUNS, known_runs
from redlib.study.notebooks import Notebook
from redlib.study.runner import Runner
from redlib.study.stage import Say

START, END = "<!-- headline:start -->", "<!-- headline:end -->"
SPLITS = ("structure", "text")
RECIPES = ("chosen", "source")
METRICS = ("value_accuracy", "range_accuracy")


def publish(runner: Runner, notebooks: Iterable[Notebook], say: Say = print) -> None:
    """Copy a complete, current run into the project; ValueError naming everything that stands in the way."""
    notebooks, name = tuple(notebooks), runner.profile.name
    found = problems(runner, notebooks)
    if found:
        raise ValueError(f"profile {name!r} cannot be published: " + "; ".join(found))
    of_record = name in ("record", config.PROFILES["record"].reads)
    tables = paths.results(runner.profile.reads) if runner.profile.reads else runner.out / "results"
    readme = _readme(results.read(tables / "task1.csv"), known_runs(tables)) if of_record else ""
    if not runner.profile.reads:
        _replace(sorted(tables.glob("[!.]*.csv")), paths.results(name), say)
        _provenance(tables, paths.results(name))
    if not of_record:
        say(f"figures, executed notebooks and README stay as they are: {name} is not the profile of record")
        return
    figures = {figure for notebook in notebooks for figure in runner.sidecar(notebook)["figures"]}
    _replace([runner.out / "figures" / figure for figure in sorted(figures)], paths.root() / "figures", say)
    _replace([runner.executed(notebook) for notebook in notebooks], paths.root() / "notebooks" / "executed", say)
    paths.write_text(paths.root() / "README.md", readme)
    say("headline table in README.md")


def problems(runner: Runner, notebooks: Iterable[Notebook]) -> list[str]:
    """What keeps a run from becoming the record, one clause each; empty when nothing does."""
    profile, found = runner.profile, []
    if not profile.evidence:
        found.append(f"{profile.name} only proves the machinery and is no evidence")
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


def _readme(task1: pd.DataFrame, runs: dict[str, dict]) -> str:
    """The README with the headline table between its markers."""
    text, of_record = (paths.root() / "README.md").read_text(encoding="utf-8"), config.PROFILES["record"].reads
    if text.count(START) != 1 or text.count(END) != 1:
        raise ValueError(f"README.md needs the markers {START} and {END} once each")
    before, rest = text.split(START)
    where = f"from `data/results/{of_record}/task1.csv`"
    made = [runs.get(run, {}) for run in task1["run"].unique()]
    machines = {about[part] for about in made for part in ("cpu", "gpu") if about.get(part, "none") != "none"}
    computed = f" Computed on {', '.join(sorted(machines))} (`runs.json` beside it)." if machines else ""
    note = f"Profile `{of_record}`, test rows, mean over seeds with 95 % intervals, {where}.{computed}"
    return f"{before}{START}\n{markdown(headline(task1))}\n\n{note}\n{END}{rest.split(END)[1]}"


def headline(task1: pd.DataFrame) -> pd.DataFrame:
    """Value and range accuracy on test rows, all seeds and ranges, as text: a row for each recipe and method (best on
    unseen structures first), a column for each split and metric. ValueError when the table has no such row."""
    rows = task1[(task1["part"] == "test") & (task1["group"] == "all") & (task1["seed"].astype(str) == "all")]
    rows = rows[rows["variant"].isin(RECIPES) & rows["metric"].isin(METRICS) & rows["split"].isin(SPLITS)]
    if rows.empty:
        raise ValueError("table 'task1' has no accuracy of a recipe on test rows over all seeds")
    first = rows[(rows["split"] == SPLITS[0]) & (rows["metric"] == METRICS[0])]
    best = first.set_index(["variant", "method"])["value"].to_dict()
    rows = rows.assign(
        best=[-best.get(pair, 0) for pair in zip(rows["variant"], rows["method"], strict=True)],
        split=pd.Categorical(rows["split"], SPLITS, ordered=True),
        metric=pd.Categorical(rows["metric"], METRICS, ordered=True),
    ).sort_values(["variant", "best", "method", "split", "metric"])
    named = rows.assign(
        column=[f"{metric.split('_')[0]}, {split}" for metric, split in rows[["metric", "split"]].to_numpy()]
    )
    shown = results.table(named.rename(columns={"variant": "recipe"}), ["recipe", "method"], "column")
    shown.columns.name = None
    return shown.reset_index()


def markdown(table: pd.DataFrame) -> str:
    """A frame of strings as a Markdown table."""
    lines = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).to_numpy().tolist()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
