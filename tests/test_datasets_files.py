"""Pools in and out of files; a stranger's rows read, or rejected with a reason."""

import json

import pandas as pd
import pytest

from redlib import datasets
from redlib.expressions import LabelSpace


@pytest.fixture(scope="module")
def pool():
    return datasets.build("task1", 500, seed=0)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_a_pool_comes_back_from_its_file_identical(tmp_path, pool, suffix):
    path = datasets.save(pool, tmp_path / "deep" / f"pool{suffix}")
    pd.testing.assert_frame_equal(datasets.load(path), pool)
    first = path.read_bytes()
    datasets.save(datasets.load(path), path)
    assert path.read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize(
    ("column", "wrong", "message"),
    [
        ("value", 2, "row 17: value is 2"),
        ("range", 7, "row 17: range is 7"),
        ("expression", "3 + 4", r"row 17: expression is '3 \+ 4'"),
        ("structure", "+1+1", r"row 17: structure is '\+1\+1'"),
        ("operations", 3, "row 17: operations is 3"),
        ("group", 77, "row 17: template .* does not give"),
        ("template", "plus/sung", "row 17: unknown template 'plus/sung'"),
        ("text", "What is 60 plus 60?", "row 17: value 120 is outside 2..100"),
        ("text", "nothing", "row 17: 'nothing' has no numbers"),
        ("row", 16, "row 16: its row occurs twice"),
    ],
)
def test_a_tampered_row_is_named(tmp_path, pool, suffix, column, wrong, message):
    tampered = pool.copy()
    tampered.loc[17, column] = wrong
    path = datasets.save(tampered, tmp_path / f"pool{suffix}")
    with pytest.raises(ValueError, match=message):
        datasets.load(path)


def test_files_that_are_no_pools_are_refused(tmp_path, pool):
    with pytest.raises(FileNotFoundError, match="no pool at"):
        datasets.load(tmp_path / "absent.parquet")
    with pytest.raises(ValueError, match=r"unknown file type '.csv' of pool.csv; valid types: .parquet, .jsonl"):
        datasets.save(pool, tmp_path / "pool.csv")
    path = datasets.save(pool, tmp_path / "pool.parquet")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"pool\.parquet is not a readable parquet file"):
        datasets.load(path)
    path = datasets.save(pool.drop(columns="value"), tmp_path / "pool.jsonl")
    with pytest.raises(ValueError, match="columns missing or unknown: value"):
        datasets.load(path)
    path = datasets.save(pool.assign(value=pool["value"] + 0.5), tmp_path / "pool.jsonl")
    with pytest.raises(ValueError, match="column 'value' holds something other than whole numbers"):
        datasets.load(path)
    path.write_text('{"row": 0,\n')
    with pytest.raises(ValueError, match="is not a readable jsonl file"):
        datasets.load(path)


STRANGERS = [
    ('{"question": "What is 12 plus 27?", "answer": 39}', ""),
    ('{"expr": "19 minus 14 plus 12 minus 9", "answer": 8, "id": 3}', ""),
    ('{"question": "What is 7 plus 4?", "answer": 12}', "answer 12 is not the value 11 of 7 + 4"),
    ('{"question": "What is 7 plus 4?"}', "key answer is missing; the keys are question"),
    ('{"prompt": "What is 7 plus 4?", "answer": 11}', "key question (or expr) is missing"),
    ('{"question": "What is 7 plus 4?", "answer": "11"}', "answer '11' is not an integer"),
    ('{"question": "What is 7 plus 4?", "answer": 11.0}', "answer 11.0 is not an integer"),
    ('{"question": "What is 7 times 4?", "answer": 28}', "cannot read 'What is 7 times 4?'"),
    ('{"question": 11, "answer": 11}', "must be a string, got int"),
    ('{"question": "What is 58 plus 25?", "answer": 83}', "operand 58 is outside 2..50"),
    ('{"question": "What is 40 plus 1?", "answer": 41}', "operand 1 is outside 2..50"),
    ('{"expr": "5 minus 9", "answer": -4}', "value -4 is outside 2..100"),
    ('{"expr": "50 plus 50 plus 9", "answer": 109}', "value 109 is outside 2..100"),
    ("[1, 2]", "not a JSON object but list"),
    ('{"question": "What', "not JSON in UTF-8"),
    ("", None),
    ('{"question": "What is 12 plus 27?", "answer": 39}\r', ""),
]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_a_pool_of_chains_comes_back_and_a_tampered_row_is_named(tmp_path, suffix):
    pool = datasets.build("task2", 500, seed=0, steps="single_heavy")
    path = datasets.save(pool, tmp_path / f"pool{suffix}")
    pd.testing.assert_frame_equal(datasets.load(path), pool)
    row = int(pool.index[pool["operations"] == 1][0])
    pool.loc[row, "template"] = "chain/plus_then_add/compute"
    with pytest.raises(
        ValueError, match=f"row {row}: template 'chain/plus_then_add/compute' says 2 or more operations"
    ):
        datasets.load(datasets.save(pool, path))


@pytest.fixture
def strangers_file(tmp_path):
    path = tmp_path / "theirs.jsonl"
    path.write_text("\n".join(line for line, _ in STRANGERS) + "\n")
    return path


def test_a_strangers_rows_are_read_or_rejected_with_a_reason(strangers_file):
    rows, rejects = datasets.load_jsonl(strangers_file)
    assert rows["line"].tolist() == [i for i, (_, reason) in enumerate(STRANGERS, 1) if reason == ""]
    assert rows["expression"].tolist() == ["12 + 27", "19 - 14 + 12 - 9", "12 + 27"]
    assert rows[["value", "range", "operations"]].to_numpy().tolist() == [[39, 1, 1], [8, 0, 3], [39, 1, 1]]
    assert rows["duplicate"].tolist() == [False, False, True]
    expected = [(i, reason) for i, (_, reason) in enumerate(STRANGERS, 1) if reason]
    assert rejects["line"].tolist() == [line for line, _ in expected]
    for reason, (_, part) in zip(rejects["reason"], expected, strict=True):
        assert part in reason
        assert "\n" not in reason


def test_strict_reading_stops_at_the_first_reject(strangers_file):
    with pytest.raises(ValueError, match=r"theirs\.jsonl, line 3: answer 12 is not the value 11"):
        datasets.load_jsonl(strangers_file, strict=True)


def test_domains_of_a_strangers_file_can_be_widened(strangers_file):
    _, narrow = datasets.load_jsonl(strangers_file)
    rows, wide = datasets.load_jsonl(strangers_file, labels=LabelSpace(-10, 120, (0, 50)), operands=None)
    assert len(narrow) - len(wide) == 4
    assert {"58 + 25", "40 + 1", "5 - 9", "50 + 50 + 9"} <= set(rows["expression"])


def test_a_strangers_chains_may_be_limited_in_length(tmp_path):
    lines = [
        {"question": "If you subtract 5 from 12 and add 9, what do you get?", "answer": 16},
        {"question": "Start with 12, take away 5, add 9, then lose 3.", "answer": 13},
        {"expr": "29 minus 11 minus 9 minus 7 plus 15", "answer": 17},
        {"expr": "9 plus 9 plus 9 plus 9 plus 9 plus 9", "answer": 54},
    ]
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows, rejects = datasets.load_jsonl(path, max_operations=4)
    assert rows["operations"].tolist() == [2, 3, 4]
    assert rejects["reason"].tolist() == ["9 + 9 + 9 + 9 + 9 + 9 has 5 operations, more than 4"]
    assert len(datasets.load_jsonl(path)[0]) == 4
    with pytest.raises(ValueError, match="max_operations must be at least 1 or None, got 0"):
        datasets.load_jsonl(path, max_operations=0)


def test_odd_bytes_are_rejected_by_line(tmp_path):
    path = tmp_path / "theirs.jsonl"
    good = json.dumps({"question": "What is 12 plus 27?", "answer": 39}).encode()
    path.write_bytes(b"\xef\xbb\xbf" + good + b"\n\xff\xfe\n" + b"[" * 100_000 + b"\n" + good)
    rows, rejects = datasets.load_jsonl(path)
    assert rows["line"].tolist() == [1, 4]
    assert rejects["line"].tolist() == [2, 3]


def test_an_empty_file_has_no_rows_and_an_absent_one_is_an_error(tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    rows, rejects = datasets.load_jsonl(tmp_path / "empty.jsonl")
    assert len(rows) == len(rejects) == 0
    assert {"line", "text", "expression", "value", "range", "operations"} <= set(rows.columns)
    with pytest.raises(FileNotFoundError, match="no file at"):
        datasets.load_jsonl(tmp_path / "absent.jsonl")
