"""Every wrong program has one kind of error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planners import programs_of

from redlib.decomposer import errors
from redlib.expressions import Expression
from redlib.programs import Program, Step


def chain(text):
    return Program.from_expression(Expression.read(text))


@pytest.mark.parametrize(
    ("predicted", "kind"),
    [
        (chain("12 + 5 - 9"), errors.RIGHT),
        (chain("12 + 6 - 9"), "operand"),
        (chain("12 - 5 - 9"), "operator"),
        (chain("12 - 5 + 9"), "operator"),
        (chain("5 + 12 - 9"), "order"),
        (chain("12 - 9 + 5"), "order"),
        (chain("9 + 5 - 12"), "order"),
        (Program((Step(12, "+", 5), Step("x1", "-", 9)), "x1"), "order"),
        (chain("12 + 5"), "length"),
        (chain("12 + 5 - 9 - 9"), "length"),
        (chain("12 - 6 - 9"), "several"),
        (chain("9 - 5 - 12"), "several"),
        (None, "no_program"),
    ],
)
def test_every_error_has_one_kind(predicted, kind):
    assert errors.kind(predicted, chain("12 + 5 - 9")) == kind


@settings(max_examples=50)
@given(st.data())
def test_kinds_cover_all_pairs_of_programs_and_only_equals_are_right(data):
    gold, predicted = programs_of(data.draw), programs_of(data.draw)
    kind = errors.kind(predicted, gold)
    assert (kind == errors.RIGHT) == (predicted == gold)
    assert kind in (errors.RIGHT, *errors.KINDS)
    assert (kind == "length") == (len(predicted.steps) != len(gold.steps))
    assert errors.read(predicted.text) == predicted
    assert errors.read(f"{predicted.text}\n") is None
