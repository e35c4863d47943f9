"""What a notebook says about where its numbers come from."""

import pandas as pd
import pytest

from redlib import config, paths, results, study
from redlib.results.provenance import known_runs
from redlib.study.about import _data, _most

SMALL = {"task1.rows": 500}


def test_it_names_profile_backbone_seeds_and_the_run_of_the_table(own_cache):
    profile = config.load("smoke", SMALL)
    facts = study.about(profile, "data_checks").iloc[:, 0]
    table = study.table(profile, "data_checks")
    assert facts["profile"] == "smoke"
    assert "machinery" in facts["evidence"]
    assert facts["backbone"] == "tiny (random weights)"
    assert facts["texts"] == "500"
    assert facts["seeds, recipe chosen"] == "text 2, structure 2, phrasing 1"
    assert facts["run"].startswith(f"{table['run'].iloc[0]}, commit ")


@pytest.mark.parametrize(
    ("tasks", "texts"),
    [
        ({"task1"}, "500"),
        ({"task2"}, "operations: 500; single_heavy: 500"),
        ({"task1", "task2"}, "task 1: 500; operations: 500; single_heavy: 500"),
    ],
)
def test_it_names_the_texts_of_every_task_of_a_table(tasks, texts):
    rows = pd.DataFrame([{"task": task, "variant": "pool", "split": "pool", "seed": "0"} for task in tasks])
    assert _data(config.load("smoke", SMALL), rows)["texts"] == texts


def test_it_names_the_seeds_and_recipes_that_the_rows_are_about_and_no_others():
    profile, row = config.load("full"), {"task": "task2", "variant": "operations/chosen", "split": "text"}
    rows = pd.DataFrame([row | {"seed": seed} for seed in ("0", "1", "all")])
    few = rows.assign(variant="single_heavy/source/rank=72", seed="4")
    facts = _data(profile, pd.concat([rows, few]))
    assert facts["texts"] == "operations: 80,000; single_heavy: 80,000"
    assert facts["seeds, recipe chosen"] == "operations: text 2"
    assert facts["seeds, recipe source"] == "single_heavy: text 1"
    whole = rows.assign(task="task1", variant="chosen", seed="all")
    assert _data(profile, whole, most=3)["seeds, recipe chosen"] == "text 3"
    named = {name: _most(profile, name) for name in ("boundary_sweep", "arithmetic_probes", "arithmetic_errors")}
    assert named == {"boundary_sweep": 3, "arithmetic_probes": 2, "arithmetic_errors": None}


def test_the_record_says_whose_results_it_reads_and_computes_nothing(own_cache, tmp_path, monkeypatch):
    profile = config.load("smoke", SMALL)
    table = study.table(profile, "data_checks")
    runs = known_runs(study.TABLES["data_checks"](profile).folder)
    monkeypatch.setattr(paths, "results", lambda name: tmp_path / "results" / name)
    results.save(paths.results("full"), "data_checks", table, runs)
    made = sorted((own_cache / "stages").rglob("*"))
    facts = study.about(config.load("record"), "data_checks").iloc[:, 0]
    assert facts["profile"] == "record (reads the results of full)"
    assert facts["evidence"] == "yes"
    assert facts["backbone"] == "tiny (random weights)", "of the run that made the table, not of the profile"
    assert sorted((own_cache / "stages").rglob("*")) == made
    (paths.results("full") / "runs.json").unlink()
    with pytest.raises(LookupError, match="no run"):
        study.about(config.load("record"), "data_checks")
