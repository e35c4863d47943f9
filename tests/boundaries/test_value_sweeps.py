"""Sweeps along the value axis: known curves of hand-made routers, and numbers for the shape of a curve."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from known_answers import SPACE, TWO, answers, whole

from redlib import datasets, models
from redlib.evaluation import Sweep, predict
from redlib.evaluation.sweeps import backtrack, entropy, flips, largest_step, variation
from redlib.expressions import LabelSpace
from redlib.statistics import CurveResampler, interval

# ---- numbers for the shape of a curve ----------------------------------------------------------------------------


@given(st.integers(2, 7), st.lists(st.floats(0, 1), min_size=2, max_size=40))
def test_a_handing_over_that_never_turns_has_the_variation_of_the_ideal_step_however_gradual(K, places):
    at = np.sort([0.0, 1.0, *places]) * (K - 1)  # a position between range 0 and range K-1 that only moves up
    for position in range(K):  # passes through every range on its way
        at = np.sort(np.append(at, position))
    curve = np.clip(1 - np.abs(at[:, None] - np.arange(K)), 0, None)
    assert variation(curve) == pytest.approx(K - 1)
    assert backtrack(curve) == pytest.approx(0, abs=1e-9)
    assert flips(curve) == K - 1
    assert backtrack(curve[::-1]) == pytest.approx(K - 1)


@given(st.integers(2, 5), st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_no_curve_varies_less_than_its_ends_are_apart(K, V, seed):
    curve = np.random.default_rng(seed).dirichlet(np.ones(K), V)
    assert variation(curve) >= np.abs(curve[-1] - curve[0]).sum() / 2 - 1e-9
    assert 0 <= largest_step(curve) <= min(1, variation(curve)) + 1e-9
    assert backtrack(curve) >= 0
    assert flips(curve) <= V - 1


def test_entropy_of_one_expert_is_zero_and_of_equal_weights_the_logarithm_of_their_number():
    np.testing.assert_allclose(entropy(np.array([[1.0, 0, 0, 0], [0.25] * 4])), [0, np.log(4)], atol=1e-12)


# ---- sweeps ------------------------------------------------------------------------------------------------------


def test_the_sweep_of_a_hand_made_router_is_its_known_curve():
    """Two experts whose weights cross at 20.5: alpha_2 = sigmoid(value - 20.5); the feature is the value."""
    rows = whole(operands=(2, 20), space=TWO, wordings=2)
    parts = {
        "base": torch.nn.Identity(),
        "classifier": models.LinearBank([0], 2, TWO.C),
        "experts": models.ResidualExperts(range(2), 2, 1),
        "router": models.LinearBank([0], 2, 2),
    }
    parts["router"].weight.data = torch.tensor([[[0.0, 1.0], [0.0, -20.5]]])
    parts["router"].bias.data.zero_()
    x = torch.tensor(np.stack([rows["value"], np.ones(len(rows))], 1), dtype=torch.float32)
    said = predict(models.assemble("red", TWO, parts), x, TWO, probabilities=True)
    sweep = Sweep(rows, TWO, resamples=20)
    curves = sweep.curves([said])
    value = np.arange(4, 41)
    np.testing.assert_array_equal(curves.places, value)
    above = 1 / (1 + np.exp(20.5 - value))
    np.testing.assert_allclose(curves.value[0][:, sweep.names.index("weight_R2")], above, atol=1e-5)
    shapes = sweep.shapes([said])
    assert shapes["weight_extra_variation"].value[0] == pytest.approx(above[-1] - above[0] - 1, abs=1e-5)
    assert shapes["weight_backtrack"].value[0] == pytest.approx(0, abs=1e-6)
    assert shapes["weight_largest_step"].value[0] == pytest.approx(np.diff(above).max(), abs=1e-5)
    z = sweep.names.index("probability_R1")
    np.testing.assert_allclose(curves.value[0][:, z : z + 2].sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(("task", "operator"), [("task1", "addition"), ("task2", "addition"), ("task2", "subtraction")])
def test_the_ideal_step_has_nothing_beyond_the_ideal(task, operator):
    rows = whole(task, operator=operator, wordings=2)
    shapes = Sweep(rows, SPACE, seeds=2, resamples=20).shapes([answers(rows, rows["range"])] * 2)
    wanted = dict.fromkeys(shapes, 0.0) | dict.fromkeys(("value_accuracy", "range_accuracy"), 1.0)
    wanted |= dict.fromkeys(("largest_step", "weight_largest_step"), 1.0)
    for name, shape in shapes.items():
        found = interval(shape)
        assert (found.value, found.low, found.high) == pytest.approx((wanted[name],) * 3), name


def test_two_values_that_jump_to_the_last_range_are_counted_by_hand():
    """30 (R2) and 50 (R3) are taken for R5: two flips more at each, three and two boundaries crossed backwards."""
    rows = whole()
    ranges = np.where(rows["value"].isin([30, 50]), 4, rows["range"])
    sweep = Sweep(rows, SPACE, resamples=20)
    shapes = {name: shape.value[0] for name, shape in sweep.shapes([answers(rows, ranges)]).items()}
    assert shapes["extra_flips"] == shapes["extra_variation"] == shapes["weight_extra_variation"] == 4
    assert shapes["backtrack"] == shapes["weight_backtrack"] == 5
    assert shapes["range_accuracy"] == pytest.approx(95 / 97)
    held = [(first, value) for first in range(2, 51) for value in (30, 50) if first + 2 <= value <= first + 50]
    ends = [(first, value) for first, value in held if value in (first + 2, first + 50)]  # at a row's end: one flip
    assert shapes["row_extra_flips"] == pytest.approx((2 * len(held) - len(ends)) / 49)


def test_a_method_without_a_router_has_no_weights():
    rows = whole()
    shapes = Sweep(rows, SPACE, resamples=20).shapes([answers(rows, rows["range"], routed=False)])
    assert not [name for name in shapes if "weight" in name]


def test_a_method_stuck_in_one_range_lacks_all_steps_and_never_turns_back():
    rows = whole()
    shapes = Sweep(rows, SPACE, resamples=20).shapes([answers(rows, np.zeros(len(rows), int))])
    assert shapes["extra_variation"].value[0] == shapes["extra_flips"].value[0] == -(SPACE.K - 1)
    assert shapes["backtrack"].value[0] == 0


def test_masked_texts_count_for_nothing_and_a_value_without_texts_is_left_out():
    rows = whole()
    mask = (rows["value"] != 30) & (rows["first"] != 7)
    wrong = np.where(rows["first"] == 7, 4, rows["range"])
    sweep = Sweep(rows, SPACE, [mask.to_numpy(), (rows["first"] != 7).to_numpy()], resamples=20)
    curves = sweep.curves([answers(rows, wrong)] * 2)
    z = sweep.names.index("range_accuracy")
    thirty = list(curves.places).index(30)
    assert np.isnan(curves.value[0, thirty, z])
    assert curves.rows[0, thirty] == 0
    assert np.nanmin(curves.value[:, :, z]) == 1
    mean, low, high = curves.band()
    assert mean[thirty, z] == low[thirty, z] == high[thirty, z] == 1
    assert sweep.shapes([answers(rows, wrong)] * 2)["extra_flips"].value.tolist() == [0, 0]


def test_differences_of_a_method_with_itself_are_exactly_zero_and_with_another_paired():
    rows = whole()
    rng = np.random.default_rng(0)
    sweep = Sweep(rows, SPACE, seeds=2, resamples=200)
    noisy = [answers(rows, np.where(rng.random(len(rows)) < 0.1, 4, rows["range"])) for _ in range(2)]
    a, again, ideal = sweep.shapes(noisy), sweep.shapes(noisy), sweep.shapes([answers(rows, rows["range"])] * 2)
    zero = interval(a["backtrack"] - again["backtrack"])
    assert (zero.value, zero.low, zero.high) == (0, 0, 0)
    more = interval(a["backtrack"] - ideal["backtrack"])
    assert 0 < more.low < more.value < more.high
    assert more.n == 2 * len(rows)


def test_curves_are_plain_means_and_each_cluster_has_one_place():
    rng = np.random.default_rng(1)
    places = np.repeat(np.arange(6), 12)
    clusters = [f"{place}/{turn}" for place in range(6) for turn in range(4) for _ in range(3)]
    values = rng.normal(size=(len(places), 2))
    made = CurveResampler(places, clusters, [np.ones(len(places), bool)], 300).means([values])
    expected = pd.DataFrame(values).groupby(places).mean().to_numpy()
    np.testing.assert_allclose(made.value[0], expected)
    np.testing.assert_allclose(made.draws[0].mean(0), expected, atol=0.15)
    mean, low, high = made.band()
    assert ((low < mean) & (mean < high)).all()
    with pytest.raises(ValueError, match="cluster '0/0' lies at more than one place"):
        CurveResampler([0, 1], ["0/0", "0/0"], [np.ones(2, bool)])


def test_what_a_sweep_cannot_read_is_said_in_a_sentence():
    rows = whole()
    with pytest.raises(ValueError, match="a label space of one range has no boundary"):
        Sweep(rows, LabelSpace(2, 100, ()))
    with pytest.raises(ValueError, match="a population lacks the columns first, second"):
        Sweep(rows.drop(columns=["first", "second"]), SPACE)
    with pytest.raises(ValueError, match=r"each of the 2401 texts whether it counts, got \(7,\)"):
        Sweep(rows, SPACE, [np.ones(7, bool)])
    with pytest.raises(ValueError, match="a sweep is of one operator, got addition, subtraction"):
        Sweep(datasets.with_operands(datasets.population("task2", wordings=1)), SPACE)
    sweep = Sweep(rows, SPACE, resamples=5)
    said = answers(rows, rows["range"])
    with pytest.raises(ValueError, match="answers to 10 texts do not fit a population of 2401"):
        sweep.curves([said[:10]])
    with pytest.raises(ValueError, match="for K=5 ranges; they have 4 weights and lack alpha_5"):
        sweep.curves([said.drop(columns=["alpha_5"])])
    with pytest.raises(ValueError, match="for K=5 ranges; they have 6 weights"):
        sweep.curves([said.assign(alpha_6=0.0)])
