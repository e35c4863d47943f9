"""The what-if panel against the pure functions below it, and how wrong the route may be."""

import threading

import numpy as np
import pytest
from explainers import NAMES, QUERY, K
from hypothesis import example, given, settings
from hypothesis import strategies as st
from panels import same

from redlib import explain, features
from redlib.explain import Intervention
from redlib.widgets import WhatIfPanel, pieces, rebalance


@pytest.fixture(scope="module")
def reading(explainer):
    return explainer.read([QUERY])[0]


@pytest.fixture
def what_if(explainer):
    return WhatIfPanel(explainer, QUERY)


# ---- what-if panel -----------------------------------------------------------------------------------------------


def test_at_first_the_weights_are_the_routers(explainer, what_if):
    e = explainer.explain(QUERY)
    same(what_if, e)
    assert what_if.weights == e.alpha
    assert tuple(slider.value for slider in what_if.weight) == pytest.approx(e.alpha, abs=0.0051)
    assert what_if.intervention == explain.NOTHING


def test_two_hundred_random_moves_say_what_the_pure_function_says(explainer, reading, what_if):
    rng = np.random.default_rng(5)
    controls = [*what_if.weight, *what_if.scale, *what_if.noise, what_if.temperature]
    toggles = [*what_if.drop, *what_if.lock_weight, what_if.normalise]
    for _ in range(200):
        if rng.random() < 0.2:
            toggle = toggles[rng.integers(len(toggles))]
            toggle.value = not toggle.value
        else:
            slider = controls[rng.integers(len(controls))]
            low, high = (-1, 1) if slider is what_if.temperature else (slider.min, slider.max)
            drawn = float(rng.uniform(low, high))
            slider.value = 10**drawn if slider is what_if.temperature else drawn
        change = what_if.intervention
        e = explainer.explain(reading, "red", change)
        same(what_if, e)
        assert what_if.weights == pytest.approx(e.alpha, abs=1e-6)
        assert tuple(slider.value for slider in what_if.weight) == pytest.approx(e.alpha, abs=0.0051)
        assert what_if.pieces["tipping"].value == pieces.how_wrong(e, explain.tipping(e))
        locked = any(button.value for button in what_if.lock_weight)
        if what_if.by_hand and what_if.normalise.value and not locked:
            assert sum(change.weights) == pytest.approx(1, abs=1e-6)
    what_if.reset.click()
    same(what_if, explainer.explain(QUERY))
    assert what_if.intervention == explain.NOTHING


def test_no_move_needs_the_backbone_and_another_question_does_once(explainer, what_if, monkeypatch):
    passes, whole = [], features.compute
    monkeypatch.setattr(features, "compute", lambda *asked: passes.append(asked) or whole(*asked))
    for control in (what_if.weight[1], what_if.scale[2], what_if.noise[0], what_if.temperature):
        control.value = 0.7
    for toggle in (what_if.drop[3], what_if.lock_weight[1], what_if.normalise):
        toggle.value = not toggle.value
    assert what_if.intervention != explain.NOTHING
    assert passes == []
    what_if.text.value = "What is 18 plus 7?"
    assert [texts for _, texts, _ in passes] == [["What is 18 plus 7?"]]


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


@settings(max_examples=300)
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

CLOSE = 1e-4  # of a share: nearer than that, logits in float32 cannot tell the two answers apart


@settings(max_examples=30)
@given(
    a=st.integers(2, 50),
    b=st.integers(2, 50),
    method=st.sampled_from(["red", "softmax_moe", "red_logit_scale"]),
    drop=st.sets(st.sampled_from(NAMES), max_size=2),
)
@example(a=36, b=41, method="red", drop=set())  # two answers so close that the share itself is below CLOSE
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
        assert at(k, max(t.share - CLOSE, 0)) == e.answer.value
        if t.share < 0.999:
            assert at(k, min(t.share + CLOSE, 1)) != e.answer.value
    shares = [t.share for t in found if t.share is not None]
    assert explain.easiest(found) == (min((t for t in found if t.share), key=lambda t: t.share) if shares else None)


def test_what_is_said_of_a_wrong_route_names_the_least_share(explainer, reading):
    e = explainer.explain(reading)
    said = pieces.how_wrong(e, [explain.Tipping("R1", 0.4, 30), explain.Tipping("R2", 0.25, 31)])
    assert "<b>25.0%</b> of the weight is sent to R2" in said
    assert "R1: 40.0%, then 30" in said
    assert "No single expert" in pieces.how_wrong(e, [explain.Tipping("R1", None, None)])
    assert explain.tipping(explainer.explain(reading, "global_head")) == ()
