"""The one atomic writer: the old artefact or the new one, never half of one."""

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from redlib import paths


def left_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_is_there_alone(tmp_path):
    paths.write_text(tmp_path / "deep" / "a.txt", "one\n")
    paths.write_text(tmp_path / "deep" / "a.txt", "zwei é\n")
    assert (tmp_path / "deep" / "a.txt").read_bytes() == "zwei é\n".encode()
    assert left_in(tmp_path / "deep") == ["a.txt"]


def test_json_is_sorted_and_reads_back(tmp_path):
    paths.write_json(tmp_path / "a.json", {"b": [1, 2], "a": None})
    assert (tmp_path / "a.json").read_text() == '{\n  "a": null,\n  "b": [\n    1,\n    2\n  ]\n}\n'


def test_a_failing_writer_leaves_the_old_file_and_no_temporary(tmp_path):
    def fail():
        with paths.atomic_file(tmp_path / "a.txt") as temporary:
            temporary.write_text("ne")
            raise RuntimeError("half way")

    paths.write_text(tmp_path / "a.txt", "old")
    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert left_in(tmp_path) == ["a.txt"]


def test_a_failing_folder_leaves_the_old_folder_and_no_temporary(tmp_path):
    def fail():
        with paths.atomic_folder(tmp_path / "f") as out:
            (out / "x").write_text("new")
            raise RuntimeError("half way")

    with paths.atomic_folder(tmp_path / "f") as out:
        (out / "x").write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert (tmp_path / "f" / "x").read_text() == "old"
    assert left_in(tmp_path) == ["f"]


def test_a_folder_replaces_the_old_one_whole(tmp_path):
    for name in ("x", "y"):
        with paths.atomic_folder(tmp_path / "f") as out:
            (out / name).write_text(name)
    assert left_in(tmp_path / "f") == ["y"]
    assert left_in(tmp_path) == ["f"]


FULL_DISK = """
import sys
from pathlib import Path
from redlib import paths
try:
    if sys.argv[2] == "file":
        paths.write_bytes(Path(sys.argv[1]), b"x" * 100_000)
    else:
        with paths.atomic_folder(Path(sys.argv[1])) as out:
            (out / "x").write_bytes(b"x" * 100_000)
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_full_disk_leaves_the_old_artefact(tmp_path, kind):
    target = tmp_path / "artefact"
    if kind == "file":
        paths.write_text(target, "old")
    else:
        with paths.atomic_folder(target) as out:
            (out / "x").write_text("old")
    code = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(target), kind],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        check=False,
    ).returncode
    assert os.strerror(code) == "File too large"
    assert (target if kind == "file" else target / "x").read_text() == "old"
    assert left_in(tmp_path) == ["artefact"]


KILLED = """
import sys, time
from pathlib import Path
from redlib import paths
context = paths.atomic_file if sys.argv[2] == "file" else paths.atomic_folder
with context(Path(sys.argv[1])) as out:
    (out if sys.argv[2] == "file" else out / "x").write_text("new")
    print("written", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_kill_between_write_and_rename_leaves_the_old_artefact(tmp_path, kind):
    target = tmp_path / "artefact"
    if kind == "file":
        paths.write_text(target, "old")
    else:
        with paths.atomic_folder(target) as out:
            (out / "x").write_text("old")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(target), kind], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    assert (target if kind == "file" else target / "x").read_text() == "old"
    assert [name for name in left_in(tmp_path) if not name.startswith(".")] == ["artefact"]


def test_a_lock_keeps_a_second_process_out(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from redlib import paths\n"
        "with paths.lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(0.5)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "a")], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(TimeoutError), paths.lock(tmp_path / "a", timeout=0):
            pass
        start = time.perf_counter()
        with paths.lock(tmp_path / "a", timeout=30):
            assert time.perf_counter() - start < 30
    assert process.returncode == 0


def test_the_digest_of_equal_data_is_equal_and_of_other_data_another():
    assert paths.digest({"a": 1, "b": [1, 2]}) == paths.digest({"b": [1, 2], "a": 1})
    assert paths.digest({"a": 1}) != paths.digest({"a": 2})
    assert paths.digest({"a": [1, 2]}) == paths.digest({"a": (1, 2)})


def test_relative_folders_start_at_the_project_wherever_a_process_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_CACHE", "somewhere/cache")
    monkeypatch.setenv("REDLIB_RUNS", "somewhere/runs")
    monkeypatch.chdir(tmp_path)
    assert paths.cache() == paths.root() / "somewhere" / "cache"
    assert paths.runs("smoke") == paths.root() / "somewhere" / "runs" / "smoke"


@pytest.mark.parametrize(
    ("variable", "place"), [("REDLIB_CACHE", paths.cache), ("REDLIB_RUNS", lambda: paths.runs("x"))]
)
def test_a_folder_that_is_a_file_is_refused_by_name(tmp_path, monkeypatch, variable, place):
    paths.write_text(tmp_path / "file", "")
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    with pytest.raises(ValueError, match=rf"file is a file, and \${variable} \(default data/.*\) must name a folder"):
        place()


def test_size_counts_every_file_below(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_bytes(b"123")
    (tmp_path / "a" / "b" / "y").write_bytes(b"4567")
    assert paths.size(tmp_path / "a") == 7
    assert paths.size(tmp_path / "a" / "x") == 3
