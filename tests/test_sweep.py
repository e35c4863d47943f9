"""Sweeps: files checked before anything runs, every result once, and nothing lost when a worker, a disk or a machine
fails."""

import contextlib
import gc
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from safetensors.torch import save_file

from redlib import config, paths, sweep
from redlib.__main__ import main
from redlib.features import forward
from redlib.study import ablations
from redlib.study.ablations import Run
from redlib.study.ablations.run import run_stage
from redlib.study.data import features_of
from redlib.study.stage import Stage
from redlib.sweep.plan import ShardJob

SMALL = {"ablations.rows": 250, "ablations.seeds": 1}
FILE = """
profile = "smoke"
[overrides]
"ablations.rows" = 250
[[runs]]
split = "text"
[grid]
rank = [1, 2]
seeds = [1]
"""


class Inline:
    """The smallest executor: a call is made when it is submitted, one after another."""

    def submit(self, call, *arguments):
        future = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


@dataclass(frozen=True)
class Toy:
    """A stage that notes in a log that it was made."""

    name: str
    log: str
    needs: tuple[str, ...] = ()
    error: str = ""

    @property
    def key(self):
        return self.name

    def make(self):
        def fill(stage, out):
            if self.error:
                raise RuntimeError(self.error)
            with open(self.log, "a") as log:
                log.write(f"{self.name}\n")
            (out / "result.txt").write_text(self.name)

        Stage(self.name, 1, {}, fill).run(lambda line: None)


def quiet(line):
    pass


# ---- files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    def write(text):
        (tmp_path / "runs.toml").write_text(text)
        return str(tmp_path / "runs.toml")

    return write


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


# ---- jobs --------------------------------------------------------------------------------------------------------


def test_what_a_job_needs_comes_first_and_a_failure_stops_only_what_is_behind_it(own_cache, tmp_path):
    log = str(tmp_path / "log")
    jobs = [
        Toy("last", log, needs=("middle", "elsewhere")),
        Toy("middle", log, needs=("first",)),
        Toy("behind", log, needs=("breaks",)),
        Toy("further", log, needs=("behind",)),
        Toy("breaks", log, error="so it is"),
        Toy("first", log),
    ]
    said = []
    report = sweep.schedule(jobs, Inline(), say=said.append)
    assert (tmp_path / "log").read_text().split() == ["first", "middle", "last"]
    assert report.failed == {
        "breaks": "RuntimeError: so it is",
        "behind": "needs breaks, which failed",
        "further": "needs behind, which failed",
    }
    assert any("6 breaks: RuntimeError: so it is" in line for line in said)
    with pytest.raises(sweep.SweepError, match=r"3 of 6 jobs failed; .*\n  breaks: RuntimeError: so it is"):
        report.check()


def test_two_sweeps_that_race_make_every_result_once(own_cache, tmp_path):
    jobs = [Toy(f"job {n}", str(tmp_path / "log")) for n in range(12)]
    both = [threading.Thread(target=sweep.schedule, args=(jobs, Inline(), None, quiet)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted((tmp_path / "log").read_text().splitlines()) == sorted(job.name for job in jobs)


def test_an_interrupt_leaves_finished_jobs_and_the_same_call_goes_on(own_cache, tmp_path):
    jobs = [Toy(f"job {n}", str(tmp_path / "log")) for n in range(4)]
    jobs = [replace(job, needs=tuple(before.key for before in jobs[:n])) for n, job in enumerate(jobs)]

    def interrupt(line):
        if line.startswith("2/4"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep.schedule(jobs, Inline(), say=interrupt)
    assert (tmp_path / "log").read_text().splitlines() == ["job 0", "job 1"]
    sweep.schedule(jobs, Inline(), say=quiet)
    assert (tmp_path / "log").read_text().splitlines() == [job.name for job in jobs]
    assert not list(own_cache.glob(".sweep-*"))


def test_a_worker_that_is_killed_takes_one_job_with_it(own_cache):
    with sweep.Processes(1) as pool:
        killed, fine = pool.submit(os.abort), pool.submit(os.getpid)
        with pytest.raises(sweep.WorkerDied, match="died 2 times: killed, or out of memory"):
            killed.result()
        assert fine.result() != os.getpid()


def test_an_interrupt_stops_what_is_running():
    started = time.monotonic()
    with contextlib.suppress(KeyboardInterrupt), sweep.Processes(1) as pool:
        worker = psutil.Process(pool.submit(os.getpid).result())
        slow = pool.submit(time.sleep, 300)
        while not slow.running():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert time.monotonic() - started < 100
    assert isinstance(slow.exception(), sweep.WorkerDied)
    worker.wait(60)  # it ends


def test_a_worker_without_the_cache_says_so(own_cache, tmp_path):
    class Elsewhere(Inline):
        def submit(self, call, job, cache, *rest):
            return super().submit(call, job, str(tmp_path / "another"), *rest)

    report = sweep.schedule([Toy("job", str(tmp_path / "log"))], Elsewhere(), say=quiet)
    assert "does not see the cache" in report.failed["job"]
    assert "put it on a shared disk" in report.failed["job"]


def test_resources_that_no_run_can_have_are_refused():
    with pytest.raises(ValueError, match="at least one CPU"):
        sweep.Resources(cpus=0)
    with pytest.raises(ValueError, match="GPUs are dealt out by the engine ray"):
        sweep.schedule([Toy("job", "log")], resources=sweep.Resources(gpus=1))


# ---- runs --------------------------------------------------------------------------------------------------------

RUNS = [Run(split="text", top=k, mixing=mixing) for k in (1, 2) for mixing in ("states", "logits")]


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


@dataclass(frozen=True)
class Writes:
    """A job that writes one large file in the manner of one of the study's formats."""

    name: str
    needs: tuple[str, ...] = ()

    @property
    def key(self):
        return self.name

    def make(self):
        big = np.zeros(100_000)
        ways = {
            "safetensors": lambda file: save_file({"big": torch.from_numpy(big)}, file),
            "npy": lambda file: np.save(file, big),
            "parquet": lambda file: pd.DataFrame({"big": np.random.default_rng(0).random(100_000)}).to_parquet(file),
            "json": lambda file: paths.write_json(file, big.tolist()),
        }
        Stage(self.name, 1, {}, lambda stage, out: ways[self.name](out / f"big.{self.name}")).run(quiet)


def test_a_full_disk_is_said_alike_whoever_writes(own_cache):
    jobs = [Writes(name) for name in ("safetensors", "npy", "parquet", "json")]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        report = sweep.schedule(jobs, Inline(), say=quiet)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert set(report.failed) == {job.name for job in jobs}
    assert {said.partition(" (")[0] for said in report.failed.values()} == {
        "the disk is full or a file may not grow further"
    }
    assert not [file for file in (own_cache / "stages").rglob("*") if file.is_file() and file.suffix != ".lock"]
    assert sweep.schedule(jobs, Inline(), say=quiet).failed == {}


def test_a_job_whose_worker_is_killed_fails_alone_and_the_others_are_made(own_cache, tmp_path):
    class Loses(Inline):
        def submit(self, call, job, *rest):
            if job.name != "dies":
                return super().submit(call, job, *rest)
            with sweep.Processes(1) as pool:
                lost = pool.submit(os.abort)
                lost.exception()
                return lost

    log = str(tmp_path / "log")
    jobs = [Toy("first", log), Toy("dies", log), Toy("behind", log, needs=("dies",)), Toy("last", log)]
    report = sweep.schedule(jobs, Loses(), say=quiet)
    assert report.failed == {
        "dies": "WorkerDied: its worker died 2 times: killed, or out of memory",
        "behind": "needs dies, which failed",
    }
    assert sorted((tmp_path / "log").read_text().split()) == sorted(report.made) == ["first", "last"]
    assert not list(own_cache.rglob("*.tmp"))


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
from test_sweep import RUNS, SMALL, Inline
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
    command = [sys.executable, "-c", KILLED, str(paths.root() / "tests")]
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
