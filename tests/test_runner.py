"""The runner: stages first, notebooks in order, what is current skipped, failures shown, a stopped run continued."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from redlib import config, paths, study
from redlib.study import forks
from redlib.study.executing import NotebookError, execute, scrub
from redlib.study.notebooks import NOTEBOOKS, Notebook, select
from redlib.study.runner import MOST, Runner
from redlib.study.stage import Stage

THREE = (Notebook("00_a", "?", ("numbers",)), Notebook("01_b", "?"), Notebook("02_c", "?", chapter="more"))
DRAW = """from redlib import paths
paths.write_bytes(paths.runs(profile) / "figures" / "curve.png", b"png")
"written: curve.png, absent.png\""""


def numbers(profile):
    """A table that depends on one field of the profile."""

    def make(stage, out):
        paths.write_text(out / "numbers.csv", f"rows,run\n{stage.config['rows']},r1\n")
        paths.write_json(out / "runs.json", {"r1": {"cpu": "a"}})

    return Stage("numbers", 1, {"rows": profile.task1.rows}, make, seconds=2, bytes=3000)


@pytest.fixture
def runner(own_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(Runner, "_library", "as it is")  # the sources may be edited while the tests run

    def make(overrides=None, profile="smoke"):
        return Runner(profile, overrides or {}, folder=tmp_path / "notebooks", tables={"numbers": numbers})

    return make


@pytest.fixture
def three(write_notebook):
    write_notebook("00_a", DRAW, "print(profile, overrides)")
    write_notebook("01_b", "import os\nprint(os.getcwd())")
    write_notebook("02_c", "1 + 1")
    return THREE


def run(runner, notebooks, **options):
    """The lines said, without the clock."""
    said = []
    runner.run(notebooks, say=lambda line: said.append(line.partition("] ")[2]), **options)
    return said


def outputs(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


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
def test_a_kernel_that_is_killed_is_said_in_words(runner, write_notebook):
    write_notebook("01_b", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(NotebookError, match="01_b failed: its kernel died"):
        run(runner(), [THREE[1]])


STATE = """import sys
import redlib
print(sorted(name for name in {names!r} if name in sys.modules), getattr(redlib, "seen", None))
redlib.seen = "by an earlier notebook"
"""


@pytest.mark.notebooks
@pytest.mark.skipif(not forks.FORKS, reason="this system cannot fork")
def test_every_notebook_has_a_kernel_of_its_own_with_the_imports_done(runner, write_notebook):
    names = [*forks.PRELOADED, "torch"]
    for notebook in THREE[1:]:
        write_notebook(notebook.name, STATE.format(names=names))
    run(runner(), THREE[1:])
    said = [outputs(runner().executed(notebook)) for notebook in THREE[1:]]
    assert said == [f"{sorted(names)} None\n"] * 2


ORPHAN = """import os, sys
from pathlib import Path
from redlib.study.executing import execute
execute(Path(sys.argv[1]), {})"""  # no guard: a script that anyone may write

SLEEP = """import os, time
from redlib import paths
paths.write_text(paths.Path({mark!r}), str(os.getpid()))
time.sleep(90)"""


@pytest.mark.notebooks
@pytest.mark.skipif(not forks.FORKS, reason="this system cannot fork")
def test_a_kernel_ends_when_the_run_is_killed(own_cache, tmp_path, write_notebook):
    mark, script = tmp_path / "pid", tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    lines = ["import os, time", f"open({str(mark) + '.new'!r}, 'w').write(str(os.getpid()))"]
    source = write_notebook(
        "01_b", "\n".join([*lines, f"os.replace({str(mark) + '.new'!r}, {str(mark)!r})", "time.sleep(90)"])
    )
    run = subprocess.Popen([sys.executable, str(script), str(source)])
    try:
        wait_for(mark.exists)
        kernel = psutil.Process(int(mark.read_text()))
        assert kernel.is_running()
    finally:
        run.kill()
        run.wait()
    wait_for(lambda: not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE)


def wait_for(done, seconds=60):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


MEET = """import time
from pathlib import Path
(Path({folder!r}) / {mine!r}).touch()
start = time.monotonic()
while not (Path({folder!r}) / {other!r}).exists():
    assert time.monotonic() < start + 60, "alone"
    time.sleep(0.05)"""


@pytest.mark.notebooks
@pytest.mark.skipif(os.cpu_count() < 2, reason="one core executes one notebook at a time")
def test_notebooks_that_read_a_record_are_executed_side_by_side(runner, write_notebook, tmp_path):
    write_notebook("01_b", MEET.format(folder=str(tmp_path), mine="b", other="c"), "'wrote b.svg'")
    write_notebook("02_c", MEET.format(folder=str(tmp_path), mine="c", other="b"), "'wrote c.svg'")
    record = runner(profile="record")
    for name in "bc":
        paths.write_bytes(record.out / "figures" / f"{name}.svg", b"svg")
    run(record, THREE[1:])
    assert [record.sidecar(notebook)["figures"] for notebook in THREE[1:]] == [["b.svg"], ["c.svg"]]
    assert len(run(record, THREE[1:])) == 2  # both current


@pytest.mark.notebooks
def test_a_failure_among_notebooks_side_by_side_ends_the_run(runner, write_notebook):
    many = [Notebook(f"{n:02}_x", "?") for n in range(2 * MOST + 3)]
    write_notebook(many[0].name, "1 / 0")
    for notebook in many[1:]:
        write_notebook(notebook.name, "import time; time.sleep(1)")
    record = runner(profile="record")
    with pytest.raises(NotebookError, match="00_x failed in cell 3: ZeroDivisionError"):
        run(record, many)
    assert not record.executed(many[0]).exists()
    assert not record.executed(many[-1]).exists()
    started = [notebook for notebook in many[1:] if record.executed(notebook).exists()]
    assert all(record.current(notebook) for notebook in started)


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


def test_every_source_of_the_library_counts_for_the_key(own_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    keys = []
    for text in ("a = 1", "a = 2"):
        paths.write_text(tmp_path / "redlib" / "room" / "part.py", text)
        keys.append(Runner("smoke")._library)
    paths.write_text(tmp_path / "data" / "claims.csv", "id")
    assert len({*keys, Runner("smoke")._library}) == 3


def test_a_dry_run_writes_nothing(runner, three, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    plan = runner().plan(three)
    assert [stage.name for stage in plan.stages] == ["numbers"]
    assert (plan.seconds, plan.bytes, len(plan.notebooks)) == (2, 3000, 3)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_table_that_its_stage_does_not_make_is_named(own_cache, tmp_path, three):
    empty = Runner(
        "smoke", folder=tmp_path / "notebooks", tables={"numbers": lambda p: Stage("empty", 1, {}, lambda s, o: None)}
    )
    with pytest.raises(FileNotFoundError, match=r"stage 'empty' made no table numbers\.csv"):
        run(empty, three)


def test_an_unknown_table_names_the_valid_ones(runner, three):
    with pytest.raises(ValueError, match="unknown table 'nombers'; valid tables: numbers"):
        runner().plan([Notebook("00_a", "?", ("nombers",))])


def test_the_record_never_computes_and_names_what_it_misses(own_cache, runner, three, monkeypatch):
    monkeypatch.setattr(paths, "results", lambda profile: own_cache / "results" / profile)
    record = runner(profile="record")
    assert record.stages(THREE[0]) == {}
    with pytest.raises(FileNotFoundError, match=r"no table 'numbers' .*redlib run --profile full"):
        record.plan(three)
    paths.write_text(own_cache / "results" / "full" / "numbers.csv", "rows\n1\n")
    one = record.key(THREE[0])
    paths.write_text(own_cache / "results" / "full" / "numbers.csv", "rows\n2\n")
    assert record.key(THREE[0]) != one


def test_notebooks_whose_tables_are_not_on_record_are_named_and_left_out(own_cache, runner, three, monkeypatch):
    monkeypatch.setattr(paths, "results", lambda profile: own_cache / "results" / profile)
    said = []
    assert runner().on_record(three, said.append) == tuple(three)
    assert said == []
    kept = runner(profile="record").on_record(three, said.append)
    assert [notebook.name for notebook in kept] == [n.name for n in three if not n.tables]
    assert said == [f"{n.name} is left out: the record of full has no numbers yet" for n in three if n.tables]
    paths.write_text(own_cache / "results" / "full" / "numbers.csv", "rows\n1\n")
    assert runner(profile="record").on_record(three, said.append) == tuple(three)


def test_a_missing_or_broken_notebook_is_said_before_any_stage_runs(runner, three, tmp_path):
    (tmp_path / "notebooks" / "02_c.ipynb").write_text("{not json")
    with pytest.raises(ValueError, match=r"02_c\.ipynb is not a notebook"):
        run(runner(), three)
    (tmp_path / "notebooks" / "02_c.ipynb").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no notebook 02_c\.ipynb"):
        run(runner(), three)
    assert not numbers(config.load("smoke")).done


def test_a_notebook_without_the_parameters_cell_or_with_other_parameters_is_refused(write_notebook):
    given = {"profile": "smoke", "overrides": {}}
    with pytest.raises(ValueError, match=r"a\.ipynb needs exactly one cell tagged `parameters` and has 0"):
        execute(write_notebook("a", "1", parameters=None), given)
    with pytest.raises(ValueError, match=r"b\.ipynb has no parameter 'overrides'; its parameters: profile"):
        execute(write_notebook("b", "1", parameters='profile: str = "auto"'), given)
    with pytest.raises(ValueError, match=r"c\.ipynb has no parameter 'rows'; its parameters: profile, overrides"):
        execute(write_notebook("c", "1"), given | {"rows": 3})


@pytest.mark.parametrize("options", [{"start": "03"}, {"only": "03_x"}])
def test_an_unknown_notebook_names_the_valid_ones(options):
    with pytest.raises(ValueError, match=r"unknown notebook '03.*'; valid notebooks: 00_a, 01_b, 02_c"):
        select(THREE, **options)


def test_selection_by_chapter_start_and_name():
    def names(**options):
        return [notebook.name for notebook in select(THREE, **options)]

    assert names() == ["00_a", "01_b"]
    assert names(chapters="all") == ["00_a", "01_b", "02_c"]
    assert names(chapters="all", start="01_b") == ["01_b", "02_c"]
    assert names(only="02_c") == ["02_c"]
    with pytest.raises(ValueError, match="unknown chapters 'some'; valid chapters: core, all"):
        names(chapters="some")
    with pytest.raises(ValueError, match="start at 01_b or run 02_c only: one of the two"):
        names(start="01_b", only="02_c")


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


def test_the_study_has_its_nine_first_notebooks_in_order():
    names = [notebook.name for notebook in NOTEBOOKS]
    assert names == sorted(names)
    assert [name[:2] for name in names[:9]] == [f"{number:02d}" for number in range(9)]
    assert {notebook.chapter for notebook in NOTEBOOKS[:9]} == {"core"}
