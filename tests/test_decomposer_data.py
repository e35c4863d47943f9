"""Decomposer records and operation rows: exact proportions, every program executed, domains and who leaves them."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import datasets, paths
from redlib.datasets import decomposer, steps
from redlib.expressions import SOURCE_LABELS, Expression, LabelSpace
from redlib.phrasing import CHAIN_WORDINGS, GROUPS, TASK2, TEMPLATES, parse
from redlib.programs import Program

SHARES = {2: 0.2, 3: 0.4, 4: 0.4}
DOMAINS = {name: steps.domain(name) for name in steps.DOMAINS}
by_domain = pytest.mark.parametrize("domain", steps.DOMAINS)


@pytest.fixture(scope="module")
def pools():
    return {name: decomposer.build(3_000, seed=0, domain=name) for name in steps.DOMAINS}


# ---- records ------------------------------------------------------------------------------------------------------


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


# ---- steps --------------------------------------------------------------------------------------------------------


def test_the_populations_of_steps_are_counted():
    source, closed = DOMAINS["source"], DOMAINS["closed"]
    assert [len(closed.steps(operator)) for operator in "+-"] == [3_577, 3_577]
    assert [len(source.steps(operator)) for operator in "+-"] == [2_401, 1_128]
    assert steps.reachable().shape == (2, 99, 49)
    assert len(steps.reachable().steps()) == 2 * 99 * 49
    assert closed.mask().sum() == 2 * 3_577


@by_domain
def test_a_domain_holds_exactly_its_steps(domain):
    within = DOMAINS[domain]
    found = set(within.steps())
    last = 50 if domain == "source" else 100
    for a in range(130):
        for b in range(60):
            for operator, result in (("+", a + b), ("-", a - b)):
                inside = 2 <= a <= last and 2 <= b <= 50 and 2 <= result <= 100
                assert bool(within.holds(a, 1 if operator == "+" else -1, b)) == inside
                assert ((a, operator, b) in found) == inside


def test_chains_with_partial_results_in_the_labels_never_leave_closed_whatever_comes_next():
    closed = DOMAINS["closed"]
    results = {a + b if operator == "+" else a - b for a, operator, b in closed.steps()}
    for result in results:
        for b in range(2, 51):
            for sign in (1, -1):
                assert closed.holds(result, sign, b) == (2 <= result + sign * b <= 100)


@by_domain
@pytest.mark.parametrize("operator", ["+", "-"])
def test_twenty_thousand_rows_cover_a_domain_in_many_phrasings(domain, operator):
    within = DOMAINS[domain]
    pool = steps.build(operator, 20_000, seed=0, within=within)
    assert list(pool.columns) == list(datasets.COLUMNS)
    assert len(pool) == 20_000
    assert pool["text"].is_unique
    assert pool["template"].nunique() == len(steps.PHRASINGS) >= 24
    population = [steps.canonical(step) for step in within.steps(operator)]
    counts = pool["expression"].value_counts()
    assert set(counts.index) == set(population)
    for _, of_range in pool.groupby("range"):
        each = len(of_range) / of_range["expression"].nunique()
        assert of_range["expression"].value_counts().min() >= int(0.6 * each)
        assert each == pytest.approx(20_000 / len(population), abs=0.05)
    for by in ("text", "structure"):
        parts = datasets.split(pool, by, seed=0)
        assert (parts == "test").sum() == sum(pool["range"].value_counts() // 10)
        shared = set(pool["structure"][parts == "test"]) & set(pool["structure"][parts == "train"])
        assert bool(shared) == (by == "text")


def test_every_phrasing_says_both_operators_and_is_read_back_the_canonical_one_too():
    for operator in "+-":
        expression = Expression((12, 5), (operator,))
        texts = [template.say(expression) for template in steps.PHRASINGS]
        assert len(set(texts)) == len(texts)
        assert {parse(text) for text in texts} == {expression}
        assert steps.canonical((12, operator, 5)) == expression.text
        assert expression.text in texts
    assert {template.group for template in steps.PHRASINGS} == set(range(GROUPS))


@settings(max_examples=15)
@given(st.sampled_from("+-"), st.integers(1, 1_500), st.integers(0, 99))
def test_rows_of_any_number_are_distinct_steps_of_the_domain(operator, rows, seed):
    within = steps.Domain((2, 30), (2, 9), (2, 25))
    pool = steps.build(operator, rows, seed, within)
    assert len(pool) == rows
    assert pool["text"].is_unique
    assert set(pool["expression"]) <= {steps.canonical(step) for step in within.steps(operator)}
    assert pool.equals(steps.build(operator, rows, seed, within))


def test_rows_that_cannot_be_are_refused():
    few = steps.Domain((2, 3), (2, 3), (2, 100))
    assert len(steps.build("+", 4 * 33, 0, few)) == 132
    with pytest.raises(
        ValueError, match=r"133 rows of '\+' are wanted, but 4 steps x 33 phrasings give 1 to 132 texts"
    ):
        steps.build("+", 133, 0, few)
    with pytest.raises(ValueError, match=r"unknown operator '\*'; valid operators: \+, -"):
        steps.build("*", 10, 0, few)


def test_departures_are_what_a_direct_count_finds(pools):
    table = steps.departures(pools, DOMAINS).set_index(["chains", "experts", "operations"]).sort_index()
    assert (table.loc["closed", "closed"]["leaving"] == 0).all()
    assert (table.loc["closed", "closed"]["steps_outside"] == 0).all()
    for chains, pool in pools.items():
        for experts, last in (("source", 50), ("closed", 100)):
            for operations in (2, 3, 4):
                leaving = outside = 0
                of = pool["expression"][pool["operations"] == operations]
                for text in of:
                    terms, wrong = Expression.read(text).signed, 0
                    for k in range(1, len(terms)):
                        before, after = sum(terms[:k]), sum(terms[: k + 1])
                        wrong += not (2 <= before <= last and 2 <= after <= 100)
                    leaving += wrong > 0
                    outside += wrong
                line = table.loc[chains, experts, str(operations)]
                assert (line["programs"], line["steps"]) == (len(of), len(of) * operations)
                assert (line["leaving"], line["steps_outside"]) == (leaving, outside)
                assert line["share"] == pytest.approx(leaving / len(of))
            parts = table.loc[chains, experts].drop(index="all")
            assert (table.loc[chains, experts, "all"].drop("share") == parts.sum().drop("share")).all()
    assert np.all(np.diff(table.loc["source", "source"]["share"][:3]) > 0), "longer programs leave more often"


def test_the_data_card_states_the_computed_numbers():
    card = (paths.root() / "data" / "README.md").read_text()
    pools = {name: decomposer.build(8_000, 0, name) for name in DOMAINS}
    table = steps.departures(pools, DOMAINS).set_index(["chains", "experts", "operations"])["share"]
    for chains in DOMAINS:
        for experts in DOMAINS:
            cells = [f"{table[chains, experts, length]:.0%}".replace("%", " %") for length in ("2", "3", "4")]
            assert f"| `{chains}` | `{experts}` | {' | '.join(cells)} |" in card
    for name, within in DOMAINS.items():
        assert f"| {len(within.steps('+')):,} | {len(within.steps('-')):,} |" in card
        assert f"| `{name}` | {within.first[0]}..{within.first[1]} |" in card
    assert f"one of {len(steps.PHRASINGS)} phrasings" in card
