"""What tests of widgets share: an explainer, the source's weights, and ways to look at a panel."""

import threading

import numpy as np
from explainers import LABELS, QUERY, model

from redlib import backbone, explain, features
from redlib.widgets import pieces

REPORTED = {QUERY: (0.02, 0.04, 0.14, 0.28, 0.52), "What is 18 plus 7 minus 3?": (0.1, 0.55, 0.2, 0.1, 0.05)}


def make_explainer(task="task1", seed=0):
    bone = backbone.load("tiny")
    opened = {split: lambda seed=seed + i: model(bone, seed) for i, split in enumerate(("structure", "text"))}
    return explain.Explainer(bone, task, LABELS, (2, 50), features.Point(2), 0, opened)


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
