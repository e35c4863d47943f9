"""The notebooks of the study, in order, and how one of them is executed.

A notebook has one `parameters` cell (`profile`, `overrides`), runs from the project's folder and shows what the rooms
return. An executed copy carries no widget state, no timings and no path of the machine that made it.
"""

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

from redlib import paths

CHAPTERS = ("core", "all")
IMAGES = ("image/png", "image/jpeg")  # base64: no text to scrub


@dataclass(frozen=True)
class Notebook:
    """One notebook: `question` is what it answers, `tables` the names of the tables that it reads."""

    name: str
    question: str
    tables: tuple[str, ...] = ()
    chapter: str = "core"


NOTEBOOKS = (
    Notebook("00_start_here", "What is Residual Expert Decomposition, and what is in this study?", ("task1",)),
    Notebook("01_data", "What are the texts, and what can no split of them have?", ("data_checks",)),
    Notebook(
        "02_backbone_and_features",
        "Which depth and pooling of the frozen backbone know the sum?",
        ("probes", "selection"),
    ),
    Notebook("03_global_head", "How far does one linear classifier get?", ("task1", "task1_curves", "task1_bias")),
    Notebook(
        "04_oracle_experts",
        "How good is each expert when the right one is always asked?",
        ("task1", "task1_curves", "task1_epochs"),
    ),
    Notebook(
        "05_uniform_averaging",
        "What is lost when every expert always has an equal say?",
        ("task1", "task1_bias"),
    ),
    Notebook(
        "06_softmax_mixture",
        "Does a gate trained on the answer choose the right expert?",
        ("task1", "task1_curves", "task1_confusion"),
    ),
    Notebook(
        "07_red",
        "What do routed residual experts add, and what does each part of them do?",
        ("task1", "task1_curves", "task1_epochs", "task1_pairs"),
    ),
    Notebook(
        "08_task1_results",
        "Which claims of the source about Task 1 hold here?",
        ("task1", "task1_bias", "task1_confusion", "task1_pairs", "task1_epochs", "task1_learning"),
    ),
    Notebook(
        "09_task2_results",
        "Which claims of the source about Task 2 hold here?",
        (
            *("task2_checks", "task2", "task2_bias", "task2_confusion", "task2_epochs", "task2_transfer"),
            "task2_hardness",
        ),
    ),
    Notebook(
        "10_fair_comparison",
        "Where does the gap between RED and the softmax mixture come from?",
        ("fair",),
    ),
    Notebook(
        "11_routing",
        "What does the router do, and what happens when it is wrong?",
        ("routing", "routing_curves", "robustness", "routing_definitions"),
    ),
    Notebook(
        "12_boundaries_and_operand_maps",
        "Is RED smooth where a mixture oscillates?",
        (
            *("boundary_sweep", "boundary_sweep_task2", "boundary_smoothness"),
            *("operand_maps", "operand_maps_range", "operand_maps_wordings", "operand_maps_entropy"),
        ),
    ),
    Notebook(
        "13_where_the_arithmetic_is",
        "What does the frozen backbone know of a sum, and do wrong answers follow from it?",
        (
            *("arithmetic_probes", "arithmetic_fourier", "arithmetic_errors", "arithmetic_signed_errors"),
            "arithmetic_agreement",
        ),
    ),
    Notebook(
        "14_routing_case_studies",
        "Does RED route the source's own examples as it reports, and what does it do where it is least sure?",
        ("cases", "case_picks", "case_routes", "case_spread"),
    ),
    Notebook(
        "15_routing_inspector",
        "What does RED do with any question, and what would it do if it were routed otherwise?",
        ("operand_maps",),
    ),
    Notebook(
        "16_step_decomposer",
        "Can a planner turn a question into the program that answers it?",
        ("planner", "planner_errors", "planner_curves", "planner_examples"),
        "all",
    ),
    Notebook(
        "17_modular_execution",
        "Do experts of single operations execute whole programs, and what goes wrong when they do not?",
        (
            *("execution", "execution_budget", "execution_compounding", "execution_steps", "execution_errors"),
            *("execution_domain", "execution_assembly", "execution_examples"),
        ),
        "all",
    ),
    Notebook(
        "18_modularity",
        "Can experts be removed, replaced and added without touching the rest?",
        ("modularity", "modularity_ranges"),
        "all",
    ),
    Notebook("19_ablations", "Which part of RED matters, and how much?", ("ablations", "ablations_cost"), "all"),
    Notebook(
        "20_red_plus",
        "What do experts and a router add to a base that knows sums it has not seen?",
        ("red_plus", "red_plus_curves"),
        "all",
    ),
    Notebook(
        "21_cost_and_complexity",
        "What does each method cost, in parameters, FLOPs and memory?",
        ("cost", "cost_curves", "task1", "selection"),
        "all",
    ),
    Notebook("22_sparse_savings", "How much work do sparse experts save, and against what?", ("cost",), "all"),
    Notebook(
        "23_sparse_against_dense",
        "Are sparse mixtures cheaper to serve than dense transformers of their size?",
        (
            *("sparse_models", "sparse_quality", "sparse_training"),
            *("sparse_serving", "sparse_growth", "sparse_time"),
        ),
        "all",
    ),
    Notebook(
        "24_nested_experts",
        "What is gained when each part of a picture gets only as much of the network as it is worth?",
        ("nested", "nested_curves", "nested_routing", "nested_maps", "nested_speed", "routing"),
        "all",
    ),
)


class NotebookError(RuntimeError):
    """A cell failed: `notebook` is the copy up to there (None if there is none), the message says what and where."""

    def __init__(self, message: str, notebook: NotebookNode | None):
        super().__init__(message)
        self.notebook = notebook


def select(
    notebooks: Iterable[Notebook], chapters: str = "core", start: str | None = None, only: str | None = None
) -> tuple[Notebook, ...]:
    """The notebooks of `chapters` ("core" or "all"), from `start` on, or `only` one; ValueError for unknown names."""
    notebooks = tuple(notebooks)
    if chapters not in CHAPTERS:
        raise ValueError(f"unknown chapters {chapters!r}; valid chapters: {', '.join(CHAPTERS)}")
    names = [notebook.name for notebook in notebooks]
    for name in filter(None, (start, only)):
        if name not in names:
            raise ValueError(f"unknown notebook {name!r}; valid notebooks: {', '.join(names)}")
    if only:
        return tuple(notebook for notebook in notebooks if notebook.name == only)
    first = names.index(start) if start else 0
    return tuple(notebook for notebook in notebooks[first:] if chapters == "all" or notebook.chapter == "core")


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
