"""The command line on what a stranger brings: rows to evaluate, results to compare, and a full disk."""

import errno
import json
import subprocess
import sys

import pandas as pd
from test_cli import call

from redlib import results
from redlib.__main__ import sentence


def test_compare_shows_differences_with_intervals(tmp_path, capsys):
    row = {"task": "task1", "variant": "chosen", "split": "text", "part": "test", "method": "red", "seed": "all"}
    row |= {"group": "all", "metric": "value_accuracy", "n": 100, "run": "r"}
    results.write(pd.DataFrame([row | {"value": 0.5, "low": 0.4, "high": 0.6}]), tmp_path / "a" / "t.csv")
    results.write(pd.DataFrame([row | {"value": 0.9, "low": 0.85, "high": 0.95}]), tmp_path / "b" / "t.csv")
    for a, b in [(tmp_path / "a", tmp_path / "b"), (tmp_path / "a" / "t.csv", tmp_path / "b" / "t.csv")]:
        code, out, _ = call(capsys, "compare", str(a), str(b))
        assert code == 0
        assert "differs" in out
        assert "0.4" in out


def test_a_full_disk_is_said_in_words_and_an_os_error_by_file():
    full = sentence(OSError(errno.ENOSPC, "No space left on device", "/a/b"))
    assert full.startswith("the disk is full or a file may not grow further at /a/b (")
    assert "set REDLIB_CACHE to another disk" in full
    assert sentence(OSError(errno.EFBIG, "File too large")).startswith("the disk is full")
    assert sentence(PermissionError(errno.EACCES, "Permission denied", "/a")) == "Permission denied: /a"


FULL_DISK = """
import resource, sys
from redlib.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
sys.exit(main(sys.argv[1:]))
"""


def test_evaluate_on_a_full_disk_is_one_sentence_and_leaves_no_valid_looking_stage(own_cache, tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_text('{"question": "What is 12 plus 27?", "answer": 39}\n')
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "evaluate", "--profile", "smoke", "--data", str(data)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("redlib: the disk is full or a file may not grow further")
    assert done.stderr.count("\n") == 1
    assert list(own_cache.rglob("stage.json")) == []


def test_a_strangers_rows_go_through_a_trained_method_and_rejects_are_listed(own_cache, tmp_path, capsys):
    rows = [
        {"question": "What is 12 plus 27?", "answer": 39},
        {"question": "What is 27 plus 12?", "answer": 39},
        {"question": "What is 12 plus 27?", "answer": 39},
        {"question": "What is 12 plus 27?", "answer": 40},
        {"expr": "30 minus 12", "answer": 18},
        {"question": "How are you?", "answer": 3},
    ]
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = call(capsys, "evaluate", "--profile", "smoke", "--data", str(data), "--method", "red")
    assert (code, err) == (0, "")
    rejected = [line for line in out.splitlines() if line.startswith("line ")]
    assert [line.split()[1] for line in rejected] == ["3", "4", "5", "6"]
    assert rejected[0] == "line 3 rejected: the same text stands on an earlier line"
    assert rejected[2] == "line 5 rejected: not a single addition, which is all that Task 1 asks"
    shown = out.splitlines()[-2:]
    assert [line.split()[0] for line in shown] == ["value_accuracy", "range_accuracy"]
    assert all("n = 2, 4 rejects, resampled over 1 structures" in line for line in shown)

    data.write_text(json.dumps(rows[0]) + "\n" + '{"question": "What is 2 plus 3?", "answer": 5}\n')
    code, out, _ = call(capsys, "evaluate", "--profile", "smoke", "--data", str(data), "--method", "oracle_experts")
    assert code == 0
    assert all("n = 2, 0 rejects, Wilson" in line for line in out.splitlines()[-2:])

    code, _, err = call(capsys, "evaluate", "--profile", "smoke", "--data", str(data), "--method", "rad")
    assert code == 2
    assert "unknown method 'rad'; valid methods: " in err
    data.write_text(json.dumps(rows[4]) + "\n")
    code, _, err = call(capsys, "evaluate", "--profile", "smoke", "--data", str(data))
    assert code == 2
    assert "holds no row that Task 1 can answer (1 rejects; line 1: not a single addition" in err
