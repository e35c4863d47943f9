"""Every panel: labels, heights, threads, late and slow answers, errors, any number of experts."""

import threading
import time

import ipywidgets
import numpy as np
import pytest
import torch
from explainers import random_parts
from panels import REPORTED, all_of, in_thread

from redlib import backbone, explain, features
from redlib.explain import Structures
from redlib.expressions import LabelSpace
from redlib.widgets import BoundaryExplorer, OperandMap, RoutingInspector, WhatIfPanel
from redlib.widgets.panel import BUSY_AFTER


@pytest.fixture(params=["inspector", "what_if", "boundary", "map"])
def panel(request, explainer, frame):
    makes = {
        "inspector": lambda: RoutingInspector(explainer, REPORTED),
        "what_if": lambda: WhatIfPanel(explainer),
        "boundary": lambda: BoundaryExplorer(explainer),
        "map": lambda: OperandMap(explainer, frame),
    }
    return makes[request.param]()


def others(panel):
    """The methods that the panel does not show now."""
    return [name for name in panel.method.options if name != panel.method.value]


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
