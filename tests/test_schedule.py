"""The recipe at a rate that falls: the same rows and seeds as at a steady one, all epochs run, differences paired."""

import pandas as pd
import pytest

from redlib import config, results
from redlib.study import methods, schedule, table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The one setting of the smoke profile under both rates, and the table, in a cache of the module's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", {"bootstrap": 30})
        frame = table(profile, "schedule", say=lambda line: None)
        (steady,) = schedule.settings(profile)
        longer = schedule.falling(profile, steady)
        predicted = {
            rate: pd.read_parquet(methods.predictions_stage(s).folder / "predictions.parquet")
            for rate, s in zip(schedule.RATES, (steady, longer), strict=True)
        }
        yield longer, frame, predicted


def of_test(predicted, rate, method):
    rows = predicted[rate].query("part == 'test' and recipe == 'chosen' and method == @method and seed == 0")
    return rows.set_index("row").sort_index()


def test_accuracies_are_those_of_the_predictions_on_the_same_rows(made):
    _, frame, predicted = made
    for rate in schedule.RATES:
        for method in schedule.METHODS:
            rows = of_test(predicted, rate, method)
            got = results.pick(frame, configuration=rate, method=method, metric="value_accuracy")
            assert got["value"] == pytest.approx((rows["predicted_value"] == rows["value"]).mean())
            assert got["n"] == len(rows)
    assert of_test(predicted, "steady", "red").index.equals(of_test(predicted, "falling", "red").index)


def test_differences_are_differences_of_the_accuracies(made):
    _, frame, _ = made
    level = frame[frame["metric"] == "range_accuracy"].set_index(["configuration", "method"])["value"]
    change = frame[frame["metric"] == "range_accuracy_change"].set_index("method")["value"]
    below = frame[frame["metric"] == "range_accuracy_below_red"].set_index(["configuration", "method"])["value"]
    assert set(change.index) == set(schedule.METHODS)
    assert len(below) == 2 * (len(schedule.METHODS) - 1)
    for method, value in change.items():
        assert value == pytest.approx(level["falling", method] - level["steady", method])
    for (rate, method), value in below.items():
        assert value == pytest.approx(level[rate, "red"] - level[rate, method])


def test_a_falling_rate_runs_to_its_end(made):
    longer, _, _ = made
    history = methods.history(longer)
    ran = history.groupby(["name", "member"])["epoch"].max()
    assert (ran["experts"] == longer.recipe.experts.max_epochs).all()
    assert longer.rate(0.0) == pytest.approx(1)
    assert longer.rate(1.0) == pytest.approx(longer.final_rate)


def test_an_untrained_setting_is_refused():
    with pytest.raises(ValueError, match="no steps 'operands' in task 2"):
        schedule.settings(config.load("smoke", {"schedule.settings": [["operands", "text"]]}))
