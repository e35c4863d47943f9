"""Rendering and parsing are inverse; the grammar is wide enough; anything else is refused in one sentence."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib.expressions import Expression
from redlib.phrasing import GROUPS, TASK1, TEMPLATES, WORDINGS, parse, render

operands = st.integers(0, 999)


def addition(a: int, b: int) -> Expression:
    return Expression((a, b), ("+",))


@settings(max_examples=25)
@given(operands, operands)
def test_every_template_is_read_back_as_the_expression_it_says(a, b):
    for template in TASK1:
        text = render(addition(a, b), template)
        assert parse(text) == addition(a, b), template.id
        assert parse(f"  {text.upper()} ") == addition(a, b), template.id


@pytest.mark.parametrize(("a", "b"), [(2, 2), (12, 27), (27, 12), (50, 50)])
def test_every_pair_has_at_least_400_distinct_texts(a, b):
    assert len({render(addition(a, b), template) for template in TASK1}) == len(TASK1) >= 400


def test_twins_never_share_a_text():
    forward = {render(addition(12, 27), template) for template in TASK1}
    assert not forward & {render(addition(27, 12), template) for template in TASK1}


def test_wordings_are_dealt_into_groups_of_two_or_more_with_40_templates():
    wordings = Counter(wording.group for wording in WORDINGS)
    templates = Counter(template.group for template in TASK1)
    assert set(wordings) == set(templates) == set(range(GROUPS))
    assert min(wordings.values()) >= 2
    assert min(templates.values()) >= 40
    assert all(TEMPLATES[template.id] is template for template in TASK1)


def test_the_sources_own_phrasings_are_rendered():
    assert "What is 12 plus 27?" in {render(addition(12, 27), template) for template in TASK1}
    assert "What is 17 plus 23?" in {render(addition(17, 23), template) for template in TASK1}


def test_rendered_texts_are_sentences():
    for template in TASK1:
        text = render(addition(12, 27), template)
        assert text[0].isupper() or text[0].isdigit()
        assert text == " ".join(text.split())
        assert text[-1] in ".?" or template.id in ("plus/bare", "symbol/bare")
        assert "?" not in text or not text.startswith(("Compute", "Calculate", "Find", "Work out"))


def test_words_that_reverse_the_order_are_read_by_meaning():
    assert parse("What is 27 more than 12?") == addition(12, 27)
    assert parse("Add 27 to 12.") == addition(12, 27)
    assert parse("Find 27 added to 12.") == addition(12, 27)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("18 plus 7 minus 3", "18 + 7 - 3"),
        ("What is 29 minus 11 minus 9 plus 15?", "29 - 11 - 9 + 15"),
        ("12 + 5 - 3", "12 + 5 - 3"),
        ("12+5-3", "12 + 5 - 3"),
        ("12 − 5", "12 - 5"),
        ("40 plus 1", "40 + 1"),
        ("what's  12\nPLUS 27 = ?", "12 + 27"),
        ("Evaluate (3 plus 4)", "3 + 4"),
    ],
)
def test_plain_chains_are_read(text, canonical):
    assert parse(text).text == canonical


@given(operands, st.lists(st.tuples(st.sampled_from(["plus", "minus", "+", "-"]), operands), min_size=1, max_size=6))
def test_any_chain_in_words_or_symbols_is_read_left_to_right(first, rest):
    text = f"{first} " + " ".join(f"{sign} {term}" for sign, term in rest)
    python = text.replace("plus", "+").replace("minus", "-")
    assert parse(text).text == python
    assert parse(text).value == eval(python)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no numbers"),
        ("twelve plus five", "has no numbers"),
        ("What is 12?", r"has only one number \(12\)"),
        ("12 times 5", "no known operator wording"),
        ("12 and 27", "no known operator wording"),
        ("12 plus 27 * 2", r"unknown operator or mark '\*'"),
        ("12 plus 27%", "unknown operator or mark '%'"),
        ("0 # plus 3 + 4", "unknown operator or mark '#'"),
        ("٣ plus 4 plus 5", "unknown operator or mark '٣'"),
        ("twice 12 plus 3", "unknown word 'twice'"),
        ("the square root of 9 plus 4", "unknown word 'square'"),
        ("12 plus 27 minus", "unknown word 'minus'"),
        ("3 plus 4 apples", "unknown word 'apples'"),
        ("12 plus 27 = 39", "a number stands outside"),
        ("12 - (5 + 9)", "unknown operator or mark '-'"),
        ("1/2 + 3", "unknown operator or mark '/'"),
        ("-5 plus 3", "'-5' is not a whole number"),
        ("12 plus -5", "'-5' is not a whole number"),
        ("12 minus minus 5", "'minus 5' is not a whole number"),
        ("12 then negative 5", "'negative 5' is not a whole number"),
        ("negative 5 plus 3", "'negative 5' is not a whole number"),
        ("3.5 plus 2", r"'3\.5' is not a whole number"),
        ("1,000 plus 3", "'1,000' is not a whole number"),
        ("1e5 plus 3", "'1e5' is not a whole number"),
        ("5x + 3", "'5x' is not a whole number"),
        ("9" * 5000 + " plus 3", "is not a whole number"),
    ],
)
def test_other_texts_are_refused_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("thing", [None, 12, 1.5, ["12 plus 5"], b"12 plus 5"])
def test_what_is_no_string_is_refused(thing):
    with pytest.raises(ValueError, match=f"must be a string, got {type(thing).__name__}"):
        parse(thing)


words = st.sampled_from(["plus", "minus", "the sum of", "and", "add", "to", "What is", "more than", *"+-?.,x#(="])
numbers = st.integers(0, 99).map(str)


@settings(max_examples=300)
@given(st.lists(st.one_of(words, numbers, st.text(max_size=3)), max_size=8), st.sampled_from(["", " "]))
def test_a_text_is_read_with_all_its_numbers_or_refused(pieces, space):
    text = space.join(pieces)
    try:
        terms = sorted(parse(text).terms)
    except ValueError:
        return
    assert terms == sorted(int(digits) for digits in re.findall(r"\d+", text))


def test_render_refuses_an_expression_that_the_template_does_not_say():
    for text in ("12 - 5", "12 + 5 + 3"):
        with pytest.raises(ValueError, match="template 'plus/what_is' says"):
            render(Expression.read(text), TEMPLATES["plus/what_is"])
