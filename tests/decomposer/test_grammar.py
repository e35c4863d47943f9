"""The grammar of programs, and that of programs about some numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planners import LARGEST, MOST, programs_of

from redlib.decomposer import Grammar
from redlib.decomposer.grammar import REFUSED, START, WHOLE
from redlib.programs import Program, Step, check


def spell(bone, grammar, program):
    return [*grammar.places(bone.encode([program.text])[0]), grammar.end]


@settings(max_examples=30)
@given(st.data())
def test_every_valid_program_is_in_the_grammar_and_reads_back(tiny, grammar, data):
    program = programs_of(data.draw)
    tokens = spell(tiny, grammar, program)
    states = grammar.walk(tokens)
    assert states[0] == START
    assert grammar.follows[states[-1], tokens[-1]] == WHOLE
    assert len(tokens) <= grammar.longest
    assert Program.read(grammar.text(tiny, tokens)) == program


@settings(max_examples=30)
@given(st.randoms(use_true_random=False))
def test_every_way_through_the_grammar_is_a_valid_program(tiny, grammar, random):
    state, tokens = START, []
    while state != WHOLE:
        tokens.append(random.choice(np.flatnonzero(grammar.allowed[state]).tolist()))
        state = grammar.follows[state, tokens[-1]]
    program = Program.read(grammar.text(tiny, tokens))
    check(program, MOST, LARGEST)
    assert spell(tiny, grammar, program) == tokens


def test_the_longest_program_is_as_long_as_the_grammar_says(tiny, grammar):
    steps = [Step(100, "+", 100)] * MOST
    assert len(spell(tiny, grammar, Program(tuple(steps), f"x{MOST}"))) == grammar.longest


def test_forced_tokens_are_all_that_may_follow_up_to_the_next_choice(grammar):
    for state, forced in enumerate(grammar.forced):
        for token in forced:
            assert np.flatnonzero(grammar.allowed[state]).tolist() == [token]
            state = grammar.follows[state, token]
        assert state == WHOLE or grammar.allowed[state].sum() > 1
    assert sum(map(len, grammar.forced)) > 0


@pytest.mark.parametrize(
    "text",
    [
        "Step 1: 33 + x1 = x1\nAnswer: x1",
        "Step 1: 101 + 2 = x1\nAnswer: x1",
        "Step 1: 02 + 2 = x1\nAnswer: x1",
        "Step 1: 3 + 2 = x2\nAnswer: x2",
        "Step 1: 3 + 2 = x1\nAnswer: x2",
        "Step 2: 3 + 2 = x1\nAnswer: x1",
        "Step 1: 3 + 2 = x1\nStep 2: x1 - 2",
        "Answer: x1",
    ],
)
def test_texts_that_are_no_program_are_not_in_the_grammar(tiny, grammar, text):
    with pytest.raises(ValueError, match="of the program is not allowed by the grammar"):
        grammar.walk([*grammar.places(tiny.encode([text])[0]), grammar.end])


def test_more_steps_than_the_grammar_has_are_refused(tiny, grammar):
    program = Program((Step(2, "+", 3), *[Step("x1", "+", 3)] * MOST), "x2")
    with pytest.raises(ValueError, match=r"is none of the|is not allowed"):
        grammar.walk(spell(tiny, grammar, program))
    with pytest.raises(ValueError, match=r"token \d+ of the program is none of the \d+ program tokens"):
        grammar.places(tiny.encode(["Step 1: 3 * 4 = x1"])[0])


def test_programs_of_more_than_nine_steps_have_a_grammar_too(tiny):
    grammar = Grammar.of(tiny, 11, 5)
    steps = [Step(2, "+", 3), *(Step(f"x{k}", "-", 1) for k in range(1, 11))]
    tokens = spell(tiny, grammar, Program(tuple(steps), "x11"))
    assert grammar.follows[grammar.walk(tokens)[-1], tokens[-1]] == WHOLE
    assert REFUSED not in grammar.follows[grammar.allowed]


@pytest.mark.parametrize("numbers", [[12], [1, 2, 3, 4, 5, 6], [3, LARGEST + 1], [-1, 4]])
def test_there_are_no_programs_about_too_few_too_many_or_too_large_numbers(grammar, numbers):
    with pytest.raises(ValueError, match=r"a program reads 2 to 5 numbers from 0 to 100, got \["):
        grammar.grounded(numbers)


@settings(max_examples=30)
@given(st.lists(st.integers(0, LARGEST), min_size=2, max_size=MOST + 1), st.randoms(use_true_random=False))
def test_every_way_through_a_grounded_grammar_reads_every_number_once(tiny, grammar, numbers, random):
    grounded = grammar.grounded(numbers)
    state, said = START, []
    while state != WHOLE:
        said.append(random.choice(np.flatnonzero(grounded.allowed[state]).tolist()))
        state = grounded.follows[state, said[-1]]
    grammar.walk(said)  # a program of the whole grammar, too
    program = Program.read(grammar.text(tiny, said))
    read = [operand for step in program.steps for operand in step.operands]
    assert sorted(operand for operand in read if isinstance(operand, int)) == sorted(numbers)
    results = [operand for operand in read if not isinstance(operand, int)]
    assert sorted(results) == [f"x{k}" for k in range(1, len(numbers) - 1)]
    assert program.answer == f"x{len(numbers) - 1}"
