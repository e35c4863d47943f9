"""Decomposer records: exact proportions, every program executed, in and out of files, and what is refused."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import datasets
from redlib.datasets import decomposer, steps
from redlib.expressions import SOURCE_LABELS, Expression, LabelSpace
from redlib.phrasing import CHAIN_WORDINGS, GROUPS, TASK2, TEMPLATES, parse
from redlib.programs import Program

SHARES = {2: 0.2, 3: 0.4, 4: 0.4}
by_domain = pytest.mark.parametrize("domain", steps.DOMAINS)


@pytest.fixture(scope="module")
def pools():
    return {name: decomposer.build(3_000, seed=0, domain=name) for name in steps.DOMAINS}


@by_domain
def test_lengths_are_two_to_four_to_four_in_every_range_and_balance_is_exact(pools, domain):
    pool = pools[domain]
    assert pool["operations"].value_counts(normalize=True).to_dict() == SHARES
    for _, of_range in pool.groupby("range"):
        assert of_range["operations"].value_counts(normalize=True).to_dict() == SHARES
    cells = Counter(zip(pool["range"], pool["group"], strict=True))
    assert cells == dict.fromkeys([(k, g) for k in range(5) for g in range(GROUPS)], 60)
    assert pool["text"].is_unique
    assert pool["expression"].str.count(r"\+").sum() * 2 == pool["operations"].sum()


@by_domain
def test_every_record_has_the_sources_fields_and_executes_to_its_answer(pools, domain):
    pool = pools[domain]
    made = decomposer.records(pool)
    assert list(made.columns) == ["id", "expr", "answer", "label", "domain", "num_steps", "program"]
    assert made["id"].tolist() == list(range(len(pool)))
    for record, expression in zip(made.itertuples(), pool["expression"], strict=True):
        program = Program.read(record.program, max_operations=4, largest=100)
        assert program.execute() == record.answer == eval(expression)
        assert program.to_expression() == parse(record.expr)
        assert len(program.steps) == record.num_steps
        first, last = map(int, record.domain.removeprefix("range_").split("_"))
        assert (first, last) == SOURCE_LABELS.bounds[record.label]
        assert first <= record.answer <= last


def test_the_sources_own_record_is_one():
    pool = datasets.build("task2", 50, seed=0, steps="programs").iloc[:1].copy()
    pool[["text", "expression", "value", "range", "operations"]] = ["33 plus 23 minus 36", "33 + 23 - 36", 20, 0, 2]
    assert decomposer.records(pool).to_dict("records") == [
        {
            "id": 0,
            "expr": "33 plus 23 minus 36",
            "answer": 20,
            "label": 0,
            "domain": "range_2_20",
            "num_steps": 2,
            "program": "Step 1: 33 + 23 = x1\nStep 2: x1 - 36 = x2\nAnswer: x2",
        }
    ]


def test_all_wordings_of_task_2_are_said(pools):
    for pool in pools.values():
        assert {TEMPLATES[name].wording.id for name in pool["template"]} == {wording.id for wording in CHAIN_WORDINGS}
        assert pool["template"].nunique() > 0.8 * len(TASK2)


def test_closed_chains_keep_every_partial_result_in_the_labels(pools):
    outside = {
        name: sum(not all(2 <= p <= 100 for p in Expression.read(text).partials) for text in pool["expression"])
        for name, pool in pools.items()
    }
    assert outside["closed"] == 0
    assert outside["source"] > 300


def test_records_follow_other_labels_and_operands():
    labels = LabelSpace(0, 30, (10, 20))
    pool = decomposer.build(300, 1, operands=(0, 20), labels=labels)
    assert decomposer.records(pool, labels)["domain"].unique().tolist() == [
        f"range_{first}_{last}" for first, last in [labels.bounds[k] for k in pool["range"].unique()]
    ]
    assert all(0 <= p <= 30 for text in pool["expression"] for p in Expression.read(text).partials)


@settings(max_examples=8)
@given(st.sampled_from(steps.DOMAINS), st.integers(0, 1_000), st.sampled_from(datasets.SPLITS))
def test_pools_of_programs_are_split_like_any_pool(domain, seed, by):
    pool = decomposer.build(1_000, seed, domain)
    parts = datasets.split(pool, by, seed)
    assert parts.value_counts().to_dict() == {"train": 800, "validation": 100, "test": 100}
    key = {"text": "text", "structure": "structure", "phrasing": "group"}[by]
    test, others = (set(pool[key][rows]) for rows in (parts == "test", parts != "test"))
    assert not test & others
    if by == "structure":
        assert pool["operations"][parts == "test"].value_counts(normalize=True).to_dict() == SHARES


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_records_come_back_from_their_file_identical(tmp_path, pools, suffix):
    made = decomposer.records(pools["closed"][:200])
    path = datasets.save(made, tmp_path / f"records{suffix}")
    assert decomposer.load(path).equals(made)


def test_a_line_of_jsonl_is_the_sources_record_and_a_strangers_row(tmp_path, pools):
    made = decomposer.records(pools["closed"][:200])
    path = datasets.save(made, tmp_path / "records.jsonl")
    assert json.loads(path.read_text().split("\n")[7]) == made.iloc[7].to_dict()
    rows, rejects = datasets.load_jsonl(path, max_operations=4)
    assert rejects.empty
    assert rows["structure"].tolist() == pools["closed"]["structure"][:200].tolist()


@pytest.mark.parametrize(
    ("field", "wrong", "message"),
    [
        ("answer", 3, r"id 17: answer is 3, but '.*' gives"),
        ("label", 9, "id 17: label is 9"),
        ("domain", "range_1_2", "id 17: domain is 'range_1_2'"),
        ("num_steps", 9, "id 17: num_steps is 9"),
        ("program", "Step 1: 3 * 4 = x1\nAnswer: x1", "id 17: line 1, column 11: unknown operator"),
        ("program", "Step 1: 999 + 4 = x1\nAnswer: x1", "id 17: its program gives 1003, not the answer"),
        ("expr", "nothing", "id 17: 'nothing' has no numbers"),
        ("id", 16, "id 16: its id occurs twice"),
    ],
)
def test_a_tampered_record_is_named(tmp_path, pools, field, wrong, message):
    made = decomposer.records(pools["closed"][:20])
    made.loc[17, field] = wrong
    with pytest.raises(ValueError, match=message):
        decomposer.load(datasets.save(made, tmp_path / "records.jsonl"))


def test_a_program_in_another_order_and_files_that_are_no_records_are_refused(tmp_path, pools):
    made = decomposer.records(pools["closed"][:20])
    expression = parse(made["expr"][3])
    first, second, *rest = expression.terms
    twin = Program.from_expression(Expression((second, first, *rest), ("+", *expression.operators[1:])))
    made.loc[3, "program"] = twin.text
    if expression.operators[0] == "+" and first != second:
        with pytest.raises(ValueError, match="id 3: its program does not say"):
            decomposer.load(datasets.save(made, tmp_path / "records.jsonl"))
    with pytest.raises(ValueError, match="is no set of decomposer records: columns missing or unknown: program"):
        decomposer.load(datasets.save(made.drop(columns="program"), tmp_path / "records.parquet"))
    with pytest.raises(FileNotFoundError, match="no set of decomposer records at"):
        decomposer.load(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: decomposer.build(500, 0, "open"), "unknown domain 'open'; valid domains: source, closed"),
        (lambda: decomposer.build(40, 0), r"rows must be a multiple of 50 .* got 40"),
        (
            lambda: datasets.build("task2", 50, 0, steps="programs", partials=(2, 80)),
            r"texts are wanted of chains with \d operations .* found 0 whose partial results stay in 2\.\.80",
        ),
        (lambda: datasets.build("task1", 50, 0, partials=(2, 80)), r"partials=\(2, 80\) is an option of task2"),
    ],
)
def test_a_pool_of_programs_that_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
