"""What makes Task 2 hard: arms differ in one thing, and the table says by how much that matters."""

import random

import pandas as pd
import pytest

from redlib import config, datasets, results
from redlib.expressions import SOURCE_LABELS, SOURCE_OPERANDS
from redlib.study import hardness, table
from redlib.study.data import read_pool


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Settings by arm and the table, in a cache of the module's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", {"bootstrap": 30})
        frame = table(profile, "task2_hardness", say=lambda line: None)
        yield hardness.settings(profile), frame


def drawn(signs, rows=1_000):
    return hardness.draw(rows, signs, SOURCE_OPERANDS, SOURCE_LABELS, random.Random(0))


def test_chains_are_distinct_in_their_proportions_and_balanced_over_ranges():
    for signs in hardness.SIGNS:
        chains = drawn(signs)
        assert len({chain.text for chain in chains}) == len(chains) == 1_000
        facts = pd.DataFrame({"n": [len(c.operators) for c in chains], "v": [c.value for c in chains]})
        assert facts["n"].value_counts().to_dict() == {2: 500, 3: 300, 4: 200}
        assert facts["v"].map(SOURCE_LABELS.range_of).value_counts().eq(200).all()


def test_even_signs_are_even_and_drawn_ones_are_not():
    share = {
        signs: sum(c.operators.count("+") for c in drawn(signs)) / sum(len(c.operators) for c in drawn(signs))
        for signs in hardness.SIGNS
    }
    assert share["even"] == pytest.approx(0.5, abs=0.001)
    assert share["drawn"] > 0.52


def test_more_chains_than_there_are_is_an_error_that_names_the_range():
    with pytest.raises(ValueError, match=r"chains are wanted from R5 with 2 signs, and \d+ exist"):
        drawn("even", 500_000)


def test_both_wordings_say_the_same_chains_and_one_of_them_in_one_way(made):
    wanted, _ = made
    for signs in hardness.SIGNS:
        plain, many = (read_pool(wanted[wording, signs].pool.folder) for wording in ("canonical", "all"))
        assert plain["expression"].tolist() == many["expression"].tolist()
        assert set(plain["template"]) == {datasets.CANONICAL["task2"]}
        assert many["template"].nunique() > 50
        assert plain["text"].is_unique


def test_the_table_has_every_arm_and_every_single_change(made):
    _, frame = made
    results.validate(frame)
    levels = frame[frame["changed"] == "nothing"]
    assert set(levels["variant"]) == {hardness.variant(*arm) for arm in hardness.ARMS}
    assert set(levels["method"]) == {*hardness.METHODS, hardness.SIGNS_ALONE}
    assert levels["value"].between(0, 1).all()
    changes = results.select(frame, method="red", metric="range_accuracy_change")
    assert set(changes["changed"]) == {"wordings=canonical", "signs=drawn"}
    assert len(changes) == 4
    level = results.select(levels, method="red", metric="range_accuracy").set_index("variant")["value"]
    for row in changes.itertuples():
        assert row.value == pytest.approx(level[row.variant] - level[row.reference], abs=1e-5)
        assert -1 <= row.low <= row.high <= 1


def test_scarce_signs_are_all_taken_and_others_of_that_length_make_up_for_them():
    chains = drawn("even", 16_000)
    assert len({chain.text for chain in chains}) == len(chains) == 16_000
    facts = pd.DataFrame({"n": [len(c.operators) for c in chains], "v": [c.value for c in chains]})
    assert facts["n"].value_counts().to_dict() == {2: 8_000, 3: 4_800, 4: 3_200}
    assert facts["v"].map(SOURCE_LABELS.range_of).value_counts().eq(3_200).all()
    minus = [c for c in chains if c.operators == ("-", "-") and SOURCE_LABELS.range_of(c.value) == 2]
    assert len(minus) == 56
