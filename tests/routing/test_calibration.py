"""What a router's weights and a method's confidences say: load, calibration, boundaries and rescue."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss
from toy_experts import SPACE, C, K

from redlib import evaluation, results, routing
from redlib.expressions import LabelSpace
from redlib.routing.calibration import accepted
from redlib.statistics import Resampler


def predictions(n=90, seeds=2, seed=0) -> pd.DataFrame:
    """Made-up predictions of one method: n rows a seed, three rows a structure."""
    draw = np.random.default_rng(seed)
    value = np.tile(np.repeat(np.arange(n // 3) % C + SPACE.lo, 3), seeds)
    frame = pd.DataFrame({"row": np.tile(np.arange(n), seeds), "seed": np.repeat(np.arange(seeds), n), "value": value})
    frame["structure"] = [f"s{row // 3}" for row in frame["row"]]
    frame["range"] = np.asarray(SPACE.range_index)[value - SPACE.lo]
    alpha = draw.dirichlet(np.ones(K), len(frame)) + 0.6 * np.eye(K)[frame["range"]]
    alpha /= alpha.sum(1, keepdims=True)
    share = draw.dirichlet(np.ones(K), len(frame))
    frame["predicted_value"] = np.where(draw.random(len(frame)) < 0.6, value, draw.integers(2, 14, len(frame)))
    frame["predicted_range"], frame["router_range"] = share.argmax(1), alpha.argmax(1)
    frame["confidence"], frame["range_confidence"] = draw.random(len(frame)), share.max(1)
    for name, columns in (("alpha", alpha), ("range", share)):
        frame[[f"{name}_{k + 1}" for k in range(K)]] = columns
    return frame.assign(split="text", recipe="chosen", part="test", method="red")


@pytest.fixture(scope="module")
def frame():
    return predictions()


@pytest.fixture(scope="module")
def resample(frame):
    return routing.resampler(frame, "toy", resamples=40)


def by_seed(frame, values):
    """Mean over seeds of the mean over a seed's rows."""
    return pd.Series(np.asarray(values, float)).groupby(frame["seed"].to_numpy()).mean().mean()


def test_predictions_of_a_router_of_another_size_are_refused(frame):
    with pytest.raises(ValueError, match="weights of 2 experts, but the label space has K=3"):
        routing.weights_of(frame.drop(columns="alpha_3"), SPACE)
    with pytest.raises(ValueError, match="weights of 3 experts, but the label space has K=2"):
        routing.weights_of(frame, LabelSpace(2, 13, (7,)))


# ---- load --------------------------------------------------------------------------------------------------------


def test_balance_of_a_load_worked_by_hand():
    found = routing.balance(np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.25, 0.5]))
    assert found["load_cv"] == pytest.approx(np.std([0.5, 0.25, 0.25]) / np.mean([0.5, 0.25, 0.25]))
    assert found["load_kl_true"] == pytest.approx(0.5 * np.log(2) - 0.25 * np.log(2))
    even = routing.balance(np.full(3, 1 / 3), np.full(3, 1 / 3))
    assert all(value == pytest.approx(0) for value in even.values())


def test_loads_are_mean_weights_and_sum_to_one(frame, resample):
    weights = routing.weights_of(frame, SPACE)
    found = routing.load(resample, weights, frame["range"].to_numpy(), SPACE)
    for k, name in enumerate(SPACE.names):
        assert found[name, "load"].overall().value == pytest.approx(by_seed(frame, weights[:, k]), abs=1e-6)
        assert found[name, "load_first"].overall().value == pytest.approx(by_seed(frame, frame["router_range"] == k))
    for metric in ("load", "load_first", "true_share"):
        assert sum(found[name, metric].overall().value for name in SPACE.names) == pytest.approx(1, abs=1e-6)
    spread = found["all", "load_cv"].overall()
    assert spread.low <= spread.value <= spread.high


# ---- calibration -------------------------------------------------------------------------------------------------


def test_reliability_is_what_scikit_learn_says(frame, resample):
    one = frame[frame["seed"] == 0]
    said, hit = one["confidence"].to_numpy(), (one["predicted_value"] == one["value"]).to_numpy()
    single = routing.resampler(one, "one", 20)
    found = routing.reliability(single, said, hit)
    share, mean = calibration_curve(hit, said, n_bins=routing.BINS, strategy="uniform")
    for metric, theirs in (("accuracy", share), ("confidence", mean)):
        ours = np.array([s.overall().value for (_, m), s in found.items() if m == metric])
        np.testing.assert_allclose(ours[np.isfinite(ours)], theirs, atol=1e-6)


def test_ece_is_the_weighted_gap_of_the_bins_worked_by_hand():
    said = np.array([0.95, 0.95, 0.55, 0.55, 0.15])
    hit = np.array([1, 0, 1, 1, 0], bool)
    resample = Resampler(np.zeros(5), np.arange(5), resamples=50)
    found = routing.ece(resample, said, hit).overall()
    assert found.value == pytest.approx((2 * 0.45 + 2 * 0.45 + 0.15) / 5, abs=1e-6)
    assert found.low <= found.value <= found.high


def test_a_calibrated_confidence_has_no_calibration_error():
    said, hit = np.repeat([0.25, 0.75], 4), np.array([1, 0, 0, 0, 1, 1, 1, 0], bool)
    resample = Resampler(np.zeros(8), np.arange(8), resamples=20)
    assert routing.ece(resample, said, hit).overall().value == pytest.approx(0, abs=1e-6)


def test_brier_is_scikit_learns(frame):
    alpha, ranges = routing.weights_of(frame, SPACE), frame["range"].to_numpy()
    hit = (frame["predicted_value"] == frame["value"]).to_numpy()
    assert routing.brier(frame["confidence"].to_numpy(), hit).mean() == pytest.approx(
        brier_score_loss(hit, frame["confidence"])
    )
    several = brier_score_loss(ranges, alpha, labels=[0, 1, 2], scale_by_half=False)
    assert routing.brier(alpha, ranges).mean() == pytest.approx(several)


def test_selective_accuracy_at_coverage_one_is_plain_accuracy(frame, resample):
    hit = (frame["predicted_value"] == frame["value"]).to_numpy()
    found = routing.selective(resample, frame["confidence"].to_numpy(), frame["seed"].to_numpy(), {"right": hit})
    plain = resample.ratio(hit, np.ones(len(hit)))[0].overall()
    assert found[1.0, "right"].overall() == plain


def test_selective_accuracy_answers_the_most_confident_rows_first():
    frame = pd.DataFrame({"seed": 0, "structure": list("abcd"), "range": 0})
    score, hit = np.array([0.9, 0.2, 0.8, 0.4]), np.array([1, 0, 1, 0], bool)
    found = routing.selective(routing.resampler(frame, "x", 10), score, np.zeros(4), {"right": hit}, (0.25, 0.5, 0.75))
    assert [found[c, "right"].overall().value for c in (0.25, 0.5, 0.75)] == pytest.approx([1, 1, 2 / 3])


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 5))
def test_accepted_rows_grow_with_coverage_whatever_the_ties(n, twentieths, seed):
    score = np.random.default_rng(seed).integers(0, 3, n)
    seeds = np.zeros(n, int)
    few, more = accepted(score, seeds, twentieths / 20), accepted(score, seeds, min(1, twentieths / 20 + 0.1))
    assert few.sum() == max(1, int(np.ceil(twentieths * n / 20)))
    assert not (few & ~more).any()
    assert few.all() or score[few].min() >= score[~few].max()


# ---- boundaries and rescue ---------------------------------------------------------------------------------------


def test_distance_counts_the_steps_to_another_range():
    assert routing.boundary_distance(SPACE).tolist() == [4, 3, 2, 1, 1, 2, 2, 1, 1, 2, 3, 4]
    source = dict(zip(LabelSpace().values, routing.boundary_distance(LabelSpace()), strict=True))
    assert (source[20], source[21], source[30], source[31], source[2], source[100]) == (1, 1, 10, 10, 19, 20)
    with pytest.raises(ValueError, match="no boundary"):
        routing.boundary_distance(LabelSpace(2, 5, ()))


def test_curves_by_distance_hold_every_row_once_and_average_to_the_whole(frame, resample):
    found = routing.by_distance(resample, frame, SPACE)
    for metric, values in (
        ("value_accuracy", frame["predicted_value"] == frame["value"]),
        ("router_entropy", routing.entropy(routing.weights_of(frame, SPACE))),
        ("range_overconfidence", frame["range_confidence"] - (frame["predicted_range"] == frame["range"])),
    ):
        parts = [s.overall() for (_, m), s in found.items() if m == metric]
        assert sum(part.n for part in parts) == len(frame)
        whole = sum(part.value * part.n for part in parts) / len(frame)
        assert whole == pytest.approx(np.mean(np.asarray(values, float)), abs=1e-6)


def test_rescue_is_the_accuracy_of_wrong_routes(frame, resample):
    found = routing.summary(resample, frame, SPACE)
    wrong = frame[frame["router_range"] != frame["range"]]
    rescued = found["route=wrong", "value_accuracy"].overall()
    assert rescued.n == len(wrong)
    assert rescued.value == pytest.approx(by_seed(wrong, wrong["predicted_value"] == wrong["value"]))
    tidy = evaluation.evaluate(frame, SPACE, resamples=20)
    same = results.pick(tidy, group="route=wrong", metric="value_accuracy", seed="all")
    assert rescued.value == pytest.approx(same["value"])


def test_the_summary_averages_what_it_says(frame, resample):
    made = routing.summary(resample, frame, SPACE)
    found = {metric: s.overall().value for (group, metric), s in made.items() if group == "all"}
    weights, ranges = routing.weights_of(frame, SPACE), frame["range"].to_numpy()
    assert found["true_range_weight"] == pytest.approx(by_seed(frame, weights[np.arange(len(frame)), ranges]), abs=1e-6)
    assert found["router_accuracy"] + found["route_wrong_share"] == pytest.approx(1)
    assert found["router_brier"] == pytest.approx(by_seed(frame, routing.brier(weights, ranges)), abs=1e-6)
    gap = frame["confidence"] - (frame["predicted_value"] == frame["value"])
    assert found["value_overconfidence"] == pytest.approx(by_seed(frame, gap), abs=1e-6)
