"""Step programs: round trip, rejection with line and column, meaning, execution with any step function."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib.expressions import Expression
from redlib.programs import Program, Step, check, exact

SOURCE = "Step 1: 33 + 23 = x1\nStep 2: x1 - 36 = x2\nAnswer: x2"  # the source, 4.2.7
numbers = st.integers(0, 999)
chains = st.lists(st.tuples(st.sampled_from("+-"), numbers), min_size=1, max_size=6).flatmap(
    lambda further: st.builds(
        lambda first: Expression((first, *(n for _, n in further)), tuple(sign for sign, _ in further)), numbers
    )
)


@st.composite
def programs(draw):
    """Any valid program: operands are numbers or earlier variables on either side, and any step is the answer."""
    count = draw(st.integers(1, 6))
    steps = []
    for k in range(count):
        operand = st.one_of(numbers, st.sampled_from([f"x{j + 1}" for j in range(k)])) if k else numbers
        steps.append(Step(draw(operand), draw(st.sampled_from("+-")), draw(operand)))
    return Program(tuple(steps), f"x{draw(st.integers(1, count))}")


def test_the_sources_example_is_printed_and_read_as_it_stands():
    program = Program.from_expression(Expression.read("33 + 23 - 36"))
    assert program.text == SOURCE
    assert Program.read(SOURCE) == program
    assert program.execute() == 20
    assert [step.result for step in program.trace()] == [56, 20]


@settings(max_examples=300)
@given(programs())
def test_what_is_printed_is_read_back(program):
    assert Program.read(program.text) == program


@settings(max_examples=200)
@given(chains)
def test_a_chain_becomes_a_program_and_comes_back(expression):
    program = Program.from_expression(expression)
    assert program.to_expression() == expression
    assert tuple(step.result for step in program.trace()) == expression.partials
    assert all(program.needed)
    signed = [f"{sign}{n}" for sign, n, times in program.meaning for _ in range(times)]
    assert sorted(signed) == sorted(re.findall(r"[+-]\d+", expression.structure_key))


@settings(max_examples=300)
@given(programs())
def test_meaning_gives_the_answer_and_execution_agrees_with_python(program):
    names = {}
    for k, step in enumerate(program.steps, start=1):
        names[f"x{k}"] = eval(f"{step.left} {step.operator} {step.right}", {}, names)
    assert program.execute() == names[program.answer]
    assert sum(n * times * (1 if sign == "+" else -1) for sign, n, times in program.meaning) == names[program.answer]


@settings(max_examples=250)
@given(programs(), st.data())
def test_a_damaged_program_is_read_exactly_or_refused_with_its_place(program, data):
    text = program.text
    at = data.draw(st.integers(0, len(text)))
    width = data.draw(st.integers(0, 3))
    changed = text[:at] + data.draw(st.text("Stepx0129+-*=: \n\tAnswer٣", max_size=3)) + text[at + width :]
    try:
        assert Program.read(changed).text == changed
    except ValueError as error:
        line, column = map(int, re.match(r"line (\d+), column (\d+): .", str(error)).groups())
        lines = changed.split("\n")
        assert 1 <= line <= len(lines)
        assert 1 <= column <= len(lines[line - 1]) + 1


@settings(max_examples=200)
@given(st.text())
def test_other_text_is_refused_with_its_place(text):
    with pytest.raises(ValueError, match="line 1, column"):
        Program.read(text)


REFUSED = [
    ("Step 1: 3 + x4 = x1\nAnswer: x1", "line 1, column 13: x4 is not defined; the program defines x1"),
    ("Step 1: 3 + 4 = x1\nAnswer: x2", "line 2, column 9: x2 is not defined; the program defines x1"),
    ("Step 1: x1 + 3 = x1\nAnswer: x1", "line 1, column 9: x1 needs its own result: a loop"),
    (
        "Step 1: 3 + x2 = x1\nStep 2: x1 + 1 = x2\nAnswer: x2",
        "line 1, column 13: x1 needs its own result: a loop",
    ),
    (
        "Step 1: x2 + 3 = x1\nStep 2: 1 + 1 = x2\nAnswer: x1",
        "line 1, column 9: x2 is used in step 1 before step 2 defines it",
    ),
    (
        "Step 1: 3 + 4 = x1\nStep 2: x1 - 1 = x2",
        "line 2, column 20: the program has no answer; its last line must be one such as 'Answer: x2'",
    ),
    ("Answer: x1", "line 1, column 9: the program has no steps"),
    ("Step 1: 30 / 5 = x1\nAnswer: x1", "line 1, column 12: unknown operator '/'; valid operators: +, -"),
    ("Step 1: 30 div 5 = x1\nAnswer: x1", "line 1, column 12: unknown operator 'div'; valid operators: +, -"),
    (
        "Step 1: 3 + 4 = x1\nAnswer: x1\nAnswer: x1",
        "line 3, column 1: a second answer; a program ends with its one answer",
    ),
    (f"{SOURCE}\n", "line 4, column 1: text after the answer; a program ends with its one answer"),
    ("Step 2: 3 + 4 = x1\nAnswer: x1", "line 1, column 6: expected '1' here, found '2'"),
    ("Step 1: 3 + 4 = x2\nAnswer: x2", "line 1, column 17: expected 'x1' here, found 'x2'"),
    ("for i in range(3):", "line 1, column 1: expected 'Step ' or 'Answer: ', found 'for i in range(3):'"),
    ("", "line 1, column 1: expected 'Step ' or 'Answer: ', found the end of the line"),
    (
        "Step 1: 3 + -4 = x1\nAnswer: x1",
        "line 1, column 13: expected a number from 0 to 999999999 or a variable such as x1, found '-4 = x1'",
    ),
    (
        "Step 1: 3 + 04 = x1\nAnswer: x1",
        "line 1, column 13: expected a number from 0 to 999999999 or a variable such as x1, found '04 = x1'",
    ),
    ("Step 1: 3 + 4 = x1 \nAnswer: x1", "line 1, column 19: expected the end of the line, found ' '"),
    ("Step 1: 3 + 4\nAnswer: x1", "line 1, column 14: expected ' = ', found the end of the line"),
    (b"Step 1", "a program must be a string, got bytes"),
]


@pytest.mark.parametrize(("text", "sentence"), REFUSED)
def test_each_fault_is_said_in_one_sentence_with_its_place(text, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        Program.read(text)


@pytest.mark.parametrize(
    ("steps", "answer", "sentence"),
    [
        ((), "x1", "the program has no steps"),
        ((Step(3, "*", 4),), "x1", "unknown operator '*'; valid operators: +, -"),
        ((Step(-3, "+", 4),), "x1", "operand -3 is neither a number from 0 to 999999999 nor a variable such as x1"),
        ((Step(3, "+", 10**9),), "x1", "operand 1000000000 is neither a number"),
        ((Step(True, "+", 4),), "x1", "operand True is neither a number"),
        ((Step("y1", "+", 4),), "x1", "operand 'y1' is neither a number"),
        ((Step(3, "+", "x1"),), "x1", "x1 needs its own result: a loop"),
        ((Step(3, "+", 4),), "x2", "x2 is not defined; the program defines x1"),
        ((Step(3, "+", 4),), 7, "answer 7 is no variable such as x1"),
    ],
)
def test_no_invalid_program_can_be_made(steps, answer, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        Program(steps, answer)


def test_limits_are_checked_on_demand():
    program = Program.read(SOURCE)
    check(program)
    check(program, max_operations=2, largest=36)
    with pytest.raises(ValueError, match=r"^the program has 2 operations, more than 1$"):
        check(program, max_operations=1)
    with pytest.raises(ValueError, match=r"^number 36 is above 35$"):
        check(program, largest=35)
    with pytest.raises(ValueError, match=r"^line 2, column 14: number 36 is above 35$"):
        Program.read(SOURCE, largest=35)
    with pytest.raises(ValueError, match=r"^line 2, column 1: the program has 2 operations, more than 1$"):
        Program.read(SOURCE, max_operations=1)


def test_programs_are_compared_by_text_and_by_meaning():
    program = Program.read(SOURCE)
    for same in (
        "Step 1: 23 + 33 = x1\nStep 2: x1 - 36 = x2\nAnswer: x2",
        "Step 1: 36 - 33 = x1\nStep 2: 23 - x1 = x2\nAnswer: x2",
        f"{SOURCE[: -len('Answer: x2')]}Step 3: x1 + 7 = x3\nAnswer: x2",
    ):
        other = Program.read(same)
        assert other != program
        assert other.meaning == program.meaning
    for different in (SOURCE.replace("33", "32"), SOURCE.replace("-", "+"), SOURCE.replace("Answer: x2", "Answer: x1")):
        assert Program.read(different).meaning != program.meaning
    even = Program.read("Step 1: 5 - 5 = x1\nStep 2: x1 + 3 = x2\nAnswer: x2")
    assert even.meaning == (("+", 3, 1), ("+", 5, 1), ("-", 5, 1)), "no term is struck out: twins share all numbers"


def test_only_chains_have_an_expression():
    for text, fault in (
        ("Step 1: 3 + 4 = x1\nStep 2: 5 + x1 = x2\nAnswer: x2", "step 2 does not continue x1 with a number"),
        ("Step 1: 3 + 4 = x1\nStep 2: x1 + x1 = x2\nAnswer: x2", "step 2 does not continue x1 with a number"),
        ("Step 1: 3 + 4 = x1\nStep 2: x1 + 5 = x2\nAnswer: x1", "the answer is x1, not the last step's x2"),
    ):
        with pytest.raises(ValueError, match=f"^no chain: {re.escape(fault)}$"):
            Program.read(text).to_expression()


def test_any_step_function_executes_a_program_and_sees_its_own_mistakes():
    asked = []

    def always_one_more(a, operator, b):
        asked.append((a, operator, b))
        return exact(a, operator, b) + 1

    program = Program.read(SOURCE)
    assert program.execute(always_one_more) == 22
    assert asked == [(33, "+", 23), (57, "-", 36)]


def test_what_the_answer_does_not_need_is_known():
    program = Program.read("Step 1: 3 + 4 = x1\nStep 2: 5 + 6 = x2\nStep 3: 2 + x1 = x3\nAnswer: x3")
    assert program.needed == (True, False, True)
