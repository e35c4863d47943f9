"""Weights that are taken or refused, experts that answer with them, and regret against hand and another solver."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from toy_experts import SPACE, C, K, opened, red

from redlib import models, routing
from redlib.expressions import LabelSpace

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


def test_entropy_is_zero_for_one_expert_and_one_for_equal_weights():
    found = routing.entropy(np.array([[0, 1, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0]]))
    np.testing.assert_allclose(found, [0, 1, np.log(2) / np.log(3)])


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


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_residual_fusion_and_the_mixture_of_the_same_experts_agree_under_any_weights(seed):
    residual, mixed = opened(seed=seed % 7)[0], opened("moe_same_experts", seed=seed % 7)[0]
    weights = np.random.default_rng(seed).dirichlet(np.full(K, 0.3), 50)
    torch.testing.assert_close(residual.answer(weights), mixed.answer(weights), atol=1e-4, rtol=1e-4)


def test_a_method_without_a_router_over_experts_is_refused():
    with pytest.raises(ValueError, match="GlobalHead mixes no experts by a router; valid: RED, LogitMixture"):
        routing.open_experts(models.assemble("global_head", SPACE, red()), torch.zeros(2, 8))


@settings(max_examples=15)
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
