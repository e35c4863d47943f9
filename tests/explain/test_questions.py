"""Any text is answered with notes, or refused in one sentence."""

import json
from dataclasses import replace

import numpy as np
import pytest
from explainers import LABELS, QUERY
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import explain


def test_many_texts_at_once_say_what_each_says_alone(explainer):
    texts = [QUERY, "What is 40 plus 1?", "Now add 3 to 44. What do you get?", "سؤال", "x" * 80]
    together = explainer.explain_all(texts)
    for text, e in zip(texts, together, strict=True):
        alone = explainer.explain(text)
        np.testing.assert_allclose(e.logits, alone.logits, rtol=1e-4, atol=1e-4)
        assert (e.text, e.tokens, e.notes, e.true_value) == (alone.text, alone.tokens, alone.notes, alone.true_value)
    assert explainer.explain_all([]) == []
    assert [e.text for e in explainer.explain_all(text for text in texts)] == texts, "read once, asked once"


def test_a_card_obeys_no_control_character_of_a_question(explainer):
    lines = explainer.explain("\x1b[2J3 plus 4\n\u202eover\x00").card().splitlines()
    assert lines[0] == r"\x1b[2J3 plus 4\n\u202eover\x00"
    assert all(line.isprintable() for line in lines)


def test_many_questions_are_several_and_a_long_one_is_named(explainer):
    with pytest.raises(ValueError, match="many questions are asked for, got the one 'What is 47"):
        explainer.explain_all(QUERY)
    with pytest.raises(ValueError, match="this one has 300: '7777"):
        explainer.explain_all([QUERY, "7" * 300])


def test_a_reading_serves_the_explainer_that_read_it(explainer):
    other = replace(explainer, task="task2")
    with pytest.raises(ValueError, match=r"another explainer \(task2\) read 'What is 47"):
        explainer.explain(other.read([QUERY])[0])


def test_tokens_are_what_the_backbone_sees(explainer):
    e = explainer.explain(QUERY)
    assert "".join(e.tokens) == QUERY
    assert {"4", "7", "3", "8"} <= set(e.tokens)
    assert len(e.tokens) == len(explainer.backbone.encode([QUERY])[0])


@pytest.mark.parametrize(
    ("text", "value", "noted"),
    [
        ("What is 47 plus 38?", 85, None),
        ("What is 40 plus 1?", 41, "operand 2 is outside 2..50"),
        ("What is 18 plus 7 minus 3?", 22, "Task 1 is one addition"),
        ("What is 90 plus 80?", 170, "the true value 170 is outside 2..100"),
        ("so 3 plus 4, can you solve?", 7, "the words are none of those"),
        ("forty-seven plus thirty-eight", None, "not parsed: no true value known"),
        ("４７ plus ３８", None, "not parsed: no true value known"),
        ("سبعة زائد ثمانية", None, "not parsed: no true value known"),
        ("{a} plus {b} {{7*7}} <script>", None, "not parsed: no true value known"),
        ("%s %d \\x00 47 plus", None, "not parsed: no true value known"),
        ("What is 3 plus 4?\udcff", None, "no valid Unicode"),
        ("3 plus 4 " * 5, None, "not parsed"),
    ],
)
def test_any_text_gets_an_answer_with_notes(explainer, text, value, noted):
    e = explainer.explain(text)
    assert value is None or e.true_value == value
    assert e.answer.value in LABELS.values
    assert (e.notes == ()) if noted is None else any(noted in note for note in e.notes)
    assert isinstance(e.card(), str)
    json.loads(e.to_json())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the question is empty"),
        (" \n\t", "the question is empty"),
        (None, "a question must be a string, got NoneType"),
        (47, "a question must be a string, got int"),
        (b"47 plus 38", "a question must be a string, got bytes"),
        ("7 " * 400, "may have at most 256 tokens, this one has"),
    ],
)
def test_an_empty_foreign_or_long_text_is_an_error_of_one_sentence(explainer, text, said):
    with pytest.raises(ValueError, match=said) as error:
        explainer.explain(text)
    assert "\n" not in str(error.value)


def test_the_longest_text_that_is_allowed_is_answered(explainer):
    text = "7 plus " * 200
    while len(explainer.backbone.encode([text])[0]) > explain.MAX_TOKENS:
        text = text[: -len("7 plus ")]
    assert explainer.explain(text).answer.value in LABELS.values


@settings(max_examples=60)
@given(st.text(min_size=1, max_size=40).filter(str.strip))
def test_no_text_is_a_stack_trace(explainer, text):
    e = explainer.explain(text)
    assert sum(e.probabilities) == pytest.approx(1, abs=1e-4)
