"""Maps, curves and routing of `red_plus` beside the other methods."""

import numpy as np
import pytest
import torch
from small_plus import USES, made

from redlib import config, evaluation, results
from redlib.features import Point
from redlib.study import red_plus
from redlib.study.data import feature_set
from redlib.study.population import answers, population_stage
from redlib.study.red_plus import maps as red_plus_maps


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", USES)


def quiet(line):
    pass


@pytest.mark.parametrize("task", red_plus.TASKS)
def test_a_population_is_answered_as_the_trained_method_answers_its_texts(profile, task):
    (own,) = (pair[0] for pair in red_plus_maps.settings(profile) if pair[0].task == task)
    population = population_stage(task, getattr(profile, task), own.labels, 1)
    read = red_plus.read_stage(profile, own.recipe, population)
    read.run(quiet)
    (said,) = answers(own, read, 1, ("red_plus",))["red_plus"]
    found, rows = feature_set(read), np.arange(0, len(said), 50)
    point = Point(own.recipe.layer, own.recipe.pooling)
    pooled = None if own.recipe.layers else torch.from_numpy(np.array(found.pooled(point)[rows]))
    x = found.states().batch(rows) if pooled is None else pooled
    now = evaluation.predict(red_plus.trained(profile, task), x, own.labels, probabilities=True)
    columns = [name for name in now if name.startswith(("probability", "alpha"))]
    np.testing.assert_allclose(now[columns], said.loc[rows, columns], atol=1e-4)


def test_maps_and_curves_hold_red_plus_beside_the_others_on_the_same_pairs(profile):
    curves, shapes, maps = (made(profile, f"red_plus_{name}") for name in ("sweep", "smoothness", "maps"))
    assert set(curves["method"]) == set(red_plus_maps.CURVES)
    assert set(shapes["method"]) == {*red_plus_maps.PLUS, *red_plus_maps.BESIDE}
    assert set(maps["metric"]) == {"value_error"}
    once = maps.groupby(["task", "method"])[["first", "second"]].value_counts()
    assert (once == 1).all()
    sizes = maps.groupby(["task", "method"]).size().unstack()
    assert (sizes.nunique(axis=1) == 1).all()
    below = results.select(shapes, metric="backtrack_below_red_plus", group="all", task="task1")
    plain = results.select(shapes, metric="backtrack", group="all", task="task1").set_index("method")["value"]
    for row in below.itertuples():
        assert row.value == pytest.approx(plain["red_plus"] - plain[row.method], abs=2e-3)


def test_uncorrupted_routes_give_the_accuracy_of_the_predictions(profile):
    attacked = made(profile, "red_plus_robustness")
    said = made(profile, "red_plus")
    for task in red_plus.TASKS:
        start = results.select(attacked, task=task, method="red_plus", corruption="wrong", metric="value_accuracy")
        start = start[start["strength"] == 0]["value"].item()
        assert start == pytest.approx(
            results.pick(said, task=task, method="red_plus", seed="all", group="all", metric="value_accuracy")["value"],
            abs=1e-5,
        )
    assert set(attacked["method"]) == {"red_plus", "red_plus_top1", "red_plus_uniform", "red", "softmax_moe"}
    assert {"value_accuracy_drop_below_red_plus"} <= set(results.select(attacked, method="red")["metric"])
    flat = results.select(attacked, method="red_plus_uniform", metric="value_accuracy")
    assert flat.groupby("task")["value"].nunique().eq(1).all()
