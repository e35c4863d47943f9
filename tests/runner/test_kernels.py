"""Kernels: one a notebook, side by side for a record, gone when they are killed or the run is."""

import os
import subprocess
import sys
import time

import psutil
import pytest
from three_notebooks import THREE, outputs, run

from redlib import paths
from redlib.study import forks
from redlib.study.executing import NotebookError
from redlib.study.notebooks import Notebook
from redlib.study.runner import MOST


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


@pytest.mark.parametrize(("given", "kept"), [(None, "passive"), ("active", "active")])
def test_threads_of_kernels_do_not_spin_unless_the_environment_says_so(monkeypatch, given, kept):
    monkeypatch.setenv("OMP_WAIT_POLICY", given or "")
    if given is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    forks.context()
    assert os.environ["OMP_WAIT_POLICY"] == kept


ORPHAN = """import os, sys
from pathlib import Path
from redlib.study.executing import execute
execute(Path(sys.argv[1]), {})"""  # no guard: a script that anyone may write


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
