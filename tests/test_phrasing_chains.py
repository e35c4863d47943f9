"""Chains in words: every template is read back, for every order of the signs; groups share no operator words."""

import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib.expressions import Expression
from redlib.phrasing import CHAIN_WORDINGS, GROUPS, TASK1, TASK2, TEMPLATES, parse, render

operands = st.integers(0, 999)
signs = st.lists(st.sampled_from("+-"), min_size=1, max_size=6)


def chain(text: str) -> Expression:
    return Expression.read(text)


def templates_of(operations: int):
    return [template for template in TASK2 if template.wording.least <= operations]


@pytest.mark.parametrize("operators", [s for n in range(1, 5) for s in product("+-", repeat=n)], ids="".join)
def test_every_template_says_every_order_of_the_signs_in_words_of_its_own(operators):
    expression = Expression((12, 5, 9, 3, 41)[: len(operators) + 1], operators)
    texts = [render(expression, template) for template in templates_of(len(operators))]
    assert len(set(texts)) == len(texts) >= 600
    for text in texts:
        assert parse(text) == expression, text


@settings(max_examples=150)
@given(st.data(), signs)
def test_any_template_is_read_back_as_the_chain_it_says(data, operators):
    terms = data.draw(st.lists(operands, min_size=len(operators) + 1, max_size=len(operators) + 1))
    expression = Expression(tuple(terms), tuple(operators))
    for template in data.draw(st.lists(st.sampled_from(templates_of(len(operators))), min_size=10, max_size=10)):
        text = render(expression, template)
        assert parse(text) == expression, template.id
        assert parse(f"  {text.upper()} ") == expression, template.id


def test_the_sources_own_phrasings_are_rendered():
    texts = {render(chain("12 - 5 + 9"), template) for template in TASK2}
    assert {
        "What is 12 minus 5 plus 9?",
        "Compute 12 minus 5, then add 9.",
        "If you subtract 5 from 12 and add 9, what do you get?",
        "Start with 12, take away 5 and add 9.",
        "Subtract 5 from 12, then add 9.",
    } <= texts
    assert "What is 9 more than 5 less than 12?" in texts


def test_wordings_are_dealt_into_ten_groups_of_three_or_more():
    assert set(Counter(wording.group for wording in CHAIN_WORDINGS)) == set(range(GROUPS))
    assert min(Counter(wording.group for wording in CHAIN_WORDINGS).values()) >= 3
    assert min(Counter(template.group for template in templates_of(1)).values()) >= 60
    assert len(TEMPLATES) == len(TASK1) + len(TASK2)


def operator_words(wording) -> set[str]:
    """The first word of every choice for an operator: "increased", "decreased"."""
    choices = re.findall(r"\[(.*?)\|(.*?)\]", f"{wording.first} {wording.step}")
    return {words.split(" ")[0] for pair in choices for words in pair}


def test_every_wording_has_different_words_for_plus_and_minus():
    for wording in CHAIN_WORDINGS:
        assert wording.say(chain("12 + 5 + 9")) != wording.say(chain("12 - 5 + 9"))
        assert wording.say(chain("12 + 5 + 9")) != wording.say(chain("12 + 5 - 9"))
        assert len(operator_words(wording)) >= 2


def test_a_left_out_group_leaves_out_its_operator_words():
    said = {group: set() for group in range(GROUPS)}
    for template in TASK2:
        for text in ("12 - 5 + 9 - 3", "12 + 5 - 9 + 3"):
            said[template.group] |= set(re.findall(r"[a-z]+|[+-]", render(chain(text), template).lower()))
    for wording in CHAIN_WORDINGS:
        for group in set(range(GROUPS)) - {wording.group}:
            assert not operator_words(wording) & said[group], (wording.id, group)


def test_rendered_texts_are_sentences():
    for template in TASK2:
        text = render(chain("12 + 27 - 3"), template)
        assert text[0].isupper() or text[0].isdigit()
        assert text == " ".join(text.split())
        assert text[-1] in ".?" or template.id in ("chain/plus/bare", "chain/symbol/bare")
        assert "?" not in text or not text.startswith(("Compute", "Calculate", "Find", "Work out"))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Start with 12, add 5, then lose 3 and take away 2.", "12 + 5 - 3 - 2"),
        ("12 minus 5 plus 9, then subtract 3", "12 - 5 + 9 - 3"),
        ("Add 5 to 12 and then subtract 9", "12 + 5 - 9"),
        ("the number that is 3 more than 4 less than 9", "9 - 4 + 3"),
        ("Subtract 50 from 12.", "12 - 50"),
    ],
)
def test_wordings_may_be_mixed(text, canonical):
    assert parse(text).text == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Start with 12 and 5", "no known operator wording"),
        ("Add 5 and 9 to 12", "no known operator wording"),
        ("Subtract 5 from 12, then add", "unknown word 'then'"),
        ("12 plus 5, -3", "unknown operator or mark '-'"),
        ("Start with 12, add 5, multiply by 3", "unknown word 'multiply'"),
        ("Start with 12, add 5, what is 9?", "a number stands outside"),
        ("5 more than 12 minus 3", "unknown word 'more'"),
        ("Increase 12 by 5 percent, then add 3", "unknown word 'percent'"),
    ],
)
def test_other_chains_are_refused_in_one_sentence(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_a_template_of_longer_chains_refuses_one_operation():
    template = TEMPLATES["chain/plus_then_add/compute"]
    with pytest.raises(ValueError, match=r"says 2 or more operations, not '12 \+ 5'"):
        render(chain("12 + 5"), template)
