"""One question solved: the trace hands values on, flags are exact, and what is printed says what is so."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone, config, decomposer, evaluation, features, paths
from redlib.__main__ import main
from redlib.datasets import steps
from redlib.decomposer import Symbolic
from redlib.execution import Experts, Said, Solver, arithmetic, encode, run, solve, symbolic
from redlib.expressions import OPERATORS, SOURCE_LABELS, Expression
from redlib.models import LinearBank, MLPBank, PooledBase, ResidualExperts
from redlib.models.executors import BY_RANGE, EXECUTORS, executor
from redlib.programs import Program
from redlib.study import solving

CHAIN = "29 minus 11 minus 9 plus 15"
CLOSED = steps.domain("closed")
READS = Symbolic(4, 100)
POINT = features.Point(2)
SMALL = {"decomposer.rows": 300, "decomposer.seeds": {"structure": 1}, "decomposer.training.max_epochs": 1}
SMALL |= {"operations.domains": ["closed"], "operations.seeds": {"structure": 1}}


def mistaken(a, operator, b):
    """Exact but for 29 - 11, with made-up weights."""
    value = 17 if (a, operator, b) == (29, "-", 11) else arithmetic(a, operator, b).value
    return Said(value, 0.75, "R1", {"+": 0.25, "-": 0.75})


def parts(bone, K):
    generator, d = torch.Generator().manual_seed(0), bone.hidden_size
    base = PooledBase(torch.zeros(1, 1, d), torch.ones(1, 1, d))
    experts = ResidualExperts(range(K), d, 3)
    experts.up.weight.data.normal_(0, 1, generator=generator)
    made = {"classifier": LinearBank([9], d, SOURCE_LABELS.C), "router": MLPBank([5], d, 4, K)}
    made |= {"heads": LinearBank(range(K), d, SOURCE_LABELS.C), "gate": MLPBank([6], d, 4, K)}
    return {"base": base, "experts": experts} | made


def experts(bone, name):
    """An untrained executor, which reads steps with a real backbone."""
    names = SOURCE_LABELS.names if name == BY_RANGE else OPERATORS
    method = executor(name, SOURCE_LABELS, parts(bone, len(names)), len(names))
    return Experts(method, bone, POINT, SOURCE_LABELS, names)


def make_solver(bone):
    """An untrained planner and untrained executors beside the symbolic ones."""
    about = {"weights_id": bone.weights_id, "backbone": bone.name, "top_layers": bone.layers - bone.boundary}
    planner = decomposer.new(bone, about | {"max_operations": 4, "largest": 100, "split": "text", "seed": 0})
    planner.writer.readout.weight.data.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
    executors = {name: experts(bone, name) for name in EXECUTORS} | {"symbolic": arithmetic, "mistaken": mistaken}
    planners = {"symbolic": READS, "trained": planner}
    return Solver(planners, executors, CLOSED, READS, "untrained", exempt=("symbolic",))


@pytest.fixture(scope="module")
def bone():
    return backbone.load("tiny")


@pytest.fixture(scope="module")
def solver(bone):
    return make_solver(bone)


# ---- what happens ------------------------------------------------------------------------------------------------


def test_every_step_gets_the_numbers_that_the_steps_before_it_gave():
    s = solve(CHAIN, READS, mistaken, CLOSED)
    assert [(step.a, step.operator, step.b, step.said.value) for step in s.trace] == [
        (29, "-", 11, 17),
        (17, "-", 9, 8),
        (8, "+", 15, 23),
    ]
    assert [step.right for step in s.trace] == [False, True, True]
    assert (s.answer, s.true_value, s.right, s.same_program, s.out_of_domain) == (23, 24, False, True, False)
    assert s.notes == ()


@settings(max_examples=60)
@given(st.data())
def test_answers_and_flags_are_those_of_running_the_program(data):
    terms = data.draw(st.lists(st.integers(0, 100), min_size=2, max_size=5))
    operators = data.draw(st.lists(st.sampled_from(OPERATORS), min_size=len(terms) - 1, max_size=len(terms) - 1))
    chain = Expression(tuple(terms), tuple(operators))
    s = solve(chain.text, READS, arithmetic, CLOSED)
    done = run(encode([Program.from_expression(chain)]), symbolic(SOURCE_LABELS), CLOSED)
    assert s.answer == s.true_value == done.value[0] == chain.value
    assert s.out_of_domain == done.flagged[0]
    assert [not step.inside for step in s.trace] == done.outside[0].tolist()
    assert solve(chain.text, READS, arithmetic).out_of_domain is False


def test_a_step_outside_the_domain_is_executed_and_flagged_everywhere():
    s = solve("90 plus 20 minus 70", READS, arithmetic, CLOSED)
    assert (s.answer, s.right, s.out_of_domain) == (40, True, True)
    assert (
        "nobody vouches for the answer: x1 = 90 + 20, x2 = 110 - 70 (the experts know first operand 2..100"
        in s.notes[0]
    )
    assert "OUT OF DOMAIN" in s.card()
    assert s.to_dict()["out_of_domain"] is True
    assert s.trace_table()["domain"].tolist() == ["outside", "outside"]
    inside = solve("90 minus 20", READS, arithmetic, CLOSED)
    assert "OUT OF DOMAIN" not in inside.card()


def test_a_step_that_the_answer_does_not_need_raises_no_flag():
    class Plans:
        def decompose(self, text):
            return decomposer.Plan(text, "Step 1: 99 + 99 = x1\nStep 2: 3 + 4 = x2\nAnswer: x2", (0.5, 1.0, 1.0))

    s = solve("3 plus 4", Plans(), arithmetic, CLOSED, READS)
    assert [(step.inside, step.needed) for step in s.trace] == [(False, False), (True, True)]
    assert (s.answer, s.same_program, s.out_of_domain) == (7, True, False)
    assert "outside the domain, not needed" in s.card()


def test_a_planner_that_writes_another_program_is_told_on(solver):
    s = solver.solve(CHAIN, "trained")
    assert s.plan.program.meaning != s.reference.meaning
    assert s.same_program is False
    assert "gives 24: Step 1: 29 - 11 = x1; Step 2: x1 - 9 = x2; Step 3: x2 + 15 = x3; Answer: x3" in s.notes[-1]
    assert "another program" in s.card()
    assert all(0 < probability <= 1 for _, probability in s.lines)


def test_a_text_that_the_parser_does_not_read_has_no_true_value(solver):
    s = solver.solve("12 plus 7 apples", "trained")
    assert (s.true_value, s.right, s.same_program) == (None, None, None)
    assert "no true value known (cannot read '12 plus 7 apples'" in s.notes[-1]
    with pytest.raises(ValueError, match="cannot read '12 plus 7 apples'"):
        solver.solve("12 plus 7 apples", "symbolic")


# ---- executors of single steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXECUTORS)
def test_experts_say_of_a_step_what_predictions_say_of_its_text(bone, name):
    mine = experts(bone, name)
    asked = [(12, "+", 5), (90, "-", 45), (70, "+", 60)]
    x = features.compute(bone, [steps.canonical(step) for step in asked], [POINT])[POINT]
    rows = evaluation.predict(mine.method, torch.from_numpy(x), SOURCE_LABELS, [0, 1, 0])
    for step, row in zip(asked, rows.itertuples(), strict=True):
        said = mine(*step)
        assert (said.value, said.range) == (row.predicted_value, SOURCE_LABELS.names[row.predicted_range])
        assert said.probability == pytest.approx(row.confidence, abs=1e-4)
        alpha = [getattr(row, f"alpha_{k + 1}") for k in range(mine.method.K)]
        weights = list(said.weights.values()) or [np.nan] * len(alpha)
        np.testing.assert_allclose(weights, alpha, atol=1e-4)
        assert list(said.weights) in ([], list(mine.names))


# ---- what is shown -----------------------------------------------------------------------------------------------


def test_card_json_and_tables_say_the_same(solver):
    s = solver.solve(CHAIN, method="mistaken")
    data = json.loads(s.to_json())
    assert data == s.to_dict()
    assert data["trace"][0]["weights"] == {"+": 0.25, "-": 0.75}
    assert (data["answer"], data["true_value"], data["range"]) == (23, 24, "R1")
    assert (
        s.plan_table().index.tolist() == [line["line"] for line in data["plan"]["lines"]] == s.plan.written.split("\n")
    )
    table = s.trace_table()
    assert table["answered"].tolist() == [step["value"] for step in data["trace"]] == [17, 8, 23]
    assert table["exact"].tolist() == [18, 8, 23]
    assert table["weight of -"].tolist() == [0.75] * 3
    card = s.card()
    assert "x1 = 29 - 11  + 0.250  - 0.750  17 (0.750)  18     wrong" in card
    assert "answer   23, range R1  (24 is exact; wrong)" in card
    assert all(len(line) <= 80 for line in card.splitlines())
    again = eval(s.code(), {"solver": solver})
    assert again.to_dict() == data


def test_names_that_a_solver_lacks_are_named(solver):
    with pytest.raises(ValueError, match="unknown planner 'trane'; valid planners: symbolic, trained"):
        solver.solve(CHAIN, "trane")
    with pytest.raises(ValueError, match="unknown method 'rad'; valid methods: red, top1"):
        solver.solve(CHAIN, method="rad")
    assert solver.solve("90 plus 20", method="mistaken").out_of_domain
    assert not solver.solve("90 plus 20", method="symbolic").out_of_domain, "arithmetic knows every step"


# ---- a profile's solver, and the command -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(cache):
    return config.load("smoke", SMALL)


@pytest.fixture
def profile(cache, small, monkeypatch):
    """`config.load` gives the small profile, and `record` as it is."""
    load = config.load
    monkeypatch.setenv("REDLIB_CACHE", str(cache))
    monkeypatch.setattr(paths, "modules", lambda: cache / "nothing shipped")
    monkeypatch.setattr(config, "load", lambda name, *given: small if name == "smoke" else load(name, *given))
    return small


def test_solve_says_what_is_trained_first_and_prints_json_alone(profile, capsys):
    missing = solving.missing(profile, executors=("red",))
    assert main(["solve", CHAIN, "--profile", "smoke", "--json"]) == 0
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert (data["true_value"], data["planner"], data["method"]) == (24, "trained", "red")
    assert Program.read(data["plan"]["program"]).steps
    assert set(data["trace"][0]["weights"]) == set(OPERATORS)
    assert captured.err.startswith(f"{len(missing)} stages are missing: about ")
    assert solving.missing(profile, executors=("red",)) == []
    assert main(["solve", CHAIN, "--profile", "smoke", "--planner", "symbolic", "--method", "softmax_moe"]) == 0
    captured = capsys.readouterr()
    assert "Step 3: x2 + 15 = x3  1.000" in captured.out
    assert "machinery only, no evidence" in captured.out
    assert captured.err == ""


def test_arithmetic_alone_needs_no_training_at_any_profile(profile, capsys):
    assert (
        main(["solve", "90 plus 20 minus 70", "--profile", "record", "--planner", "symbolic", "--method", "symbolic"])
        == 0
    )
    assert "answer   40  (40 is exact; right)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([""], "the question is empty"),
        (["plus minus"], "has no numbers"),
        (["7 plus"], "has only one number (7)"),
        (["7 times 3"], "unknown operator 'times'"),
        (["7 3"], "names no operator"),
        (["1 plus 2 plus 3 plus 4 plus 5 plus 6"], "has 5 operations; the planner writes at most 4"),
        (["101 plus 2"], "has the number 101; the planner writes numbers from 0 to 100"),
        ([CHAIN, "--planner", "rad"], "unknown planner 'rad'; valid planners: trained, symbolic"),
        ([CHAIN, "--method", "rad"], "unknown method 'rad'; valid methods: red, top1"),
        ([CHAIN, "--domain", "source"], "has no domain of steps 'source'; valid domains: closed"),
        ([CHAIN, "--split", "text"], "has no planner of split 'text' and seed 0; it has: structure 0..0"),
        ([CHAIN, "--split", "half"], "unknown split 'half'; valid splits: text, structure, phrasing"),
        ([CHAIN, "--profile", "record", "--split", "text"], "no planner or operation experts are shipped for this"),
        ([CHAIN, "--profile", "lapto"], "unknown profile 'lapto'"),
    ],
)
def test_a_mistake_of_solve_is_one_sentence_and_trains_nothing(profile, cache, capsys, arguments, said):
    before = sorted(cache.glob("stages/*/*"))
    given = [] if "--profile" in arguments else ["--profile", "smoke"]
    assert main(["solve", *arguments, *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert sorted(cache.glob("stages/*/*")) == before


def test_what_the_record_lacks_names_the_profiles_that_make_it(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "modules", lambda: tmp_path / "nothing shipped")
    words = solving.refusal(config.load("record"))
    assert "`--profile laptop` trains for about" in words or "is trained already" in words
    assert "`--profile smoke` shows the machinery" in words
    assert "`--profile full`" in solving.refusal(config.load("record"), "text"), "laptop has no planner of this split"
    assert "no profile trains both for split 'phrasing'" in solving.refusal(config.load("record"), "phrasing")
    assert not solving.available(config.load("record"))
