"""One notebook, executed: its parameters are checked, it runs from the project's folder, and what is kept of it says
nothing of the machine.

A notebook has one `parameters` cell (`profile`, `overrides`) and shows what the rooms return. An executed copy carries
no widget state, no timings and no path.
"""

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import papermill
from jupyter_client import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from redlib import paths
from redlib.study.forks import FORKS
from redlib.study.kernels import ForkedKernelManager

IMAGES = ("image/png", "image/jpeg")  # base64: no text to scrub


class NotebookError(RuntimeError):
    """A cell failed: `notebook` is the copy up to there (None if there is none), the message says what and where."""

    def __init__(self, message: str, notebook: NotebookNode | None):
        super().__init__(message)
        self.notebook = notebook


def read(path: Path) -> NotebookNode:
    """The notebook at `path`; FileNotFoundError or ValueError names what is wrong with it."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no notebook {path.name} in {path.parent}")
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except (nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise ValueError(f"{path.name} is not a notebook: {str(error).splitlines()[0]}") from None


def parameters(notebook: NotebookNode, name: str) -> tuple[str, ...]:
    """Names assigned in the one cell tagged `parameters`; ValueError when there is not exactly one."""
    cells = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(f"{name} needs exactly one cell tagged `parameters` and has {len(cells)}")
    names = []
    for node in ast.parse(cells[0].source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names += [target.id for target in targets if isinstance(target, ast.Name)]
    return tuple(names)


def check(source: Path, given: Iterable[str]) -> NotebookNode:
    """The notebook at `source`; ValueError if it lacks a parameter that is given (papermill would only warn)."""
    notebook = read(source)
    known = parameters(notebook, source.name)
    for name in given:
        if name not in known:
            raise ValueError(f"{source.name} has no parameter {name!r}; its parameters: {', '.join(known)}")
    return notebook


def execute(source: Path, given: Mapping[str, Any]) -> NotebookNode:
    """Run a notebook with papermill from the project's folder and return the scrubbed copy.

    Raises ValueError for a notebook without parameters cell or a parameter that it does not have, NotebookError with
    the failing cell's error when a cell fails or the kernel dies.
    """
    notebook = check(source, given)
    with tempfile.TemporaryDirectory(prefix="redlib-") as folder:
        target = Path(folder) / source.name
        try:
            papermill.execute_notebook(
                notebook,
                target,
                dict(given),
                cwd=paths.root(),
                progress_bar=sys.stderr.isatty(),
                config=_kernel(folder),
                kernel_manager_class=ForkedKernelManager if FORKS else AsyncKernelManager,
            )
        except PapermillExecutionError as error:
            reason = f"{error.ename}: {error.evalue}" if error.evalue else error.ename
            message = f"{source.stem} failed in cell {error.exec_count}: {reason}{_head(error.source)}"
            raise NotebookError(message, scrub(read(target))) from None
        except DeadKernelError:
            partial = scrub(read(target)) if target.is_file() else None
            raise NotebookError(f"{source.stem} failed: its kernel died (killed, or out of memory)", partial) from None
        return scrub(read(target))


def _kernel(folder: str) -> Config:
    """Kernels talk over sockets in a folder of the run's own: no race for a port, and no other run listens."""
    return Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}} if os.name == "posix" else {})


def _head(source: str) -> str:
    lines = [line for line in source.splitlines() if line.strip()]
    more = "\n    ..." if len(lines) > 3 else ""
    return "\n    " + "\n    ".join(lines[:3]) + more


def texts(notebook: NotebookNode) -> Iterator[str]:
    """What the cells of an executed notebook printed or show as text."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", ())):
        yield output.get("text", "")
        yield output.get("data", {}).get("text/plain", "")


def figures_named(notebook: NotebookNode) -> set[str]:
    """The figures that an executed notebook says it wrote; every one lists its files at its end."""
    return {name for text in texts(notebook) for name in re.findall(r"[\w.-]+\.(?:png|svg)\b", text)}


def scrub(notebook: NotebookNode) -> NotebookNode:
    """Drop widget state and timings, and write paths of this machine relative to the project or its owner."""
    for name in ("widgets", "papermill"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
    return nbformat.from_dict(_walk(notebook, _machine_paths()))


def _walk(node: Any, replacements: list[tuple[re.Pattern, str]]) -> Any:
    if isinstance(node, str):
        for pattern, name in replacements:
            node = pattern.sub(name, node)
        return node
    if isinstance(node, Mapping):
        return {key: value if key in IMAGES else _walk(value, replacements) for key, value in node.items()}
    return [_walk(item, replacements) for item in node] if isinstance(node, list) else node


def _machine_paths() -> list[tuple[re.Pattern, str]]:
    """Longest first, so that the project's folder goes before the home that holds it."""
    named = {str(paths.cache()): "$REDLIB_CACHE", sys.prefix: "$PYTHON", sys.base_prefix: "$PYTHON"}
    named |= {str(paths.root()): ".", os.path.expanduser("~"): "~"}
    cell = re.compile(re.escape(tempfile.gettempdir()) + r"/ipykernel_\d+/\d+\.py")
    ordered = sorted((path for path in named if len(path) > 1), key=len, reverse=True)
    return [(cell, "<cell>"), *((re.compile(re.escape(path) + r"(?![\w.-])"), named[path]) for path in ordered)]
