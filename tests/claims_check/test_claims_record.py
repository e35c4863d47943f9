"""The verdicts on the record: counted, with reasons, drawn, written into the README, and published."""

import re

import nbformat
import pandas as pd
import pytest
import test_publish
from test_publish import finished
from verdicts import numbers

from redlib import claims, config, figures, paths, results
from redlib.claims.deciding import CONTRADICTED, EXCEEDED, MISSED, ONLY, REPRODUCED, UNTESTED
from redlib.claims.judging import FAILS, HOLDS, OPEN
from redlib.study import judged, readme
from redlib.study.answers import WAITING
from redlib.study.notebooks import Notebook
from redlib.study.publish import CLAIMS, publish

__all__ = ["finished"]  # a fixture that is used here
FILES = {file.name: file.read_bytes() for file in sorted((paths.root() / "data").glob("claims*.csv"))}


@pytest.fixture(scope="module")
def record():
    """The verdicts on the committed record."""
    if not paths.results("full").is_dir():
        pytest.skip("no record has been published yet")
    return claims.check(judged.record(config.load("record")))


# ---- the record --------------------------------------------------------------------------------------------------


def test_every_claim_has_a_verdict_on_record_and_waits_for_missing_tables_alone(record):
    assert set(record["verdict"]) <= set(claims.VERDICTS)
    there = set(results.Folder(paths.results("full")))
    waiting = record[record["why"].str.startswith("not yet on record")]
    for claim in waiting.to_dict("records"):
        assert set(claim["why"].partition(": ")[2].split(", ")) == set(claim["table"].split()) - there, claim[
            "claim_id"
        ]


def test_the_committed_verdicts_are_those_of_the_committed_tables(record, tmp_path):
    results.write_csv(record[list(CLAIMS)], tmp_path / "claims.csv")
    again, committed = (
        pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False).set_index("claim_id")
        for folder in (tmp_path, paths.results("full"))
    )
    assert list(committed.index) == list(again.index), "every claim and no other"
    for column in ("verdict", "why", "shown", "measured", "low", "high"):
        stale = committed.index[committed[column] != again[column]]
        assert stale.empty, f"{column} of {', '.join(stale)}"


def test_what_was_tested_has_the_number_that_decides(record):
    tested = record[~record["verdict"].isin([UNTESTED]) & (record["kind"] == "sentence")]
    without = set(tested.loc[tested["measured"].isna(), "rule"])
    assert without == {
        "finding executed: parts trained apart combine",  # equal, or not
        "finding decisions: the mixture may be the only viable option under a tight limit",  # a choice
        "arithmetic of_counts_alone",
    }
    bare = tested[tested["low"].isna() & tested["measured"].notna()]
    counted = r"cost|causes|epochs|executed|decisions|nested: (?:Conditional|Memory)"
    assert bare["rule"].str.contains(f"^finding (?:{counted})").all(), "counts, shares of a clock and casts alone"
    both = tested.dropna(subset=["measured", "low"])
    assert ((both["low"] <= both["measured"]) & (both["measured"] <= both["high"])).all()


def test_counts_and_reasons_add_up(record):
    count = claims.counts(record)
    assert list(count.columns) == list(claims.VERDICTS)
    assert count.loc["all"].sum() == len(record) == count.drop(index="all").to_numpy().sum()
    held = record["verdict"].isin([REPRODUCED, EXCEEDED]).sum()
    assert claims.reasons(record)["claims"].sum() + held == len(record)
    assert (record.apply(claims.reason, axis=1) == "").sum() == held


@pytest.mark.parametrize(
    ("verdict", "why", "part"),
    [
        (ONLY, "split text; definition operands", "structures that training has seen"),
        (ONLY, "definition single_heavy with split text", "another definition of steps"),
        (ONLY, "recipe source with split text", "the source's recipe"),
        (ONLY, "method red_uniform", "another reading"),
        (MISSED, "the interval reaches over the border", "undecided"),
        (MISSED, "under none of 6 readings", "missed under every reading"),
        (CONTRADICTED, "", "the opposite was measured"),
        (UNTESTED, "not yet on record: fair", "not on record yet"),
        (UNTESTED, "needs several GPUs", "not at hand"),
        (REPRODUCED, "", ""),
    ],
)
def test_a_claim_that_fails_has_one_reason(verdict, why, part):
    said = claims.reason(pd.Series({"kind": "number", "verdict": verdict, "why": why}))
    assert part in said
    assert (said == "") == (verdict == REPRODUCED)


def test_the_drawn_numbers_are_those_of_the_verdicts_with_both_splits(record):
    drawn = claims.drawn(record)
    red = drawn[(drawn["task"] == "task1") & (drawn["method"] == "red") & (drawn["group"] == "all")]
    assert set(red["split"]) == {"structure", "text"}
    claim = record.set_index("claim_id").loc["4.6.1-07"]
    assert red.set_index("split").loc["structure", ["reported", "value"]].tolist() == [0.9725, claim["measured"]]
    fig = figures.draw_claims(drawn, "full")
    assert len(fig.axes) == 2 * drawn["task"].nunique()
    with pytest.raises(LookupError, match="no reported accuracy was measured"):
        figures.draw_claims(drawn.iloc[:0], "full")


def test_what_the_source_did_not_report_is_said_with_numbers_and_left_out_without_tables():
    tables = judged.record(config.load("record")).tables
    found = claims.beyond(tables)
    chapters = {name[:2] for name in found["notebook"]}
    assert chapters >= {"08", "09", "12", "13", "14", "16", "17", "18", "19", "20", "21", "22", "23", "24"}
    assert found["finding"].str.contains(r"\d\.\d{3}").all()
    counted = found["finding"].str.endswith("counted")
    assert found["finding"][~counted].str.contains(r"\[-?\d\.\d{3}, -?\d\.\d{3}\]").all()
    assert len(claims.beyond({"nested": tables["nested"]})) == 1
    assert claims.beyond({}).empty


# ---- the README --------------------------------------------------------------------------------------------------


def test_the_numbers_of_the_readme_are_those_of_the_record(record):
    text = (paths.root() / "README.md").read_text(encoding="utf-8")
    assert readme.page(paths.results("full"), text, record) == text


def test_only_the_profile_of_record_writes_the_readme_and_only_what_changed(record, tmp_path, monkeypatch):
    file, said = tmp_path / "README.md", []
    text = (paths.root() / "README.md").read_text(encoding="utf-8")
    stale = readme.between(text, readme.CLAIMS_START, readme.CLAIMS_END, "old")
    stale = readme.between(stale, readme.MAP_START, readme.MAP_END, "old")
    of_record = paths.results("full")
    monkeypatch.setattr(judged, "folder", lambda profile: of_record)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    for name, data in FILES.items():
        paths.write_bytes(tmp_path / "data" / name, data)
    paths.write_text(file, stale)
    readme.write(config.load("laptop"), record, said.append)
    assert file.read_text() == stale
    readme.write(config.load("record"), record, said.append)
    assert file.read_text() == text
    before = file.stat().st_mtime_ns
    readme.write(config.load("record"), record, said.append)
    assert file.stat().st_mtime_ns == before
    assert said[0] == "README.md stays as it is: laptop is not the profile of record"
    with pytest.raises(ValueError, match="needs the markers"):
        readme.between("no marker", readme.CLAIMS_START, readme.CLAIMS_END, "new")


def test_a_profile_that_computes_is_judged_by_its_own_run_and_smoke_by_the_record(tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path))
    for name in ("smoke", "record"):
        assert judged.folder(config.load(name)) == paths.results("full")
    laptop = config.load("laptop")
    assert judged.folder(laptop) == tmp_path / "laptop" / "results"
    assert list(judged.record(laptop).tables) == []
    before = judged.digest(laptop)
    results.write(numbers(), judged.folder(laptop) / "task1.csv")
    paths.write_text(judged.folder(laptop) / "claims.csv", "claim_id\n")
    assert list(judged.record(laptop).tables) == ["task1"]
    assert judged.digest(laptop) != before
    assert judged.about(laptop).loc["judged"].item() == "the results of laptop, as run here"


def test_a_folder_has_its_tidy_tables_by_name_and_names_them(tmp_path):
    results.write(numbers(), tmp_path / "task1.csv")
    paths.write_text(tmp_path / "other.csv", "a,b\n1,2\n")
    folder = results.Folder(tmp_path)
    assert (list(folder), len(folder), "other" in folder) == (["task1"], 1, False)
    assert len(folder["task1"]) == len(numbers())
    assert folder["task1"] is folder["task1"]
    with pytest.raises(KeyError, match=r"no table 'other' in .*; present: task1"):
        folder["other"]


def test_the_published_columns_are_columns_of_the_verdicts():
    assert set(CLAIMS) <= set(claims.CHECKED)


def epochs(variant: str, run: float, best: float) -> pd.DataFrame:
    about = {"method": "experts", "group": "all", "seed": "all", "split": "structure", "variant": variant}
    lines = [
        about | {"metric": m, "value": v, "low": 3, "high": 40, "n": 25}
        for m, v in (("epochs_run", run), ("best_epoch", best))
    ]
    return pd.DataFrame(lines)


@pytest.mark.parametrize(
    ("first", "second", "verdicts"),
    [((30, 20), (18, 10), [HOLDS] * 3), ((18, 5), (30, 10), [FAILS] * 3), ((30, 9), (18, 10), [HOLDS, HOLDS, FAILS])],
)
def test_epochs_are_judged_as_the_source_describes_them(first, second, verdicts):
    where = ("operations/chosen", "chosen", "structure")
    found = claims.epoch_verdicts(epochs("chosen", *first), epochs("operations/chosen", *second), *where, 40)
    assert found["verdict"].tolist() == verdicts


def accuracy(variant: str, value: float, **about) -> pd.DataFrame:
    at = {"seed": "all", "part": "test", "group": "all", "method": "red", "metric": "value_accuracy"}
    return pd.DataFrame([at | {"variant": variant, "split": "text", "value": value} | about]).assign(
        low=value - 0.02, high=value + 0.02, n=100
    )


def test_experiments_are_set_beside_each_other():
    def verdict(found: pd.DataFrame) -> str:
        return found["verdict"].item()

    sums, chains = accuracy("chosen", 0.6), accuracy("operations/chosen", 0.1)
    assert verdict(claims.harder_verdicts(sums, chains, "operations/chosen", "text")) == HOLDS
    assert verdict(claims.harder_verdicts(sums, chains.assign(low=0.7, high=0.8), "operations/chosen", "text")) == FAILS
    for value, expected in ((0.9, HOLDS), (0.3, FAILS), (0.55, OPEN)):
        given = accuracy("closed/gold", value)
        assert verdict(claims.bottleneck_verdicts(chains, given, "closed/gold", "text")) == expected
    load = [accuracy("chosen", v, method=m, metric="load_kl_true") for m, v in (("red", 0.05), ("softmax_moe", 0.2))]
    assert verdict(claims.usage_verdicts(pd.concat(load), "chosen", "text")) == HOLDS
    with pytest.raises(LookupError):
        claims.harder_verdicts(sums, chains, "operations/source", "text")


@pytest.mark.parametrize(
    ("single", "several", "verdicts"),
    [(0.9, 0.1, [HOLDS, HOLDS]), (0.5, 0.1, [FAILS, HOLDS]), (0.89, 0.9, [HOLDS, OPEN]), (0.2, 0.9, [FAILS, FAILS])],
)
def test_single_operations_are_set_beside_task_1_and_the_longer_chains(single, several, verdicts):
    where = ("single_heavy/chosen", "text")
    rows = [
        accuracy(where[0], value, group=group).assign(low=value - 0.005, high=value + 0.005)
        for group, value in (("ops=1", single), ("ops>1", several))
    ]
    sums = accuracy("chosen", 0.9).assign(low=0.895, high=0.905)
    found = claims.single_verdicts(sums, pd.concat(rows), *where, numbers=True)
    assert found["verdict"].tolist() == verdicts
    assert found["value"].tolist() == pytest.approx([0.9 - single, single / (single + several)])


# ---- publishing --------------------------------------------------------------------------------------------------


def test_a_run_with_a_notebook_that_judges_publishes_the_verdicts(finished, tmp_path, monkeypatch):
    notebooks = (Notebook("00_a", "?", ("task1",)), Notebook("25_claims", "?", judges=True))
    monkeypatch.setattr(test_publish, "NOTEBOOKS", notebooks)
    empty = nbformat.writes(nbformat.v4.new_notebook())
    paths.write_text(tmp_path / "notebooks" / "25_claims.ipynb", empty)
    for name, data in FILES.items():
        paths.write_bytes(tmp_path / "data" / name, data)
    markers = (readme.CLAIMS_START, readme.CLAIMS_END, readme.MAP_START, readme.MAP_END)
    paths.write_text(tmp_path / "README.md", "\n".join((test_publish.README, *markers)))
    runner = finished()
    publish(runner, notebooks, say=lambda line: None)
    published = pd.read_csv(paths.results("full") / "claims.csv", keep_default_na=False)
    assert tuple(published.columns) == CLAIMS
    assert set(published["claim_id"]) == set(claims.described()["claim_id"])
    text = (tmp_path / "README.md").read_text()
    assert "| claims | reproduced | exceeded |" in text
    assert "claims wait for tables of " in text
    answers = dict(re.findall(r"^\| `(\d\d_\w+)` \| .+ \| (.+) \|$", text, re.MULTILINE))
    assert answers["16_step_decomposer"] == WAITING
    assert answers["25_claims"].startswith(f"Of {len(published)} claims ")
    assert runner.current(notebooks[1]), "what is published does not make the notebook out of date"
    results.write(numbers(), runner.out / "results" / "task1.csv")
    assert not runner.current(notebooks[1]), "another table does"
