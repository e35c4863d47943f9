"""The recipe at a rate that falls, also on another layer: the same rows and seeds as at a steady one, all epochs run,
differences paired."""

import pandas as pd
import pytest

from redlib import config, results
from redlib.study import methods, schedule, table

DEEPER = "falling, layer 3"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The one setting of the smoke profile in each configuration, and the table, in a cache of the module's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", {"bootstrap": 30, "schedule.layers": {"operations": 3}})
        frame = table(profile, "schedule", say=lambda line: None)
        (by_name,) = schedule.settings(profile)
        predicted = {
            name: pd.read_parquet(methods.predictions_stage(s).folder / "predictions.parquet")
            for name, s in by_name.items()
        }
        yield by_name, frame, predicted


def of_test(predicted, rate, method):
    rows = predicted[rate].query("part == 'test' and recipe == 'chosen' and method == @method and seed == 0")
    return rows.set_index("row").sort_index()


def test_accuracies_are_those_of_the_predictions_on_the_same_rows(made):
    _, frame, predicted = made
    for rate in predicted:
        for method in schedule.METHODS:
            rows = of_test(predicted, rate, method)
            got = results.pick(frame, configuration=rate, method=method, metric="value_accuracy")
            assert got["value"] == pytest.approx((rows["predicted_value"] == rows["value"]).mean())
            assert got["n"] == len(rows)
    steady = of_test(predicted, "steady", "red")
    assert set(predicted) == {"steady", "falling", DEEPER}
    for name in ("falling", DEEPER):
        assert steady.index.equals(of_test(predicted, name, "red").index)


def test_differences_are_differences_of_the_accuracies(made):
    _, frame, _ = made
    level = frame[frame["metric"] == "range_accuracy"].set_index(["configuration", "method"])["value"]
    change = frame[frame["metric"] == "range_accuracy_change"].set_index(["configuration", "method"])["value"]
    below = frame[frame["metric"] == "range_accuracy_below_red"].set_index(["configuration", "method"])["value"]
    assert set(change.index) == {(name, method) for name in ("falling", DEEPER) for method in schedule.METHODS}
    assert len(below) == 3 * (len(schedule.METHODS) - 1)
    for (name, method), value in change.items():
        assert value == pytest.approx(level[name, method] - level["steady", method])
    for (rate, method), value in below.items():
        assert value == pytest.approx(level[rate, "red"] - level[rate, method])


def test_a_falling_rate_runs_to_its_end(made):
    by_name, _, _ = made
    for name in ("falling", DEEPER):
        s = by_name[name]
        ran = methods.history(s).groupby(["name", "member"])["epoch"].max()
        assert (ran["experts"] == s.recipe.experts.max_epochs).all()
        assert s.rate(0.0) == pytest.approx(1)
        assert s.rate(1.0) == pytest.approx(s.final_rate)


def test_another_layer_changes_the_features_and_nothing_else(made):
    by_name, _, predicted = made
    near, deep = by_name["falling"], by_name[DEEPER]
    assert deep.recipe == near.recipe.model_copy(update={"layer": 3})
    assert (deep.seeds, deep.split, deep.pool, deep.methods) == (near.seeds, near.split, near.pool, near.methods)
    told = [of_test(predicted, name, "mlp_full_data")["confidence"] for name in ("falling", DEEPER)]
    assert not told[0].equals(told[1])


def test_an_untrained_setting_is_refused():
    with pytest.raises(ValueError, match="no steps 'operands' in task 2"):
        schedule.settings(config.load("smoke", {"schedule.settings": [["operands", "text"]]}))


def test_a_layer_for_steps_that_are_not_trained_again_is_refused():
    with pytest.raises(ValueError, match=r"schedule\.layers names 'operands'; schedule\.settings has: operations"):
        config.load("smoke", {"schedule.layers": {"operands": 2}})
