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
from redlib.study.executing import parameters, texts
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.publish import VERSIONS, drawing_versions
from redlib.study.runner import Runner
from redlib.study.tables import TABLES

FOLDER = paths.root() / "notebooks"
SOURCES = sorted(FOLDER.glob("*.ipynb"))
EXECUTED = sorted((FOLDER / "executed").glob("*.ipynb"))
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|tmp|root|home|Users|mnt|data)/")
DRAWN = {"nested-digits-mnist", "nested-clutter-test-seed-0"}  # pictures, drawn anew and not trained
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


def test_executed_copies_of_record_are_those_that_the_record_has_tables_for():
    on_record = [notebook.name for notebook in Runner("record").on_record(NOTEBOOKS, say=lambda line: None)]
    assert [path.stem for path in EXECUTED] in ([], on_record)


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
    is_committed(runner.out / "figures", runner.sidecar(notebook)["figures"])


def is_committed(drawn, names):
    """The figures drawn are those of the record: by name, and by what they show where the same versions draw."""
    committed = paths.root() / "figures"
    assert [name for name in names if not (committed / name).is_file()] == []
    if json.loads((committed / VERSIONS).read_text()) != drawing_versions():
        return
    for name in (name for name in names if name.endswith(".png")):
        ours, theirs = (matplotlib.image.imread(folder / name) for folder in (drawn, committed))
        assert ours.shape == theirs.shape, name
        assert np.abs(ours - theirs).mean() < 0.002, name
