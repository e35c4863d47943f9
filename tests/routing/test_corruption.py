"""Weights that are corrupted, and what accuracy is left."""

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
import torch
from toy_experts import SPACE, C, K, opened

from redlib import evaluation, results, routing

# ---- corruption --------------------------------------------------------------------------------------------------


WEIGHTS = np.random.default_rng(5).dirichlet(np.ones(K), 400).astype(np.float32)
RANGES = np.arange(400) % K


@pytest.mark.parametrize("kind", routing.CORRUPTIONS)
def test_the_neutral_strength_changes_nothing(kind):
    assert routing.NEUTRAL[kind] in routing.CORRUPTIONS[kind]
    made = routing.corrupt(WEIGHTS, kind, routing.NEUTRAL[kind], RANGES)
    np.testing.assert_array_equal(made, WEIGHTS)


@pytest.mark.parametrize("kind", routing.CORRUPTIONS)
def test_corrupted_weights_are_weights_and_repeat_for_a_seed(kind):
    for strength in routing.CORRUPTIONS[kind]:
        made = routing.corrupt(WEIGHTS, kind, strength, RANGES, seed=3)
        routing.check_weights(made, K, 400)
        np.testing.assert_array_equal(made, routing.corrupt(WEIGHTS, kind, strength, RANGES, seed=3))
    if kind != "temperature":
        other = routing.corrupt(WEIGHTS, kind, 0.5, RANGES, seed=4)
        assert not np.array_equal(routing.corrupt(WEIGHTS, kind, 0.5, RANGES, seed=3), other)


def test_a_wrong_route_is_one_hot_on_another_range_and_every_wrong_range_occurs():
    made = routing.corrupt(WEIGHTS, "wrong", 1.0, RANGES)
    assert set(np.unique(made)) == {0.0, 1.0}
    assert (made.argmax(1) != RANGES).all()
    assert set(zip(RANGES, made.argmax(1), strict=True)) == set(permutations(range(K), 2))


def test_a_swap_exchanges_the_largest_weight_with_a_neighbour():
    made = routing.corrupt(WEIGHTS, "neighbour", 1.0)
    top = WEIGHTS.argmax(1)
    rows = np.arange(400)
    moved = np.array([np.flatnonzero(made[r] == WEIGHTS[r, top[r]])[0] for r in rows])
    assert (np.abs(moved - top) == 1).all()
    np.testing.assert_array_equal(made[rows, top], WEIGHTS[rows, moved])
    np.testing.assert_array_equal(np.sort(made, 1), np.sort(WEIGHTS, 1))
    assert {-1, 1} == set((moved - top)[top == 1])


@pytest.mark.parametrize("kind", ["neighbour", "wrong"])
def test_rows_corrupted_at_a_probability_stay_so_at_a_higher_one(kind):
    few, more = (routing.corrupt(WEIGHTS, kind, p, RANGES) for p in (0.3, 0.7))
    changed, also = (few != WEIGHTS).any(1), (more != WEIGHTS).any(1)
    assert not (changed & ~also).any()
    assert changed.mean() == pytest.approx(0.3, abs=0.1)
    np.testing.assert_array_equal(few[changed], more[changed])


def test_temperature_sharpens_below_one_and_flattens_above():
    spread = [routing.entropy(routing.corrupt(WEIGHTS, "temperature", t)).mean() for t in (0.1, 0.5, 1.0, 2.0, 10.0)]
    assert spread == sorted(spread)
    one = routing.corrupt(np.array([[0.8, 0.2, 0.0]]), "temperature", 0.5)
    np.testing.assert_allclose(one, [[0.64 / 0.68, 0.04 / 0.68, 0]])


def test_dirichlet_noise_at_full_strength_forgets_the_router():
    a, b = (routing.corrupt(w, "dirichlet", 1.0) for w in (WEIGHTS, WEIGHTS[::-1]))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "noise", "strength": 0.5}, "unknown corruption 'noise'; valid corruptions: dirichlet, neighbour"),
        ({"kind": "dirichlet", "strength": 1.5}, "from 0 to 1, got 1.5"),
        ({"kind": "dirichlet", "strength": float("nan")}, "from 0 to 1, got nan"),
        ({"kind": "temperature", "strength": 0.0}, "above 0, got 0.0"),
        ({"kind": "wrong", "strength": 0.5}, "true range of each of the 400 rows"),
        ({"kind": "wrong", "strength": 0.5, "ranges": [0, 1]}, "true range of each of the 400 rows"),
        ({"kind": "dirichlet", "strength": 0.5, "weights": np.ones((4, 1))}, "needs at least two"),
        ({"kind": "dirichlet", "strength": 0.5, "weights": np.ones((4, 2))}, "do not sum to one"),
    ],
)
def test_an_impossible_corruption_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        routing.corrupt(**({"weights": WEIGHTS} | given))


# ---- robustness --------------------------------------------------------------------------------------------------


def perfect(n=300):
    """Experts that are right on their own range and wrong by one range on any other, and a router without doubt."""
    draw = np.random.default_rng(0)
    value = draw.integers(C, size=n)
    ranges = np.asarray(SPACE.range_index)[value]
    logits = torch.zeros(K, n, C)
    for k, row in product(range(K), range(n)):
        logits[k, row, value[row] if k == ranges[row] else (value[row] + 4) % C] = 10.0
    alpha = torch.eye(K)[torch.from_numpy(ranges)] * 0.94 + 0.02
    return routing.Experts(SPACE, alpha, logits), value, ranges


def test_accuracy_falls_as_more_routes_are_wrong_in_a_case_worked_by_hand():
    experts, value, ranges = perfect()
    strengths = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    found = routing.hits(experts, value, ranges, corruptions={"wrong": strengths})
    wrong = [(routing.corrupt(experts.alpha, "wrong", s, ranges).argmax(1) != ranges) for s in strengths]
    for metric in ("value_accuracy", "range_accuracy"):
        curve = [found["wrong", s, metric].mean() for s in strengths]
        assert curve == pytest.approx([1 - w.mean() for w in wrong]), "right on the right route and on no other"
        assert curve == sorted(curve, reverse=True)
        assert (curve[0], curve[-1]) == (1, 0)


def test_noise_lowers_accuracy_step_by_step_and_sharper_weights_do_no_harm():
    experts, value, ranges = perfect()
    found = routing.hits(experts, value, ranges)
    for kind in ("dirichlet", "neighbour"):
        curve = [found[kind, s, "value_accuracy"].mean() for s in routing.CORRUPTIONS[kind]]
        assert curve[0] == 1
        assert curve == sorted(curve, reverse=True)
        assert curve[-1] < 0.6
    assert all(found["temperature", s, "value_accuracy"].all() for s in routing.CORRUPTIONS["temperature"] if s <= 1)


@pytest.mark.parametrize("name", ["red", "moe_same_experts", "softmax_moe"])
def test_every_curve_starts_at_the_uncorrupted_accuracy_exactly(name):
    experts, method, x = opened(name, n=300)
    draw = np.random.default_rng(2)
    value = draw.integers(C, size=300)
    said = evaluation.predict(method, x, SPACE)
    value[:150] = said["predicted_value"][:150] - SPACE.lo  # half of the answers are right
    ranges = np.asarray(SPACE.range_index)[value]
    found = routing.hits(experts, value, ranges)
    for kind, strength in routing.NEUTRAL.items():
        right = {"value": said["predicted_value"] - SPACE.lo == value, "range": said["predicted_range"] == ranges}
        for name, hit in right.items():
            np.testing.assert_array_equal(found[kind, strength, f"{name}_accuracy"], hit)


def test_a_hard_choice_ignores_temperature_and_equal_weights_ignore_everything():
    experts, value, ranges = perfect()
    hard = routing.hits(experts, value, ranges, hard=True)
    flat = routing.flat(experts, value, ranges)
    for strength in routing.CORRUPTIONS["temperature"]:
        assert hard["temperature", strength, "value_accuracy"].all()
    assert len({hit.mean() for point, hit in flat.items() if point[2] == "value_accuracy"}) == 1


def curve_table(drop_red, drop_other, n=400):
    """The robustness table of two methods that start perfect and lose given shares of rows at full strength."""
    frame = pd.DataFrame({"seed": np.arange(n) % 2, "structure": np.arange(n), "range": 0})
    resample, place = routing.resampler(frame, "x", 200), np.arange(n) // 2 / (n / 2)
    points = tuple(product(("wrong",), (0.0, 0.5, 1.0), ("value_accuracy", "range_accuracy")))
    made = {}
    for name, drop in (("red", drop_red), ("softmax_moe", drop_other)):
        made[name] = {point: place >= point[1] * drop for point in points}
    statistics = routing.robustness(resample, made)
    about = {"task": "task1", "variant": "chosen", "split": "text"}
    return routing.tidy(statistics, ["method", "corruption", "strength", "metric"], **about)


def test_drops_shares_kept_and_their_differences_follow_from_the_curves():
    table = curve_table(0.2, 0.6)
    at = {"corruption": "wrong", "metric": "value_accuracy_drop"}
    assert results.pick(table, method="red", strength=0.5, **at)["value"] == pytest.approx(0.1)
    assert results.pick(table, method="softmax_moe", strength=1.0, **at)["value"] == pytest.approx(0.6)
    paired = results.pick(table, method="softmax_moe", metric="value_accuracy_drop_below_red", strength=1.0)
    assert paired["value"] == pytest.approx(-0.4)
    assert paired["high"] < 0
    kept = results.pick(table, method="softmax_moe", metric="value_accuracy_kept", strength=1.0)
    assert kept["value"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("drops", "said"),
    [((0.2, 0.6), "RED loses less"), ((0.6, 0.2), "RED loses more"), ((0.3, 0.3), "no measurable difference")],
)
def test_the_verdict_says_which_loses_less(drops, said):
    found = routing.verdicts(curve_table(*drops))
    assert set(found["strength"]) == {0.5, 1.0}
    assert set(found["verdict"]) == set(found["kept_verdict"]) == {said}


def test_half_lost_is_the_first_strength_below_half():
    found = routing.half_lost(curve_table(0.4, 0.9)).set_index("method")["strength"]
    assert np.isnan(found["red"])
    assert found["softmax_moe"] == 1.0
    assert routing.half_lost(curve_table(1.0, 1.0)).set_index("method")["strength"]["red"] == 1.0


def test_a_method_with_nothing_to_lose_has_no_share_kept():
    frame = pd.DataFrame({"seed": 0, "structure": np.arange(8), "range": 0})
    points = product(("wrong",), (0.0, 1.0), ("value_accuracy", "range_accuracy"))
    never = dict.fromkeys(points, np.zeros(8, bool))
    found = routing.robustness(routing.resampler(frame, "x", 10), {"red": never, "softmax_moe": never})
    about = {"task": "task1", "variant": "chosen", "split": "text"}
    table = routing.tidy(found, ["method", "corruption", "strength", "metric"], **about)
    assert not table["metric"].str.contains("kept").any()
    assert routing.half_lost(table).empty
    judged = routing.verdicts(table)
    assert set(judged["verdict"]) == set(judged["kept_verdict"]) == {"no measurable difference"}
    assert judged["kept"].isna().all()
