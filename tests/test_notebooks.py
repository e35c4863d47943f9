"""Rules that every notebook of the study keeps, and the runner on the real notebooks.

What each notebook asserts at its defaults is checked by nbval (`make test`); here papermill runs them.
"""

import ast
import json
import re

import matplotlib.image
import nbformat
import numpy as np
import papermill
import pytest
import torch

from redlib import config, paths
from redlib.study.executing import figures_named, parameters, texts
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.publish import VERSIONS, drawing_versions
from redlib.study.runner import Runner
from redlib.study.tables import TABLES

FOLDER = paths.root() / "notebooks"
FIGURES = paths.root() / "figures"
SOURCES = sorted(FOLDER.glob("*.ipynb"))
EXECUTED = sorted((FOLDER / "executed").glob("*.ipynb"))
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|tmp|root|home|Users|mnt|data)/")
DRAWN = {"nested-digits-mnist", "nested-clutter-test-seed-0"}  # pictures, drawn anew and not trained
ASKING = {"15_routing_inspector"}  # draws what models say, all others draw tables
ROUNDING = {"torch", "cpu"}
by_name = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
by_executed = pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_the_folder_holds_the_notebooks_of_the_study_and_no_others():
    assert [path.stem for path in SOURCES] == [notebook.name for notebook in NOTEBOOKS]


def test_every_table_of_a_notebook_is_one_of_the_study():
    named = {table for notebook in NOTEBOOKS for table in (*notebook.tables, *notebook.optional)}
    assert named <= set(TABLES)


def test_the_notebooks_that_show_benchmarks_are_declared():
    showing = [path.stem for path in SOURCES if "bench.recorded()" in path.read_text(encoding="utf-8")]
    assert showing == [notebook.name for notebook in NOTEBOOKS if notebook.timed]


@by_name
def test_it_is_a_valid_notebook_of_format_4_5_for_kernel_python3(path):
    raw = json.loads(path.read_text())
    assert (raw["nbformat"], raw["nbformat_minor"]) >= (4, 5)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.language_info.name == "python"
    assert "widgets" not in notebook.metadata
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@by_name
def test_it_stores_no_outputs(path):
    for cell in code_of(nbformat.read(path, as_version=4)):
        assert cell.outputs == []
        assert cell.execution_count is None


@by_name
def test_it_begins_with_its_question_and_has_one_parameters_cell_with_smoke_defaults(path):
    notebook = nbformat.read(path, as_version=4)
    assert notebook.cells[0].cell_type == "markdown"
    assert notebook.cells[0].source.startswith("# ")
    assert parameters(notebook, path.name) == ("profile", "overrides")
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    values = {}
    exec(cell.source, values)
    assert (values["profile"], values["overrides"]) == ("auto", {})


@by_name
def test_papermill_shows_both_parameters(path):
    assert set(papermill.inspect_notebook(path)) == {"profile", "overrides"}


@by_name
def test_its_cells_define_nothing_and_write_nothing(path):
    for cell in code_of(nbformat.read(path, as_version=4)):
        tree = ast.parse(cell.source)
        defined = [
            n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        ]
        assert defined == [], "definitions belong in redlib"
        called = {n.func.attr for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
        assert not called & {"savefig", "to_csv", "to_parquet", "write_text", "write_bytes", "filterwarnings"}
        loops = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == "backward"]
        assert loops == [], "there is one training loop, and it is in redlib.training"


@by_name
def test_it_names_no_machine_path_and_no_shell_command(path):
    for cell in nbformat.read(path, as_version=4).cells:
        assert not MACHINE_PATH.search(cell.source)
        assert not (cell.cell_type == "code" and re.search(r"^\s*[!%]", cell.source, re.MULTILINE))


@by_name
def test_it_asserts_what_it_expects(path):
    cells = code_of(nbformat.read(path, as_version=4))
    asserts = [n for cell in cells for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Assert)]
    assert asserts, "nbval compares no outputs: expectations are assert cells"


@by_executed
def test_an_executed_copy_of_record_is_whole_and_clean(path):
    text = path.read_text()
    assert not re.search(r'"widgets": \{', text)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert "papermill" not in notebook.metadata
    for cell in code_of(notebook):
        assert cell.execution_count
        for output in cell.outputs:
            assert output.output_type != "error"
            shown = json.dumps({mime: data for mime, data in output.get("data", {}).items() if mime != "image/png"})
            assert not MACHINE_PATH.search(shown + output.get("text", ""))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_a_notebook_has_its_executed_copy_and_its_figures_of_record(notebook):
    copy = FOLDER / "executed" / f"{notebook.name}.ipynb"
    assert copy.is_file()
    figures = figures_named(nbformat.read(copy, as_version=4))
    assert sorted(name for name in figures if not (FIGURES / name).is_file()) == []


def test_nothing_else_is_of_record():
    assert {path.stem for path in EXECUTED} <= {notebook.name for notebook in NOTEBOOKS}
    named = set().union(*(figures_named(nbformat.read(path, as_version=4)) for path in EXECUTED))
    assert {path.name for path in FIGURES.iterdir()} == {*named, VERSIONS}


def test_executed_copies_are_small_enough_to_be_shown():
    sizes = {path.name: path.stat().st_size for path in EXECUTED}
    assert [name for name, size in sizes.items() if size > 3_000_000] == []
    assert sum(sizes.values()) <= 25_000_000


@pytest.mark.notebooks
@pytest.mark.parametrize("notebook", NOTEBOOKS[1:7], ids=lambda notebook: notebook.name)
def test_it_runs_at_smoke_size_with_an_override_and_trains_nothing_itself(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))  # stages are by number of threads
    runner = Runner("smoke", {"bootstrap": 150})
    runner.run([notebook])
    executed = nbformat.read(runner.executed(notebook), as_version=4)
    assert not [text for text in texts(executed) if re.search(r"stage .+: started", text)]
    injected = next(cell for cell in executed.cells if "injected-parameters" in cell.metadata.get("tags", []))
    assert 'profile = "smoke"' in injected.source
    assert '"bootstrap": 150' in injected.source


@pytest.mark.notebooks
def test_red_plus_is_shown_with_the_splits_of_every_profile_that_trains(tmp_path, monkeypatch):
    """`laptop` has one split where `smoke` and `full` have more."""
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    (notebook,) = (known for known in NOTEBOOKS if known.name == "20_red_plus")
    forms = [("task1", "structure"), ("task2", "structure"), ("steps", "structure")]
    assert all(list(getattr(config.load("laptop").red_plus, task).seeds) == [split] for task, split in forms)
    runner = Runner("smoke", {f"red_plus.{task}.seeds": {split: 1} for task, split in forms})
    runner.run([notebook])
    assert runner.sidecar(notebook)["figures"]


@pytest.mark.notebooks
@pytest.mark.skipif(not paths.results("full").is_dir(), reason="no record has been published yet")
@pytest.mark.parametrize(
    "notebook", Runner("record").on_record(NOTEBOOKS, say=lambda line: None), ids=lambda notebook: notebook.name
)
def test_it_shows_the_record_without_training(notebook, tmp_path, monkeypatch):
    shared, own = paths.cache() / "backbones", tmp_path / "cache"
    shared.mkdir(parents=True, exist_ok=True)
    own.mkdir()
    (own / "backbones").symlink_to(shared)
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("REDLIB_CACHE", str(own))
    runner = Runner("record")
    runner.run([notebook])
    assert {folder.name for folder in own.glob("stages/*")} <= DRAWN
    assert config.load("record").reads == "full"
    names, alike = runner.sidecar(notebook)["figures"], same_bytes if draws_as_the_record(notebook) else same_picture
    assert [name for name in names if not (FIGURES / name).is_file()] == []
    assert [name for name in names if not alike(runner.out / "figures" / name, FIGURES / name)] == []


def draws_as_the_record(notebook):
    """Whether here is what the figures of record were drawn with: the same packages, and where models are asked also
    what rounds what they say."""
    here, recorded = drawing_versions(), json.loads((FIGURES / VERSIONS).read_text())
    same = {name for name, version in recorded.items() if here.get(name) == version}
    return set(recorded) - ROUNDING <= same and (notebook.name not in ASKING or same >= ROUNDING)


def same_bytes(ours, theirs):
    return ours.read_bytes() == theirs.read_bytes()


def same_picture(ours, theirs):
    """Whether two PNG files show nearly the same; an SVG is the same figure."""
    if ours.suffix != ".png":
        return True
    one, other = (matplotlib.image.imread(path) for path in (ours, theirs))
    return one.shape == other.shape and np.abs(one - other).mean() < 0.002
