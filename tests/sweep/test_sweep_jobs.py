"""Jobs of a sweep: their order, and nothing lost when a worker or a disk fails."""

import contextlib
import os
import resource
import threading
import time
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from safetensors.torch import save_file
from small_sweeps import Inline, quiet

from redlib import paths, sweep
from redlib.study.stage import Stage


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
