"""Explanations against direct computation, the nearest training structures, and what is shown."""

import json
import math
import threading

import numpy as np
import pytest
import torch
from explainers import ADDITIVE, LABELS, NAMES, QUERY, direct, random_parts
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone, explain, features, models
from redlib.explain import Intervention, Structures
from redlib.expressions import Expression, LabelSpace


@pytest.fixture(scope="module")
def thousand(explainer):
    """Readings of a thousand random questions."""
    pairs = np.random.default_rng(3).integers(2, 51, size=(1000, 2))
    return explainer.read([f"What is {a} plus {b}?" for a, b in pairs])


# ---- against direct computation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", list(models.METHODS))
def test_every_method_says_what_it_says_by_itself(explainer, method):
    e = explainer.explain(QUERY, method)
    output = direct(explainer, QUERY, method, ranges=torch.tensor([LABELS.range_of(85)]))
    np.testing.assert_allclose(e.logits, output.logits[0], rtol=1e-5, atol=1e-5)
    p = torch.softmax(output.logits[0], -1)
    assert e.answer.value == LABELS.values[int(p.argmax())]
    assert e.answer.probability == pytest.approx(float(p.max()), rel=1e-5)
    np.testing.assert_allclose(e.range_probabilities, models.range_probabilities(output.logits, LABELS)[0], rtol=1e-4)
    assert (e.alpha is None) == (output.alpha is None)
    if e.alpha is not None:
        np.testing.assert_allclose(e.alpha, output.alpha[0], rtol=1e-5, atol=1e-7)
    assert e.entropy == pytest.approx(float(-(p * p.log2()).sum()), rel=1e-4)


def test_all_methods_stand_beside_the_one_that_is_explained(explainer):
    e = explainer.explain(QUERY)
    assert [answer.method for answer in e.methods] == list(models.METHODS)
    for answer in e.methods:
        assert answer == explainer.explain(QUERY, answer.method).answer
    assert "oracle_experts" not in {answer.method for answer in explainer.explain("no numbers here").methods}


@pytest.mark.parametrize("method", ADDITIVE)
def test_contributions_add_up_over_a_thousand_questions(explainer, thousand, method):
    views = [reading.views["structure"] for reading in thousand]
    sums, logits = [view.sums[method] for view in views], torch.stack([view.logits[method] for view in views])
    alpha = torch.tensor([view.answers[method].alpha for view in views])
    total = torch.stack([s.base + a @ s.contributions for s, a in zip(sums, alpha, strict=True)])
    assert ((total - logits).abs().amax(1) <= explain.TOLERANCE * logits.abs().amax(1)).all()
    x = torch.from_numpy(
        features.compute(explainer.backbone, [r.text for r in thousand], [explainer.point])[explainer.point]
    )
    with torch.no_grad():
        want = models.assemble(method, LABELS, dict(explainer.model().parts))(x).logits
    assert ((total - want).abs().amax(1) <= explain.TOLERANCE * want.abs().amax(1)).all()


@pytest.mark.parametrize("method", ADDITIVE)
def test_what_is_shown_adds_up_to_the_logits(explainer, thousand, method):
    for e in explainer.explain_all(thousand[:40], method):
        total = e.base_logits + sum(expert.weight * expert.contribution for expert in e.experts)
        assert np.abs(total - e.logits).max() <= explain.TOLERANCE * np.abs(e.logits).max()
        assert sum(e.waterfall().values()) == pytest.approx(e.logits[LABELS.index(e.answer.value)], rel=1e-4, abs=1e-4)


def test_a_sum_that_misses_the_logits_is_refused(explainer, monkeypatch):
    monkeypatch.setattr("redlib.explain.additive.TOLERANCE", 0.0)
    with pytest.raises(ArithmeticError, match=r"the contributions of .* miss its logits by"):
        explainer.read(["What is 3 plus 4?"])


def test_lengths_and_directions_of_the_experts_are_those_of_their_corrections(explainer):
    e, parts = explainer.explain(QUERY), explainer.model().parts
    x = torch.from_numpy(features.compute(explainer.backbone, [QUERY], [explainer.point])[explainer.point])
    delta = parts["experts"](parts["base"](x)[0])[:, 0]
    total = torch.tensor(e.alpha) @ delta
    for k, expert in enumerate(e.experts):
        assert expert.name == NAMES[k]
        assert expert.norm == pytest.approx(float(delta[k].norm()), rel=1e-5)
        assert expert.to_sum == pytest.approx(float(torch.cosine_similarity(delta[k], total, dim=0)), rel=1e-4)
        cosines = torch.cosine_similarity(delta[k][None], delta)
        np.testing.assert_allclose(expert.to_others, cosines, rtol=1e-4, atol=1e-6)


def test_the_best_single_expert_is_the_one_that_would_have_said_the_truth_loudest(explainer):
    e = explainer.explain(QUERY)
    logits = e.base_logits + np.stack([expert.contribution for expert in e.experts])
    p = torch.softmax(torch.from_numpy(logits), -1)[:, LABELS.index(85)].numpy()
    assert e.best_expert.name == NAMES[int(p.argmax())]
    np.testing.assert_allclose([expert.truth for expert in e.experts], p, rtol=1e-4)
    assert e.regret == pytest.approx(math.log(p.max()) - math.log(e.probabilities[LABELS.index(85)]), abs=1e-4)
    alone = explainer.explain(QUERY, intervention=Intervention(weights=[float(name == "R2") for name in NAMES]))
    assert alone.answer.value == e.experts[1].alone.value
    assert explainer.explain("nothing to parse").best_expert is None
    assert explainer.explain("nothing to parse").regret is None


# ---- training structures -----------------------------------------------------------------------------------------


def test_the_nearest_training_structures_are_those_with_the_smallest_change(explainer):
    e = explainer.explain(QUERY)
    assert e.seen is False
    assert [(near.structure, near.distance) for near in e.nearest] == [("+38+46", 1), ("+3+40", 42), ("+12+27", 46)]
    assert explainer.explain("What is 27 plus 12?").seen is True
    chain = explainer.explain("What is 18 plus 8 minus 3?")
    assert [near.structure for near in chain.nearest] == ["+7+18-3"]
    assert explainer.explain("What is 18 minus 8?").nearest == ()
    assert explainer.explain("how many?").seen is None


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(2, 50), st.integers(2, 50)), min_size=1, max_size=30), st.integers(2, 50))
def test_nearness_is_the_least_change_over_all_pairings(pairs, a):
    seen = Structures.of(Expression(pair, ("+",)).structure_key for pair in pairs)
    asked = Expression((a, 20), ("+",))

    def change(pair):
        return min(abs(a - x) + abs(20 - y) for x, y in (pair, pair[::-1]))

    near = seen.nearest(asked, 1)[0]
    assert near.distance == min(map(change, pairs))
    assert (asked in seen) == (near.distance == 0)


# ---- what is shown -----------------------------------------------------------------------------------------------


def test_json_holds_everything_and_its_sum_can_be_checked(explainer):
    data = json.loads(explainer.explain(QUERY, intervention=Intervention(scale={"R5": 2})).to_json())
    assert {"text", "true_value", "prediction", "alpha", "contributions", "methods", "notes"} <= set(data)
    assert set(data["prediction"]) == {"value", "range", "probability"}
    assert data["true_value"] == 85
    parts = data["contributions"]
    total = np.array(parts["base"]) + sum(data["alpha"][name] * np.array(parts[name]) for name in NAMES)
    np.testing.assert_allclose(total, parts["logits"], atol=1e-4)
    assert data["intervention"] == {"scale": [["R5", 2.0]]}


def test_the_card_has_bars_in_proportion_and_names_what_was_changed(explainer):
    change = Intervention(weights=(0, 0, 0.25, 0, 0.75))
    card = explainer.explain(QUERY, intervention=change).card()
    bars = {
        line.split()[0]: line.count("█") for line in card.splitlines() if line.startswith("  R") and "-" in line[:8]
    }
    assert (bars["R3"], bars["R5"], bars["R1"]) == (6, 18, 0)
    assert "changed  weights=(0.0, 0.0, 0.25, 0.0, 0.75)" in card
    assert "47 + 38 = 85" in card
    assert "operand 2 is outside" in explainer.explain("What is 40 plus 1?").card()


def test_the_code_behind_an_explanation_gives_it_again(explainer):
    e = explainer.explain(QUERY, "red", Intervention(drop=("R1",), noise={"R2": 0.3}, noise_seed=7))
    again = eval(e.code(), {"explainer": explainer, "explain": explain})
    np.testing.assert_array_equal(e.logits, again.logits)


def test_an_explanation_cannot_change_what_is_remembered(explainer, reading):
    first = explainer.explain(reading)
    kept = first.logits.copy()
    first.logits[:] = 0
    first.experts[0].contribution[:] = 0
    np.testing.assert_array_equal(explainer.explain(reading).logits, kept)


def test_another_thread_gets_the_same_answer(explainer):
    found = {}

    def ask():
        found["e"] = explainer.explain(QUERY)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found["e"].logits, explainer.explain(QUERY).logits)


def test_tuned_layers_read_token_states_and_any_number_of_ranges_works():
    bone, labels = backbone.load("tiny"), LabelSpace(2, 60, (30,))
    parts = random_parts(bone.hidden_size, 3, labels) | {"base": models.TokenBase(bone.top(1))}
    opened = {"text": lambda: explain.Model("two ranges", labels, parts, Structures.of(()))}
    made = explain.Explainer(bone, "task1", labels, (2, 30), features.Point(-1), 1, opened, "text")
    texts = ["What is 3 plus 4?", "Could you tell me the sum of 3 and 44?"]
    together = made.explain_all(texts)
    for text, e in zip(texts, together, strict=True):
        assert len(e.alpha) == 2
        states = features.token_states(bone, [text], -2)
        with torch.no_grad():
            want = models.assemble("red", labels, parts)(states.batch([0])).logits[0]
        np.testing.assert_allclose(e.logits, want, rtol=1e-3, atol=1e-3)
