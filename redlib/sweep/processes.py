"""Worker processes of this machine, each on its own: one that dies takes one job with it and is replaced."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

TRIES = 2  # of a job whose worker dies


class WorkerDied(RuntimeError):
    """A job's worker was killed, every time."""


class Processes:
    """`submit` runs a call in one of `workers` spawned processes, each a process pool of one.

    As a context: left by an exception (such as Ctrl-C), what is running is stopped; else it is waited for.
    """

    def __init__(self, workers: int):
        self._threads = ThreadPoolExecutor(workers)
        self._own = threading.local()
        self._pids: set[int] = set()
        self._closed = False

    def submit(self, call: Callable, *arguments: Any) -> Future:
        """The future of `call(*arguments)`; WorkerDied in it where the process is killed every time."""
        return self._threads.submit(self._run, call, arguments)

    def _run(self, call: Callable, arguments: tuple) -> Any:
        for _ in range(TRIES):
            if self._closed:
                break
            try:
                return self._worker().submit(call, *arguments).result()
            except BrokenProcessPool:
                self._own.pool = None
        raise WorkerDied(f"its worker died {TRIES} times: killed, or out of memory")

    def _worker(self) -> ProcessPoolExecutor:
        """The pool of this thread, its process started."""
        if getattr(self._own, "pool", None) is None:
            context = multiprocessing.get_context("spawn")
            leave_ctrl_c_to_the_parent = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
            self._own.pool = ProcessPoolExecutor(1, context, **leave_ctrl_c_to_the_parent)
            self._pids.add(self._own.pool.submit(os.getpid).result())
        return self._own.pool

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        if kind is not None:
            self._closed = True
            for pid in self._pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        self._threads.shutdown(cancel_futures=True)
