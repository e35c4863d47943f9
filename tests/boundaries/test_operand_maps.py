"""Populations and operand maps: every pair once in every wording, and its errors by hand."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_answers import SPACE, answers, whole

from redlib import datasets
from redlib.evaluation import pair_maps
from redlib.expressions import Expression, LabelSpace
from redlib.phrasing import parse


@pytest.mark.parametrize(("task", "pairs"), [("task1", 2401), ("task2", 2401 + 1128)])
def test_a_population_has_every_ordered_pair_exactly_once_in_every_wording(task, pairs):
    rows = datasets.with_operands(datasets.population(task, wordings=3))
    assert rows["template"].nunique() == 3
    assert rows["template"].iloc[0] == datasets.CANONICAL[task]
    assert rows["group"].groupby(rows["template"]).first().nunique() == 3
    assert rows["text"].is_unique
    for _, said in rows.groupby("template"):
        assert len(said) == pairs
        assert not said.duplicated(["operator", "first", "second"]).any()
    for row in rows.iloc[::101].itertuples():
        assert parse(row.text).text == row.expression


@given(
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 8),
    st.integers(2, 20),
)
@settings(max_examples=40)
def test_pairs_are_all_those_whose_result_is_a_label(first, width, lo, span):
    space, operands = LabelSpace(lo, lo + span, (lo + 1,)), (first, first + width)
    terms = range(first, first + width + 1)
    wanted = {f"{a} {sign} {b}" for a in terms for b in terms for sign in "+-"}
    wanted = {text for text in wanted if lo <= Expression.read(text).value <= lo + span}
    if not wanted:
        with pytest.raises(ValueError, match="no pair of operands"):
            datasets.pairs("task2", operands, space)
        return
    found = [pair.text for pair in datasets.pairs("task2", operands, space)]
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_a_population_that_cannot_be_is_refused_by_name():
    with pytest.raises(ValueError, match="unknown task 'task9'; valid tasks: task1, task2"):
        datasets.population("task9")
    with pytest.raises(ValueError, match="1 to 10 wordings, one a wording group, got 11"):
        datasets.population("task1", wordings=11)
    with pytest.raises(ValueError, match="a pair has two operands, got '1 \\+ 2 - 3'"):
        datasets.with_operands(pd.DataFrame({"expression": ["1 + 2 - 3"]}))


def test_a_map_has_errors_by_hand_once_a_pair_and_means_over_the_wordings():
    rows = whole("task2", wordings=2, operator="subtraction")
    first = np.arange(len(rows)) < len(rows) // 2  # texts of the canonical wording
    values = rows["value"] + np.where(first, 3, 0)
    frame = pair_maps(rows, answers(rows, rows["range"], values), SPACE, rows["first"] == 9)
    for metric, value in (("value_error", 3), ("value_error_wordings", 1.5), ("weight_entropy", 0), ("range_error", 0)):
        cells = frame[frame["metric"] == metric]
        assert len(cells) == 1128
        assert not cells.duplicated(["first", "second"]).any()
        assert cells["value"].to_numpy() == pytest.approx(value)
        assert (cells["in_training"] == (cells["first"] == 9)).all()
        assert (
            (cells["first"] - cells["second"])
            .map(SPACE.range_of)
            .map(lambda k: SPACE.names[k])
            .eq(cells["group"])
            .all()
        )
    assert set(frame[frame["metric"].str.endswith("_wordings")]["n"]) == {2}
    unrouted = pair_maps(rows, answers(rows, rows["range"], routed=False), SPACE, np.zeros(len(rows), bool))
    assert not unrouted["metric"].str.startswith("weight").any()


def test_maps_of_incomplete_populations_are_refused():
    rows = whole(wordings=2)
    said, seen = answers(rows, rows["range"]), np.zeros(len(rows), bool)
    with pytest.raises(ValueError, match="texts, 3 answers and"):
        pair_maps(rows, said[:3], SPACE, seen)
    with pytest.raises(ValueError, match="must have the same pairs, once each"):
        pair_maps(rows[:-1], said[:-1], SPACE, seen[:-1])
    twice = pd.concat([rows[:-1], rows[-2:-1]])
    with pytest.raises(ValueError, match="pair 50, 49 stands twice in wording"):
        pair_maps(twice, said, SPACE, seen)
    with pytest.raises(ValueError, match="lacks the columns operator"):
        pair_maps(rows.drop(columns="operator"), said, SPACE, seen)
