"""Processes forked from one server with the imports done: clean as a new interpreter, without its seconds of start."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext
from types import ModuleType

PRELOADED = ("ipykernel.kernelapp", "redlib.claims", "redlib.figures", "redlib.study.tables", "redlib.widgets")
FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_MAIN = threading.Lock()


def context() -> BaseContext:
    """Starts processes from the server, which has imported PRELOADED and done nothing else; where there are no forks,
    new interpreters. Unless the environment says otherwise, their threads do not spin while they wait: side by side
    they would take each other's cores."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported
    if not FORKS:
        return multiprocessing.get_context("spawn")
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(list(PRELOADED))
    return forks


@contextmanager
def without_main() -> Iterator[None]:
    """A process started in here does not import the caller's script again, and so run it; one thread at a time."""
    with _MAIN:
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
