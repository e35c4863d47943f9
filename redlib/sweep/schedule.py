"""Jobs that need each other, on any executor: each is submitted once what it needs is there."""

import contextlib
import errno
import os
import platform
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from redlib import paths
from redlib.config import Profile
from redlib.study.ablations import Run
from redlib.study.stage import Say
from redlib.sweep.plan import plan
from redlib.sweep.processes import Processes

FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class Job(Protocol):
    """Something to be made once; it travels to a worker by pickle. `needs`: keys of jobs that come first."""

    name: str
    key: str
    needs: tuple[str, ...]

    def make(self) -> None:
        """Do the work; the same every time."""


class SweepError(RuntimeError):
    """Some runs failed; the message names each with its error."""


@dataclass(frozen=True)
class Resources:
    """What one run gets: threads, and graphics cards where the engine deals them out."""

    cpus: int = field(default_factory=torch.get_num_threads)
    gpus: float = 0

    def __post_init__(self) -> None:
        if self.cpus < 1 or self.gpus < 0:
            raise ValueError(f"a run needs at least one CPU and no negative GPU, got {self.cpus} and {self.gpus:g}")

    def apply(self) -> None:
        """Let this process use so many threads: the keys here must be those of the workers."""
        torch.set_num_threads(self.cpus)

    @property
    def workers(self) -> int:
        """How many runs fit on this machine at a time."""
        return max(1, (os.cpu_count() or 1) // self.cpus)


@dataclass
class Report:
    """Names of what was made and of what was there, and errors by name."""

    made: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def check(self) -> "Report":
        """Itself; SweepError if anything failed."""
        if self.failed:
            lines = [f"{name}: {error}" for name, error in self.failed.items()]
            counted = f"{len(self.failed)} of {len(self.failed) + len(self.made)} jobs failed"
            raise SweepError("\n  ".join([f"{counted}; the same command makes them again", *lines]))
        return self


@dataclass(frozen=True)
class Outcome:
    """What a worker says of a job. Errors travel as text: not every exception survives pickling."""

    host: str
    seconds: float
    error: str | None = None


def run(
    profile: Profile,
    runs: Iterable[Run],
    executor: Any = None,
    resources: Resources | None = None,
    say: Say = print,
) -> Report:
    """Make every run that is missing, and what runs read first, on any object with `submit` (default: `Processes`).

    ValueError, before anything runs, for a run that the profile makes impossible. Failures do not stop other runs:
    they are in the report.
    """
    resources = resources or Resources()
    resources.apply()
    planned = plan(profile, runs)
    for name in planned.done:
        say(f"{name}: there, skipped")
    report = schedule(planned.jobs, executor, resources, say)
    report.skipped = list(planned.done)
    return report


def schedule(jobs: Iterable[Job], executor: Any = None, resources: Resources | None = None, say: Say = print) -> Report:
    """Run the jobs, each after those that it needs, on an executor, and report; a failed job fails those behind it.

    On KeyboardInterrupt what is not finished is given up, and finished jobs stay. The executor is left open, unless it
    was made here.
    """
    left, resources, report = {job.key: job for job in jobs}, resources or Resources(), Report()
    whole, pending = len(left), {}
    if not whole:
        return report
    with _seen_by_all() as token, _opened(executor, resources, whole) as pool:
        try:
            while left or pending:
                unmade = {*left, *(job.key for job in pending.values())}
                for job in [job for job in left.values() if not unmade & {*job.needs}]:
                    future = pool.submit(work, left.pop(job.key), str(paths.cache()), token, resources.cpus)
                    pending[future] = job
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    job = pending.pop(future)
                    outcome = _outcome(future)
                    if outcome.error is None:
                        report.made.append(job.name)
                        done = f"done in {outcome.seconds:.1f} s on {outcome.host}"
                    else:
                        report.failed[job.name] = done = outcome.error
                        _fail_behind(job, left, report)
                    say(f"{len(report.made) + len(report.failed)}/{whole} {job.name}: {done}")
        except BaseException:
            for future in pending:
                future.cancel()
            raise
    return report


def _fail_behind(failed: Job, left: dict[str, Job], report: Report) -> None:
    for job in [job for job in left.values() if failed.key in job.needs]:
        del left[job.key]
        report.failed[job.name] = f"needs {failed.name}, which failed"
        _fail_behind(job, left, report)


def _outcome(future: Future) -> Outcome:
    try:
        return future.result()
    except (Exception, CancelledError) as error:  # a worker or its machine died, or the executor gave up
        return Outcome("?", 0.0, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no reason'}")


@contextlib.contextmanager
def _opened(executor: Any, resources: Resources, jobs: int) -> Iterator[Any]:
    if executor is not None:
        yield executor
        return
    if resources.gpus:
        raise ValueError("GPUs are dealt out by the engine ray; the engine process gives every run all of them")
    with Processes(min(jobs, resources.workers)) as pool:
        yield pool


@contextlib.contextmanager
def _seen_by_all() -> Iterator[str]:
    """A file in the cache by which a worker knows that it sees the same disk."""
    token = paths.cache() / f".sweep-{uuid.uuid4().hex}.token"
    paths.write_text(token, "")
    try:
        yield token.name
    finally:
        token.unlink(missing_ok=True)


def work(job: Job, cache: str, token: str, threads: int) -> Outcome:
    """In a worker: make one job with so many threads in the cache of whoever sent it."""
    start, host = time.perf_counter(), platform.node()
    try:
        if not (Path(cache) / token).is_file():
            raise FileNotFoundError(f"the worker on {host} does not see the cache {cache}; put it on a shared disk")
        os.environ["REDLIB_CACHE"] = cache
        torch.set_num_threads(threads)
        job.make()
    except Exception as error:
        return Outcome(host, time.perf_counter() - start, _sentence(error))
    return Outcome(host, time.perf_counter() - start)


def _full(error: Exception) -> bool:
    """Whether a file could not be written whole; safetensors and numpy say so in words alone."""
    said = re.search(r"\(os error (\d+)\)", str(error))
    code = int(said[1]) if said else getattr(error, "errno", None)
    return code in FULL or re.fullmatch(r"\d+ requested and \d+ written", str(error)) is not None


def _sentence(error: Exception) -> str:
    if _full(error):
        return f"the disk is full or a file may not grow further ({paths.cache()}); nothing of it was kept"
    return f"{type(error).__name__}: {error}"
