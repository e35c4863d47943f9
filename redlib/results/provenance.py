"""Where a number comes from: versions, commit, machine, backbone and configuration of the run that made it."""

import json
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from redlib import paths

RUNS = "runs.json"
PACKAGES = ("redlib", "torch", "transformers", "numpy", "scipy", "pandas", "scikit-learn")


def provenance(backbone, seconds: float, config: Any) -> tuple[str, dict]:
    """(run id, what the sidecar says about it) for work on `backbone` (None: no backbone) with plain-data `config`.

    The id hashes what can change the numbers (configuration, backbone, versions, CPU, threads), not the wall time nor
    the commit: the same work on the same machine has the same id.
    """
    import torch  # slow to import, and reading results does not need it

    about = {
        "versions": {name: metadata.version(name) for name in PACKAGES} | {"python": platform.python_version()},
        "cpu": cpu_model(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "backbone": backbone.display if backbone is not None else "none",
        "weights_id": backbone.weights_id if backbone is not None else "none",
        "config": paths.digest(config),
    }
    return paths.digest(about)[:12], about | {"commit": commit(), "seconds": round(float(seconds), 1)}


def commit() -> str:
    """The checkout's commit, `+dirty` where the library differs from it; `unknown` outside a git checkout."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", "redlib", "pyproject.toml")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+dirty" if changed else head


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=paths.root(), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def cpu_model() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def known_runs(folder: Path) -> dict[str, dict]:
    """Every run in a folder's sidecar; ValueError for a damaged one, which is never written over."""
    sidecar = Path(folder) / RUNS
    if not sidecar.is_file():
        return {}
    try:
        return dict(json.loads(sidecar.read_text(encoding="utf-8")))
    except (TypeError, ValueError) as error:
        where = f"{sidecar.parent.name}/{RUNS}"
        raise ValueError(f"{where}, which says where the tables come from, is damaged ({error}); restore it") from None


def record_run(folder: Path, run: str, info: dict) -> None:
    """Add a run to the sidecar beside a folder's tables."""
    paths.write_json(Path(folder) / RUNS, known_runs(folder) | {run: info})


def resolve(folder: Path, run: str) -> dict:
    """What the sidecar says about a run; LookupError naming the runs there are."""
    runs = known_runs(folder)
    if run not in runs:
        raise LookupError(f"no run {run!r} in {folder}; present: {', '.join(sorted(runs)) or 'none'}")
    return runs[run]
