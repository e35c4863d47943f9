"""The boundary explorer and the operand map: every pair is explained anew."""

import numpy as np
import pytest
from explainers import NAMES, QUERY
from panels import make_explainer, same

from redlib import explain
from redlib.widgets import BoundaryExplorer, OperandMap
from redlib.widgets import boundary as boundaries
from redlib.widgets import operand_map as maps

# ---- boundary explorer -------------------------------------------------------------------------------------------


def test_sliding_the_second_operand_explains_each_pair(explainer):
    panel = BoundaryExplorer(explainer, first=12)
    explained = explainer.explain_all(explain.read_walk(explainer, 12, "+"))
    for second in (2, 8, 9, 50):
        panel.second.value = second
        e = explained[second - 2]
        assert e.text == f"What is 12 plus {second}?"
        same(panel, e)
        assert panel.pieces["walk"].value == boundaries.draw_walk(explained, second)
    panel.method.value = "global_head"
    assert "range probabilities by the second operand" in panel.pieces["walk"].value


def test_sliding_needs_no_backbone_pass(explainer, monkeypatch):
    panel = BoundaryExplorer(explainer, first=30)
    monkeypatch.setattr(explain.Explainer, "read", lambda *given: pytest.fail("a pass"))
    panel.second.value = 10
    assert panel.explanation.text == "What is 30 plus 10?"


def test_another_first_operand_or_operator_keeps_the_slider_inside():
    explainer = make_explainer("task2")
    panel = BoundaryExplorer(explainer, first=20, operator="-")
    assert (panel.second.min, panel.second.max) == (2, 18)
    panel.first.value = 4
    assert (panel.second.min, panel.second.max, panel.second.value) == (2, 2, 2)
    assert panel.explanation.true_value == 2
    panel.first.value = 50
    assert (panel.second.min, panel.second.max) == (2, 48)
    panel.first.value = 3
    assert "no second operand in 2..50 gives 3 - it a value" in panel.status.value
    panel.operator.value = "+"
    assert (panel.second.min, panel.second.max) == (2, 50)
    assert panel.explanation.true_value == 3 + panel.second.value


def test_the_table_of_a_walk_has_what_the_pieces_show(explainer):
    explained = explainer.explain_all(explain.read_walk(explainer, 30, "+"))
    table = explain.walk_table(explained)
    assert list(table.index) == list(range(2, 51))
    assert (table["true value"] == 30 + table.index).all()
    np.testing.assert_allclose(table[list(NAMES)].sum(axis=1), 1, atol=1e-5)
    assert table["right"].sum() == sum(e.right for e in explained)
    assert "R1" not in explain.walk_table(explainer.explain_all(explain.read_walk(explainer, 9, "+"), "global_head"))


def test_a_question_for_a_pair_is_the_canonical_one_and_wrong_ones_are_named():
    assert explain.question("task1", 47, "+", 38) == QUERY
    assert explain.question("task2", 47, "-", 38) == "What is 47 minus 38?"
    with pytest.raises(ValueError, match=r"task1 has no operator '-'; valid operators: \+"):
        explain.question("task1", 47, "-", 38)
    with pytest.raises(ValueError, match="unknown task 'task3'; valid tasks: task1, task2"):
        explain.question("task3", 47, "+", 38)


# ---- operand map -------------------------------------------------------------------------------------------------


def test_a_click_on_a_cell_explains_that_pair(explainer, frame):
    panel = OperandMap(explainer, frame)
    panel.map.pair = [47, 38]
    same(panel, explainer.explain(QUERY))
    assert (panel.first.value, panel.second.value) == (47, 38)
    panel.second.value = 9
    assert panel.map.pair == [47, 9]
    same(panel, explainer.explain("What is 47 plus 9?"))


def test_it_says_when_the_map_and_the_model_differ(explainer, frame):
    true = explainer.explain("What is 12 plus 27?").answer.value - 39
    for value, differs in ((true, False), (true + 1, True)):
        one = frame.assign(value=float(value))
        told = OperandMap(explainer, one, pair=(12, 27)).pieces["told"].value
        assert ("Computed anew" in told) == differs


def test_the_map_has_a_cell_for_every_pair_in_the_shade_of_its_error(explainer, frame):
    panel = OperandMap(explainer, frame)
    drawn = panel.map.picture
    frame = frame[frame["method"] == "red"]
    assert drawn.count("h8v8h-8z") == len(frame) == 49 * 49
    assert f"{(frame['value'] == 0).sum()} of 2401 answered rightly" in drawn
    assert {maps.shade(0), maps.shade(3), maps.shade(-40)} == {"#ffffff", "#fdb863", "#542788"}
    x, y = maps.LEFT + (3 - 2) * maps.CELL, maps.TOP + (50 - 2) * maps.CELL
    path = next(path for path in drawn.split("<path") if f"M{x} {y}h8" in path)
    assert maps.shade(frame[(frame["first"] == 2) & (frame["second"] == 3)]["value"].iloc[0]) in path


def test_a_pair_without_a_result_is_said_to_be_none(explainer, frame):
    panel = OperandMap(explainer, frame[frame["first"] != 20])
    panel.first.value = 20
    assert "has no result in the label space" in panel.status.value


def test_a_table_of_another_task_or_split_is_refused(explainer, frame):
    with pytest.raises(ValueError, match="the table has no map of task1, split structure"):
        OperandMap(explainer, frame.assign(task="task2"))
