"""Runs: stages first, notebooks in order, current ones skipped, failures shown, a stop continued; their copies."""

import json
import threading
import time
from pathlib import Path

import nbformat
import pytest
from three_notebooks import THREE, outputs, run

from redlib import config, paths, study
from redlib.study.executing import NotebookError, scrub
from redlib.study.runner import Runner


@pytest.mark.notebooks
def test_a_run_makes_tables_then_notebooks_in_order_and_a_second_run_skips_them(runner, three):
    said = run(runner(), three)
    assert [line.split(":")[0] for line in said if "executing" in line] == ["1/3 00_a", "2/3 01_b", "3/3 02_c"]
    assert said[0] == "1/3 00_a: stage numbers: started (about 2 s)"
    out = paths.runs("smoke")
    assert outputs(out / "notebooks" / "00_a.ipynb") == "smoke {}\n"
    assert (out / "results" / "numbers.csv").read_text() == f"rows,run\n{config.load('smoke').task1.rows},r1\n"
    assert json.loads((out / "results" / "runs.json").read_text()) == {"r1": {"cpu": "a"}}
    assert runner().sidecar(THREE[0])["figures"] == ["curve.png"]
    assert (out / "figures" / "curve.png").read_bytes() == b"png"

    assert run(runner(), three) == [
        "1/3 00_a: current, skipped",
        "2/3 01_b: current, skipped",
        "3/3 02_c: current, skipped",
    ]


@pytest.mark.notebooks
def test_only_what_changed_is_executed_again(runner, three, write_notebook):
    run(runner(), three)
    write_notebook("01_b", "2 + 2")
    assert [n.name for n in runner().plan(three).notebooks] == ["01_b"]
    assert [n.name for n in runner({"bootstrap": 9}).plan(three).notebooks] == ["00_a", "01_b", "02_c"]
    assert [stage.name for stage in runner({"bootstrap": 9}).plan(three).stages] == []
    assert [stage.name for stage in runner({"task1.rows": 9}).plan(three).stages] == ["numbers"]
    assert [n.name for n in runner().plan(three, force=True).notebooks] == ["00_a", "01_b", "02_c"]
    (paths.runs("smoke") / "results" / "numbers.csv").unlink()
    runner().executed(THREE[2]).unlink()
    assert [n.name for n in runner().plan(three).notebooks] == ["00_a", "01_b", "02_c"]


@pytest.mark.notebooks
def test_a_current_notebook_needs_no_cache(runner, three):
    run(runner(), three)
    paths.cache().rename(paths.cache().with_name("gone"))
    assert runner().plan(three).stages == ()
    assert all("skipped" in line for line in run(runner(), three))


@pytest.mark.notebooks
def test_a_failure_shows_the_cell_and_stops_and_the_next_run_continues(runner, three, write_notebook):
    write_notebook("01_b", "x = 1", "def f():\n    raise KeyError('lost')\n\nf()", "x = 2")
    with pytest.raises(NotebookError) as caught:
        run(runner(), three)
    message = str(caught.value)
    assert message.startswith(
        "01_b failed in cell 4: KeyError: 'lost'\n    def f():\n        raise KeyError('lost')\n    f()"
    )
    failed = paths.runs("smoke") / "notebooks" / "01_b.failed.ipynb"
    assert message.endswith(f"the failed notebook is {failed}")
    kept = nbformat.read(failed, as_version=4)
    assert any(output.output_type == "error" for cell in kept.cells for output in cell.get("outputs", ()))
    assert not runner().executed(THREE[1]).exists()
    assert not runner().executed(THREE[2]).exists()

    write_notebook("01_b", "x = 1")
    said = run(runner(), three)
    assert said[0] == "1/3 00_a: current, skipped"
    assert [line for line in said if "executing" in line] == ["2/3 01_b: executing", "3/3 02_c: executing"]
    assert not failed.exists()


@pytest.mark.notebooks
def test_a_failing_rerun_keeps_the_older_copy_and_does_not_call_it_current(runner, three, write_notebook):
    run(runner(), three)
    write_notebook("02_c", "1 / 0")
    with pytest.raises(NotebookError, match="ZeroDivisionError: division by zero"):
        run(runner(), three)
    assert runner().executed(THREE[2]).is_file()
    assert not runner().current(THREE[2])


@pytest.mark.notebooks
def test_overrides_reach_the_notebook_and_its_tables(runner, three):
    run(runner({"task1.rows": 7}), three[:1])
    assert outputs(paths.runs("smoke") / "notebooks" / "00_a.ipynb") == "smoke {'task1.rows': 7}\n"
    assert (paths.runs("smoke") / "results" / "numbers.csv").read_text() == "rows,run\n7,r1\n"


@pytest.mark.notebooks
def test_a_second_run_waits_for_the_first(runner, three):
    said = []
    with paths.lock(paths.runs("smoke").parent / "run"):
        thread = threading.Thread(target=lambda: runner().run(three[2:], say=said.append))
        thread.start()
        time.sleep(1)
        assert said == ["another run is executing notebooks; waiting for it to end"]
    thread.join(timeout=60)
    assert said[-1].partition("02_c: ")[2].startswith("done in")


def test_a_copy_loses_widgets_timings_and_paths_of_the_machine_but_no_image():
    root = str(paths.root())
    image = f"abc{root}def"
    code = nbformat.v4.new_code_cell("x", metadata={"papermill": {"duration": 1}, "execution": {}, "tags": ["keep"]})
    text = f"{root}/redlib/config.py {root}-other /tmp/ipykernel_12/345.py:3"
    code.outputs = [
        nbformat.v4.new_output("stream", text=text),
        nbformat.v4.new_output("display_data", {"image/png": image, "text/plain": f"'{root}'"}),
    ]
    made = nbformat.v4.new_notebook(
        cells=[code], metadata={"widgets": {}, "papermill": {}, "language_info": {"name": "python"}}
    )
    clean = scrub(made)
    other = f"{root}-other".replace(str(Path.home()), "~")
    assert clean.metadata == {"language_info": {"name": "python"}}
    assert clean.cells[0].metadata == {"tags": ["keep"]}
    assert clean.cells[0].outputs[0].text == f"./redlib/config.py {other} <cell>:3"
    assert clean.cells[0].outputs[1].data == {"image/png": image, "text/plain": "'.'"}
    nbformat.validate(clean)


def test_notebooks_save_figures_where_the_runner_looks(own_cache):
    assert study.figure_folder(config.load("smoke")) == Runner("smoke").out / "figures"
