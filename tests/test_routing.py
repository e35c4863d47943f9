"""The routing room against direct computation, by hand and by other libraries."""

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from redlib import config, evaluation, figures, models, results, routing, study
from redlib.expressions import LabelSpace
from redlib.routing.calibration import accepted
from redlib.statistics import Resampler

SPACE = LabelSpace(2, 13, (5, 9))  # three ranges of four values
K, C = SPACE.K, SPACE.C


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


def red(seed=0, trained=True):
    """A RED and a softmax mixture over SPACE with the same base, d = 8."""
    parts = {
        "base": torch.nn.Identity(),
        "classifier": models.LinearBank([seed], 8, C),
        "experts": models.ResidualExperts(range(K), 8, 2),
        "router": models.MLPBank([seed + 1], 8, 4, K),
        "heads": models.LinearBank(range(K), 8, C),
        "gate": models.MLPBank([seed + 2], 8, 4, K),
    }
    if trained:
        parts["experts"].up.weight.data.normal_(generator=torch.Generator().manual_seed(seed))
    return parts


def opened(name="red", n=50, seed=0):
    x = 2 * torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    method = models.assemble(name, SPACE, red(seed))
    return routing.open_experts(method, x), method, x


# ---- weights -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([[0.5, 0.5]], r"shape \(., 3\)"),
        ([0.2, 0.3, 0.5], r"shape \(., 3\)"),
        ([[0.2, np.nan, 0.8]], "row 0 hold a number that is not finite"),
        ([[0.2, np.inf, 0.8]], "not finite"),
        ([[0.2, 0.3, 0.5], [-0.2, 0.7, 0.5]], "row 1 hold a negative number"),
        ([[0.2, 0.3, 0.6]], "row 0 do not sum to one"),
    ],
)
def test_wrong_weights_are_named_wherever_weights_are_taken(weights, said):
    experts = opened(n=np.atleast_2d(weights).shape[0])[0]
    for use in (
        lambda: routing.check_weights(weights, K),
        lambda: experts.answer(weights),
        lambda: routing.regret(experts, torch.zeros(len(weights), dtype=torch.long), weights),
    ):
        with pytest.raises(ValueError, match=said):
            use()


def test_weights_of_another_number_of_rows_are_refused():
    with pytest.raises(ValueError, match=r"shape \(50, 3\)"):
        opened()[0].answer(np.full((49, K), 1 / K))


def test_weights_within_the_tolerance_pass():
    off = np.array([[0.2, 0.3, 0.5 + 9e-5]])
    np.testing.assert_array_equal(routing.check_weights(off, K), off)


def test_predictions_of_a_router_of_another_size_are_refused(frame):
    with pytest.raises(ValueError, match="weights of 2 experts, but the label space has K=3"):
        routing.weights_of(frame.drop(columns="alpha_3"), SPACE)
    with pytest.raises(ValueError, match="weights of 3 experts, but the label space has K=2"):
        routing.weights_of(frame, LabelSpace(2, 13, (7,)))


def test_entropy_is_zero_for_one_expert_and_one_for_equal_weights():
    found = routing.entropy(np.array([[0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]]))
    np.testing.assert_allclose(found, [0, 1, np.log(2) / np.log(3)])


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


@settings(deadline=None, max_examples=40)
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


# ---- experts and regret ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["red", "moe_same_experts", "softmax_moe"])
def test_experts_answer_with_the_routers_weights_as_the_method_does(name):
    experts, method, x = opened(name)
    with torch.no_grad():
        said = method(x)
    torch.testing.assert_close(experts.alpha, said.alpha)
    torch.testing.assert_close(experts.answer(experts.alpha), said.logits)


def test_one_expert_with_all_the_weight_answers_alone():
    experts = opened()[0]
    for k in range(K):
        alone = experts.answer(np.eye(K)[np.full(50, k)])
        torch.testing.assert_close(alone, experts.logits[k], atol=1e-4, rtol=1e-4)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_residual_fusion_and_the_mixture_of_the_same_experts_agree_under_any_weights(seed):
    residual, mixed = opened(seed=seed % 7)[0], opened("moe_same_experts", seed=seed % 7)[0]
    weights = np.random.default_rng(seed).dirichlet(np.full(K, 0.3), 50)
    torch.testing.assert_close(residual.answer(weights), mixed.answer(weights), atol=1e-4, rtol=1e-4)


def test_a_method_without_a_router_over_experts_is_refused():
    with pytest.raises(ValueError, match="GlobalHead mixes no experts by a router; valid: RED, LogitMixture"):
        routing.open_experts(models.assemble("global_head", SPACE, red()), torch.zeros(2, 8))


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.floats(0.3, 8))
def test_the_best_mixture_is_the_best_that_another_solver_finds(seed, scale):
    draw = torch.Generator().manual_seed(seed)
    logits, truth = scale * torch.randn(K, 4, C, generator=draw), torch.randint(C, (4,), generator=draw)
    start = torch.full((4, K), 1 / K)
    value, gap = routing.best_mixture(logits, truth, start)
    assert (gap <= 1e-3).all()
    simplex = {"type": "eq", "fun": lambda a: a.sum() - 1}
    for row in range(4):
        z = logits[:, row].double().numpy()

        def loss(a, z=z, y=int(truth[row])):
            return np.logaddexp.reduce(a @ z) - (a @ z)[y]

        tried = [loss(np.array(a)) for a in product(np.linspace(0, 1, 21), repeat=K) if abs(sum(a) - 1) < 1e-9]
        other = min(minimize(loss, np.full(K, 1 / K), bounds=[(0, 1)] * K, constraints=simplex).fun, *tried)
        assert -value[row] == pytest.approx(other, abs=2e-3)


def test_regret_worked_by_hand():
    """Two experts, two values: the first says 2 with odds 3, the second says 3 with odds 3; weights are even."""
    space = LabelSpace(2, 3, (2,))
    z = torch.tensor([[[3.0, 1.0]], [[1.0, 3.0]]]).log()  # (K, N, C)
    experts = routing.Experts(space, torch.tensor([[0.5, 0.5]]), z)
    found = routing.regret(experts, torch.tensor([0]))
    assert found.own == pytest.approx(np.log(0.5), abs=1e-6)
    assert found.expert == pytest.approx(np.log(0.75), abs=1e-6)
    assert found.mixture == pytest.approx(np.log(0.75), abs=1e-3)
    told = routing.regret(experts, torch.tensor([0]), [[0.0, 1.0]])
    assert told.own == pytest.approx(np.log(0.25), abs=1e-6)
    assert (bool(told.right[0]), bool(told.possible[0])) == (False, True)


def test_regret_orders_own_weights_best_expert_and_best_mixture():
    experts = opened(n=200)[0]
    truth = torch.randint(C, (200,), generator=torch.Generator().manual_seed(1))
    found = routing.regret(experts, truth)
    assert (found.mixture >= found.own - 1e-9).all()
    assert (found.mixture >= found.expert - 1e-9).all()
    assert (found.expert > found.own).any()
    frame = pd.DataFrame({"seed": 0, "structure": np.arange(200), "range": 0})
    resample = routing.resampler(frame, "x", 20)
    routed = np.arange(200) % 3 > 0
    numbers = routing.regrets(resample, found, routed)
    whole = numbers["all", "regret_mixture"].overall()
    assert whole.value == pytest.approx((found.mixture - found.own).mean(), abs=1e-5)
    assert numbers["route=wrong", "regret_right"].overall().n == (~routed).sum()
    curve = routing.exceedance(resample, found)
    above = [curve["regret", x, "regret_mixture"].overall().value for x in (0.001, 0.1, 1.0)]
    assert above == sorted(above, reverse=True)
    assert above[1] == pytest.approx(((found.mixture - found.own) > 0.1).mean())


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


# ---- the tables --------------------------------------------------------------------------------------------------

SMALL = {"task1.rows": 250, "task1.seeds": {"text": 1, "structure": 2}, "task1.source_seeds": {}, "bootstrap": 20}
SMALL |= {"task2.definitions.operations.seeds": {"text": 1, "structure": 1}}
SMALL |= {"task2.definitions.operations.source_seeds": {}}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", SMALL)
        names = ("routing", "routing_curves", "robustness", "routing_definitions")
        yield {name: study.table(profile, name, say=lambda line: None) for name in names}


def test_the_tables_hold_both_tasks_and_splits_and_validate(tables):
    results.validate(tables["routing_definitions"])
    for frame in (tables[name] for name in ("routing", "routing_curves", "robustness")):
        results.validate(frame)
        there = set(frame[["task", "variant", "split"]].itertuples(index=False, name=None))
        wanted = set(product(("task1",), ("chosen",), ("text", "structure")))
        wanted |= set(product(("task2",), ("operations/chosen",), ("text", "structure")))
        assert wanted <= there


def test_every_definition_of_the_steps_has_its_routing_and_operations_the_same_as_beside_task_1(tables):
    rows = tables["routing_definitions"]
    assert set(rows["variant"]) == {"operations/chosen", "single_heavy/chosen"}
    keys = ["split", "method", "seed", "group", "metric"]
    mine, theirs = (
        results.select(frame, variant="operations/chosen").set_index(keys)[["value", "low", "high"]].sort_index()
        for frame in (rows, tables["routing"])
    )
    pd.testing.assert_frame_equal(mine, theirs)


def test_no_corruption_and_full_coverage_are_the_accuracy_of_the_summary(tables):
    keys = ["task", "variant", "split", "method"]
    plain = results.select(tables["routing"], metric="value_accuracy", group="all", seed="all").set_index(keys)["value"]
    starts = tables["robustness"].query("metric == 'value_accuracy'")
    starts = starts[starts["strength"] == starts["corruption"].map(routing.NEUTRAL)]
    starts = starts[starts["method"].isin(["red", "softmax_moe"])].set_index(keys)["value"]
    np.testing.assert_allclose(starts, plain.loc[starts.index], atol=1e-6)
    full = results.select(tables["routing_curves"], metric="value_accuracy", x=1.0, curve="selective_confidence")
    np.testing.assert_allclose(full.set_index(keys)["value"], plain.loc[full.set_index(keys).index], atol=1e-6)


def test_red_and_the_mixture_of_its_experts_never_part_under_corruption(tables):
    rows = tables["robustness"]
    apart = rows[(rows["method"] == "moe_same_experts") & rows["metric"].str.endswith("_accuracy_below_red")]
    assert len(apart)
    assert (apart["value"] * apart["n"].astype(float)).abs().max() < 1.5, "a tie may fall the other way by rounding"


@pytest.mark.parametrize(
    ("draw", "table", "rows"),
    [
        (figures.draw_expert_load, "routing", 2),
        (figures.draw_reliability, "routing_curves", 3),
        (figures.draw_selective_accuracy, "routing_curves", 2),
        (figures.draw_boundary_distance, "routing_curves", 4),
        (figures.draw_robustness, "robustness", 4),
        (figures.draw_regret, "routing_curves", 2),
    ],
)
def test_a_figure_has_a_column_for_each_task_and_split_and_names_what_it_lacks(tables, draw, table, rows):
    fig = draw(tables[table], "smoke", note=figures.NO_EVIDENCE)
    titles = [ax.get_title() for ax in fig.axes if ax.get_title()]
    assert titles == [f"Task {task}, {split} split" for task in (1, 2) for split in ("text", "structure")]
    assert len(fig.axes) == 4 * rows
    with pytest.raises(LookupError, match="variant=source"):
        draw(tables[table], "smoke", recipe="source")
