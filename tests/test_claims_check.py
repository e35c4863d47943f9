"""Every claim of the source has a verdict, and the verdict follows from what was measured."""

import ast
import hashlib
import re
import threading
from itertools import pairwise

import nbformat
import numpy as np
import pandas as pd
import pytest
import test_publish
import traitlets
from hypothesis import given, settings
from hypothesis import strategies as st
from test_claims import measured
from test_claims_execution import assembly, scores
from test_publish import finished

from redlib import claims, config, figures, paths, results
from redlib.claims import arithmetic, rows, smaller
from redlib.claims.deciding import CONTRADICTED, EXCEEDED, MISSED, ONLY, REPRODUCED, UNTESTED, Tried, compare, decide
from redlib.claims.judging import FAILS, HOLDS, OPEN
from redlib.claims.reported import load
from redlib.expressions import LabelSpace
from redlib.study import judged, readme
from redlib.study.answers import WAITING
from redlib.study.notebooks import NOTEBOOKS, Notebook
from redlib.study.publish import CLAIMS, publish
from redlib.study.tables import TABLES
from redlib.widgets import ClaimTable
from redlib.widgets.claim_table import SHOWN, as_html, fitting, shown

__all__ = ["finished"]  # a fixture that is used here
LABELS = LabelSpace()
FILES = {file.name: file.read_bytes() for file in sorted((paths.root() / "data").glob("claims*.csv"))}
REFERENCE = "b045e7cd645688537088a7e7a79916f979ba38308c273297aae3b0c521926191"  # of the list of 162 reported numbers


def judge(*claim_ids, **tables) -> pd.DataFrame:
    """Claims, all or these, by made-up tables."""
    record = claims.Record(tables, config.load("record"), LABELS)
    return claims.check(record, claim_ids or None).set_index("claim_id", drop=False)


def numbers(**changes) -> pd.DataFrame:
    """The made-up table of Task 1 of test_claims; `changes` gives RED other values on a split."""
    frame = measured()
    for split, (value, low, high) in changes.items():
        mine = (frame["method"] == "red") & (frame["split"] == split) & (frame["metric"] == "value_accuracy")
        frame.loc[mine, ["value", "low", "high"]] = value, low, high
    return frame.assign(seed="all")


@pytest.fixture(scope="module")
def without_tables():
    return judge()


@pytest.fixture(scope="module")
def record():
    """The verdicts on the committed record."""
    if not paths.results("full").is_dir():
        pytest.skip("no record has been published yet")
    return claims.check(judged.record(config.load("record")))


# ---- claims as data ----------------------------------------------------------------------------------------------


def test_the_list_of_reported_numbers_is_the_whole_reference_list_unchanged():
    columns = ["claim_id", "section", "task", "method", "group", "metric", "reported"]
    frame = load()
    listed = frame[frame["section"].str.startswith("4.")][columns]
    assert len(listed) == 162
    assert hashlib.sha256(listed.to_csv(index=False, lineterminator="\n").encode()).hexdigest() == REFERENCE


def test_every_number_sentence_and_contradiction_is_described_once():
    frame = claims.described()
    assert tuple(frame.columns) == claims.DESCRIBED
    assert set(load()["claim_id"]) == set(frame.loc[frame["kind"] == "number", "claim_id"])
    assert set(frame["kind"]) == set(claims.KINDS)
    assert set(frame["document"]) == set(claims.DOCUMENTS)
    for column in ("claim_id", "section", "words", "rule"):
        assert (frame[column] != "").all(), column


@pytest.mark.parametrize(
    "section",
    [
        *("4.4.3", "4.4.4", "4.5.2", "4.5.5", "4.6.5", "4.6.6", "4.7.1", "4.7.2", "4.7.4", "4.7.5", "4.8.6", "4.9.1"),
        *("4.9.2", "4.9.5", "4.10.4", "4.11", "4.12", "conclusion", "hypothesis", "summary", "advantages"),
    ],
)
def test_the_conclusions_of_a_section_are_claims(section):
    frame = claims.described()
    assert ((frame["kind"] == "sentence") & (frame["section"] == section)).any()


def test_every_research_question_is_a_claim():
    ids = claims.described()["claim_id"]
    assert {name.partition("-")[0] for name in ids if name.startswith("rq")} == {"rq1", "rq2", "rq3", "rq4"}


def string_patterns():
    """Every string of the claims' code as a pattern; what an f-string fills in is open."""
    for path in (paths.root() / "redlib" / "claims").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.escape(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else None for part in node.values]
                if any(part and len(part) > 5 for part in parts):
                    yield "".join(".+" if part is None else re.escape(part) for part in parts)


def test_every_rule_names_a_judge_and_what_it_says_or_a_table_and_its_rows():
    patterns = [re.compile(pattern) for pattern in string_patterns()]
    said = [f"{name}: {text}" for name, text in claims.ADVANTAGES.items()]
    for claim in claims.described().to_dict("records"):
        word, _, rest = claim["rule"].partition(" ")
        judge_name, _, finding = rest.partition(": ")
        if word in ("finding", "against"):
            assert judge_name in claims.JUDGES, claim["claim_id"]
            if judge_name not in ("kinds", "ranks"):
                found = finding in said or any(pattern.fullmatch(finding) for pattern in patterns)
                assert found, f"{claim['claim_id']}: nobody says {finding!r}"
        elif word == "arithmetic":
            assert rest in {**arithmetic.ARITHMETIC, **smaller.OF_SMALLER}, claim["claim_id"]
        elif word != "none":
            assert claim["table"] in TABLES, claim["claim_id"]
            assert rows.readings(claim["rows"], LABELS), claim["claim_id"]
            float(rest)


def test_judges_and_tables_are_looked_at_in_notebooks_of_the_study():
    names = {notebook.name for notebook in NOTEBOOKS}
    assert {one.notebook for one in claims.JUDGES.values()} <= names
    assert {table for one in claims.JUDGES.values() for table in one.tables} <= set(TABLES)
    assert set(claims.judges.NOTEBOOKS.values()) <= names
    assert {claim["table"] for claim in claims.described().to_dict("records")} <= {"", *claims.judges.NOTEBOOKS}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("claim_id,document", "id,document", "must have the columns claim_id, document"),
        ("x-02,main", "x-01,main", "claim 'x-01' is described twice"),
        ("x-02,main,", "x-02,other,", "claim 'x-02' has document 'other'; valid: main, complexity"),
    ],
)
def test_a_damaged_file_of_words_is_refused(tmp_path, monkeypatch, old, new, message):
    for file in (paths.root() / "data").glob("claims*.csv"):
        paths.write_text(tmp_path / "data" / file.name, file.read_text().replace(old, new))
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=message):
        claims.described()


def test_a_selector_has_readings_and_rows_that_belong_together():
    read = rows.readings("method=a | b; metric=c; group=ranges", LABELS)
    assert [one["method"] for one in read] == [["a"], ["b"]]
    assert read[0]["group"] == list(LABELS.names)
    assert rows.readings("variant=x/a=1,b=2; group=R1 & R2", LABELS) == [
        {"variant": ["x/a=1,b=2"], "group": ["R1", "R2"]}
    ]
    with pytest.raises(ValueError, match="'oops' in 'method=a; oops' does not name rows"):
        rows.readings("method=a; oops", LABELS)


# ---- verdicts ----------------------------------------------------------------------------------------------------


def one_row(value, low, high) -> pd.DataFrame:
    return pd.DataFrame(
        [{"method": "red", "group": "all", "metric": "m", "value": value, "low": low, "high": high}]
    ).assign(n=9)


@pytest.mark.parametrize(
    ("word", "number", "result", "beyond"),
    [
        ("equal", 0.65, HOLDS, False),
        ("equal", 0.5, HOLDS, True),
        ("equal", 0.9, FAILS, False),
        ("within", 0.65, HOLDS, False),
        ("within", 0.5, FAILS, True),
        ("above", 0.5, HOLDS, False),
        ("above", 0.65, OPEN, False),
        ("above", 0.8, FAILS, False),
        ("below", 0.8, HOLDS, False),
        ("below", 0.65, OPEN, False),
        ("below", 0.5, FAILS, False),
    ],
)
def test_an_interval_against_a_number(word, number, result, beyond):
    tried = compare(one_row(0.65, 0.6, 0.7), {"split": "text"}, word, number)
    assert (tried.result, tried.beyond and word == "equal") == (result, beyond and word == "equal")
    assert (tried.value, tried.low, tried.high, tried.n) == (0.65, 0.6, 0.7, 9)


def test_a_row_without_an_interval_is_a_point_and_an_unknown_rule_is_an_error():
    assert compare(one_row(0.65, np.nan, np.nan), {}, "equal", 0.65).result == HOLDS
    assert compare(one_row(0.65, np.nan, np.nan), {}, "above", 0.66).result == FAILS
    with pytest.raises(ValueError, match="unknown rule 'near'; valid rules: equal, within, above, below"):
        compare(one_row(0.65, 0.6, 0.7), {}, "near", 1)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 1))
def test_above_and_below_are_opposites_and_equal_is_not_below_the_number(ends, number):
    low, value, high = sorted(ends)
    rows_of = one_row(value, low, high)
    opposite = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    assert compare(rows_of, {}, "below", number).result == opposite[compare(rows_of, {}, "above", number).result]
    assert (compare(rows_of, {}, "equal", number).result == HOLDS) == (number <= high + 5e-5)


def test_several_rows_have_to_hold_together_and_the_worst_is_shown():
    both = pd.concat([one_row(0.9, 0.85, 0.95), one_row(0.4, 0.3, 0.5).assign(group="R2")])
    tried = compare(both, {}, "above", 0.8)
    assert (tried.result, tried.value) == (FAILS, 0.4)
    assert tried.shown == "worst of 2: 0.400 [0.300, 0.500], R2"


def test_each_verdict_follows_from_the_readings():
    home, other = {"variant": "chosen", "split": "structure"}, {"variant": "source", "split": "text"}

    def said(first, second, otherwise=MISSED, beyond=False):
        return decide([Tried(home, first, "", beyond), Tried(other, second, "")], otherwise).said

    assert said(HOLDS, FAILS) == REPRODUCED
    assert said(HOLDS, FAILS, beyond=True) == EXCEEDED
    assert said(FAILS, HOLDS) == "holds only under (recipe source with split text)"
    assert said(OPEN, HOLDS).startswith(ONLY)
    assert said(FAILS, OPEN) == MISSED
    assert said(OPEN, FAILS, CONTRADICTED) == MISSED
    assert said(FAILS, FAILS, CONTRADICTED) == CONTRADICTED
    with pytest.raises(ValueError, match="one reading or more"):
        decide([], MISSED)


def test_conditions_that_only_add_to_another_are_left_out_and_many_are_counted():
    home = {"variant": "operations/chosen", "split": "structure"}
    where = [("operations/chosen", "text"), ("single_heavy/chosen", "text"), ("operands/source", "structure")]
    tried = [Tried(home, FAILS, ""), *(Tried({"variant": v, "split": s}, HOLDS, "") for v, s in where)]
    assert decide(tried, MISSED).why == "split text; definition operands with recipe source"
    many = [Tried(home, FAILS, ""), *(Tried({**home, "split": f"s{i}"}, HOLDS, "") for i in range(5))]
    assert decide(many, MISSED).why == "split s0; split s1; split s2; 2 more"


def test_without_tables_every_claim_has_a_verdict_that_names_the_table_it_waits_for(without_tables):
    found = without_tables
    assert tuple(found.columns) == claims.CHECKED
    assert len(found) == len(claims.described())
    assert set(found["verdict"]) == {UNTESTED, REPRODUCED, CONTRADICTED}
    assert found.loc["4.6.1-07", "said"] == "not testable here (not yet on record: task1)"
    assert found.loc["4.8.6-1", "said"] == "not testable here (not yet on record: execution, execution_assembly)"
    assert found.loc["sparse-decision-6", "said"] == "not testable here (needs such a device)"
    assert found.loc["4.6.1-07", "command"] == "python -m redlib run --profile record --only 08_task1_results"
    assert (found["notebook"] != "").all()
    waiting = claims.waiting(found)
    assert {"08_task1_results", "17_modular_execution"} <= set(waiting["notebook"])
    assert waiting["claims"].sum() == found["why"].str.startswith("not yet on record").sum()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"structure": (0.97, 0.96, 0.98)}, REPRODUCED),
        ({"structure": (0.99, 0.98, 1.0)}, EXCEEDED),
        ({"structure": (0.6, 0.5, 0.7), "text": (0.97, 0.96, 0.98)}, "holds only under (split text)"),
        ({"structure": (0.6, 0.5, 0.7), "text": (0.6, 0.5, 0.7)}, MISSED),
    ],
)
def test_a_number_turns_real_once_its_table_is_there(changes, said):
    found = judge("4.6.1-07", task1=numbers(**changes))
    assert found.loc["4.6.1-07", "said"] == said
    value, low, high = changes["structure"]
    assert found.loc["4.6.1-07", ["measured", "low", "high", "n"]].tolist() == [value, low, high, 10]
    assert found.loc["4.6.1-07", "setting"] == "chosen, structure, value_accuracy"
    assert found.loc["4.6.1-07", "text_measured"] == changes.get("text", (0.9,))[0]
    assert found.loc["4.6.1-07", "as_range"] == "holds only under (split text)"


def test_a_number_that_only_a_system_trained_otherwise_reaches_says_so():
    main = numbers(structure=(0.5, 0.4, 0.6), text=(0.5, 0.4, 0.6))
    one = {"task": "task1", "variant": "chosen", "part": "test", "method": "red", "seed": "all", "group": "all"}
    one |= {"n": 10, "run": "r"}
    bounds = {"steady": (0.98, 0.97, 0.99), "falling": (0.9, 0.8, 0.95), "falling, layer 6": (0.98, 0.97, 0.99)}
    made = [
        {**one, "split": "text", "configuration": name, "metric": metric, "value": value, "low": low, "high": high}
        for name, (value, low, high) in bounds.items()
        for metric in ("value_accuracy", "range_accuracy")
    ]
    found = judge("4.6.1-07", task1=main, schedule=pd.DataFrame(made)).loc["4.6.1-07"]
    assert found["said"] == "holds only under (split text with rate falling, layer 6)"
    assert found["measured"] == pytest.approx(0.5)
    without = judge("4.6.1-07", task1=main, schedule=pd.DataFrame(made[:4])).loc["4.6.1-07"]
    assert without["said"] == MISSED
    other = pd.DataFrame(made).assign(task="task2")
    assert judge("4.6.1-07", task1=main, schedule=other).loc["4.6.1-07"]["said"] == MISSED


def test_a_macro_f1_above_its_ceiling_is_contradicted():
    base = numbers()
    ceiling = base[(base["metric"] == "macro_f1_99") & (base["method"] == "red")]
    ceiling = ceiling.assign(metric="macro_f1_99_ceiling", value=17 / 99)
    found = judge("4.6.3-16", "4.6.3-01", task1=pd.concat([base, ceiling]))
    assert found.loc["4.6.3-16", ["verdict", "why"]].tolist() == [CONTRADICTED, "without a mistake it would be 0.1717"]
    assert found.loc["4.6.3-01", "verdict"] == EXCEEDED


def test_sentences_are_judged_by_the_verdicts_of_their_chapter():
    ids, table = ("4.8.4-a", "4.9.2-b", "4.8.3-01", "4.8.3-a", "4.5.5-1"), scores()
    found = judge(*ids, execution=table, execution_assembly=assembly())
    assert found.loc[["4.8.4-a", "4.9.2-b", "4.5.5-1"], "verdict"].tolist() == [REPRODUCED] * 3
    assert found.loc["4.8.3-01", "verdict"] == EXCEEDED
    assert found.loc["4.8.4-a", "notebook"] == "17_modular_execution"
    worse = table.copy()
    worse.loc[worse["metric"] == "value_accuracy_below_red", ["value", "low", "high"]] = -0.5, -0.6, -0.4
    worse.loc[(worse["metric"] == "value_accuracy") & (worse["method"] == "red"), ["value", "low", "high"]] = (
        0.2,
        0.1,
        0.3,
    )
    bad = judge(*ids, execution=worse, execution_assembly=assembly(equal=0))
    assert bad.loc[["4.8.4-a", "4.5.5-1"], "verdict"].tolist() == [CONTRADICTED] * 2
    assert bad.loc[["4.8.3-01", "4.8.3-a", "4.9.2-b"], "verdict"].tolist() == [MISSED] * 3


def test_a_claim_that_there_is_not_is_refused_by_name():
    with pytest.raises(LookupError, match=r"no row with claim_id=4\.0-99"):
        judge("4.0-99")


def test_what_a_finding_denies_is_contradicted_by_it():
    kept = pd.DataFrame({"claim": ["a"], "measured": ["m"], "verdict": [HOLDS]})
    assert claims.checking._finding(kept, "a", {}, "finding").result == HOLDS
    assert claims.checking._finding(kept, "a", {}, "against").result == FAILS
    with pytest.raises(LookupError, match="no finding 'b'; there are: a"):
        claims.checking._finding(kept, "b", {}, "finding")


# ---- the source against itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("repeated_pairs", "2,401 ordered pairs: 33 rows a pair, in R1 105"),
        ("layers", "28 + 2 = 30, and the backbone has 28"),
        ("classes", "5 ranges, 99 classes"),
        ("first_range", "19.0 of 99 labels score, 2 to 20; 17 are sums"),
        ("reachable_values", "97 of 99"),
        ("operand_one", "40 plus 1? [1] outside"),
        ("own_rows", "16,000 lie in a range"),
        ("number_of_experts", "two experts 0.992, five 0.9725"),
        ("addition_only", "108,000 minus signs"),
        ("absolute_gain", "22.45 points"),
        ("router_accuracy_again", "0.9725 and 0.9725, 0.7583 and 0.7583"),
        ("uniform_overall", "overall 0.0105, best range 0.0025"),
        ("single_step_ceiling", "= -0.099"),
        ("share_of_single", "50% with 2 steps"),
        ("mislabelled_levels", "4 of 40 cells"),
        ("parameters_reversed", "1.41 times at rank d/8"),
        ("two_forms", "2dr = 262,144, dr + rC = 143,744"),
        ("identical_experts", "dC = 101,376"),
        ("router_size", "51.5 times"),
        ("partial_results", "passes 56; of all two-step programs 47%"),
        ("subtraction_ranges", "1,128 pairs: R1 722, R2 370, R3 36, R4 0, R5 0"),
        ("balanced_mean", "task1 red 0.9725, mean 0.9715"),
        ("macro_f1_note", "= 0.0003"),
        ("near_perfect", "0.9725"),
        ("errors_accumulate", "hence four 0.9825"),
    ],
)
def test_the_arithmetic_shows_the_contradiction(name, part):
    said, agrees = arithmetic.ARITHMETIC[name]()
    assert part in said
    assert agrees is False or agrees == np.False_


@pytest.mark.parametrize(
    ("claim_id", "name", "part", "agrees"),
    [
        ("x-26", "smaller_name", "67.2 M", False),
        ("x-27", "similar_latency", "a factor of 5.5", False),
        ("x-28", "tokens_in_one_pass", "25, 12, 18 tokens", False),
        ("x-29", "one_price", "0.521 to 0.528", False),
        ("x-30", "less_than_a_share", "do 0.2% of the work", False),
        ("sparse.decision-03", "of_its_table", "0.53 GB", False),
        ("sparse.analysis-01", "of_its_table", "22.10", True),
        ("savings.examples-02", "of_its_formula", "90.0 %", True),
    ],
)
def test_the_smaller_documents_against_their_own_numbers(claim_id, name, part, agrees):
    said, found = smaller.OF_SMALLER[name](claim_id)
    assert (part in said, bool(found)) == (True, agrees)


def test_every_contradiction_is_contradicted_and_every_arithmetic_is_asked_for():
    frame = claims.described()
    asked = {rule.removeprefix("arithmetic ") for rule in frame["rule"] if rule.startswith("arithmetic ")}
    assert asked == {*arithmetic.ARITHMETIC, *smaller.OF_SMALLER}
    found = judge(*frame.loc[frame["kind"] == "contradiction", "claim_id"])
    assert (found["verdict"] == CONTRADICTED).all()


# ---- the record --------------------------------------------------------------------------------------------------


def test_every_claim_has_a_verdict_on_record_and_waits_for_missing_tables_alone(record):
    assert set(record["verdict"]) <= set(claims.VERDICTS)
    there = set(results.Folder(paths.results("full")))
    waiting = record[record["why"].str.startswith("not yet on record")]
    for claim in waiting.to_dict("records"):
        assert set(claim["why"].partition(": ")[2].split(", ")) == set(claim["table"].split()) - there, claim[
            "claim_id"
        ]


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
    assert len(found) >= 8
    assert found["finding"].str.contains(r"\d\.\d{3}").all()
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


def test_epochs_are_compared_as_the_source_compares_them():
    first = pd.DataFrame([{"variant": "chosen", "value": 20.0, "low": 3, "high": 40, "n": 25}])
    about = {"method": "experts", "metric": "best_epoch", "group": "all", "seed": "all", "split": "structure"}
    second = first.assign(variant="operations/chosen", value=10.0)
    found = claims.epoch_verdicts(
        first.assign(**about), second.assign(**about), "operations/chosen", "chosen", "structure"
    )
    assert found["verdict"].tolist() == [HOLDS]
    found = claims.epoch_verdicts(
        first.assign(**about, value=5.0), second.assign(**about), "operations/chosen", "chosen", "structure"
    )
    assert found["verdict"].tolist() == [FAILS]


# ---- the widget --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checked(without_tables):
    return without_tables.reset_index(drop=True)


def test_the_widget_shows_the_claims_that_fit_and_how_many(checked):
    widget = ClaimTable(checked)
    assert widget.said == f"{len(checked)} of {len(checked)} claims"
    widget.kind, widget.document = "contradiction", "sparse"
    few = checked[(checked["kind"] == "contradiction") & (checked["document"] == "sparse")]
    assert widget.said == f"{len(few)} of {len(checked)} claims"
    assert widget.table == as_html(few)
    widget.words = "LATENCIES factor"
    assert widget.said.startswith("1 of ")
    assert "first-token latencies are similar" in widget.table
    widget.words = "nowhere"
    assert widget.said.startswith("0 of ")


def test_a_choice_that_no_claim_has_is_refused_by_name(checked):
    widget = ClaimTable(checked)
    with pytest.raises(traitlets.TraitError, match="no claim has 'proven'; valid: all, "):
        widget.verdict = "proven"
    assert widget.verdict == "all"


def test_filters_narrow_and_the_static_twin_has_every_claim_with_its_text_escaped(checked):
    sizes = [len(fitting(checked, words=words)) for words in ("", "red", "red mixture", "red mixture oscillates")]
    assert all(a >= b for a, b in pairwise(sizes))
    assert sizes[-1] >= 1
    assert list(shown(checked).columns) == list(SHOWN.values())
    assert len(shown(checked)) == len(checked)
    assert "&lt;0.2 %" in as_html(checked)


def test_the_widget_answers_from_another_thread(checked):
    widget = ClaimTable(checked)
    thread = threading.Thread(target=lambda: setattr(widget, "kind", "number"))
    thread.start()
    thread.join()
    assert widget.said.startswith(f"{(checked['kind'] == 'number').sum()} of ")


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
