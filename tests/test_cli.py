"""The command line: what it prints, and mistakes as one sentence with exit code 2."""

import os
import subprocess
import sys
import time

import pandas as pd
import pytest

from redlib import config, paths, results
from redlib.__main__ import main
from redlib.commands.running import overrides
from redlib.study.notebooks import Notebook
from redlib.study.stage import Stage

TWO = (Notebook("00_a", "?", ("numbers",)), Notebook("01_b", "?", chapter="more"))


def numbers(profile):
    def make(stage, out):
        paths.write_text(out / "numbers.csv", "rows\n1\n")

    return Stage("numbers", 1, {"rows": profile.task1.rows}, make, seconds=90, bytes=3_000_000)


@pytest.fixture
def project(own_cache, tmp_path, monkeypatch, write_notebook):
    """A throw-away project of two notebooks and one table."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr("redlib.study.notebooks.NOTEBOOKS", TWO)
    monkeypatch.setattr("redlib.study.runner.TABLES", {"numbers": numbers})
    monkeypatch.delenv("REDLIB_PROFILE", raising=False)
    write_notebook("00_a", "print(profile)")
    write_notebook("01_b", "1 / 0")
    return tmp_path


def call(capsys, *arguments):
    """(exit code, standard output, standard error) of one command."""
    try:
        code = main(list(arguments))
    except SystemExit as leaving:
        code = leaving.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--profile", "lapto"], "unknown profile 'lapto'; valid profiles: smoke"),
        (["run", "--set", "task1.row=3"], "unknown field 'task1.row' (no 'row'); valid fields there:"),
        (["run", "--set", "task1.rows"], "--set needs FIELD=VALUE, got 'task1.rows'"),
        (["run", "--set", "task1.rows=many"], "invalid value 'many' for field 'task1.rows'"),
        (["run", "--only", "07_rad"], "unknown notebook '07_rad'; valid notebooks: 00_a, 01_b"),
        (["run", "--from", "07_rad"], "unknown notebook '07_rad'; valid notebooks: 00_a, 01_b"),
        (["run", "--chapters", "few"], "unknown chapters 'few'; valid chapters: core, all"),
        (["run", "--profile", "record"], "no table 'numbers'"),
        (["tables", "task3"], "unknown table 'task3'; valid tables: ablations, "),
        (["tables", "task1", "--profile", "record"], "'record' reads the tables of 'full' and makes none"),
        (["tables", "task1", "--publish", "--set", "bootstrap=7"], "made with --set is no result of profile 'full'"),
        (["publish", "--profile", "smoke"], "smoke on backbone tiny only proves the machinery"),
        (["publish", "--profile", "nope"], "unknown profile 'nope'"),
        (["clean", "--profile", "nope"], "unknown profile 'nope'"),
        (["evaluate", "--data", "missing.jsonl"], "no file at missing.jsonl"),
        (["evaluate", "--data", "missing.jsonl", "--split", "random"], "unknown split 'random'; valid splits: text"),
        (["compare", "nowhere", "smoke"], "no result set 'nowhere'; give a folder, a CSV file or a profile"),
        (["walk"], "invalid choice: 'walk'"),
        (["evaluate"], "the following arguments are required: --data"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(project, capsys, arguments, said):
    before = sorted(project.rglob("*"))
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert out == ""
    assert [path for path in sorted(project.rglob("*")) if path.suffix != ".lock"] == before


def test_debug_shows_the_traceback(project):
    with pytest.raises(ValueError, match="unknown profile"):
        main(["--debug", "run", "--profile", "lapto"])


def test_a_dry_run_lists_stages_time_disk_and_notebooks_and_writes_nothing(project, capsys):
    before = sorted(project.rglob("*"))
    code, out, _ = call(capsys, "run", "--dry-run", "--chapters", "all")
    assert code == 0
    lines = out.splitlines()
    assert lines[:3] == ["stage     numbers: about 1 min 30 s, 3 MB", "notebook  00_a", "notebook  01_b"]
    assert lines[3].startswith("1 stages missing: about 1 min 30 s, 3 MB of ")
    assert lines[4] == "2 notebooks would run"
    assert sorted(project.rglob("*")) == before


def test_tables_are_made_without_a_notebook(project, capsys, monkeypatch):
    monkeypatch.setattr("redlib.study.tables.TABLES", {"numbers": numbers})
    code, out, _ = call(capsys, "tables", "numbers", "--profile", "smoke", "--dry-run")
    assert (code, out.splitlines()[0]) == (0, "stage     numbers: about 1 min 30 s, 3 MB")
    code, out, _ = call(capsys, "tables", "numbers", "--profile", "smoke")
    made = numbers(config.load("smoke")).folder / "numbers.csv"
    assert (code, out.splitlines()[-1]) == (0, str(made))
    assert made.is_file()
    code, _, err = call(capsys, "tables", "numbers", "--profile", "smoke", "--publish")
    assert code == 2
    assert "smoke on backbone tiny only proves the machinery" in err


@pytest.mark.notebooks
def test_a_run_ends_with_where_things_are_and_a_failed_one_with_exit_code_1(project, capsys):
    code, out, err = call(capsys, "run", "--set", "bootstrap=7")
    assert (code, err) == (0, "")
    for what in ("notebooks", "figures", "results"):
        assert str(paths.runs("smoke") / what) in out
    code, out, err = call(capsys, "run", "--chapters", "all", "--set", "bootstrap=7")
    assert code == 1
    assert "1/2 00_a: current, skipped" in out
    assert "01_b failed in cell 3: ZeroDivisionError: division by zero\n    1 / 0\n" in err
    assert "01_b.failed.ipynb" in err


def test_a_run_shows_the_headline_when_there_is_one(project, capsys, monkeypatch):
    rows = {"task": "task1", "variant": "chosen", "split": "structure", "part": "test", "method": "red", "seed": "all"}
    rows |= {"group": "all", "metric": "value_accuracy", "value": 0.5, "n": 9, "low": 0.4, "high": 0.6, "run": "r"}

    def task1(profile):
        return Stage("task1", 1, {}, lambda stage, out: results.write(pd.DataFrame([rows]), out / "task1.csv"))

    monkeypatch.setattr("redlib.study.runner.TABLES", {"task1": task1})
    monkeypatch.setattr("redlib.study.notebooks.NOTEBOOKS", (Notebook("00_a", "?", ("task1",)),))
    code, out, _ = call(capsys, "run")
    assert code == 0
    assert "Task 1, test rows, profile smoke (machinery only, no evidence)" in out
    assert "chosen    red 0.500 [0.400, 0.600]" in out


def test_every_profile_is_one_line_with_its_differences_below(capsys):
    _, out, _ = call(capsys, "profiles")
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in heads] == list(config.PROFILES)
    assert "        task1.rows: 16000 (full: 80000)" in out.splitlines()


def test_status_lists_stages_runs_and_damage_with_size_and_configuration(project, capsys):
    stage = numbers(config.load("smoke"))
    stage.run(lambda line: None)
    paths.write_bytes(paths.cache() / "features" / "f00" / "x", b"x" * 5_000)
    paths.write_text(paths.runs("smoke") / "notebooks" / "00_a.ipynb", "{}")
    paths.write_text(paths.runs("smoke") / "notebooks" / "01_b.failed.ipynb", "{}")
    _, out, _ = call(capsys, "status")
    lines = out.splitlines()
    assert lines[0].split()[0] == "stage"
    assert "numbers" in lines[0] and '{"rows": 500}' in lines[0]  # noqa: PT018
    assert lines[1].split() == ["features", "5", "kB", "f00"]
    assert lines[2].endswith("smoke  1 executed notebooks, 0 figures, 0 tables, failed: 01_b.failed.ipynb")
    assert str(paths.cache()) in lines[-1]


def test_clean_asks_and_then_frees_what_it_said(project, capsys):
    numbers(config.load("smoke")).run(lambda line: None)
    other = numbers(config.load("laptop"))
    other.run(lambda line: None)
    paths.write_text(paths.runs("smoke") / "notebooks" / "00_a.ipynb", "{}")
    paths.write_text(paths.cache() / "precious.txt", "not ours")

    code, out, err = call(capsys, "clean", "--all")
    assert code == 2
    assert "--yes" in err
    assert "to free" in out
    assert other.done

    code, out, _ = call(capsys, "clean", "--all", "--yes")
    assert code == 0
    assert out.splitlines()[-1] == "deleted"
    assert not other.done
    assert not paths.runs("smoke").exists()
    assert (paths.cache() / "precious.txt").read_text() == "not ours"
    assert call(capsys, "clean", "--all", "--yes")[1] == "0 B to free\n"


def test_clean_of_a_profile_keeps_the_others(project, capsys, monkeypatch):
    monkeypatch.setattr("redlib.study.artefacts.TABLES", {"numbers": numbers})
    stages = {name: numbers(config.load(name)) for name in ("smoke", "laptop")}
    for name, stage in stages.items():
        stage.run(lambda line: None)
        paths.write_text(paths.runs(name) / "notebooks" / "00_a.ipynb", "{}")
    assert call(capsys, "clean", "--profile", "smoke", "--yes")[0] == 0
    assert (stages["smoke"].done, stages["laptop"].done) == (False, True)
    assert not paths.runs("smoke").exists()
    assert paths.runs("laptop").exists()


def test_clean_alone_takes_old_leftovers_and_no_fresh_ones(project, capsys):
    old, fresh = (paths.cache() / "stages" / "numbers" / f".{name}.tmp" for name in ("old", "fresh"))
    for folder in (old, fresh):
        folder.mkdir(parents=True)
        (folder / "x").write_text("half")
    hours_ago = time.time() - 7200

    for path in (old / "x", old):
        os.utime(path, (hours_ago, hours_ago))
    call(capsys, "clean", "--yes")
    assert not old.exists()
    assert fresh.exists()


def test_values_of_set_are_json_or_text():
    assert overrides(["task1.rows=5", "chosen.pooling=last", "task1.edges=[50]", "backbone.name=/a=b"]) == {
        "task1.rows": 5,
        "chosen.pooling": "last",
        "task1.edges": [50],
        "backbone.name": "/a=b",
    }


def test_the_module_runs_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "redlib", "run", "--profile", "x"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "redlib: unknown profile 'x'; valid profiles: smoke, laptop, full, paper, record (or auto)\n"


def test_who_stops_reading_ends_the_command_without_a_word():
    with subprocess.Popen(
        [sys.executable, "-m", "redlib", "profiles"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (141, b"")
