"""The program trace, driven without a browser: what it shows is what `solve` says, from any thread."""

import ipywidgets
import pytest
import torch
from panels import all_of, in_thread
from test_solving import CHAIN, make_solver

from redlib import backbone
from redlib.widgets import ProgramTrace
from redlib.widgets import program_trace as traces


@pytest.fixture(scope="module")
def solver():
    return make_solver(backbone.load("tiny"))


@pytest.fixture
def panel(solver):
    return ProgramTrace(solver, CHAIN)


def same(panel, s):
    assert panel.status.value == ""
    assert panel.explanation.to_dict() == s.to_dict()
    assert panel.copy.code == s.code()
    assert {name: piece.value for name, piece in panel.pieces.items()} == dict(traces.solution(s))


def test_it_shows_what_solve_says_of_the_typed_chain_the_planner_and_the_method(panel, solver):
    same(panel, solver.solve(CHAIN, "symbolic", "red"))
    panel.text.value = "90 plus 20 minus 70"
    same(panel, solver.solve("90 plus 20 minus 70", "symbolic", "red"))
    panel.method.value = "mistaken"
    panel.planner.value = "trained"
    same(panel, solver.solve("90 plus 20 minus 70", "trained", "mistaken"))


def test_every_line_has_its_probability_and_every_step_its_weights_and_value(panel, solver):
    panel.planner.value, panel.method.value = "trained", "red_by_range"
    s = solver.solve(CHAIN, "trained", "red_by_range")
    plan, trace = panel.pieces["plan"].value, panel.pieces["trace"].value
    for line, probability in s.lines:
        assert f">{line}</text>" in plan
        assert f'class="red-probability">{probability:.3f}<' in plan
    for step in s.trace:
        assert f'data-value="{step.said.value}"' in trace
        assert ", ".join(f"{name} {weight:.3f}" for name, weight in step.said.weights.items()) in trace
    panel.method.value = "global_head"
    assert "no router" in panel.pieces["trace"].value


def test_an_answer_out_of_domain_and_a_wrong_one_are_marked(panel):
    panel.method.value, panel.text.value = "mistaken", "90 plus 20 minus 70"
    assert 'data-answer="40" data-outside="1"' in panel.pieces["verdict"].value
    assert "out of domain" in panel.pieces["verdict"].value
    assert panel.pieces["trace"].value.count("outside the domain") == 4, "in the picture and in its label"
    assert "nobody vouches" in panel.pieces["notes"].value
    panel.text.value = CHAIN
    assert 'data-answer="23" data-outside="0"' in panel.pieces["verdict"].value
    assert "✗ wrong" in panel.pieces["verdict"].value
    assert "exact 18 ✗" in panel.pieces["trace"].value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no numbers"),
        ("7 times 3", "unknown operator"),
        ("101 plus 2", "has the number 101"),
        ("<b>3</b> plus 4", "unknown operator &#x27;&lt;&#x27;"),
    ],
)
def test_a_bad_chain_is_one_sentence_in_the_widget_and_the_next_answer_clears_it(panel, solver, text, said):
    panel.text.value = text
    assert said in panel.status.value
    assert panel.explanation is None
    assert {piece.value for piece in panel.pieces.values()} == {""}
    panel.text.value = CHAIN
    same(panel, solver.solve(CHAIN))


def test_an_answer_from_another_thread_is_the_same_and_needs_no_gradients(panel, solver):
    modes, answer = [], panel.answer

    def watched(asked):
        modes.append(torch.is_inference_mode_enabled())
        return answer(asked)

    panel.answer = watched
    in_thread(lambda: setattr(panel.method, "value", "softmax_moe"))
    assert modes == [True]
    same(panel, solver.solve(CHAIN, method="softmax_moe"))


def test_controls_have_labels_and_pieces_keep_their_height_and_say_their_numbers(panel):
    controls = [w for w in all_of(panel) if "description" in w.traits() and not isinstance(w, ipywidgets.HTML)]
    assert [c.description for c in controls if c.tooltip] == ["chain", "planner", "method"]
    before = {name: piece.layout.height for name, piece in panel.pieces.items()}
    panel.text.value = "1 plus 2 plus 3 plus 4 plus 5"
    for name, piece in panel.pieces.items():
        assert piece.layout.height == piece.layout.min_height == before[name]
        assert piece.value.count("<svg") == piece.value.count('role="img" aria-label="')
    assert int(before["trace"][:-2]) >= traces.TOP + traces.STEP * 4
