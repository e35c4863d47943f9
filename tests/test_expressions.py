"""Expressions against Python's own arithmetic; the label space and the numbered chains against a direct count."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib.expressions import SOURCE_LABELS, Chains, Expression, LabelSpace, additions

operators = st.sampled_from("+-")
chains = st.lists(st.tuples(operators, st.integers(0, 200)), min_size=1, max_size=5)


@st.composite
def expressions(draw) -> Expression:
    first, rest = draw(st.integers(0, 200)), draw(chains)
    return Expression((first, *(term for _, term in rest)), tuple(operator for operator, _ in rest))


@given(expressions())
def test_value_and_partial_results_are_pythons_left_to_right(expression):
    assert expression.value == eval(expression.text)
    words = expression.text.split(" ")
    prefixes = [" ".join(words[:end]) for end in range(3, len(words) + 1, 2)]
    assert list(expression.partials) == [eval(prefix) for prefix in prefixes]


@given(expressions())
def test_reading_the_canonical_text_gives_the_expression_back(expression):
    assert Expression.read(expression.text) == expression


@given(expressions(), st.randoms(use_true_random=False))
def test_reordered_twins_share_the_structure_key(expression, rng):
    signed = list(zip(("+", *expression.operators), expression.terms, strict=True))
    rng.shuffle(signed)
    signed.sort(key=lambda part: part[0] == "-")  # some + first, as every expression has
    twin = Expression(tuple(term for _, term in signed), tuple(sign for sign, _ in signed[1:]))
    assert twin.structure_key == expression.structure_key
    assert twin.value == expression.value


def test_structure_key_keeps_sign_and_multiplicity_apart():
    keys = {Expression.read(text).structure_key for text in ("12 + 27", "27 - 12", "12 + 12", "12 + 27 - 12", "39 - 0")}
    assert len(keys) == 5
    assert Expression.read("27 + 12").structure_key == "+12+27"
    assert Expression.read("18 - 3 + 7").structure_key == "+7+18-3"


@pytest.mark.parametrize("text", ["12", "12+27", "12 * 3", "-1 + 2", "12 + ", " 12 + 27", "12 + 27\n", "1.5 + 2"])
def test_reading_refuses_what_text_never_prints(text):
    with pytest.raises(ValueError, match="is not an expression"):
        Expression.read(text)


@pytest.mark.parametrize(
    ("terms", "signs", "message"),
    [
        ((1, -2), ("+",), "term -2"),
        ((1, 2.0), ("+",), "term 2.0"),
        ((1, True), ("+",), "term True"),
        ((1, 2), ("*",), "valid operators: \\+, -"),
        ((1,), (), "1 terms do not go with 0 operators"),
        ((1, 2, 3), ("+",), "3 terms do not go with 1 operators"),
    ],
)
def test_an_expression_refuses_bad_parts(terms, signs, message):
    with pytest.raises(ValueError, match=message):
        Expression(terms, signs)


@st.composite
def label_spaces(draw) -> LabelSpace:
    cuts = draw(st.lists(st.integers(-50, 150), min_size=2, max_size=8, unique=True))
    lo, *edges, hi = sorted(cuts)
    return LabelSpace(lo, hi, tuple(edges) if lo not in edges else tuple(edges[1:]))


@given(label_spaces())
def test_ranges_partition_the_values(labels):
    listed = [value for first, last in labels.bounds for value in range(first, last + 1)]
    assert listed == list(labels.values)
    assert len(labels.range_index) == labels.C
    assert len(labels.names) == len(labels.bounds) == labels.K
    for value in labels.values:
        first, last = labels.bounds[labels.range_of(value)]
        assert first <= value <= last
        assert labels.values[labels.index(value)] == value
        assert labels.range_index[labels.index(value)] == labels.range_of(value)


def test_the_default_labels_are_the_sources():
    assert SOURCE_LABELS.bounds == [(2, 20), (21, 40), (41, 60), (61, 80), (81, 100)]
    assert (SOURCE_LABELS.C, SOURCE_LABELS.K, SOURCE_LABELS.names) == (99, 5, ("R1", "R2", "R3", "R4", "R5"))


@pytest.mark.parametrize("value", [1, 101, -5])
def test_a_value_outside_the_labels_is_named(value):
    with pytest.raises(ValueError, match=f"value {value} is outside 2..100"):
        SOURCE_LABELS.range_of(value)
    with pytest.raises(ValueError, match=f"value {value} is outside 2..100"):
        SOURCE_LABELS.index(value)


@pytest.mark.parametrize("edges", [(40, 20), (20, 20), (1,), (100,), (20, 101)])
def test_edges_must_increase_inside(edges):
    with pytest.raises(ValueError, match="must increase"):
        LabelSpace(2, 100, edges)


def test_label_spaces_with_equal_edges_are_equal_and_hashable():
    assert LabelSpace(2, 100, [20, 40, 60, 80]) == SOURCE_LABELS
    assert hash(LabelSpace(2, 100, [20, 40, 60, 80])) == hash(SOURCE_LABELS)


def test_additions_list_every_pair_once_in_its_range():
    strata = additions()
    assert [len(stratum) for stratum in strata] == [153, 550, 878, 610, 210]
    pairs = {e.terms for stratum in strata for e in stratum}
    assert pairs == {(a, b) for a in range(2, 51) for b in range(2, 51)}
    for k, stratum in enumerate(strata):
        assert {SOURCE_LABELS.range_of(e.value) for e in stratum} == {k}
    unordered = additions(ordered=False)
    assert sum(map(len, unordered)) == 1225
    assert all(e.terms[0] <= e.terms[1] for stratum in unordered for e in stratum)


def test_additions_leave_out_sums_that_are_no_label():
    strata = additions((0, 5), LabelSpace(3, 6, (4,)))
    assert {e.value for stratum in strata for e in stratum} == {3, 4, 5, 6}
    with pytest.raises(ValueError, match=r"operands 9\.\.3"):
        additions((9, 3))


SIGN_COUNTS = [(plus, minus) for plus in range(4) for minus in range(4) if 1 <= plus + minus <= 3]


@settings(max_examples=60)
@given(st.sampled_from(SIGN_COUNTS), st.integers(0, 6), st.integers(0, 3), st.tuples(*[st.integers(-9, 24)] * 2))
def test_chains_number_every_expression_of_the_domain_once(counts, first, width, bounds):
    pluses, minuses = counts
    operands, bounds = (first, first + width), tuple(sorted(bounds))
    signs = [s for s in product("+-", repeat=pluses + minuses) if s.count("+") == pluses]
    terms = product(range(first, first + width + 1), repeat=pluses + minuses + 1)
    every = [Expression(t, s) for t in terms for s in signs]
    expected = {e for e in every if bounds[0] <= e.value <= bounds[1]}
    chains = Chains(pluses, minuses, bounds, operands)
    numbered = [chains[number] for number in range(chains.count)]
    assert len(numbered) == len(expected)
    assert set(numbered) == expected
    assert chains.reach == len({e.value for e in expected})
    assert chains.orders == len(signs)


def test_the_sources_chains_are_as_many_as_a_count_of_sums_says():
    counts = [[Chains(p, 1 - p, bounds).count for bounds in SOURCE_LABELS.bounds] for p in (1, 0)]
    assert counts == [[153, 550, 878, 610, 210], [722, 370, 36, 0, 0]]
    assert sum(Chains(p, 4 - p, (-10_000, 10_000)).count for p in range(5)) == 16 * 49**5
    last = Chains(2, 2, (81, 100))
    assert 81 <= last[last.count - 1].value <= 100
    with pytest.raises(IndexError, match=f"of {last.count}"):
        last[last.count]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, (2, 20)), "0 plus and 0 minus signs"),
        ((-1, 2, (2, 20)), "-1 plus"),
        ((1, 0, (2, 20), (9, 3)), r"9\.\.3"),
    ],
)
def test_chains_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Chains(*arguments)
