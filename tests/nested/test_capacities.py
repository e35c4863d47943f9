"""Nested experts: budgets, capacities and counts, and which token goes to which expert."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from small_shapes import SMALL, made, pictures, shapes

from redlib import nested
from redlib.nested import assignment, capacity

budgets = st.floats(0.126, 0.999)


# ---- budgets, capacities, counts ---------------------------------------------------------------------------------


def test_the_capacities_at_a_budget_of_three_tenths_are_the_known_ones():
    assert np.round(nested.capacities(0.3), 3).tolist() == [0.414, 0.321, 0.194, 0.071]


@settings(max_examples=25)
@given(st.floats(0.2, 0.9), st.sampled_from([(0.125, 0.25, 0.5, 1.0), (0.25, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 2, 1.0)]))
def test_capacities_are_what_a_general_optimiser_finds(budget, shares):
    budget = max(budget, shares[0] + 0.02)
    w, bonus = np.array(shares), capacity.DELTA ** np.arange(len(shares))

    def lost(c):
        return -(c @ bonus) + capacity.BETA * (c * np.log(np.maximum(c, 1e-12))).sum()

    limits = [{"type": "eq", "fun": lambda c: c.sum() - 1}, {"type": "eq", "fun": lambda c: c @ w - budget}]
    start = np.full(len(w), 1 / len(w))
    best = minimize(lost, start, bounds=[(1e-9, 1)] * len(w), constraints=limits, options={"ftol": 1e-13})
    found = np.array(nested.capacities(budget, shares))
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert found @ w == pytest.approx(budget, abs=1e-9)
    assert lost(found) <= lost(best.x) + 1e-6
    np.testing.assert_allclose(found, best.x, atol=2e-3)


@given(budgets, st.integers(1, 300))
def test_each_width_but_the_smallest_gets_exactly_the_floor_of_its_share_of_the_tokens(budget, tokens):
    c = nested.capacities(budget)
    count = nested.counts(c, tokens)
    assert sum(count) == tokens
    assert list(count[1:]) == [math.floor(x * tokens + 1e-9) for x in c[1:]]
    assert nested.spent(count, nested.SHARES) <= budget + 1e-9


def test_the_ends_of_the_budget_use_one_width():
    assert nested.capacities(1.0) == (0, 0, 0, 1)
    assert nested.capacities(0.125) == (1, 0, 0, 0)


@pytest.mark.parametrize("budget", [0.124, 0.0, -1.0, 1.01, float("nan")])
def test_a_budget_that_no_capacities_have_is_refused(budget):
    with pytest.raises(ValueError, match=r"a budget must lie between 0\.125, the smallest width's share, and 1"):
        nested.capacities(budget)


@pytest.mark.parametrize("shares", [(), (0.5,), (0.5, 0.25, 1.0), (0.3, 1.0), (0.5, 0.5, 1.0), (0.0, 1.0), (0.5, 2.0)])
def test_widths_that_are_no_increasing_divisors_are_refused(shares):
    with pytest.raises(ValueError, match="widths must be increasing divisors"):
        nested.Shape(shares=shares)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0.5, 0.5), "4 experts need 4 capacities, got 2"),
        ((0.5, 0.5, 0.5, 0.0), "(sum 1.5)"),
        ((1.5, -0.5, 0.0, 0.0), "got 1.5, -0.5, 0, 0"),
    ],
)
def test_capacities_that_are_none_are_refused(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        made(SMALL)(pictures(SMALL).double(), given)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"canvas": 50}, "an image of 50 pixels a side cannot be cut into patches of 6"),
        ({"canvas": 45, "patch": 5}, "must be even, got 5"),
        ({"heads": 3}, "3 heads do not divide 64 features"),
        ({"dim": 36}, "the model's width 36 cannot be divided by 8"),
    ],
)
def test_shapes_that_do_not_fit_together_are_refused(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        nested.Shape(**wrong)


# ---- routing -----------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(0, 10**6), budgets, st.integers(1, 40))
def test_every_token_goes_to_exactly_one_expert_and_large_ones_choose_first(seed, budget, tokens):
    p = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(4), (2, tokens)))
    count = nested.counts(nested.capacities(budget), tokens)
    found = assignment.order(p, count)
    assert (found.sort(1).values == torch.arange(tokens)).all(), "a permutation"
    to = assignment.experts(found, count)
    for one, probabilities in zip(to, p, strict=True):
        assert torch.bincount(one, minlength=4).tolist() == list(count)
        for j in (3, 2, 1):
            if count[j] and (one < j).any():
                assert probabilities[one == j, j].min() >= probabilities[one < j, j].max()


@shapes
def test_what_one_picture_of_a_batch_holds_changes_no_other(shape):
    model, images = made(shape), pictures(shape, 4)
    together = model(images, 0.4)
    turned = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(model(images[turned], 0.4), together[turned])
    other = images.clone()
    other[1:] = pictures(shape, 3, seed=9)
    torch.testing.assert_close(model(other, 0.4)[0], together[0])


def test_gather_and_scatter_undo_each_other():
    x, found = torch.randn(2, 7, 3), torch.stack([torch.randperm(7) for _ in range(2)])
    assert torch.equal(assignment.scatter(assignment.gather(x, found), found), x)
