"""Pools, splits and reports, at sizes from 50 to 80,000 rows."""

import hashlib
import os
import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import datasets
from redlib.config import PARTS
from redlib.expressions import SOURCE_LABELS, Expression, LabelSpace
from redlib.phrasing import GROUPS, TEMPLATES, parse, render

TWO_RANGES = LabelSpace(2, 30, (15,))


@pytest.fixture(scope="module")
def pool():
    return datasets.build("task1", 4_000, seed=0)


def check_pool(pool, rows, labels=SOURCE_LABELS):
    assert list(pool.columns) == list(datasets.COLUMNS)
    assert pool["row"].tolist() == list(range(rows))
    assert pool["text"].is_unique
    cells = Counter(zip(pool["range"], pool["group"], strict=True))
    assert cells == dict.fromkeys([(k, g) for k in range(labels.K) for g in range(GROUPS)], rows // (labels.K * GROUPS))
    for item in pool.itertuples():
        a, b = (int(term) for term in item.expression.split(" + "))
        first, last = labels.bounds[item.range]
        assert item.value == a + b
        assert first <= item.value <= last
        assert parse(item.text).terms == (a, b)
        assert item.structure == Expression((min(a, b), max(a, b)), ("+",)).structure_key
        assert item.operations == 1
        assert render(Expression((a, b), ("+",)), TEMPLATES[item.template]) == item.text
        assert TEMPLATES[item.template].group == item.group


@settings(max_examples=8)
@given(st.integers(1, 30), st.integers(0, 10_000), st.booleans())
def test_a_pool_is_balanced_unique_and_rightly_labelled(tens, seed, ordered):
    pool = datasets.build("task1", 50 * tens, seed, ordered=ordered)
    check_pool(pool, 50 * tens)
    terms = [Expression.read(text).terms for text in pool["expression"]]
    assert all(2 <= term <= 50 for pair in terms for term in pair)
    assert ordered or all(a <= b for a, b in terms)


def test_a_pool_follows_other_labels_and_operands():
    pool = datasets.build("task1", 400, seed=1, operands=(0, 20), labels=TWO_RANGES)
    check_pool(pool, 400, TWO_RANGES)
    assert {0, 20} <= {term for text in pool["expression"] for term in Expression.read(text).terms}


def test_pairs_of_a_range_are_drawn_uniformly(pool):
    low = pool[pool["range"] == 0]["expression"].value_counts()
    expected = 800 / 153
    chi2 = (((low - expected) ** 2).sum() + (153 - len(low)) * expected**2) / expected
    assert 100 < chi2 < 220  # 152 degrees of freedom: mean 152, deviation 17.4


def test_the_full_pool_and_its_splits_are_exact():
    pool = datasets.build("task1", 80_000, seed=0)
    parts = {by: datasets.split(pool, by, seed=0) for by in datasets.SPLITS}
    assert pool["text"].is_unique
    for series in parts.values():
        counts = pd.crosstab(series, pool["range"])
        assert counts.loc["train"].tolist() == [12_800] * 5
        assert counts.loc["validation"].tolist() == counts.loc["test"].tolist() == [1_600] * 5
    assert datasets.one_per_pair(pool).sum() == 765
    assert datasets.one_per_pair(pool, balanced=False).sum() == 2_401


def test_the_pool_and_splits_of_task_1_are_those_of_the_record():
    pool = datasets.build("task1", 1_000, seed=0)
    pinned = {"pool": pool["text"], **{by: datasets.split(pool, by, seed=0) for by in datasets.SPLITS}}
    assert {name: hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] for name, lines in pinned.items()} == {
        "pool": "b3ba19aac47a4135",
        "text": "60d162cbfbf802f2",
        "structure": "3643322aef13073d",
        "phrasing": "0c14da0cf7b7fe6d",
    }


def test_pools_and_splits_depend_on_the_seed_alone():
    code = (
        "from redlib import datasets, paths\n"
        "pool = datasets.build('task1', 500, 7)\n"
        "parts = [datasets.split(pool, by, 3).tolist() for by in datasets.SPLITS]\n"
        "mask = datasets.one_per_pair(pool, seed=5).tolist()\n"
        "chains = datasets.build('task2', 500, 7, steps='single_heavy')\n"
        "parts += [datasets.split(chains, by, 3).tolist() for by in datasets.SPLITS]\n"
        "print(paths.digest([pool.to_dict('list'), chains.to_dict('list'), parts, mask]))"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(digests) == 1
    assert not datasets.build("task1", 500, 7).equals(datasets.build("task1", 500, 8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "task9"}, "unknown task 'task9'; valid tasks: task1"),
        ({"rows": 505}, r"rows must be a multiple of 50 \(5 ranges x 10 wording groups\), got 505"),
        ({"rows": 0}, "got 0"),
        (
            {"rows": 2_000_000},
            "40000 texts are wanted from R1 .* operands 2..50 give 153 pairs x 41",
        ),
        ({"operands": (2, 30)}, "10 texts are wanted from R4 .* operands 2..30 give 0 pairs"),
        ({"operands": (50, 2)}, r"operands 50\.\.2"),
    ],
)
def test_a_pool_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        datasets.build(**{"task": "task1", "rows": 500, "seed": 0, **arguments})


def part_sizes(pool, parts):
    return {part: pool["range"][parts == part].value_counts().sort_index().tolist() for part in PARTS}


@settings(max_examples=15)
@given(st.sampled_from([500, 1_000, 2_500]), st.integers(0, 10_000), st.sampled_from(datasets.SPLITS))
def test_every_part_is_exactly_balanced(rows, seed, by):
    pool = datasets.build("task1", rows, seed)
    parts = datasets.split(pool, by, seed)
    tenth = rows // 50
    assert part_sizes(pool, parts) == {"train": [8 * tenth] * 5, "validation": [tenth] * 5, "test": [tenth] * 5}
    assert datasets.split(pool, by, seed).equals(parts)


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_no_structure_is_in_two_parts_and_every_part_holds_several(seed):
    pool = datasets.build("task1", 2_000, seed)
    parts = datasets.split(pool, "structure", seed)
    assert (pool.assign(part=parts).groupby("structure")["part"].nunique() == 1).all()
    held = pool[parts != "train"].assign(part=parts)
    shares = held.groupby(["part", "range"])["structure"].value_counts(normalize=True)
    assert shares.max() <= 0.5
    assert held.groupby(["part", "range"])["structure"].nunique().min() >= 5
    seen = set(pool["value"][parts == "train"])
    assert seen == set(pool["value"])
    assert not {4, 5, 99, 100} & set(held["value"])


@settings(max_examples=10)
@given(st.sampled_from([1_000, 4_000, 16_000]), st.integers(0, 10_000))
def test_every_part_has_its_share_of_the_doubles(rows, seed):
    pool = datasets.build("task1", rows, seed)
    parts = datasets.split(pool, "structure", seed)
    terms = pool["expression"].map(lambda text: Expression.read(text).terms)
    shared_value = pool["value"].map(pool.groupby("value")["structure"].nunique() > 1)
    doubles = pool[terms.map(lambda pair: pair[0] == pair[1]) & shared_value]
    for _, of_range in doubles.groupby("range"):
        held = of_range.groupby(parts[of_range.index])["structure"].nunique()
        if of_range["structure"].nunique() >= 3:
            assert set(held.index) == set(PARTS)
            assert held["test"] <= 2
            assert held["validation"] <= 2


def test_seeds_hold_out_different_structures(pool):
    held = [frozenset(pool["structure"][datasets.split(pool, "structure", seed) == "test"]) for seed in range(5)]
    assert len(set(held)) == 5
    shared = len(held[0] & held[1]) / len(held[0])
    assert shared < 0.3


def test_the_phrasing_split_holds_out_one_group_of_wordings(pool):
    for seed in (0, 3, 13):
        parts = datasets.split(pool, "phrasing", seed)
        assert set(pool["group"][parts == "test"]) == {(seed + 2) % GROUPS}
        assert (seed + 2) % GROUPS not in set(pool["group"][parts != "test"])
        assert set(pool["group"][parts == "validation"]) <= set(pool["group"][parts == "train"])


def test_a_split_keeps_the_index_of_its_pool(pool):
    some = pool.sample(frac=1, random_state=0).set_index(np.arange(len(pool)) + 10_000)
    parts = datasets.split(some, "structure", 0)
    assert parts.index.equals(some.index)
    assert (some.assign(part=parts).groupby("structure")["part"].nunique() == 1).all()


def test_splits_that_cannot_be_are_refused(pool):
    with pytest.raises(ValueError, match="unknown split 'value'; valid splits: text, structure, phrasing"):
        datasets.split(pool, "value", 0)
    with pytest.raises(ValueError, match="the pool has no rows"):
        datasets.split(pool[:0], "text", 0)
    with pytest.raises(ValueError, match="all 800 rows lie in one range"):
        datasets.split(pool[pool["range"] == 2], "text", 0)
    with pytest.raises(ValueError, match="R2 has 3 rows, and at least 10 are needed"):
        datasets.split(pd.concat([pool[pool["range"] == 0], pool[pool["range"] == 1][:3]]), "text", 0)
    coarse = pool[(pool["range"] != 0) | pool["structure"].isin(["+2+3", "+2+4", "+2+5"])]
    with pytest.raises(ValueError, match="R1: its 3 structures cannot fill a test and a validation part of exactly"):
        datasets.split(coarse, "structure", 0)
    with pytest.raises(ValueError, match="R1: wording group 2 has 0 of 720 rows"):
        datasets.split(pool[pool["group"] != 2], "phrasing", 0)


def test_one_text_a_pair_is_taken_from_the_candidates_alone(pool):
    train = datasets.split(pool, "structure", 0) == "train"
    every = datasets.one_per_pair(pool, train, balanced=False)
    assert not (every & ~train).any()
    assert pool["expression"][every].is_unique
    assert set(pool["expression"][every]) == set(pool["expression"][train])
    balanced = datasets.one_per_pair(pool, train.to_numpy(), seed=1)
    assert pool["range"][balanced].value_counts().nunique() == 1
    assert pool["range"][balanced].value_counts().min() == pool["range"][every].value_counts().min()
    assert not balanced.equals(datasets.one_per_pair(pool, train, seed=2))
    with pytest.raises(ValueError, match="no candidate rows"):
        datasets.one_per_pair(pool, np.zeros(len(pool), dtype=bool))


def test_building_leaves_the_global_random_state_alone():
    random.seed(1)
    before = random.getstate()
    datasets.split(datasets.build("task1", 500, 0), "structure", 0)
    assert random.getstate() == before
