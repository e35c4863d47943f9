"""Before a notebook is executed: what is selected, what its key counts, what is missing or refused."""

import pytest
from three_notebooks import THREE, numbers, run

from redlib import config, paths
from redlib.study.executing import execute
from redlib.study.notebooks import NOTEBOOKS, Notebook, select
from redlib.study.runner import Runner
from redlib.study.stage import Stage


def test_every_source_of_the_library_counts_for_the_key(own_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    keys = []
    for text in ("a = 1", "a = 2"):
        paths.write_text(tmp_path / "redlib" / "room" / "part.py", text)
        keys.append(Runner("smoke")._library)
    paths.write_text(tmp_path / "data" / "claims.csv", "id")
    assert len({*keys, Runner("smoke")._library}) == 3


def test_a_benchmark_recorded_again_counts_for_notebooks_that_show_it(own_cache, runner, three, monkeypatch):
    monkeypatch.setattr(paths, "results", lambda profile: own_cache / "results" / profile)
    shows, other = Notebook("00_a", "?", timed=True), Notebook("01_b", "?")
    before = runner().key(shows), runner().key(other)
    paths.write_text(own_cache / "results" / "bench" / "decode.csv", "bench\n")
    assert runner().key(shows) != before[0]
    assert runner().key(other) == before[1]


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


def test_the_study_has_its_nine_first_notebooks_in_order():
    names = [notebook.name for notebook in NOTEBOOKS]
    assert names == sorted(names)
    assert [name[:2] for name in names[:9]] == [f"{number:02d}" for number in range(9)]
    assert {notebook.chapter for notebook in NOTEBOOKS[:9]} == {"core"}
