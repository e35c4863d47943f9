"""Ray as an executor: runs on every machine of a cluster, each with the CPUs and GPUs that it asks for."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from redlib.sweep.schedule import Resources

LOST = 4  # how often a run whose machine dies is started again elsewhere


class RayExecutor:
    """`submit` runs a call on a Ray cluster: the one at `address` (host:port, or `auto`), or one on this machine alone.

    A run whose worker or machine dies is started again elsewhere. RuntimeError where Ray is not installed, and
    ConnectionError where no cluster answers at the address. As a context, leaves the cluster at the end.
    """

    def __init__(self, resources: Resources, address: str | None = None):
        try:
            import ray
        except ImportError:
            raise RuntimeError('the engine ray needs Ray: pip install "redlib[cluster]"') from None
        self._ray = ray
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not ray.is_initialized():
            ray.init(address=address or "local", log_to_driver=False, include_dashboard=None if address else False)
        most = max((node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]), default=0)
        if resources.cpus > most:
            raise ValueError(f"no machine of the cluster has {resources.cpus} CPUs for a run; the largest has {most:g}")
        self._call = ray.remote(num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=LOST)(_call)

    def submit(self, call: Callable, *arguments: Any) -> Future:
        """The future of `call(*arguments)`, made on some machine of the cluster."""
        return self._call.remote(call, arguments).future()

    def __enter__(self) -> "RayExecutor":
        return self

    def __exit__(self, *_: Any) -> None:
        self._ray.shutdown()


def _call(call: Callable, arguments: tuple) -> Any:
    return call(*arguments)
