"""Stages: same key, skipped; another configuration, made again; one writer; damage is seen."""

import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pytest

from redlib import config, paths, results, training
from redlib.study.stage import RECORD, Stage
from redlib.study.writing import fill, save

pytestmark = pytest.mark.usefixtures("own_cache")


def quiet(line):
    pass


def write_config(stage, out):
    paths.write_json(out / "made.json", dict(stage.config))


def counted(name="numbers", version=1, settings=None, inputs=None):
    """A stage and the list that grows each time it is made."""
    made = []

    def make(stage, out):
        made.append(stage.name)
        write_config(stage, out)

    return Stage(name, version, settings or {"rows": 3}, make, inputs or {}), made


def test_a_stage_is_made_once_and_then_skipped():
    stage, made = counted()
    assert not stage.done
    folder = stage.run(quiet)
    assert json.loads((folder / "made.json").read_text()) == {"rows": 3}
    twin, made_again = counted()
    assert twin.done
    assert twin.run(quiet) == folder
    assert (made, made_again) == (["numbers"], [])


def test_force_makes_it_again():
    stage, made = counted()
    stage.run(quiet)
    stage.run(quiet, force=True)
    assert made == ["numbers", "numbers"]


def test_what_a_cut_off_training_kept_is_there_for_the_next_try_and_gone_after_it():
    def make(stage, out):
        seen.append(stage.checkpoint.read_text() if stage.checkpoint.is_file() else None)
        paths.write_text(stage.checkpoint, f"try {len(seen)}")
        if len(seen) in (1, 4):
            raise KeyboardInterrupt
        write_config(stage, out)

    seen, stage = [], Stage("long", 1, {"rows": 3}, make)
    with pytest.raises(KeyboardInterrupt):
        stage.run(quiet)
    assert not stage.done
    stage.run(quiet)
    assert not stage.checkpoint.exists()
    stage.run(quiet, force=True)
    with pytest.raises(KeyboardInterrupt):
        stage.run(quiet, force=True)
    stage.run(quiet, force=True)  # from the beginning
    assert seen == [None, "try 1", None, None, None]


@pytest.mark.parametrize(
    "change", [{"settings": {"rows": 4}}, {"version": 2}, {"name": "others"}, {"settings": {"rows": 3, "more": None}}]
)
def test_its_own_configuration_version_and_name_change_the_key(change):
    stage, _ = counted()
    other, made = counted(**change)
    stage.run(quiet)
    assert stage.key != other.key
    other.run(quiet)
    assert len(made) == 1
    assert stage.done


def test_what_it_reads_changes_the_key_and_is_made_first():
    order = []
    read = Stage("read", 1, {"a": 1}, lambda stage, out: order.append("read"))
    top = Stage("top", 1, {}, lambda stage, out: order.append("top"), {"read": read})
    other = Stage("top", 1, {}, top.make, {"read": Stage("read", 1, {"a": 2}, read.make)})
    assert top.key != other.key
    top.run(quiet)
    assert order == ["read", "top"]


def test_tables_of_the_same_configuration_that_read_other_things_are_other_runs():
    runs = {}
    for rows in (3, 4):
        read = Stage("read", 1, {"rows": rows}, write_config)

        def make(stage, out):
            said = {"variant": "chosen", "split": "text", "part": "test", "method": "red", "seed": "0", "group": "all"}
            save(
                config.load("smoke"), stage, out, {"some": fill(pd.DataFrame([{**said, "metric": "m", "value": 1.0}]))}
            )

        folder = Stage("table", 1, {"resamples": 9}, make, {"read": read}).run(quiet)
        runs[rows] = results.load(folder, "some")["run"].item()
        assert list(results.resolve(folder, runs[rows])["stages"]) == ["read"]
    assert runs[3] != runs[4]


def test_the_time_of_stages_of_one_name_is_added_up():
    read = [Stage("read", 1, {"rows": rows}, write_config) for rows in (3, 4)]
    middle = Stage("middle", 1, {}, write_config, {"read": read[0]})
    top = Stage("top", 1, {}, write_config, {"middle": middle, "read": read[0], "other": read[1]})
    top.run(quiet)
    for stage, seconds in zip((*read, middle), (1.25, 2.5, 4.0), strict=True):
        paths.write_json(stage.folder / RECORD, stage.record | {"seconds": seconds})
    assert top.spent() == {"read": 3.75, "middle": 4.0}


def rows_stage(profile):
    """A stage that reads one field of a profile."""
    return Stage("rows", 1, {"rows": profile.task1.rows}, write_config)


def test_an_unrelated_field_of_the_profile_does_not_make_it_again_and_its_own_field_does():
    rows_stage(config.load("smoke")).run(quiet)
    unrelated = config.load("smoke", {"bootstrap": 77, "chosen.rank": 5})
    assert rows_stage(unrelated).done
    assert not rows_stage(config.load("smoke", {"task1.rows": 12})).done


def test_missing_lists_each_stage_once_in_the_order_of_making():
    pool = Stage("pool", 1, {}, write_config)
    left = Stage("left", 1, {}, write_config, {"pool": pool})
    right = Stage("right", 1, {}, write_config, {"pool": Stage("pool", 1, {}, write_config)})
    top = Stage("top", 1, {}, write_config, {"left": left, "right": right, "pool": pool})
    assert [stage.name for stage in top.missing()] == ["pool", "left", "right", "top"]
    left.run(quiet)
    assert [stage.name for stage in top.missing()] == ["right", "top"]
    top.run(quiet)
    assert list(top.missing()) == []


def test_a_failing_stage_leaves_nothing_that_counts_as_done():
    def fail(stage, out):
        (out / "half").write_text("x")
        raise RuntimeError("half way")

    stage = Stage("fails", 1, {}, fail)
    with pytest.raises(RuntimeError, match="half way"):
        stage.run(quiet)
    assert not stage.done
    assert not stage.folder.exists()


def test_a_damaged_folder_is_named_and_made_again():
    stage, made = counted()
    whole = (stage.run(quiet) / "made.json").read_bytes()
    for spoil in (
        lambda: (stage.folder / "made.json").write_bytes(whole[:3]),
        lambda: (stage.folder / "made.json").unlink(),
        lambda: (stage.folder / RECORD).write_text('{"files"'),
        lambda: (stage.folder / RECORD).unlink(),
    ):
        spoil()
        assert not stage.done
        said = []
        stage.run(said.append)
        assert "the copy in the cache is damaged (" in said[0]
        assert (stage.folder / "made.json").read_bytes() == whole
    assert len(made) == 5


def test_a_name_with_slashes_and_brackets_is_one_folder():
    stage = Stage("experts (chosen/rows=200, text)", 1, {}, write_config)
    assert stage.folder.parent.name == "experts-chosen-rows=200-text"
    assert stage.folder.parent.parent == paths.cache() / "stages"


def test_it_says_when_it_starts_and_how_long_it_took():
    said = []
    Stage("numbers", 1, {}, write_config, seconds=7).run(said.append)
    assert said[0].strip() == "stage numbers: started (about 7 s)"
    assert said[1].strip().startswith("stage numbers: done in ")


RACE = """
import os, sys, time
from redlib.study.stage import Stage
def make(stage, out):
    with open(sys.argv[1], "a") as log:
        log.write(f"{os.getpid()}\\n")
    time.sleep(0.5)
    (out / "x").write_text("done")
print("ready", flush=True)
sys.stdin.readline()
Stage("raced", 1, {}, make).run()
"""


def test_two_processes_make_one_stage_once(tmp_path):
    command = [sys.executable, "-c", RACE, str(tmp_path / "log")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=60)
    assert [process.returncode for process in both] == [0, 0]
    assert len((tmp_path / "log").read_text().split()) == 1
    assert Stage("raced", 1, {}, write_config).done


def test_a_process_killed_while_making_leaves_the_stage_missing_and_free(tmp_path):
    script = RACE.replace("time.sleep(0.5)", "print('making', flush=True); time.sleep(60)")
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write("go\n")
        process.stdin.flush()
        while process.stdout.readline() != "making\n":
            pass
        os.kill(process.pid, signal.SIGKILL)
    stage = Stage("raced", 1, {}, write_config)
    assert not stage.done
    stage.run(quiet)
    assert stage.done


def test_what_training_logs_while_a_stage_is_made_is_said():
    def make(stage, out):
        training.LOG.info("classifier: epoch 1 of 2")
        write_config(stage, out)

    said = []
    Stage("told", 1, {}, make).run(said.append)
    training.LOG.info("after the stage")
    assert "    classifier: epoch 1 of 2" in said
    assert not any("after the stage" in line for line in said)
