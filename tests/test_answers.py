"""Every notebook ends with its answer, and the answer follows from the numbers."""

import nbformat
import pandas as pd
import pytest

from redlib import claims, config, paths, results
from redlib.study import task1
from redlib.study.answers import ANSWERS, WAITING, answer, answers, short
from redlib.study.answers.reading import Tables
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.tables import table

RECORD = paths.results("full")
LONGEST = 170  # letters that a cell of the README's map may take
by_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)


# ---- every notebook ----------------------------------------------------------------------------------------------


def test_every_notebook_of_the_study_has_an_answer_and_there_are_no_others():
    assert list(ANSWERS) == [notebook.name for notebook in NOTEBOOKS]


@by_notebook
def test_a_notebook_says_its_own_answer_before_its_files(notebook):
    cells = nbformat.read(paths.root() / "notebooks" / f"{notebook.name}.ipynb", as_version=4).cells
    number = notebook.name[:2]
    place = [cell.id for cell in cells].index(f"{number}-answer")
    heading, said, files = cells[place : place + 3]
    assert heading.source == "## Answer"
    assert said.id == f"{number}-answer-said"
    assert said.source.startswith(f'Markdown(study.answer(p, "{notebook.name}"')
    assert files.source.startswith("## Files")
    assert sum("study.answer(" in cell.source for cell in cells) == 1


def test_an_unknown_notebook_is_refused_by_name():
    with pytest.raises(ValueError, match=r"unknown notebook '07'; valid notebooks: 00_start_here, .*, 25_claims"):
        answer(config.load("record"), "07")


# ---- the record --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record():
    """(sentences by notebook, those that wait left out; the tables that each asked for) of the committed record."""
    if not RECORD.is_dir():
        pytest.skip("no record has been published yet")
    profile, known, said, asked = config.load("record"), {}, {}, {}
    verdicts = pd.read_csv(RECORD / "claims.csv", keep_default_na=False)

    def read(name):
        asked[notebook].add(name)
        if name not in known:
            known[name] = table(profile, name)
        return known[name]

    for notebook, function in ANSWERS.items():
        asked[notebook] = set()
        try:
            said[notebook] = function(Tables(profile, read, lambda: verdicts))
        except FileNotFoundError:
            continue
    return said, asked


@by_notebook
def test_an_answer_reads_tables_of_its_own_notebook_and_waits_only_for_these(notebook, record):
    said, asked = record
    assert asked[notebook.name] <= {*notebook.tables, *notebook.optional}
    there = [name for name in notebook.tables if (RECORD / f"{name}.csv").is_file()]
    if len(there) == len(notebook.tables):
        assert notebook.name in said


def test_an_answer_of_record_is_one_or_two_sentences_and_the_first_fits_a_table(record):
    for name, said in record[0].items():
        assert said.count(". ") <= 1, name
        assert said.endswith("."), name
        assert len(short(said)) <= LONGEST, name
        assert not set("|\n") & set(said), name
        assert "nan" not in said, name


def shown(row):
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def test_the_numbers_of_an_answer_are_those_of_the_committed_file(record):
    frame = pd.read_csv(RECORD / "task1.csv", dtype={"seed": str})
    frame = frame.query("variant == 'chosen' and part == 'test' and group == 'all' and seed == 'all'")
    at = frame.set_index(["split", "method", "metric"])
    said = record[0]
    for split in ("structure", "text"):
        assert shown(at.loc[(split, "red", "value_accuracy")]) in said["00_start_here"]
        assert shown(at.loc[(split, "oracle_experts", "value_accuracy")]) in said["04_oracle_experts"]
    for metric in ("router_accuracy", "value_accuracy"):
        assert shown(at.loc[("structure", "softmax_moe", metric)]) in said["06_softmax_mixture"]


def test_shares_of_the_operand_map_and_counts_of_claims_are_those_of_the_committed_files(record):
    maps = pd.read_csv(RECORD / "operand_maps.csv").query("task == 'task1' and method == 'red'")
    share = (maps["value"] == 0).groupby(maps["in_training"]).mean()
    verdicts = pd.read_csv(RECORD / "claims.csv")["verdict"].value_counts()
    said = record[0]
    assert f"{share[1]:.1%} of the {maps['in_training'].sum():,} that training held" in said["15_routing_inspector"]
    assert f"{share[0]:.1%} of the " in said["15_routing_inspector"]
    assert said["25_claims"].startswith(f"Of {verdicts.sum()} claims ")
    assert f"reproduced {verdicts['reproduced']}, exceeded {verdicts['exceeded']}, " in said["25_claims"]


def test_every_conclusion_on_sums_that_holds_has_an_interval():
    scores, bias = (results.read(RECORD / f"{name}.csv") for name in ("task1", "task1_bias"))
    found = claims.verdicts(scores, bias, task1.labels(config.load("record")), numbers=True)
    holding = found[found["verdict"] == claims.HOLDS]
    assert len(holding)
    assert holding[["value", "low", "high"]].notna().all(axis=None)


def test_rivals_of_nested_experts_are_named_where_there_are_any(record):
    frames = {
        name: pd.read_csv(RECORD / f"{name}.csv", dtype={"seed": str})
        for name in ("nested", "nested_clock", "nested_routing", "nested_speed")
    }
    scores = frames["nested"].query("metric == 'accuracy_minus_nested' and seed == 'all' and x == 0.3 and low > 0")
    assert len(scores)
    for method in scores["method"]:
        assert f"`{method}` (" in record[0]["24_nested_experts"]
    few = frames | {"nested": frames["nested"][~frames["nested"]["method"].isin(scores["method"])]}
    said = ANSWERS["24_nested_experts"](Tables(config.load("record"), few.__getitem__, lambda: None))
    assert "more accurate at that budget" not in said
    assert said.endswith("are undecided.")


# ---- what is not there -------------------------------------------------------------------------------------------


def test_a_record_without_a_table_is_said_by_the_table_and_waits_in_the_list(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    profile = config.load("record")
    with pytest.raises(FileNotFoundError, match="the record has no table 'task1'"):
        answer(profile, "07_red")
    made = pd.DataFrame({"kind": ["number"], "verdict": ["exceeded"], "document": ["main"]})
    said = answers(profile, checked=made)
    assert list(said) == list(ANSWERS)
    assert {name for name, words in said.items() if words != WAITING} == {"25_claims"}


def test_a_profile_that_computes_does_not_wait():
    with pytest.raises(KeyError, match="task1"):
        answers(config.load("laptop"), read={}.__getitem__)


def test_the_first_sentence_ends_where_a_sentence_ends():
    assert short("It is 0.5 [0.4, 0.6] here. The rest.") == "It is 0.5 [0.4, 0.6] here."
    assert short("One is 0.5.") == "One is 0.5."
    assert short(WAITING) == WAITING
