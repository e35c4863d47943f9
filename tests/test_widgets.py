"""Widgets driven without a browser: traits are set and read, from any thread, against the pure functions below them."""

import threading
import time
from statistics import median

import ipywidgets
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_explain import LABELS, QUERY, model, random_parts

from redlib import backbone, explain, features
from redlib.explain import Intervention, Structures
from redlib.expressions import LabelSpace
from redlib.widgets import BoundaryExplorer, OperandMap, RoutingInspector, WhatIfPanel, pieces, rebalance
from redlib.widgets import boundary as boundaries
from redlib.widgets import operand_map as maps
from redlib.widgets.panel import BUSY_AFTER

NAMES, K = LABELS.names, LABELS.K
REPORTED = {QUERY: (0.02, 0.04, 0.14, 0.28, 0.52), "What is 18 plus 7 minus 3?": (0.1, 0.55, 0.2, 0.1, 0.05)}


def make_explainer(task="task1", seed=0):
    bone = backbone.load("tiny")
    opened = {split: lambda seed=seed + i: model(bone, seed) for i, split in enumerate(("structure", "text"))}
    return explain.Explainer(bone, task, LABELS, (2, 50), features.Point(2), 0, opened)


@pytest.fixture(scope="module")
def explainer():
    return make_explainer()


@pytest.fixture(scope="module")
def reading(explainer):
    return explainer.read([QUERY])[0]


@pytest.fixture
def what_if(explainer):
    return WhatIfPanel(explainer, QUERY)


def errors_map(explainer):
    """A made-up map of three methods, in the columns of the table."""
    low, high = explainer.operands
    rows = [(a, b) for a in range(low, high + 1) for b in explain.seconds(explainer, a, "+")]
    frame = pd.DataFrame(rows, columns=["first", "second"])
    about = {"task": "task1", "split": "structure", "metric": "value_error", "operator": "addition"}
    frame = frame.assign(value=np.tile([0.0, 3.0, -40.0], len(frame))[: len(frame)], **about)
    return pd.concat([frame.assign(method=method) for method in ("red", "softmax_moe", "global_head")])


@pytest.fixture(scope="module")
def frame(explainer):
    return errors_map(explainer)


@pytest.fixture(params=["inspector", "what_if", "boundary", "map"])
def panel(request, explainer, frame):
    makes = {
        "inspector": lambda: RoutingInspector(explainer, REPORTED),
        "what_if": lambda: WhatIfPanel(explainer),
        "boundary": lambda: BoundaryExplorer(explainer),
        "map": lambda: OperandMap(explainer, frame),
    }
    return makes[request.param]()


def all_of(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from all_of(child)


def same(panel, e):
    """The panel shows exactly this explanation."""
    assert panel.status.value == ""
    np.testing.assert_array_equal(panel.explanation.logits, e.logits)
    assert panel.explanation.answer == e.answer
    assert panel.copy.code == e.code()
    assert panel.pieces["waterfall"].value == pieces.waterfall(e)


def others(panel):
    """The methods that the panel does not show now."""
    return [name for name in panel.method.options if name != panel.method.value]


def in_thread(work):
    failed = []

    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert failed == []


# ---- every widget ------------------------------------------------------------------------------------------------


def test_every_control_has_a_label_and_a_tooltip(panel):
    controls = [w for w in all_of(panel) if "description" in w.traits() and not isinstance(w, ipywidgets.HTML)]
    assert len(controls) >= 3
    for control in controls:
        assert control.description
        assert control.tooltip


def test_what_is_shown_has_a_fixed_height_and_a_label(panel):
    before = {name: piece.layout.height for name, piece in panel.pieces.items()}
    panel.method.value = panel.method.options[-1]
    for name, piece in panel.pieces.items():
        assert piece.layout.height == piece.layout.min_height == before[name]
        assert piece.value.count("<svg") == piece.value.count('role="img" aria-label="')


def test_an_answer_from_another_thread_is_the_same_and_needs_no_gradients(panel):
    modes, answer = [], panel.answer

    def watched(asked):
        modes.append(torch.is_inference_mode_enabled())
        return answer(asked)

    panel.answer = watched
    method = others(panel)[0]
    in_thread(lambda: setattr(panel.method, "value", method))
    assert modes == [True]
    e = panel.explainer.explain(panel.explanation.text, method)
    np.testing.assert_allclose(panel.explanation.logits, e.logits, rtol=1e-4, atol=1e-4)  # read alone, or in a batch
    assert panel.explanation.answer.value == e.answer.value


def test_a_late_answer_never_replaces_a_newer_one(panel):
    first, second = others(panel)[:2]
    answer, go_on, reached = panel.answer, threading.Event(), threading.Event()

    def slow(asked):
        if first in asked:
            reached.set()
            go_on.wait(10)
        return answer(asked)

    panel.answer = slow
    thread = threading.Thread(target=lambda: setattr(panel.method, "value", first))
    thread.start()
    assert reached.wait(10)
    panel.method.value = second
    newer = panel.explanation
    go_on.set()
    thread.join()
    assert panel.explanation is newer
    assert newer.method == second
    assert panel.status.value == ""


def test_a_busy_sign_is_shown_for_slow_answers_alone_and_goes_away(panel):
    seen, answer, slow = [], panel.answer, threading.Event()
    panel.status.observe(lambda change: (seen.append(change["new"]), slow.set()), "value")
    panel.refresh()
    time.sleep(1.5 * BUSY_AFTER)
    assert seen == [], "quick answers say nothing"
    panel.answer = lambda asked: (slow.wait(10), answer(asked))[1]
    panel.refresh()
    assert [("working" in words) for words in seen] == [True, False]
    assert panel.status.value == ""


def test_an_error_stands_in_the_widget_and_the_next_answer_clears_it(panel):
    answer = panel.answer

    def failing(asked):
        raise RuntimeError("<b>broken</b>")

    panel.answer = failing
    panel.method.value = others(panel)[0]
    assert "RuntimeError: &lt;b&gt;broken" in panel.status.value
    assert 'role="alert"' in panel.status.value
    assert {piece.value for piece in panel.pieces.values()} == {""}
    assert panel.copy.code == ""
    panel.answer = answer
    panel.refresh()
    assert panel.status.value == ""
    assert panel.explanation is not None


# ---- routing inspector -------------------------------------------------------------------------------------------


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


# ---- what-if panel -----------------------------------------------------------------------------------------------


def test_at_first_the_weights_are_the_routers(explainer, what_if):
    e = explainer.explain(QUERY)
    same(what_if, e)
    assert what_if.weights == e.alpha
    assert tuple(slider.value for slider in what_if.weight) == pytest.approx(e.alpha, abs=0.0051)
    assert what_if.intervention == explain.NOTHING


def test_two_hundred_random_moves_say_what_the_pure_function_says(explainer, reading, what_if):
    rng, seconds = np.random.default_rng(5), []
    controls = [*what_if.weight, *what_if.scale, *what_if.noise, what_if.temperature]
    toggles = [*what_if.drop, *what_if.lock_weight, what_if.normalise]
    for _ in range(200):
        start = time.process_time()
        if rng.random() < 0.2:
            toggle = toggles[rng.integers(len(toggles))]
            toggle.value = not toggle.value
        else:
            slider = controls[rng.integers(len(controls))]
            low, high = (-1, 1) if slider is what_if.temperature else (slider.min, slider.max)
            drawn = float(rng.uniform(low, high))
            slider.value = 10**drawn if slider is what_if.temperature else drawn
        seconds.append(time.process_time() - start)
        change = what_if.intervention
        e = explainer.explain(reading, "red", change)
        same(what_if, e)
        assert what_if.weights == pytest.approx(e.alpha, abs=1e-6)
        assert tuple(slider.value for slider in what_if.weight) == pytest.approx(e.alpha, abs=0.0051)
        assert what_if.pieces["tipping"].value == pieces.how_wrong(e, explain.tipping(e))
        locked = any(button.value for button in what_if.lock_weight)
        if what_if.by_hand and what_if.normalise.value and not locked:
            assert sum(change.weights) == pytest.approx(1, abs=1e-6)
    assert median(seconds) < 0.03
    what_if.reset.click()
    same(what_if, explainer.explain(QUERY))
    assert what_if.intervention == explain.NOTHING


def test_moves_from_many_threads_end_in_what_the_controls_say(explainer, reading, what_if):
    def moves(seed):
        rng = np.random.default_rng(seed)
        for _ in range(25):
            what_if.weight[rng.integers(K)].value = float(rng.random())
            what_if.scale[rng.integers(K)].value = float(rng.uniform(-1, 3))

    threads = [threading.Thread(target=moves, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(what_if, explainer.explain(reading, "red", what_if.intervention))


def test_a_slider_that_a_browser_sends_back_rounded_moves_nothing(explainer, reading, what_if):
    for slider in what_if.weight:
        slider.value = round(slider.value, 2) + 1e-12
    assert what_if.intervention == explain.NOTHING
    what_if.weight[2].value = 0.3
    before = what_if.intervention
    for slider in what_if.weight:
        slider.value = round(slider.value, 2) + 1e-12
    what_if.temperature.value = 1 + 1e-12
    assert what_if.intervention == before
    same(what_if, explainer.explain(reading, "red", before))


def test_moving_the_temperature_gives_the_weights_back_to_the_router(explainer, reading, what_if):
    what_if.weight[1].value = 0.9
    assert what_if.intervention.weights is not None
    what_if.temperature.value = 2.0
    assert what_if.intervention == Intervention(temperature=2.0)
    same(what_if, explainer.explain(reading, "red", Intervention(temperature=2.0)))
    what_if.weight[1].value = 0.5
    assert what_if.temperature.value == 1.0
    assert what_if.intervention.weights[1] == pytest.approx(0.5)


def test_a_temperature_that_a_method_ignores_is_an_error_in_the_widget(what_if):
    what_if.method.value = "red_uniform"
    what_if.temperature.value = 2.0
    assert "are uniform" in what_if.status.value
    what_if.temperature.value = 1.0
    assert what_if.status.value == ""


def test_weights_that_are_not_kept_at_one_stay_where_they_are_put(what_if):
    what_if.normalise.value = False
    for slider in what_if.weight:
        slider.value = 0.5
    assert what_if.intervention.weights == (0.5,) * K
    assert "add up to 2.500" in what_if.pieces["notes"].value
    what_if.normalise.value = True
    assert what_if.intervention.weights == pytest.approx((1 / K,) * K)


@settings(deadline=None, max_examples=300)
@given(
    weights=st.lists(st.floats(0, 1), min_size=2, max_size=7),
    moved=st.none() | st.integers(0, 6),
    locked=st.sets(st.integers(0, 6)),
)
@example(weights=[0.0, 0.5, 5e-324], moved=None, locked={0, 1})  # too small to be multiplied
def test_rebalanced_weights_are_weights_and_locked_ones_stay(weights, moved, locked):
    n = len(weights)
    moved = None if moved is None else moved % n
    locked = {k for k in locked if k < n}
    new = rebalance(weights, moved, locked)
    fixed = locked - {moved}
    assert all(0 <= weight <= 1 for weight in new)
    assert all(new[k] == weights[k] for k in fixed)
    held = sum(weights[k] for k in fixed)
    if held <= 1 and len(fixed) < n:
        assert sum(new) == pytest.approx(1)
    free = [k for k in range(n) if k not in fixed and k != moved]
    if moved is not None and free:
        assert new[moved] == pytest.approx(min(weights[moved], max(1 - held, 0)))
    if held <= 1 and free and sum(weights[k] for k in free) > 1e-6:
        before = np.array([weights[k] for k in free])
        after = np.array([new[k] for k in free])
        np.testing.assert_allclose(after * before.sum(), before * after.sum(), atol=1e-9)


# ---- how wrong the route may be ----------------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(
    a=st.integers(2, 50),
    b=st.integers(2, 50),
    method=st.sampled_from(["red", "softmax_moe", "red_logit_scale"]),
    drop=st.sets(st.sampled_from(NAMES), max_size=2),
)
def test_the_answer_changes_at_the_share_that_is_said_and_not_before(explainer, a, b, method, drop):
    one = explainer.read([f"What is {a} plus {b}?"])[0]
    e = explainer.explain(one, method, Intervention(drop=tuple(drop)))

    def at(k, share):
        weights = (1 - share) * np.array(e.alpha) + share * np.eye(K)[k]
        return explainer.explain(one, method, Intervention(weights=weights, drop=tuple(drop))).answer.value

    found = explain.tipping(e)
    assert [t.expert for t in found] == list(NAMES)
    for k, t in enumerate(found):
        if t.share is None:
            assert {at(k, share) for share in (0.3, 0.7, 0.999)} == {e.answer.value}
            continue
        assert at(k, t.share * (1 - 1e-3)) == e.answer.value
        if t.share < 0.999:
            assert at(k, min(t.share + 1e-4, 1)) != e.answer.value
    shares = [t.share for t in found if t.share is not None]
    assert explain.easiest(found) == (min((t for t in found if t.share), key=lambda t: t.share) if shares else None)


def test_what_is_said_of_a_wrong_route_names_the_least_share(explainer, reading):
    e = explainer.explain(reading)
    said = pieces.how_wrong(e, [explain.Tipping("R1", 0.4, 30), explain.Tipping("R2", 0.25, 31)])
    assert "<b>25.0%</b> of the weight is sent to R2" in said
    assert "R1: 40.0%, then 30" in said
    assert "No single expert" in pieces.how_wrong(e, [explain.Tipping("R1", None, None)])
    assert explain.tipping(explainer.explain(reading, "global_head")) == ()


# ---- boundary explorer -------------------------------------------------------------------------------------------


def test_sliding_the_second_operand_explains_each_pair(explainer):
    panel = BoundaryExplorer(explainer, first=12)
    explained = explainer.explain_all(explain.read_walk(explainer, 12, "+"))
    for second in (2, 8, 9, 50):
        panel.second.value = second
        e = explained[second - 2]
        assert e.text == f"What is 12 plus {second}?"
        same(panel, e)
        assert panel.pieces["walk"].value == boundaries.draw_walk(explained, second)
    panel.method.value = "global_head"
    assert "range probabilities by the second operand" in panel.pieces["walk"].value


def test_sliding_needs_no_backbone_pass(explainer, monkeypatch):
    panel = BoundaryExplorer(explainer, first=30)
    monkeypatch.setattr(explain.Explainer, "read", lambda *given: pytest.fail("a pass"))
    panel.second.value = 10
    assert panel.explanation.text == "What is 30 plus 10?"


def test_another_first_operand_or_operator_keeps_the_slider_inside():
    explainer = make_explainer("task2")
    panel = BoundaryExplorer(explainer, first=20, operator="-")
    assert (panel.second.min, panel.second.max) == (2, 18)
    panel.first.value = 4
    assert (panel.second.min, panel.second.max, panel.second.value) == (2, 2, 2)
    assert panel.explanation.true_value == 2
    panel.first.value = 50
    assert (panel.second.min, panel.second.max) == (2, 48)
    panel.first.value = 3
    assert "no second operand in 2..50 gives 3 - it a value" in panel.status.value
    panel.operator.value = "+"
    assert (panel.second.min, panel.second.max) == (2, 50)
    assert panel.explanation.true_value == 3 + panel.second.value


def test_the_table_of_a_walk_has_what_the_pieces_show(explainer):
    explained = explainer.explain_all(explain.read_walk(explainer, 30, "+"))
    table = explain.walk_table(explained)
    assert list(table.index) == list(range(2, 51))
    assert (table["true value"] == 30 + table.index).all()
    np.testing.assert_allclose(table[list(NAMES)].sum(axis=1), 1, atol=1e-5)
    assert table["right"].sum() == sum(e.right for e in explained)
    assert "R1" not in explain.walk_table(explainer.explain_all(explain.read_walk(explainer, 9, "+"), "global_head"))


def test_a_question_for_a_pair_is_the_canonical_one_and_wrong_ones_are_named():
    assert explain.question("task1", 47, "+", 38) == QUERY
    assert explain.question("task2", 47, "-", 38) == "What is 47 minus 38?"
    with pytest.raises(ValueError, match=r"task1 has no operator '-'; valid operators: \+"):
        explain.question("task1", 47, "-", 38)
    with pytest.raises(ValueError, match="unknown task 'task3'; valid tasks: task1, task2"):
        explain.question("task3", 47, "+", 38)


# ---- operand map -------------------------------------------------------------------------------------------------


def test_a_click_on_a_cell_explains_that_pair(explainer, frame):
    panel = OperandMap(explainer, frame)
    panel.map.pair = [47, 38]
    same(panel, explainer.explain(QUERY))
    assert (panel.first.value, panel.second.value) == (47, 38)
    panel.second.value = 9
    assert panel.map.pair == [47, 9]
    same(panel, explainer.explain("What is 47 plus 9?"))


def test_it_says_when_the_map_and_the_model_differ(explainer, frame):
    true = explainer.explain("What is 12 plus 27?").answer.value - 39
    for value, differs in ((true, False), (true + 1, True)):
        one = frame.assign(value=float(value))
        told = OperandMap(explainer, one, pair=(12, 27)).pieces["told"].value
        assert ("Computed anew" in told) == differs


def test_the_map_has_a_cell_for_every_pair_in_the_shade_of_its_error(explainer, frame):
    panel = OperandMap(explainer, frame)
    drawn = panel.map.picture
    frame = frame[frame["method"] == "red"]
    assert drawn.count("h8v8h-8z") == len(frame) == 49 * 49
    assert f"{(frame['value'] == 0).sum()} of 2401 answered rightly" in drawn
    assert {maps.shade(0), maps.shade(3), maps.shade(-40)} == {"#ffffff", "#fdb863", "#542788"}
    x, y = maps.LEFT + (3 - 2) * maps.CELL, maps.TOP + (50 - 2) * maps.CELL
    path = next(path for path in drawn.split("<path") if f"M{x} {y}h8" in path)
    assert maps.shade(frame[(frame["first"] == 2) & (frame["second"] == 3)]["value"].iloc[0]) in path


def test_a_pair_without_a_result_is_said_to_be_none(explainer, frame):
    panel = OperandMap(explainer, frame[frame["first"] != 20])
    panel.first.value = 20
    assert "has no result in the label space" in panel.status.value


def test_a_table_of_another_task_or_split_is_refused(explainer, frame):
    with pytest.raises(ValueError, match="the table has no map of task1, split structure"):
        OperandMap(explainer, frame.assign(task="task2"))


# ---- any number of ranges ----------------------------------------------------------------------------------------


def test_panels_have_as_many_sliders_and_bars_as_there_are_experts():
    bone, labels = backbone.load("tiny"), LabelSpace(2, 60, (30,))
    opened = {
        "text": lambda: explain.Model("two", labels, random_parts(bone.hidden_size, 1, labels), Structures.of(()))
    }
    two = explain.Explainer(bone, "task1", labels, (2, 30), features.Point(2), 0, opened, "text")
    panel = WhatIfPanel(two, "What is 3 plus 4?")
    assert len(panel.weight) == 2
    panel.weight[0].value = 0.0
    assert panel.intervention.weights == (0.0, 1.0)
    for made in (panel, RoutingInspector(two, text="What is 3 plus 4?"), BoundaryExplorer(two)):
        assert made.status.value == ""
        assert made.pieces["weights"].value.count("red-weight") == 2
