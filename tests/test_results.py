"""Tidy tables in and out of files, where each number comes from, and how numbers and differences are said."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import evaluation, paths, results
from redlib.results.provenance import RUNS, record_run

BACKBONE = SimpleNamespace(display="tiny (random weights)", weights_id="abc")


def row(**fields) -> dict:
    base = dict.fromkeys(evaluation.COLUMNS, "x") | {"task": "task1", "seed": "all", "group": "all", "run": "r1"}
    base |= {"method": "red", "metric": "value_accuracy", "split": "text", "part": "test", "variant": "chosen"}
    return base | {"value": 0.912345678, "n": 8000, "low": 0.905, "high": 0.919} | fields


def frame(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame(list(rows) or [row()])


def test_a_table_is_written_sorted_with_six_digits_and_lf(tmp_path):
    table = frame(row(seed="10"), row(seed="all"), row(seed="2"), row(metric="mcnemar_p_red", low=np.nan, high=np.nan))
    results.write(table, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes().decode().split("\n") == [
        "task,variant,split,part,method,seed,group,metric,value,n,low,high,run",
        "task1,chosen,text,test,red,2,all,value_accuracy,0.912346,8000,0.905,0.919,r1",
        "task1,chosen,text,test,red,10,all,value_accuracy,0.912346,8000,0.905,0.919,r1",
        "task1,chosen,text,test,red,all,all,mcnemar_p_red,0.912346,8000,,,r1",
        "task1,chosen,text,test,red,all,all,value_accuracy,0.912346,8000,0.905,0.919,r1",
        "",
    ]


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1, allow_nan=False), min_size=1, max_size=8), st.randoms())
def test_reading_and_writing_again_gives_the_same_bytes_in_any_order(tmp_path_factory, values, shuffle):
    folder = tmp_path_factory.mktemp("results")
    rows = [row(value=value, low=0, high=1, first=i, second=2) for i, value in enumerate(values)]
    results.write(frame(*rows), folder / "a.csv")
    shuffle.shuffle(rows)
    results.write(frame(*rows), folder / "b.csv")
    results.write(results.read(folder / "a.csv"), folder / "c.csv")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes() == (folder / "c.csv").read_bytes()


def test_types_survive_the_file(tmp_path):
    results.write(frame(row(seed="0", n=pd.NA, low=np.nan, high=np.nan, epoch=3)), tmp_path / "t.csv")
    read = results.read(tmp_path / "t.csv").iloc[0]
    assert (read["seed"], read["epoch"]) == ("0", 3)
    assert pd.isna(read["n"])
    assert np.isnan(read["low"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (frame().drop(columns=["run", "n"]), "lacks the columns n, run"),
        (frame().assign(weather="fine"), "unknown columns weather; a table may add true_value"),
        (frame(row(), row()), "two rows for task=task1, variant=chosen"),
        (frame(row(value=np.nan)), "no number for task=task1"),
        (frame(row(low=0.9, high=0.1)), "low is above high"),
        (frame(row(run="")), "column 'run' is empty"),
        (frame(row(group=None)), "column 'group' is empty"),
    ],
)
def test_a_faulty_table_is_refused_and_nothing_is_written(tmp_path, table, message):
    with pytest.raises(ValueError, match=message):
        results.write(table, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_or_broken_file_is_named(tmp_path):
    results.write(frame(), tmp_path / "task1.csv")
    with pytest.raises(FileNotFoundError, match=r"no table task2.csv .* present: task1"):
        results.load(tmp_path, "task2")
    text = (tmp_path / "task1.csv").read_text()
    (tmp_path / "broken.csv").write_text(text.replace("0.912346", "good"))
    with pytest.raises(ValueError, match=r"broken.csv: .*good"):
        results.load(tmp_path, "broken")


def test_every_row_has_provenance(tmp_path):
    run, about = results.provenance(BACKBONE, 12.34, {"rows": 3})
    results.save(tmp_path, "task1", frame(row(run=run)), {run: about})
    found = results.resolve(tmp_path, results.load(tmp_path, "task1")["run"].iloc[0])
    assert found["backbone"] == BACKBONE.display
    assert found["weights_id"] == "abc"
    assert found["seconds"] == 12.3
    assert found["threads"] > 0
    assert {"torch", "transformers", "python"} <= set(found["versions"])
    assert found["cpu"]
    with pytest.raises(ValueError, match="rows of run elsewhere without provenance"):
        results.save(tmp_path, "other", frame(row(run="elsewhere")), {})
    assert not (tmp_path / "other.csv").exists()
    with pytest.raises(LookupError, match=f"no run 'nothing' .* present: {run}"):
        results.resolve(tmp_path, "nothing")


@pytest.mark.parametrize("damage", ['{"a": ', "[1, 2]", "\x00"])
def test_a_damaged_sidecar_is_named_and_stays_as_it_is(tmp_path, damage):
    sidecar = tmp_path / "full" / RUNS
    paths.write_text(sidecar, damage)
    with pytest.raises(ValueError, match=r"full/runs\.json, which says where the tables come from, is damaged"):
        record_run(sidecar.parent, "new", {})
    assert sidecar.read_text() == damage


def test_a_run_id_depends_on_the_work_and_not_on_its_duration():
    ids = [results.provenance(BACKBONE, s, {"rows": r})[0] for s, r in ((1, 3), (2, 3), (1, 4))]
    assert ids[0] == ids[1] != ids[2]
    assert results.provenance(None, 1, {"rows": 3})[0] != ids[0]


def test_pick_finds_one_row_or_says_what_is_missing():
    table = frame(row(), row(split="structure", value=0.6), row(split="structure", seed="0"))
    assert results.pick(table, split="structure", seed="all")["value"] == 0.6
    with pytest.raises(
        LookupError, match=r"no row with method=top1 \(asked for split=text, method=top1\); present: red"
    ):
        results.pick(table, split="text", method="top1")
    with pytest.raises(LookupError, match="no column 'recipe'"):
        results.pick(table, recipe="chosen")
    with pytest.raises(ValueError, match=r"2 rows match .* they differ in seed"):
        results.pick(table, split="structure")
    assert len(results.select(table, split=["text", "structure"], seed="all")) == 2


def test_table_shows_value_interval_and_rows():
    rows = [row(), row(method="top1", value=0.5, low=np.nan, high=np.nan), row(split="structure", value=0.6)]
    shown = results.table(frame(*rows), "method", "split", n=True)
    assert shown.index.tolist() == ["red", "top1"]
    assert shown.columns.tolist() == ["text", "structure"]
    assert shown.loc["red", "text"] == "0.912 [0.905, 0.919] (n = 8,000)"
    assert shown.loc["top1", "text"] == "0.500 (n = 8,000)"
    assert shown.loc["top1", "structure"] == "–"
    with pytest.raises(ValueError, match=r"several rows for {'method': 'red', 'split': 'text'}"):
        results.table(frame(row(), row(seed="0")), "method", "split")


def test_the_corner_of_a_table_says_n_where_one_key_decides_it():
    rows = [row(), row(method="top1"), row(split="structure"), row(method="top1", split="structure")]
    assert results.table(frame(*rows), "method", "split").columns.names == ["split (n = 8,000)"]
    by_split = frame(*rows[:2], *(r | {"n": 2400} for r in rows[2:]))
    shown = results.table(by_split, "method", ["split", "metric"])
    assert shown.columns.names == ["split", "metric (n = 8,000 text, 2,400 structure)"]
    by_method = results.table(by_split, "split", "method")
    assert by_method.columns.names == ["method (n = 8,000 text, 2,400 structure)"]
    no_key = frame(rows[0] | {"n": 5}, rows[1], rows[2], rows[3] | {"n": 5})
    assert results.table(no_key, "method", "split").columns.names == ["split"]
    assert results.table(by_split, ["method", "n"], "split").columns.names == ["split"]
    assert results.table(by_split, "method", "split", n=True).columns.names == ["split"]
    none = by_split.assign(n=pd.NA)
    assert results.table(none, "method", ["split", "metric"]).columns.names == ["split", "metric"]


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (0.12, 0.1, 0.14, "A is above B by 0.120 [0.100, 0.140]"),
        (-0.12, -0.14, -0.1, "A is below B by 0.120 [0.100, 0.140]"),
        (0.004, -0.01, 0.018, "A and B do not differ measurably (0.004 [-0.010, 0.018])"),
        (0.001, 0.0001, 0.002, "A is above B by 0.001 [0.000, 0.002]"),
        (-0.000032, -0.000056, -0.000008, "A is below B by 0.00003 [0.00001, 0.00006]"),
        (0.0000003, 0.0000001, 0.0000004, "A is above B by 0.000000 [0.000000, 0.000000]"),
    ],
)
def test_a_difference_is_said_by_its_interval_and_never_as_zero_if_the_table_shows_more(value, low, high, words):
    assert results.difference(pd.Series({"value": value, "low": low, "high": high, "n": 9}), "A", "B") == words


def test_compare_tells_change_from_noise(tmp_path):
    a = frame(row(method="same"), row(method="noise"), row(method="moved"), row(method="gone"))
    b = a.assign(method=["same", "noise", "moved", "new"])
    b.loc[1, ["value", "low", "high"]] = [0.915, 0.908, 0.922]
    b.loc[2, ["value", "low", "high"]] = [0.95, 0.945, 0.955]
    found = results.compare(a, b).set_index("method")
    assert found["verdict"].to_dict() == {
        "same": "same",
        "noise": "no measurable difference",
        "moved": "differs",
        "gone": "only in A",
        "new": "only in B",
    }
    assert found["overlap"].to_dict() == {"same": True, "noise": True, "moved": False, "gone": False, "new": False}
    moved = found.loc["moved"]
    assert moved["difference"] == pytest.approx(0.95 - 0.912345678)
    assert moved["low"] == pytest.approx(moved["difference"] - np.hypot(0.005, 0.919 - 0.912345678))
    results.write(a, tmp_path / "a" / "task1.csv")
    results.write(b, tmp_path / "b" / "task1.csv")
    results.write(b, tmp_path / "b" / "extra.csv")
    folders = results.compare(tmp_path / "a", tmp_path / "b")
    assert folders.groupby("table")["verdict"].agg(set).to_dict()["extra"] == {"only in B"}
    assert folders.query("table == 'task1' and method == 'moved'")["verdict"].item() == "differs"
    with pytest.raises(FileNotFoundError, match="no folder of results"):
        results.compare(tmp_path / "c", tmp_path / "a")


def test_what_a_line_says_of_each_step_is_compared_as_a_measure_and_not_as_a_key(tmp_path):
    line = row(first=3, second=2, right="5 0", value=0.5, n=10, low=np.nan, high=np.nan)
    found = results.compare(frame(line), frame(line | {"right": "5 5", "value": 1.0}))
    assert found[["difference", "verdict"]].values.tolist() == [[0.5, "changed"]]
    with pytest.raises(ValueError, match="two rows for"):
        results.write(frame(line, line | {"right": "0 5"}), tmp_path / "t.csv")


def test_standing_says_where_a_row_is_among_its_rivals():
    tried = frame(
        *(row(layer=layer, value=v, low=v - 0.02, high=v + 0.02) for layer, v in ((0, 0.5), (8, 0.9), (6, 0.87)))
    )
    assert results.standing(tried, layer=8) == "the best of 3, 0.900 [0.880, 0.920]"
    best = "the best (layer 8: 0.900 [0.880, 0.920])"
    assert results.standing(tried, layer=6) == f"number 2 of 3, 0.870 [0.850, 0.890], within reach of {best}"
    assert results.standing(tried, layer=0) == f"number 3 of 3, 0.500 [0.480, 0.520], behind {best}"
    assert results.standing(tried, layer=12) == "not among the 3 tried"
    with pytest.raises(ValueError, match="3 rows match"):
        results.standing(tried, split="text")


def test_a_difference_in_words_follows_its_interval():
    row_of = pd.Series({"value": 0.12, "low": 0.1, "high": 0.14})
    assert results.difference(row_of, "A", "B") == "A is above B by 0.120 [0.100, 0.140]"
    assert results.difference(-row_of.rename({"low": "high", "high": "low"}), "A", "B") == (
        "A is below B by 0.120 [0.100, 0.140]"
    )
    level = pd.Series({"value": 0.004, "low": -0.01, "high": 0.018})
    assert results.difference(level, "A", "B") == "A and B do not differ measurably (0.004 [-0.010, 0.018])"
    assert [results.direction(r) for r in (row_of, level)] == [1, 0]


def test_names_are_listed_as_in_a_sentence():
    assert [results.listed(names) for names in ([], ["a"], ["a", "b"], "abc")] == ["none", "a", "a and b", "a, b and c"]
    assert results.listed([], "no range") == "no range"
