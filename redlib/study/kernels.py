"""Kernels that are forked from one process with the imports done: a kernel of its own for every notebook, without the
four seconds in which each would import the same libraries."""

import multiprocessing
import os
import threading
from typing import Any
from uuid import uuid4

from jupyter_client import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

from redlib.study.forks import context, without_main


class ForkedKernelManager(AsyncKernelManager):
    """A manager whose kernels are forks of `forks`' server."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.provisioner = _Provisioner(kernel_id=uuid4().hex, kernel_spec=self.kernel_spec, parent=self)


class _Provisioner(LocalProvisioner):
    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict:
        """The kernel that `cmd` (python -m ipykernel_launcher <arguments>) would start."""
        process = context().Process(target=_kernel, args=(cmd[3:], kwargs["env"], kwargs.get("cwd")), daemon=True)
        with without_main():
            process.start()
        self.process, self.pid, self.cwd = _Popen(process), process.pid, kwargs.get("cwd")
        return self.connection_info


def _kernel(arguments: list[str], env: dict[str, str], cwd: Any) -> None:
    from ipykernel import kernelapp

    os.setsid()  # what interrupts the run is for the runner to hand on
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd or os.getcwd())
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    kernelapp.launch_new_instance(argv=[*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


def _end_with_the_run() -> None:
    multiprocessing.parent_process().join()
    os._exit(1)


class _Popen:
    """A process of multiprocessing with the names of subprocess.Popen that a provisioner uses."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any):
        self._process, self.pid = process, process.pid
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.join(timeout)
        return self._process.exitcode

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)
