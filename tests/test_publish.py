"""A finished run becomes the record, whole or not at all; the README's headline is computed."""

import subprocess

import nbformat
import pandas as pd
import pytest

from redlib import config, paths, results
from redlib.results.provenance import known_runs
from redlib.study.notebooks import Notebook
from redlib.study.publish import END, START, headline, markdown, publish, publish_tables
from redlib.study.readme import page
from redlib.study.runner import Runner
from redlib.study.stage import Stage
from redlib.study.tables import TABLES

NOTEBOOKS = (Notebook("00_a", "?", ("task1",)), Notebook("01_b", "?"))
README = f"# Title\n\n{START}\nnothing yet\n{END}\n\nThe end.\n"


def accuracies():
    rows = []
    for variant, method, structure in [("source", "red", 0.1), ("chosen", "global_head", 0.3), ("chosen", "red", 0.6)]:
        for split, value in [("structure", structure), ("text", structure + 0.2)]:
            for seed in ("0", "all"):
                for part in ("test", "validation"):
                    row = {"task": "task1", "variant": variant, "split": split, "part": part, "method": method}
                    row |= {"seed": seed, "group": "all", "n": 100, "run": "r1"}
                    bounds = {"low": value - 0.01, "high": value + 0.02} if seed == "all" else {}
                    rows.append(row | {"metric": "value_accuracy", "value": value, "low": None, "high": None} | bounds)
    return pd.DataFrame(rows)


def task1(profile):
    def make(stage, out):
        results.write(accuracies(), out / "task1.csv")
        paths.write_json(out / "runs.json", {"r1": {"cpu": "a"}, "never named": {}})

    return Stage("task1", 1, {"rows": profile.task1.rows}, make)


@pytest.fixture
def finished(own_cache, tmp_path, monkeypatch):
    """finished("full") is a runner in a throw-away project whose notebooks look executed just now."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    paths.write_text(tmp_path / "README.md", README)
    empty = nbformat.writes(nbformat.v4.new_notebook())
    for notebook in NOTEBOOKS:
        paths.write_text(tmp_path / "notebooks" / f"{notebook.name}.ipynb", empty)

    def finish(name="full", overrides=None):
        runner = Runner(name, overrides or {}, tables={"task1": task1})
        for notebook in NOTEBOOKS:
            for table, stage in runner.stages(notebook).items():
                stage.run(lambda line: None)
                runner._keep_table(table, stage)
            paths.write_text(runner.executed(notebook), f"executed {notebook.name}")
            paths.write_bytes(runner.out / "figures" / f"{notebook.name}.png", b"png")
            record = {"key": runner.key(notebook), "overrides": {}, "figures": [f"{notebook.name}.png"], "seconds": 1}
            paths.write_json(runner.executed(notebook).with_suffix(".json"), record)
        return runner

    return finish


def published(root):
    folders = ("figures", "notebooks/executed", "data/results")
    return sorted(str(file.relative_to(root)) for folder in folders for file in (root / folder).rglob("*.*"))


def test_the_record_is_tables_figures_notebooks_and_headline(finished, tmp_path):
    publish(finished(), NOTEBOOKS, say=lambda line: None)
    assert published(tmp_path) == [
        "data/results/full/runs.json",
        "data/results/full/task1.csv",
        "figures/00_a.png",
        "figures/01_b.png",
        "figures/versions.json",
        "notebooks/executed/00_a.ipynb",
        "notebooks/executed/01_b.ipynb",
    ]
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"# Title\n\n{START}\n| recipe | method | value, structure | value, text |\n")
    assert "| chosen | red | 0.600 [0.590, 0.620] | 0.800 [0.790, 0.820] |" in text
    assert text.endswith(f"{END}\n\nThe end.\n")
    assert results.resolve(paths.results("full"), "r1") == {"cpu": "a"}
    assert "never named" not in (paths.results("full") / "runs.json").read_text()


def test_publishing_twice_changes_nothing_and_drops_what_is_no_longer_made(finished, tmp_path):
    runner = finished()
    publish(runner, NOTEBOOKS, say=lambda line: None)
    first = {name: (tmp_path / name).read_bytes() for name in [*published(tmp_path), "README.md"]}
    paths.write_bytes(tmp_path / "figures" / "old.png", b"png")
    said = []
    publish(runner, NOTEBOOKS, say=said.append)
    assert {name: (tmp_path / name).read_bytes() for name in [*published(tmp_path), "README.md"]} == first
    assert "removed figures/old.png: no longer made" in said


def test_links_of_executed_copies_lead_to_a_copy_or_else_to_the_source(finished, tmp_path):
    runner = finished()
    paths.write_text(
        runner.executed(NOTEBOOKS[0]), '"[b](01_b.ipynb), [c](02_c.ipynb#part), [d](https://d.org/03_d.ipynb)"'
    )
    publish(runner, NOTEBOOKS, say=lambda line: None)
    copy = (tmp_path / "notebooks" / "executed" / f"{NOTEBOOKS[0].name}.ipynb").read_text()
    assert copy == '"[b](01_b.ipynb), [c](../02_c.ipynb#part), [d](https://d.org/03_d.ipynb)"'


def test_another_profile_publishes_its_tables_only(finished, tmp_path):
    publish(finished("laptop"), NOTEBOOKS, say=lambda line: None)
    assert published(tmp_path) == ["data/results/laptop/runs.json", "data/results/laptop/task1.csv"]
    assert (tmp_path / "README.md").read_text() == README


def test_the_record_profile_redraws_figures_and_leaves_the_tables_alone(finished, tmp_path):
    publish(finished(), NOTEBOOKS, say=lambda line: None)
    runner = finished("record")
    paths.write_bytes(runner.out / "figures" / "00_a.png", b"redrawn")
    table = (paths.results("full") / "task1.csv").stat().st_mtime_ns
    publish(runner, NOTEBOOKS, say=lambda line: None)
    assert (tmp_path / "figures" / "00_a.png").read_bytes() == b"redrawn"
    assert (paths.results("full") / "task1.csv").stat().st_mtime_ns == table


def spoil_nothing(runner):
    pass


def lose_a_notebook(runner):
    runner.executed(NOTEBOOKS[1]).unlink()


def edit_a_notebook(runner):
    paths.write_text(runner.folder / "01_b.ipynb", nbformat.writes(nbformat.v4.new_notebook()) + "\n")


def lose_a_figure(runner):
    (runner.out / "figures" / "01_b.png").unlink()


def lose_a_table(runner):
    (runner.out / "results" / "task1.csv").unlink()


@pytest.mark.parametrize(
    ("profile", "overrides", "spoil", "said"),
    [
        ("smoke", {}, spoil_nothing, "'smoke' cannot be published: smoke on backbone tiny only proves the machinery"),
        ("full", {"task1.rows": 5}, spoil_nothing, r"it was given overrides \(task1.rows\)"),
        ("full", {}, lose_a_notebook, "01_b has not been executed"),
        ("full", {}, edit_a_notebook, "01_b is out of date"),
        ("full", {}, lose_a_figure, r"01_b's figure 01_b\.png is missing"),
        ("full", {}, lose_a_table, "00_a is out of date"),
    ],
)
def test_nothing_is_published_when_something_is_missing(finished, tmp_path, profile, overrides, spoil, said):
    runner = finished(profile, overrides)
    spoil(runner)
    with pytest.raises(ValueError, match=said):
        publish(runner, NOTEBOOKS, say=lambda line: None)
    assert published(tmp_path) == []
    assert (tmp_path / "README.md").read_text() == README


def test_uncommitted_sources_stand_in_the_way(finished, tmp_path):
    runner = finished()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "notebooks"], ["commit", "-qm", "a"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    paths.write_text(tmp_path / "notebooks" / "executed" / "00_a.ipynb", "not a source")
    publish(runner, NOTEBOOKS, say=lambda line: None)
    paths.write_text(tmp_path / "redlib" / "new.py", "")
    with pytest.raises(ValueError, match=r"uncommitted changes in redlib/"):
        publish(finished(), NOTEBOOKS, say=lambda line: None)


@pytest.fixture
def tables_alone(finished, tmp_path, monkeypatch):
    """A profile whose table `task1` the record has, with another beside it, and which can be made again."""
    publish(finished(), NOTEBOOKS, say=lambda line: None)
    results.write(accuracies().assign(run="r2"), paths.results("full") / "task2.csv")
    paths.write_json(paths.results("full") / "runs.json", {"r1": {"cpu": "old"}, "r2": {"cpu": "b"}, "r3": {}})
    monkeypatch.setitem(TABLES, "task1", task1)
    small = config.load("full", {"backbone.name": "tiny", "task1.rows": 1_000})
    return small.model_copy(update={"evidence": True})


def test_some_tables_alone_join_the_record_with_their_runs(tables_alone, tmp_path):
    other, said = (paths.results("full") / "task2.csv").read_bytes(), []
    publish_tables(tables_alone, ["task1"], said.append)
    assert said[-1] == f"task1.csv: {len(accuracies()):,} rows"
    assert (paths.results("full") / "task1.csv").read_bytes() == (task1(tables_alone).folder / "task1.csv").read_bytes()
    assert (paths.results("full") / "task2.csv").read_bytes() == other
    assert known_runs(paths.results("full")) == {"r1": {"cpu": "a"}, "r2": {"cpu": "b"}}, "and none that no table names"


def test_a_run_that_is_published_has_the_seconds_of_its_own_stage(tables_alone, monkeypatch):
    def timed(profile):
        def make(stage, out):
            results.write(accuracies(), out / "task1.csv")
            about = {"config": paths.digest(stage.key), "seconds": 2.0, "stages": {"pool": 2.0}}
            paths.write_json(out / "runs.json", {"r1": about})

        return Stage("task1", 1, {"timed": True}, make)

    monkeypatch.setitem(TABLES, "task1", timed)
    stage = timed(tables_alone)
    stage.run(lambda line: None)
    paths.write_json(stage.folder / "stage.json", stage.record | {"seconds": 1.5})
    publish_tables(tables_alone, ["task1"], lambda line: None)
    run = known_runs(paths.results("full"))["r1"]
    assert (run["seconds"], run["stages"]) == (3.5, {"pool": 2.0, "task1": 1.5})


@pytest.mark.parametrize(
    ("profile", "names", "said"),
    [
        ("full", ["task1", "nope"], "unknown table 'nope'; valid tables: .*task1"),
        ("smoke", ["task1"], "smoke on backbone tiny only proves the machinery and is no evidence"),
        ("full", ["task1"], "full on backbone tiny only proves the machinery and is no evidence"),
        ("record", ["task1"], "profile 'record' reads the tables of 'full' and makes none"),
    ],
)
def test_tables_that_cannot_join_the_record(tables_alone, profile, names, said):
    before, given = (paths.results("full") / "runs.json").read_bytes(), config.load(profile, {"backbone.name": "tiny"})
    made = sorted((paths.cache() / "stages").glob("*/*"))
    with pytest.raises(ValueError, match=said):
        publish_tables(given, names)
    assert (paths.results("full") / "runs.json").read_bytes() == before
    assert sorted((paths.cache() / "stages").glob("*/*")) == made, "it is said before anything is made"


def test_a_readme_without_markers_is_said_before_anything_is_copied(finished, tmp_path):
    paths.write_text(tmp_path / "README.md", "# Title\n")
    with pytest.raises(ValueError, match=r"README\.md needs the markers"):
        publish(finished(), NOTEBOOKS, say=lambda line: None)
    assert published(tmp_path) == []


def test_the_headline_puts_the_best_on_unseen_structures_first():
    table = headline(accuracies())
    assert table[["recipe", "method"]].to_numpy().tolist() == [
        ["chosen", "red"],
        ["chosen", "global_head"],
        ["source", "red"],
    ]
    assert table.columns.name == "(n = 100)"
    assert markdown(table).splitlines()[-1] == "| source | red | 0.100 [0.090, 0.120] | 0.300 [0.290, 0.320] |"
    with pytest.raises(ValueError, match="no accuracy of a recipe"):
        headline(accuracies().assign(part="validation"))


def test_red_plus_has_its_row_in_the_headline_with_its_own_n():
    own = accuracies().query("variant == 'chosen' and method == 'red'").assign(method="red_plus")
    own.loc[own["split"] == "structure", ["value", "n"]] = [0.99, 500]
    chains = own.assign(task="task2", value=0.5)
    table = headline(accuracies(), pd.concat([own, chains, own.assign(method="red_plus_base")]))
    assert table.columns.name == "(n = 100)"
    assert table[["recipe", "method"]].to_numpy().tolist()[:2] == [
        ["chosen", "red_plus (n = 500 structure, 100 text)"],
        ["chosen", "red"],
    ]
    assert table["value, structure"][0].startswith("0.990 [")


def test_the_readme_names_every_table_and_machine_of_its_headline(tmp_path):
    results.write(accuracies(), tmp_path / "task1.csv")
    own = accuracies().query("variant == 'chosen' and method == 'red'").assign(method="red_plus", run="r2")
    paths.write_json(tmp_path / "runs.json", {"r1": {"cpu": "one machine"}, "r2": {"cpu": "another"}})
    alone = page(tmp_path, README, None)
    assert "task1.csv`. Computed on one machine (" in alone
    results.write(own, tmp_path / "red_plus.csv")
    both = page(tmp_path, README, None)
    assert "task1.csv` and `red_plus.csv`. Computed on another, one machine (" in both


def test_the_headline_says_on_what_machine_it_was_computed(finished):
    publish(finished(), NOTEBOOKS, say=lambda line: None)
    readme = (paths.root() / "README.md").read_text()
    assert "test rows (n = 100), mean over seeds" in readme
    assert "Computed on a (`runs.json` beside it)." in readme
