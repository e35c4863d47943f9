"""Execution from a table of steps: look-ups equal single steps, flags are exact, and every error is accounted for."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib.datasets import decomposer, steps
from redlib.execution import (
    KINDS,
    StepTable,
    as_lines,
    as_steps,
    budget,
    compounding,
    encode,
    exposure,
    outcomes,
    run,
    symbolic,
)
from redlib.execution.table import NO_RANGE, UNKNOWN
from redlib.expressions import SOURCE_LABELS, Expression
from redlib.programs import Program, Step, exact

SOURCE, CLOSED = (steps.domain(name) for name in ("source", "closed"))


def noisy(a, operator, b):
    """An executor that stays in the labels, is wrong on about one step in seven and always on the same ones."""
    value = exact(a, operator, b) + (1 if (7 * a + 3 * b) % 7 == 1 else 0)
    return min(max(value, 2), 100)


def by_hand(a, operator, b):
    """Exact but for four steps."""
    wrong = {(12, "+", 5): 18, (18, "-", 9): 8, (70, "+", 3): 80, (30, "+", 20): 51}
    return wrong.get((a, operator, b), exact(a, operator, b))


def chain(text):
    return Program.from_expression(Expression.read(text))


@pytest.fixture(scope="module")
def table():
    functions = {"noisy": noisy, "by_hand": by_hand, "exact": exact}
    return StepTable.tabulate(steps.reachable(), functions, SOURCE_LABELS)


@pytest.fixture(scope="module")
def programs():
    pools = [decomposer.build(500, seed=5, domain=name) for name in steps.DOMAINS]
    return [chain(text) for pool in pools for text in pool["expression"]]


def test_looking_up_programs_equals_running_them_step_by_step(table, programs):
    done = run(encode(programs), table.look("noisy"), CLOSED)
    for n, program in enumerate(programs):
        trace = program.trace(noisy)
        assert done.value[n] == program.execute(noisy) == program.execute(table.step("noisy"))
        assert done.range[n] == SOURCE_LABELS.range_of(trace[-1].result)
        assert [tuple(map(int, row)) for row in zip(done.first[n], done.second[n], done.result[n], strict=True)][
            : len(trace)
        ] == [(s.a, s.b, s.result) for s in trace]
        assert done.wrong[n].tolist()[: len(trace)] == [s.result != exact(*s[:3]) for s in trace]
        inside = [2 <= s.a <= 100 and 2 <= s.b <= 50 and 2 <= exact(*s[:3]) <= 100 for s in trace]
        assert done.flagged[n] == (not all(inside))


@st.composite
def any_program(draw):
    made = []
    for k in range(draw(st.integers(1, 5))):
        operand = st.one_of(st.integers(0, 60), *([st.sampled_from([f"x{j + 1}" for j in range(k)])] if k else []))
        made.append(Step(draw(operand), draw(st.sampled_from("+-")), draw(operand)))
    return Program(tuple(made), f"x{draw(st.integers(1, len(made)))}")


@settings(max_examples=100)
@given(st.lists(any_program(), min_size=1, max_size=5))
def test_programs_of_any_shape_run_alike_or_are_flagged(table, drawn):
    done = run(encode(drawn), table.look("noisy"), CLOSED)
    ceiling = run(encode(drawn), symbolic(SOURCE_LABELS))
    assert ceiling.value.tolist() == [program.execute() for program in drawn]
    assert not ceiling.wrong.any()
    for n, program in enumerate(drawn):
        needed = [k for k, used in enumerate(program.needed) if used]
        known = {}
        for k in needed:  # by hand, as far as the table reaches
            a, b = (known[int(o[1:]) - 1] if isinstance(o, str) else o for o in program.steps[k].operands)
            there = None not in (a, b) and 2 <= a <= 100 and 2 <= b <= 50
            known[k] = noisy(a, program.steps[k].operator, b) if there else None
        answer = known[int(program.answer[1:]) - 1]
        assert done.value[n] == (UNKNOWN if answer is None else answer)
        assert (done.range[n] == NO_RANGE) == (answer is None)
        if None in known.values():
            assert done.flagged[n]


@pytest.mark.parametrize("domain", [SOURCE, CLOSED], ids=steps.DOMAINS)
def test_flags_are_exact_over_the_whole_population_and_beyond(table, domain):
    everything = [(a, operator, b) for operator in "+-" for a in range(111) for b in range(61)]
    plans = encode([Program((Step(*step),), "x1") for step in everything])
    inside = set(domain.steps())
    for look in (table.look("noisy"), symbolic(SOURCE_LABELS)):
        done = run(plans, look, domain)
        assert done.flagged.tolist() == [step not in inside for step in everything]
    assert (run(plans, table.look("exact"), domain).value == UNKNOWN).sum() == len(everything) - 2 * 99 * 49


def test_a_planners_text_that_is_no_program_has_no_answer_and_is_flagged(table):
    done = run(encode([None, chain("3 + 4")]), table.look("exact"), CLOSED)
    assert done.value.tolist() == [UNKNOWN, 7]
    assert done.range.tolist() == [NO_RANGE, 0]
    assert done.flagged.tolist() == [True, False]
    assert encode([]).sign.shape == (0, 1)
    assert run(encode([None]), table.look("exact"), CLOSED).value.tolist() == [UNKNOWN]


CASES = [  # gold, predicted, answer given, kind, flagged in `source`
    ("3 + 4 - 5", "3 + 4 - 5", 2, "right", False),
    ("40 + 30 - 6", "40 + 30 - 6", 64, "right", True),
    ("3 + 4 - 5", "4 + 3 - 5", 2, "right", False),  # another text, the same meaning
    ("12 + 5 - 9", "12 + 5 - 9", 8, "cancelled", False),  # 18 - 9 = 8: one too many, one too few
    ("9 + 7 - 7", "9 + 8 - 8", 9, "cancelled", False),  # the planner's two slips
    ("12 + 5 - 3", "12 + 5 - 3", 15, "inside", False),
    ("40 + 30 + 3", "40 + 30 + 3", 80, "outside", True),
    ("30 + 20 + 3", "30 + 20 + 3", 54, "inside", True),  # the first wrong step counts; its result leaves the domain
    ("6 + 7", "6 + 8", 14, "planner", False),
    ("12 + 5 - 3", "12 + 5 - 4", 14, "cancelled", False),  # a wrong program and a wrong step give the right answer
    ("6 + 7", None, UNKNOWN, "planner", True),
]


@pytest.fixture
def found(table):
    gold = [chain(case[0]) for case in CASES]
    predicted = [chain(case[1]) if case[1] else None for case in CASES]
    return outcomes(gold, predicted, run(encode(predicted), table.look("by_hand"), SOURCE), SOURCE_LABELS)


def test_every_answer_is_accounted_for_as_worked_by_hand(found):
    _, _, answers, kinds, flags = zip(*CASES, strict=True)
    assert found["predicted_value"].tolist() == list(answers)
    assert found["kind"].tolist() == list(kinds)
    assert found["flagged"].tolist() == list(flags)
    assert found["exact_program"].tolist() == [a == b for a, b, *_ in CASES]
    assert found["wrong_steps"].tolist() == [0, 0, 0, 2, 0, 1, 1, 1, 0, 1, 0]
    assert found["value"].tolist() == [eval(case[0]) for case in CASES]


def test_the_budget_adds_up_and_counts_what_was_flagged(found):
    table = budget(found).set_index(["operations", "kind"])
    assert len(table) == 3 * len(KINDS)
    assert table.groupby("operations")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    assert table.loc["all"]["programs"].to_dict() == {
        "right": 3,
        "cancelled": 3,
        "planner": 2,
        "inside": 2,
        "outside": 1,
    }
    assert table.loc["all", "inside"].tolist() == [2, 2 / 11, 11, 1]
    assert table.loc["2", "cancelled"].tolist() == [3, 3 / 9, 9, 0]
    assert table.loc["1", "planner"].tolist() == [2, 1, 2, 1]


def test_a_wrong_answer_without_a_flag_has_a_wrong_step_inside_or_a_wrong_program(table, programs):
    done = run(encode(programs), table.look("noisy"), SOURCE)
    found = outcomes(programs, programs, done, SOURCE_LABELS)
    unflagged = found[~found["flagged"]]
    assert set(unflagged["kind"]) <= {"right", "cancelled", "inside"}
    assert (found["kind"] == "outside").any()


def test_compounding_beside_what_is_observed_worked_by_hand(table):
    made = [chain(text) for text in ("12 + 5", "3 + 4", "12 + 5 - 9", "12 + 5 - 3", "3 + 4 - 2", "9 + 9 - 9")]
    curve = compounding(made, table.look("by_hand"), SOURCE_LABELS).set_index("operations")
    assert curve["programs"].to_dict() == {1: 2, 2: 4}
    assert curve["step_accuracy"].to_dict() == {1: 1 / 2, 2: 5 / 8}  # exact traces: 12 + 5 - 9 asks for 17 - 9
    assert curve["compounded"].to_dict() == pytest.approx({1: 0.6, 2: 0.36})  # 6 of 10 steps are right
    assert curve["all_right"].to_dict() == {1: 1 / 2, 2: 1 / 4}
    assert curve["observed"].to_dict() == {
        1: 1 / 2,
        2: 2 / 4,
    }  # one more than all_right: 18 - 9 = 8 cancels 12 + 5 = 18


def test_what_is_observed_is_all_right_and_cancelled(table, programs):
    curve = compounding(programs, table.look("noisy"), SOURCE_LABELS).set_index("operations")
    found = outcomes(programs, programs, run(encode(programs), table.look("noisy"), CLOSED), SOURCE_LABELS)
    shares = budget(found).set_index(["kind", "operations"])["share"]
    for operations, line in curve.iterrows():
        assert line["observed"] - line["all_right"] == pytest.approx(shares["cancelled", str(operations)])
        assert line["all_right"] == pytest.approx(shares["right", str(operations)])
    assert curve["compounded"].is_monotonic_decreasing
    ceiling = compounding(programs, symbolic(SOURCE_LABELS), SOURCE_LABELS)
    assert (ceiling[["step_accuracy", "compounded", "all_right", "observed"]] == 1).all(axis=None)


def test_exposure_counts_unseen_steps_and_takes_twins_for_seen():
    seen = {Expression.read(text).structure_key for text in ("5 + 12", "17 - 9", "3 + 4")}
    made = [chain(text) for text in ("12 + 5 - 9", "12 + 5 - 8", "9 - 17 + 3", "4 + 3")]
    assert exposure(made, seen) == ["none", "some", "all", "none"]


def test_the_error_map_has_every_step_once(table):
    frame = table.frame("by_hand", SOURCE)
    assert len(frame) == 2 * 99 * 49
    assert not frame.duplicated(["operator", "first", "second"]).any()
    assert frame["inside"].sum() == 2_401 + 1_128
    wrong = frame[frame["predicted_value"] != frame["result"]]
    assert wrong[["first", "operator", "second", "result", "predicted_value"]].values.tolist() == [
        [12, "+", 5, 17, 18],
        [30, "+", 20, 50, 51],
        [70, "+", 3, 73, 80],
        [18, "-", 9, 9, 8],
    ]
    assert wrong["inside"].tolist() == [True, True, False, True]
    assert wrong["predicted_range"].tolist() == [0, 2, 3, 0]


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["red", "top1"]), st.integers(2, 5), st.integers(2, 9)),
        st.integers(0, 12),
        min_size=1,
    )
)
def test_steps_are_the_same_after_they_were_lines_and_no_line_has_a_gap(counts):
    steps = pd.DataFrame([(*step, right, 12) for step, right in counts.items()])
    steps = steps.set_axis(["method", "first", "second", "right", "n"], axis=1)
    lines = as_lines(steps, ["method"])
    after = lines.assign(second=lines["second"] + lines["right"].str.split().str.len())
    assert not set(counts) & set(after[["method", "first", "second"]].itertuples(index=False, name=None))
    found = as_steps(lines)
    assert list(found.columns) == ["method", "first", "second", "value", "n"]
    read = {tuple(step): round(value * n) for *step, value, n in found.itertuples(index=False)}
    assert (read, len(found)) == (counts, len(counts))


def test_lines_worked_by_hand():
    steps = [("+", 3, 2, 5), ("+", 3, 3, 0), ("+", 3, 5, 1), ("+", 4, 2, 2), ("-", 4, 2, 4)]
    steps = pd.DataFrame(steps, columns=["operator", "first", "second", "right"]).assign(n=5)
    lines = as_lines(steps.iloc[::-1], ["operator"])
    assert lines[["operator", "first", "second", "right", "value", "n"]].values.tolist() == [
        ["+", 3, 2, "5 0", 0.5, 10],
        ["+", 3, 5, "1", 0.2, 5],
        ["+", 4, 2, "2", 0.4, 5],
        ["-", 4, 2, "4", 0.8, 5],
    ]


def test_a_table_of_part_of_the_steps_knows_only_those():
    table = StepTable.tabulate(SOURCE, {"exact": exact}, SOURCE_LABELS)
    done = run(encode([chain("50 + 50"), chain("3 - 2"), chain("51 + 2")]), table.look("exact"), SOURCE)
    assert done.value.tolist() == [100, UNKNOWN, UNKNOWN]
    assert done.flagged.tolist() == [False, True, True]


def test_what_cannot_be_looked_up_is_refused_in_one_sentence(table):
    with pytest.raises(LookupError, match="no executor 'red' in the table; executors: noisy, by_hand, exact"):
        table.look("red")
    with pytest.raises(
        ValueError, match=r"step '120 \+ 3' is out of the domain: executor 'exact' knows .* 2\.\.100 and 2"
    ):
        table.step("exact")(120, "+", 3)
    with pytest.raises(ValueError, match="executor 'red' predicts 3 steps of a population of 9702"):
        StepTable.of(steps.reachable(), {"red": (np.zeros(3), np.zeros(3))})
    made = [chain("3 + 4")]
    with pytest.raises(ValueError, match="1 gold and 0 predicted programs, but 1 were executed"):
        outcomes(made, [], run(encode(made), symbolic(SOURCE_LABELS)), SOURCE_LABELS)
