"""Steps of operations: their domains, rows of them in many phrasings, and the chains that leave a domain."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import datasets, paths
from redlib.datasets import decomposer, steps
from redlib.expressions import Expression
from redlib.phrasing import GROUPS, parse

DOMAINS = {name: steps.domain(name) for name in steps.DOMAINS}
by_domain = pytest.mark.parametrize("domain", steps.DOMAINS)


@pytest.fixture(scope="module")
def pools():
    return {name: decomposer.build(3_000, seed=0, domain=name) for name in steps.DOMAINS}


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
