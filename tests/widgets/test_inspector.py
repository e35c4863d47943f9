"""The routing inspector: questions typed, chosen and made of operands, beside what was reported."""

import pytest
from explainers import NAMES, QUERY
from panels import REPORTED, same

from redlib.explain import Intervention
from redlib.widgets import RoutingInspector, WhatIfPanel, pieces


def test_the_inspector_shows_what_explain_says_beside_what_was_reported(explainer):
    panel = RoutingInspector(explainer, REPORTED)
    e = explainer.explain(QUERY)
    same(panel, e)
    for name, piece in pieces.explanation(e, (panel.whose, REPORTED[QUERY])).items():
        assert panel.pieces[name].value == piece
    for name, weight, reported in zip(NAMES, e.alpha, REPORTED[QUERY], strict=True):
        assert f'data-expert="{name}">{weight:.3f}<' in panel.pieces["weights"].value
        assert f'data-expert="{name}">{reported:.2f}<' in panel.pieces["weights"].value
    panel.text.value = "What is 3 plus 4?"
    same(panel, explainer.explain("What is 3 plus 4?"))
    assert "red-beside" not in panel.pieces["weights"].value


def test_operands_make_a_question_and_a_typed_question_moves_the_operands(explainer):
    panel = RoutingInspector(explainer, REPORTED)
    assert (panel.first.value, panel.operator.value, panel.second.value) == (47, "+", 38)
    panel.second.value = 9
    assert panel.text.value == "What is 47 plus 9?"
    same(panel, explainer.explain("What is 47 plus 9?"))
    panel.text.value = "Now add 3 to 44. What do you get?"
    assert {panel.first.value, panel.second.value} == {3, 44}
    assert panel.text.value == "Now add 3 to 44. What do you get?", "the words stay"


def test_the_sources_questions_can_be_chosen(explainer):
    panel = RoutingInspector(explainer, REPORTED)
    chain = list(REPORTED)[1]
    panel.reported_ones.value = chain
    same(panel, explainer.explain(chain))
    assert panel.reported_ones.value == chain
    panel.text.value = "What is 3 plus 4?"
    assert panel.reported_ones.value == ""


def test_another_method_and_another_splits_model_can_be_looked_at(explainer):
    panel = RoutingInspector(explainer)
    panel.method.value = "softmax_moe"
    same(panel, explainer.explain(QUERY, "softmax_moe"))
    panel.split.value = "text"
    same(panel, explainer.explain(QUERY, "softmax_moe", Intervention(split="text")))
    panel.method.value = "global_head"
    assert "range probabilities" in panel.pieces["weights"].value


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "the question is empty"), (" \n", "the question is empty"), ("7 " * 400, "at most 256 tokens")],
)
def test_a_bad_question_is_one_sentence_in_the_widget(explainer, text, said):
    for panel in (RoutingInspector(explainer), WhatIfPanel(explainer)):
        panel.text.value = text
        assert said in panel.status.value
        assert panel.explanation is None
        panel.text.value = QUERY
        same(panel, explainer.explain(QUERY))


@pytest.mark.parametrize(
    "text", ["سبعة زائد ثمانية", "<script>alert(1)</script>", "{a} plus {b}", "What is 40 plus 1?"]
)
def test_odd_questions_get_an_answer_with_notes(explainer, text):
    panel = RoutingInspector(explainer)
    panel.text.value = text
    same(panel, explainer.explain(text))
    assert "note: " in panel.pieces["notes"].value
    assert not any("<script" in piece.value for piece in panel.pieces.values())


def test_the_oracle_without_a_known_range_says_why_not(explainer):
    panel = RoutingInspector(explainer)
    panel.method.value = "oracle_experts"
    panel.text.value = "no numbers here"
    assert "oracle_experts needs the true range" in panel.status.value
