"""Runs of a sweep: every result once, also when a process is killed or a machine is lost."""

import gc
import importlib.util
import os
import resource
import signal
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import torch
from small_sweeps import FILE, RUNS, SMALL, Inline, quiet

from redlib import config, paths, sweep
from redlib.__main__ import main
from redlib.features import forward
from redlib.study.ablations import Run
from redlib.study.ablations.run import run_stage
from redlib.study.data import features_of
from redlib.sweep.plan import ShardJob


@pytest.fixture(scope="module")
def made(cache):
    """A few runs of the smoke profile, each made once, one after another."""
    profile = config.load("smoke", SMALL)
    report = sweep.run(profile, RUNS, Inline(), say=quiet)
    assert report.failed == {}
    return profile


def predictions(profile, runs):
    return {run: pd.read_parquet(run_stage(profile, run).folder / "predictions.parquet") for run in runs}


def test_a_second_sweep_skips_all_and_a_changed_run_is_made_beside(made):
    again = sweep.run(made, RUNS, Inline(), say=quiet)
    assert (again.made, again.failed) == ([], {})
    assert again.skipped == [run.name for run in RUNS]
    changed = RUNS[0].model_copy(update={"top": 3})
    report = sweep.run(made, [*RUNS, changed], Inline(), say=quiet)
    assert report.made == [f"ablation ({changed.name})"]
    assert run_stage(made, RUNS[0]).folder != run_stage(made, changed).folder


def test_a_half_written_result_is_made_again_and_one_of_another_version_is_another(made):
    stage = run_stage(made, RUNS[1])
    before = predictions(made, RUNS)
    (stage.folder / "measured.csv").unlink()
    (stage.folder.with_name(f".{stage.folder.name}.0.tmp")).mkdir()
    report = sweep.run(made, RUNS, Inline(), say=quiet)
    assert report.made == [stage.name]
    pd.testing.assert_frame_equal(predictions(made, RUNS)[RUNS[1]], before[RUNS[1]])
    other = replace(run_stage(made, RUNS[1]), version=2)
    assert not other.done
    assert run_stage(made, RUNS[1]).done


def test_a_full_disk_is_said_and_costs_nothing_that_is_there(made):
    run = Run(split="text", top=4)
    folder = run_stage(made, run).folder
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
        report = sweep.run(made, [run], Inline(), say=quiet)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "the disk is full or a file may not grow further" in report.failed[f"ablation ({run.name})"]
    assert not folder.exists()
    assert not list(folder.parent.glob(".*.tmp"))
    assert sweep.run(made, [run, *RUNS], Inline(), say=quiet).made == [f"ablation ({run.name})"]


def test_the_table_of_a_sweep_keeps_its_rows_and_adds_those_of_changed_runs(made, tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path))
    first = sweep.keep(made, "mine", *sweep.table(made, RUNS[:1]))
    both = sweep.keep(made, "mine", *sweep.table(made, RUNS[:2]))
    assert set(first["variant"]) == {RUNS[0].variant}
    assert set(both["variant"]) == {run.variant for run in RUNS[:2]}
    assert len(sweep.keep(made, "mine", *sweep.table(made, RUNS[:2]))) == len(both)
    assert sweep.table(made, [Run(rank=5)])[0].empty


def test_features_that_are_computed_shard_by_shard_are_those_of_one_pass(made, tmp_path, monkeypatch):
    monkeypatch.setattr(forward, "SHARD", 100)
    stage = run_stage(made, RUNS[0]).inputs["features"]
    whole = features_of(stage).ensure(False)
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path))
    planned = sweep.plan(made, RUNS)
    shards = [job for job in planned.jobs if isinstance(job, ShardJob)]
    assert [job.number for job in shards] == [0, 1, 2]
    (behind,) = [job for job in planned.jobs if job.name == "features"]
    assert {job.key for job in shards} <= set(behind.needs)
    for job in [shards[2], shards[0], shards[1]]:
        job.make()
    mine = features_of(stage)
    assert mine.missing() == []
    monkeypatch.setattr("redlib.features.store.shards", lambda *_: (shard for shard in ()))  # none is computed again
    made_of = mine.ensure(False)
    for point in whole.points:
        torch.testing.assert_close(
            torch.tensor(made_of.pooled(point)), torch.tensor(whole.pooled(point)), rtol=0, atol=0
        )


def test_the_command_shows_runs_that_are_there(made, tmp_path, monkeypatch, write, capsys):
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path))
    text = FILE.replace("rank = [1, 2]", "top = [1, 2]").replace("[grid]", '[grid]\nmixing = ["states"]')
    assert main(["sweep", write(text), "--cpus", "2", "--set", "ablations.seeds=1"]) == 0
    out = capsys.readouterr().out
    assert "2 runs, 2 of them there; 0 jobs" in out
    assert "chosen/top=1" in out
    assert "machinery only, no evidence" in out
    assert (tmp_path / "smoke" / "sweeps" / "runs.csv").is_file()


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from small_sweeps import RUNS, SMALL, Inline
from redlib import config, sweep
from redlib.study.ablations import run as ablation_run
predict, done = ablation_run._predict, []
def killed_at_the_third(*arguments):
    done.append(arguments)
    return os.kill(os.getpid(), signal.SIGKILL) if len(done) == 3 else predict(*arguments)
ablation_run._predict = killed_at_the_third
sweep.run(config.load("smoke", SMALL), RUNS, Inline())
"""


def test_a_sweep_that_was_killed_goes_on_where_it_stopped(made, tmp_path, monkeypatch):
    whole = predictions(made, RUNS)
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path))
    command = [sys.executable, "-c", KILLED, str(paths.root() / "tests" / "sweep")]
    killed = subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "2"})
    assert killed.returncode == -signal.SIGKILL
    done = [run for run in RUNS if run_stage(made, run).done]
    assert len(done) == 2
    times = {run: (run_stage(made, run).folder / "stage.json").stat().st_mtime_ns for run in done}
    report = sweep.run(made, RUNS, Inline(), say=quiet)
    assert report.skipped == [run.name for run in done]
    assert {run: (run_stage(made, run).folder / "stage.json").stat().st_mtime_ns for run in done} == times
    for run, frame in predictions(made, RUNS).items():
        pd.testing.assert_frame_equal(frame, whole[run])


MANY = [
    *(Run(split="text", top=k, mixing=mixing) for k in (1, 2, 3, 4, 5) for mixing in ("states", "logits")),
    *(Run(split="text", arm=arm) for arm in ("weights_uniform", "base_dropped", "weights_top1", "scale_tenth")),
]


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (extra `cluster`)")
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_machine_makes_every_result_once(made, tmp_path, monkeypatch):
    from ray.cluster_utils import Cluster

    from redlib.sweep.engines import RayExecutor

    sweep.run(made, MANY, Inline(), say=quiet)
    whole = predictions(made, MANY)
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    node = {"num_cpus": 2, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    second, lost = cluster.add_node(**node), []

    def lose_it(line):
        if "ablation" in line and not lost and int(line.partition("/")[0]) >= 6 + len(MANY) // 2 - 2:
            lost.append(line)
            cluster.remove_node(second, allow_graceful=False)

    try:
        with RayExecutor(sweep.Resources(cpus=2), cluster.address) as executor:
            with pytest.raises(ValueError, match="no machine of the cluster has 3 CPUs"):
                RayExecutor(sweep.Resources(cpus=3), cluster.address)
            report = sweep.run(made, MANY, executor, sweep.Resources(cpus=2), say=lose_it)
    finally:
        cluster.shutdown()
        gc.collect()  # what Ray leaves open is said here, not in a later test
    assert lost
    assert report.failed == {}
    assert len(report.made) == len(set(report.made))
    assert {f"ablation ({run.name})" for run in MANY} <= set(report.made)
    for run, frame in predictions(made, MANY).items():
        assert len(list(run_stage(made, run).folder.parent.glob("[!.]*"))) == 1
        pd.testing.assert_frame_equal(frame, whole[run])
