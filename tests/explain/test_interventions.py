"""Interventions against the methods that they should become, and those that cannot be applied."""

import json
import math

import numpy as np
import pytest
import torch
from explainers import ADDITIVE, LABELS, NAMES, QUERY, K, direct
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import explain, features, models
from redlib.explain import Intervention


@pytest.mark.parametrize("method", ADDITIVE)
def test_dropping_every_expert_leaves_the_base(explainer, method):
    e = explainer.explain(QUERY, method, Intervention(drop=NAMES))
    np.testing.assert_array_equal(e.logits, e.base_logits)
    if method.startswith("red"):
        np.testing.assert_allclose(e.logits, direct(explainer, QUERY, "global_head").logits[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ADDITIVE)
def test_the_routers_own_weights_give_the_untouched_answer(explainer, method):
    e = explainer.explain(QUERY, method)
    fixed = explainer.explain(QUERY, method, Intervention(weights=e.alpha))
    np.testing.assert_allclose(fixed.logits, e.logits, rtol=1e-5, atol=1e-5)
    assert fixed.answer.value == e.answer.value


def test_top_1_is_hard_routing_and_very_hot_weights_are_equal_ones(explainer):
    hard = explainer.explain(QUERY, intervention=Intervention(top_k=1))
    np.testing.assert_allclose(hard.logits, direct(explainer, QUERY, "top1").logits[0], rtol=1e-5, atol=1e-5)
    hot = explainer.explain(QUERY, intervention=Intervention(temperature=1e6))
    np.testing.assert_allclose(hot.logits, direct(explainer, QUERY, "red_uniform").logits[0], rtol=1e-4, atol=1e-4)


def test_another_splits_model_answers_from_the_same_reading(explainer, reading):
    e = explainer.explain(reading, intervention=Intervention(split="text"))
    np.testing.assert_allclose(e.logits, direct(explainer, QUERY, "red", "text").logits[0], rtol=1e-5, atol=1e-5)
    assert e.model == "made up 1"


def test_an_expert_twice_as_strong_is_one_with_twice_the_correction(explainer):
    parts = dict(explainer.model().parts)
    scaled = models.take(parts["experts"], range(K))
    scaled.up.weight.data[2] *= 2
    x = torch.from_numpy(features.compute(explainer.backbone, [QUERY], [explainer.point])[explainer.point])
    with torch.no_grad():
        want = models.assemble("red", LABELS, parts | {"experts": scaled})(x).logits[0]
    e = explainer.explain(QUERY, intervention=Intervention(scale={"R3": 2}))
    np.testing.assert_allclose(e.logits, want, rtol=1e-5, atol=1e-5)
    assert e.experts[2].norm == pytest.approx(2 * explainer.explain(QUERY).experts[2].norm, rel=1e-5)


def test_noise_has_the_length_asked_for_and_repeats(explainer):
    before = explainer.explain(QUERY)
    change = Intervention(noise={"R1": 0.5}, noise_seed=4)
    after, again = (explainer.explain(QUERY, intervention=change) for _ in range(2))
    np.testing.assert_array_equal(after.logits, again.logits)
    other = explainer.explain(QUERY, intervention=Intervention(noise={"R1": 0.5}, noise_seed=5))
    assert np.abs(other.logits - after.logits).max() > 0
    size, drawn = before.experts[0].norm, after.experts[0].norm
    assert abs(drawn - size) <= 0.5 * size * (1 + 1e-5)
    np.testing.assert_array_equal(after.experts[1].contribution, before.experts[1].contribution)


@settings(max_examples=30)
@given(
    weights=st.lists(st.floats(0, 1), min_size=K, max_size=K),
    drop=st.sets(st.sampled_from(NAMES)),
    scale=st.dictionaries(st.sampled_from(NAMES), st.floats(-2, 2)),
)
def test_any_slider_position_is_the_sum_of_its_parts(explainer, reading, weights, drop, scale):
    change = Intervention(weights=tuple(weights), drop=tuple(drop), scale=scale)
    e, plain = (explainer.explain(reading, intervention=c) for c in (change, explain.NOTHING))
    factor = [0.0 if name in drop else scale.get(name, 1.0) for name in NAMES]
    parts = zip(weights, factor, plain.experts, strict=True)
    want = plain.base_logits + sum(w * f * expert.contribution for w, f, expert in parts)
    np.testing.assert_allclose(e.logits, want, rtol=1e-4, atol=1e-4)
    assert e.methods == plain.methods, "the other methods stay as they were"
    assert any("add up to" in note for note in e.notes) == (abs(sum(weights) - 1) > 1e-6)


@pytest.mark.parametrize(
    ("method", "change", "said"),
    [
        ("red", {"drop": ("R9",)}, "unknown expert 'R9'; valid experts: R1, R2"),
        ("red", {"weights": (0.5, 0.5)}, "weights must be 5 numbers of at least 0"),
        ("red", {"weights": (-1, 0, 0, 0, 2)}, "weights must be 5 numbers of at least 0"),
        ("red", {"weights": (1, 0, 0, 0, 0), "top_k": 2}, "weights are fixed, so that temperature and top_k"),
        ("red", {"temperature": 0.0}, "temperature must be a number above 0"),
        ("red", {"top_k": 6}, "top_k must be a whole number from 1 to 5"),
        ("red", {"noise": {"R1": -1}}, "noise is a length"),
        ("red", {"scale": {"R1": math.nan}}, "must be finite numbers"),
        ("red", {"scale": {"R1": 1e39}}, "scale and noise of expert R1 must be finite numbers of at most 1,000,000"),
        ("red", {"scale": {"R1": None}}, "scale of expert R1 must be a number, got None"),
        ("red", {"scale": (("R1", 2), ("R1", 0))}, "scale names expert R1 twice"),
        ("red", {"scale": 3}, "scale must be several values, got 3"),
        ("red", {"scale": ("R1",)}, "scale must be several values, got 'R1'"),
        ("red", {"weights": (1e39, 0, 0, 0, 0)}, "weights must be 5 numbers of at least 0, at most 1,000,000"),
        ("red", {"weights": "12345"}, "weights must be several values, got '12345'"),
        ("red", {"weights": 0.5}, "weights must be several values, got 0.5"),
        ("red", {"weights": tuple("abcde")}, "weights must be a number, got 'a'"),
        ("red", {"drop": None}, "drop must be several values, got None"),
        ("red", {"temperature": 1e-40}, "temperature must be a number above 0, from 1e-06 on"),
        ("red", {"temperature": "hot"}, "temperature must be a number, got 'hot'"),
        ("red", {"top_k": True}, "top_k must be a whole number from 1 to 5, got True"),
        ("red", {"noise_seed": 2**70}, "noise_seed must be a whole number from 0"),
        ("red", {"noise_seed": 1.5}, "noise_seed must be a whole number from 0"),
        ("red", {"split": "phrasing"}, "no model of split 'phrasing'; there are models of: structure, text"),
        ("red_uniform", {"temperature": 2.0}, "this method's are uniform"),
        ("top1", {"top_k": 2}, "this method's are top1"),
        ("global_head", {"drop": ("R1",)}, "global_head is no sum over experts"),
        ("rad", {}, "unknown method 'rad'; methods of made up 0: global_head"),
    ],
)
def test_an_intervention_that_cannot_be_applied_is_one_sentence(explainer, method, change, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")) as error:
        explainer.explain(QUERY, method, Intervention(**change))
    assert "\n" not in str(error.value)


def test_numbers_of_numpy_change_what_plain_ones_change_and_are_json(explainer):
    given = {"temperature": np.float32(0.5), "top_k": np.int64(2), "noise": {"R1": np.float64(1)}}
    change = Intervention(**given, noise_seed=np.int32(3))
    assert change == Intervention(temperature=0.5, top_k=2, noise={"R1": 1}, noise_seed=3)
    assert json.loads(explainer.explain(QUERY, intervention=change).to_json())["intervention"]["top_k"] == 2


@pytest.mark.parametrize("change", [{"scale": {"R1": 1e6}}, {"noise": {"R1": 1e6}}, {"weights": (1e6,) * 5}])
def test_the_largest_change_leaves_every_number_finite(explainer, change):
    def refuse(constant):
        raise ValueError(constant)

    json.loads(explainer.explain(QUERY, intervention=Intervention(**change)).to_json(), parse_constant=refuse)


def test_what_is_dropped_and_changed_as_well_is_noted(explainer):
    e = explainer.explain(QUERY, intervention=Intervention(drop="R1", scale={"R1": 2, "R2": 2}))
    assert e.notes == ("R1 is dropped, so that its scale and noise change nothing",)
