"""Pools of Task 2: exact proportions and balance, even operators, splits, the confounds, and what is refused."""

from collections import Counter

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import datasets, paths
from redlib.config import PARTS
from redlib.datasets import chains
from redlib.expressions import SOURCE_LABELS, Expression, LabelSpace
from redlib.phrasing import CHAIN_WORDINGS, GROUPS, TASK2, TEMPLATES, parse, render

SHARES = {
    "operations": {2: 0.5, 3: 0.3, 4: 0.2},
    "operands": {1: 0.5, 2: 0.3, 3: 0.2},
    "single_heavy": {1: 0.8, 2: 0.1, 3: 0.06, 4: 0.04},
}
UNIT = {"operations": 50, "operands": 50, "single_heavy": 250}
steps_and_sizes = st.sampled_from(list(SHARES)).flatmap(
    lambda steps: st.tuples(st.just(steps), st.integers(1, 1_000 // UNIT[steps]).map(lambda n: n * UNIT[steps]))
)
splits = st.sampled_from(datasets.SPLITS)


@pytest.fixture(scope="module")
def full():
    """The three pools of 80,000 rows."""
    return {steps: datasets.build("task2", 80_000, seed=0, steps=steps) for steps in SHARES}


def plus_share(pool) -> float:
    return pool["expression"].str.count(r"\+").sum() / pool["operations"].sum()


def check_pool(pool, rows, steps, labels=SOURCE_LABELS, operands=(2, 50)):
    assert list(pool.columns) == list(datasets.COLUMNS)
    assert pool["row"].tolist() == list(range(rows))
    assert pool["text"].is_unique
    cells = Counter(zip(pool["range"], pool["group"], strict=True))
    assert cells == dict.fromkeys([(k, g) for k in range(labels.K) for g in range(GROUPS)], rows // (labels.K * GROUPS))
    for _, of_range in pool.groupby("range"):
        shares = of_range["operations"].value_counts(normalize=True).to_dict()
        assert shares == pytest.approx(SHARES[steps], abs=1e-12)
    for item in pool.itertuples():
        expression = Expression.read(item.expression)
        first, last = labels.bounds[item.range]
        assert item.value == expression.value == eval(item.expression)
        assert first <= item.value <= last
        assert all(operands[0] <= term <= operands[1] for term in expression.terms)
        assert item.structure == expression.structure_key
        assert item.operations == len(expression.operators)
        assert parse(item.text) == expression
        assert render(expression, TEMPLATES[item.template]) == item.text
        assert TEMPLATES[item.template].group == item.group


@settings(max_examples=12)
@given(steps_and_sizes, st.integers(0, 10_000))
def test_a_pool_is_balanced_in_proportion_unique_and_rightly_labelled(steps_and_size, seed):
    steps, rows = steps_and_size
    pool = datasets.build("task2", rows, seed, steps=steps)
    check_pool(pool, rows, steps)
    if steps != "single_heavy":
        signs = Counter("".join(pool["expression"]))
        assert abs(signs["+"] - signs["-"]) <= 1


def test_a_pool_follows_other_labels_and_operands():
    labels = LabelSpace(0, 30, (10, 20))
    pool = datasets.build("task2", 600, seed=1, operands=(0, 20), labels=labels)
    check_pool(pool, 600, "operations", labels, (0, 20))
    assert {0, 20} <= {term for text in pool["expression"] for term in Expression.read(text).terms}
    assert plus_share(pool) == pytest.approx(0.5, abs=0.005)


def test_operations_are_the_default():
    assert datasets.build("task2", 50, 3).equals(datasets.build("task2", 50, 3, steps="operations"))
    assert not datasets.build("task2", 50, 3).equals(datasets.build("task2", 50, 4))


def test_full_pools_keep_a_structure_in_one_part(full):
    for pool in full.values():
        assert len(pool) == 80_000
        parts = datasets.split(pool, "structure", seed=0)
        assert (pool["structure"].groupby(parts).nunique().sum()) == pool["structure"].nunique()


def test_plus_and_minus_are_equally_frequent_overall_and_for_every_number_of_operations(full):
    pool = full["operations"]
    assert plus_share(pool) == 0.5
    for _, of_length in pool.groupby("operations"):
        assert plus_share(of_length) == pytest.approx(0.5, abs=0.002)
    pool = full["operands"]
    assert plus_share(pool) == 0.5
    pool = full["single_heavy"]
    assert plus_share(pool) > 0.6, "as the ranges leave it"


def test_every_order_of_the_signs_is_equally_frequent_where_a_range_allows_it(full):
    pool = full["single_heavy"]
    signs = pool["expression"].str.replace(r"[0-9 ]", "", regex=True)
    reached = signs[(pool["range"] == 1) & (pool["operations"] == 2)].value_counts()
    assert reached.sum() == 1_600
    assert reached["++"] == reached["--"] == 400
    assert reached["+-"] + reached["-+"] == 800
    assert 340 < reached["+-"] < 460  # within a stratum the order is drawn: deviation 14


def test_minus_signs_alone_never_reach_the_upper_ranges(full):
    for pool in full.values():
        only_minus = ~pool["expression"].str.contains("+", regex=False)
        assert set(pool["range"][only_minus]) == {0, 1, 2}


def test_wording_groups_hold_the_same_lengths_and_signs(full):
    pool = full["operations"]
    assert pool.groupby(["range", "group"])["operations"].value_counts().groupby("operations").nunique().eq(1).all()
    plus = pool["expression"].str.count(r"\+")
    spread = pool.assign(plus=plus).groupby(["range", "operations", "plus"])["group"].value_counts().unstack()
    assert (spread.max(axis=1) - spread.min(axis=1)).max() <= 1


@settings(max_examples=12)
@given(st.sampled_from(list(SHARES)), st.sampled_from([500, 1_000, 2_500]), st.integers(0, 10_000), splits)
def test_every_part_is_exactly_balanced(steps, rows, seed, by):
    pool = datasets.build("task2", rows, seed, steps=steps)
    parts = datasets.split(pool, by, seed)
    sizes = {part: pool["range"][parts == part].value_counts().sort_index().tolist() for part in PARTS}
    tenth = rows // 50
    assert sizes == {"train": [8 * tenth] * 5, "validation": [tenth] * 5, "test": [tenth] * 5}
    if by == "structure":
        assert (pool.assign(part=parts).groupby("structure")["part"].nunique() == 1).all()
        assert set(pool["value"][parts == "train"]) == set(pool["value"])
    if by == "phrasing":
        assert set(pool["group"][parts == "test"]) == {(seed + 2) % GROUPS}


@pytest.mark.parametrize("steps", SHARES)
def test_a_structure_split_keeps_the_proportions_of_lengths_in_every_part(full, steps):
    pool = full[steps]
    parts = datasets.split(pool, "structure", seed=1)
    for part in PARTS:
        shares = pool["operations"][parts == part].value_counts(normalize=True).to_dict()
        assert shares == pytest.approx(SHARES[steps], abs=1e-12)


def test_reordered_twins_stay_together():
    pool = datasets.build("task2", 8_000, seed=2)
    twins = pool.groupby("structure")["expression"].nunique()
    assert (twins > 1).sum() > 100
    parts = datasets.split(pool, "structure", seed=2)
    sides = pool.assign(part=parts)[pool["structure"].isin(twins.index[twins > 1])].groupby("structure")["part"]
    assert (sides.nunique() == 1).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": "steps"}, "unknown steps 'steps'; valid steps: operations, operands, single_heavy"),
        ({"rows": 40}, r"rows must be a multiple of 50 \(5 ranges x 10 rows, .* 'operations' divide\), got 40"),
        ({"rows": 50, "steps": "single_heavy"}, "rows must be a multiple of 250 .* 'single_heavy' divide"),
        ({"rows": 0}, "got 0"),
        ({"ordered": False}, "ordered=False is an option of task1"),
        ({"task": "task1", "steps": "operands"}, "steps='operands' is an option of task2"),
        (
            {"operands": (2, 10)},
            r"50 % of R3 are to have 2 operations, but no such chain over operands 2\.\.10 has a value in 41\.\.60",
        ),
        ({"operands": (2, 20), "steps": "operands"}, "50 % of R3 are to have 1 operation, but no such chain"),
        (
            {"rows": 600_000, "steps": "single_heavy"},
            r"wanted from R3 with 1 operation \(0 plus, 1 minus\) in wording group \d, .* give 36 chains x 6\d",
        ),
        (
            {"rows": 40, "labels": LabelSpace(101, 150, (125,))},
            r"cannot be equally frequent: chains of 2 operations would need 50\.0% plus .* 100\.0% to 100\.0%",
        ),
        ({"operands": (50, 2)}, r"operands 50\.\.2"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_with_the_constraint(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.build(**{"task": "task2", "rows": 500, "seed": 0, **arguments})


def test_quotas_add_up_and_stay_near_their_shares():
    steps = chains.STEPS["operations"]
    strata = chains._strata(steps, (2, 50), SOURCE_LABELS)
    large, small = (chains.quotas(rows, steps, strata) for rows in (100_000, 10))
    for many, few in zip(large, small, strict=True):
        assert sum(many.values()) == 100_000
        assert [sum(c for (n, _), c in few.items() if n == length) for length in (2, 3, 4)] == [5, 3, 2]
        assert all(abs(few[stratum] - many[stratum] / 10_000) < 2 for stratum in many)
    assert sum((2 * plus - n) * count for quota in small for (n, plus), count in quota.items()) in (-1, 1)


def test_the_confounds_are_what_a_direct_count_finds():
    pool = datasets.build("task2", 2_000, seed=0, steps="single_heavy")
    table = datasets.confounds(pool).set_index(["operations", "group"])
    assert table.index.is_unique
    assert len(table) == 5 * 6
    expressions = pool["expression"].map(Expression.read)
    three = (pool["operations"] == 3) & (pool["range"] == 1)
    operators = [sign for e in expressions[three] for sign in e.operators]
    line = table.loc["3", "R2"]
    assert line["rows"] == three.sum() == 24
    assert line["share"] == 0.06
    assert line["plus_share"] == pytest.approx(operators.count("+") / len(operators))
    outside = [any(not 2 <= partial <= 50 for partial in e.partials[:2]) for e in expressions[three]]
    assert line["partials_outside_operands"] == pytest.approx(sum(outside) / 24)
    assert table.loc["all", "all"]["plus_share"] == pytest.approx(plus_share(pool))
    assert table.loc["all", "all"]["structures"] == pool["structure"].nunique()
    single = table.loc["1"]
    assert single["possible_subtraction_only"].tolist() == [1_128, 722, 370, 36, 0, 0]
    assert single["possible"].tolist() == [3_529, 875, 920, 914, 610, 210]
    assert single.loc[["R4", "R5"], "subtraction_only"].tolist() == [0, 0]
    kinds = table[["addition_only", "subtraction_only", "mixed"]].sum(axis=1)
    assert kinds.tolist() == pytest.approx([1] * len(table))
    assert (
        datasets.confounds(pool[pool["range"] != 4]).set_index(["operations", "group"]).loc["2", "R5"].isna().sum() == 7
    )


def test_the_report_reads_every_chain_again(full):
    pool = full["operations"][:4_000]
    table = datasets.report(pool, {}).set_index(["group", "metric"])["value"]
    assert table["all", "wrong_labels"] == table["all", "duplicate_texts"] == 0
    assert table["all", "structures"] == pool["structure"].nunique()


def test_the_data_card_states_the_computed_numbers(full):
    card = (paths.root() / "data" / "README.md").read_text()
    assert f"{len(TASK2)} templates from {len(CHAIN_WORDINGS)} operator wordings" in card
    for steps, pool in full.items():
        table = datasets.confounds(pool).set_index(["operations", "group"])["plus_share"]
        cells = [f"{share:.2f}" for share in table["all"]]
        assert f"| `{steps}` | {' | '.join(cells)} |" in card
    table = datasets.confounds(full["operations"]).set_index(["operations", "group"])
    for length in ("2", "3", "4"):
        line = table.loc[length]
        cells = [length, *(f"{share:.2f}" for share in line["plus_share"])]
        cells.append(f"{line.loc['all', 'partials_outside_operands']:.0%}".replace("%", " %"))
        assert f"| {' | '.join(cells)} |" in card
    single = datasets.confounds(full["single_heavy"]).set_index(["operations", "group"]).loc["1"]
    for name, line in single.drop(index="all").iterrows():
        subtractions, additions = (
            line["possible_subtraction_only"],
            line["possible"] - line["possible_subtraction_only"],
        )
        assert f"| {name} | {additions:.0f} | {subtractions:.0f} | {line['plus_share']:.2f} |" in card


def test_pools_are_frames_of_plain_types():
    pool = datasets.build("task2", 50, seed=0)
    assert {column: str(dtype) for column, dtype in pool.dtypes.items()} == datasets.COLUMNS
    assert isinstance(datasets.confounds(pool), pd.DataFrame)
