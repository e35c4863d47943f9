"""Probes find what is linearly there, what is not, and nothing in noise."""

import numpy as np
import pytest

from redlib import config, probes
from redlib.features import Point


def test_probes_tell_linear_from_nonlinear_from_absent():
    generator = np.random.default_rng(0)
    x = generator.standard_normal((1200, 8)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] * x[:, 2] > 0)  # the first bit is linear, the second is not
    noise = generator.standard_normal((1200, 8)).astype(np.float32)
    train, validation = [np.arange(0, 900)], [np.arange(900, 1200)]
    loop = config.Training(lr=0.01, batch=64, max_epochs=40, patience=40)
    pooled = {Point(1, "mean"): x, Point(2, "mean"): noise}
    targets = {"first": y % 2, "second": y // 2}
    frame = probes.probe(pooled, targets, train, validation, 32, loop)
    assert (
        frame.groupby(["layer", "probe", "target"])["row"].agg(list).map(lambda rows: rows == list(validation[0]))
    ).all()
    accuracy = frame.groupby(["layer", "probe", "target"])["right"].mean()
    assert accuracy[1, "linear", "first"] > 0.9
    assert accuracy[1, "mlp", "second"] > 0.85
    assert accuracy[1, "linear", "second"] < 0.65
    assert accuracy[2].max() < 0.65


def test_probed_together_or_alone_is_the_same():
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal((200, 6)).astype(np.float32) for _ in range(2))
    y = (a[:, 0] + b[:, 0] > 0).astype(int)
    rows = ([np.arange(150)], [np.arange(150, 200)])
    loop = config.Training(lr=0.01, batch=50, max_epochs=5, patience=5)
    both = probes.probe({Point(0): a, Point(1): b}, {"y": y}, *rows, 8, loop)
    alone = probes.probe({Point(1): b}, {"y": y}, *rows, 8, loop)
    together = both[both["layer"] == 1].groupby("probe")["right"].sum()
    assert together.tolist() == pytest.approx(alone.groupby("probe")["right"].sum().tolist(), abs=1)
