"""Sweep files and the command line: what they ask for, and faults that are named before anything runs."""

import pytest
from small_sweeps import FILE, SMALL, Inline, quiet

from redlib import config, sweep
from redlib.__main__ import main
from redlib.study import ablations
from redlib.study.ablations import Run


def test_a_file_is_every_run_with_every_combination_of_the_grid(write):
    profile, runs = sweep.read(write(FILE + 'task = ["task1", "task2"]\n'))
    assert (profile.name, profile.ablations.rows) == ("smoke", 250)
    assert {(run.split, run.rank, run.task) for run in runs} == {
        ("text", rank, task) for rank in (1, 2) for task in ("task1", "task2")
    }
    assert sweep.read(write(FILE), overrides={"ablations.rows": 300})[0].ablations.rows == 300


def test_a_run_that_is_named_twice_is_one_run(write):
    assert len(sweep.read(write("[[runs]]\nrank = 3\n[[runs]]\nrank = 3\n"), "smoke")[1]) == 1


def test_ablations_are_the_runs_behind_the_tables():
    profile, runs = sweep.read(sweep.ABLATIONS, "smoke")
    assert profile.name == "smoke"
    assert {run.order for run in runs} == {"sequential", "joint", "joint_after"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[runs]]\nrnak = 3", r"runs.toml, run 1: unknown setting 'rnak'; valid settings: task, split, .*rank"),
        ("[[runs]]\n[[runs]]\nrank = 0", "runs.toml, run 2: setting 'rank' cannot be 0"),
        ('[[runs]]\nrank = "two"', "run 1: setting 'rank' cannot be 'two'"),
        ('[[runs]]\narm = "blue"', "run 1: unknown arm 'blue'; valid arms: red, base_dropped"),
        ("[[runs]]\ntuned_layers = 1", "run 1: tuned_layers needs recipe 'source'"),
        ('[[runs]]\norder = "joint"\nbalance = 0.1', "trains experts and router together, balance cannot be changed"),
        ("rusn = 3", "unknown key 'rusn'; valid keys: profile, overrides, runs, grid"),
        ("runs = 3", "'runs' must be a list, it is a int"),
        ("runs = [3]", "an entry of runs is 3"),
        ("[grid]\nrank = 3", "grid 'rank' must be a list of values"),
        ("[[runs]]\nrank = 3\n[grid]\nrank = [3]", "run 1 sets 'rank', and so does the grid"),
        ('profile = "smoke"', "there are no runs"),
        ("[[runs", "runs.toml is not TOML"),
        ('profile = "lapto"\n[[runs]]', "unknown profile 'lapto'"),
        ('profile = "record"\n[[runs]]', "profile 'record' reads the results of full and makes no runs"),
        ('[overrides]\n"ablations.row" = 3\n[[runs]]', "unknown field 'ablations.row'"),
    ],
)
def test_a_fault_in_a_file_is_named(write, text, said):
    with pytest.raises(ValueError, match=said):
        sweep.read(write(text))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(FileNotFoundError, match="no sweep file at nowhere"):
        sweep.read("nowhere.toml")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"experts": 100}, "100 experts cannot share 99 values"),
        ({"top": 6}, "top 6 of 5 weights do not exist"),
        ({"layer": 99}, "has no hidden state 99"),
        ({"recipe": "source", "tuned_layers": 99}, "layers to tune, not 99"),
    ],
)
def test_a_run_that_the_profile_makes_impossible_is_named_before_anything_is_made(own_cache, fields, said):
    fine, impossible = Run(rank=2), Run(**fields)
    with pytest.raises(ValueError, match=said):
        sweep.run(config.load("smoke", SMALL), [fine, impossible], Inline(), say=quiet)
    assert not list((own_cache / "stages").glob("*"))


def test_the_runs_that_tune_layers_are_a_sweep_of_their_own():
    profile, runs = sweep.read(sweep.TUNED, "laptop")
    assert {run.recipe for run in runs} == {"source"}
    assert {run.base_share for run in runs} == {None, 0.01, 0.05, 0.5, 1.0}
    assert {run.tuned_layers for run in runs} == {None, 0, 1, 3}
    assert {run.seeds for run in runs if not run.changes} == {3}
    assert {run.seeds for run in runs if run.changes} == {1}
    assert not set(runs) & set(sweep.read(sweep.ABLATIONS, "laptop")[1])
    for run in runs:
        made = ablations.setting(profile, run).recipe
        assert made.base.max_epochs <= profile.ablations.tuned_epochs


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.toml"], "no sweep file at nowhere.toml"),
        (["ablations", "--address", "auto"], "--address needs --engine ray"),
        (["ablations", "--profile", "smoke", "--cpus", "0"], "at least one CPU"),
        (["ablations", "--profile", "record"], "makes no runs"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_sentence(own_cache, capsys, arguments, said):
    assert main(["sweep", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_dry_run_lists_what_is_missing_and_makes_nothing(own_cache, write, capsys):
    assert main(["sweep", write(FILE), "--dry-run", "--cpus", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 runs, 0 of them there; 8 jobs, about" in out
    assert "ablation (task1, chosen/rank=2, text)" in out
    assert not (own_cache / "stages").exists()
