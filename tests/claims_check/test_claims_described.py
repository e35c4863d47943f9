"""Claims as data: every one is described once with a rule that can be followed; the source against itself."""

import ast
import hashlib
import re

import numpy as np
import pytest
from verdicts import LABELS, judge

from redlib import claims, paths
from redlib.claims import arithmetic, rows, smaller
from redlib.claims.deciding import CONTRADICTED, REPRODUCED
from redlib.claims.reported import load
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.tables import TABLES

REFERENCE = "b045e7cd645688537088a7e7a79916f979ba38308c273297aae3b0c521926191"  # of the list of 162 reported numbers


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
        *("4.4.3", "4.4.4", "4.5.2", "4.5.5", "4.5.6", "4.6.5", "4.6.6", "4.7", "4.7.1", "4.7.2", "4.7.4", "4.7.5"),
        *(
            "4.8.6",
            "4.9.1",
            "4.9.2",
            "4.9.5",
            "4.10.4",
            "4.11",
            "4.12",
            "conclusion",
            "hypothesis",
            "summary",
            "advantages",
        ),
    ],
)
def test_the_conclusions_of_a_section_are_claims(section):
    frame = claims.described()
    assert ((frame["kind"] == "sentence") & (frame["section"] == section)).any()


def test_every_research_question_is_a_claim():
    ids = claims.described()["claim_id"]
    assert {name.partition("-")[0] for name in ids if name.startswith("rq")} == {"rq1", "rq2", "rq3", "rq4"}


@pytest.mark.parametrize(
    ("claim_id", "part"),
    [
        ("4.5.2-4", "range experts of Task 1 benefit from all rows"),
        ("4.5.6-2", "it is the weak base"),
        ("4.7-1", "about as hard as Task 1"),
        ("4.7-2", "most of Task 2's accuracy"),
        ("4.7.1-f", "routing is ambiguous"),
        ("4.10.4-5", "close to the mixture's"),
        ("4.10.4-6", "far more stable"),
        ("complexity-4-5", "better stability"),
    ],
)
def test_a_sentence_that_asserts_a_result_is_a_claim(claim_id, part):
    assert part in claims.described().set_index("claim_id").loc[claim_id, "words"]


@pytest.mark.parametrize("claim_id", ["4.4.3-2", "4.11-e"])
def test_help_near_boundaries_is_asked_of_values_at_a_boundary(claim_id):
    claim = claims.described().set_index("claim_id").loc[claim_id]
    assert "group=pattern=boundary" in claim["rows"]
    assert "the tables of Task 1 do not separate" in claim["words"]


@pytest.mark.parametrize(
    ("claim_id", "rivals"), [("4.6.6-1", {"softmax_moe"}), ("4.12-8", {"uniform_average", "softmax_moe"})]
)
def test_red_is_set_against_the_methods_that_a_claim_names(claim_id, rivals):
    claim = claims.described().set_index("claim_id").loc[claim_id]
    assert {name for one in rows.readings(claim["rows"], LABELS) for name in one["method"]} == rivals


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
    agreeing = judge(
        *frame.loc[(frame["kind"] != "contradiction") & frame["rule"].str.startswith("arithmetic"), "claim_id"]
    )
    own = agreeing[agreeing["verdict"] == REPRODUCED]
    assert len(own)
    assert (own["said"] == f"{REPRODUCED} ({claims.OWN})").all(), "a reader sees that nothing was measured"
    assert claims.OWN in claims.MEANINGS[REPRODUCED]
    found = judge(*frame.loc[frame["kind"] == "contradiction", "claim_id"])
    assert (found["verdict"] == CONTRADICTED).all()
