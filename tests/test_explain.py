"""Explanations against direct computation, interventions against the methods that they should become, and any text."""

import json
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone, explain, features, models
from redlib.explain import Intervention, Structures
from redlib.expressions import Expression, LabelSpace

LABELS = LabelSpace()
NAMES, K = LABELS.names, LABELS.K
ADDITIVE = ("red", "red_uniform", "top1", "moe_same_experts", "red_logit_scale", "softmax_moe")
QUERY = "What is 47 plus 38?"


def random_parts(d, seed, labels=LABELS):
    """Parts as large as trained ones, so that experts matter and routes differ."""
    K, C = labels.K, labels.C
    parts = {
        "base": models.PooledBase.fit([torch.randn(50, d, generator=torch.Generator().manual_seed(seed))]),
        "classifier": models.LinearBank([seed], d, C),
        "experts": models.ResidualExperts(range(seed, seed + K), d, 8),
        "heads": models.LinearBank(range(seed + 10, seed + 10 + K), d, C),
        "router": models.MLPBank([seed + 20], d, 16, K),
        "gate": models.MLPBank([seed + 30], d, 16, K),
        "linear_full": models.MLPBank([seed + 40], d, 0, C),
        "mlp_full": models.MLPBank([seed + 50], d, 24, C),
        "fourier_full": models.FourierBank([seed + 60], d, 24, labels),
    }
    parts["experts"].up.weight.data.normal_(0, 0.4, generator=torch.Generator().manual_seed(seed))
    return {name: part.eval().requires_grad_(False) for name, part in parts.items()}


def model(bone, seed, seen=("+12+27", "+38+46", "+3+40", "+7+18-3"), name="made up"):
    return explain.Model(f"{name} {seed}", LABELS, random_parts(bone.hidden_size, seed), Structures.of(seen))


@pytest.fixture(scope="module")
def explainer():
    bone = backbone.load("tiny")
    opened = {split: lambda seed=seed: model(bone, seed) for seed, split in enumerate(("structure", "text"))}
    return explain.Explainer(bone, "task1", LABELS, (2, 50), features.Point(2), 0, opened)


@pytest.fixture(scope="module")
def thousand(explainer):
    """Readings of a thousand random questions."""
    pairs = np.random.default_rng(3).integers(2, 51, size=(1000, 2))
    return explainer.read([f"What is {a} plus {b}?" for a, b in pairs])


@pytest.fixture(scope="module")
def reading(explainer):
    return explainer.read([QUERY])[0]


def direct(explainer, text, method, split=None, ranges=None):
    """The method's own output for a text, from the features alone."""
    x = torch.from_numpy(features.compute(explainer.backbone, [text], [explainer.point])[explainer.point])
    with torch.no_grad():
        return models.assemble(method, LABELS, dict(explainer.model(split).parts))(x, ranges)


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


# ---- interventions -----------------------------------------------------------------------------------------------


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


@settings(deadline=None, max_examples=30)
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


# ---- texts -------------------------------------------------------------------------------------------------------


def test_many_texts_at_once_say_what_each_says_alone(explainer):
    texts = [QUERY, "What is 40 plus 1?", "Now add 3 to 44. What do you get?", "سؤال", "x" * 80]
    together = explainer.explain_all(texts)
    for text, e in zip(texts, together, strict=True):
        alone = explainer.explain(text)
        np.testing.assert_allclose(e.logits, alone.logits, rtol=1e-4, atol=1e-4)
        assert (e.text, e.tokens, e.notes, e.true_value) == (alone.text, alone.tokens, alone.notes, alone.true_value)
    assert explainer.explain_all([]) == []
    assert [e.text for e in explainer.explain_all(text for text in texts)] == texts, "read once, asked once"


def test_a_card_obeys_no_control_character_of_a_question(explainer):
    lines = explainer.explain("\x1b[2J3 plus 4\n\u202eover\x00").card().splitlines()
    assert lines[0] == r"\x1b[2J3 plus 4\n\u202eover\x00"
    assert all(line.isprintable() for line in lines)


def test_many_questions_are_several_and_a_long_one_is_named(explainer):
    with pytest.raises(ValueError, match="many questions are asked for, got the one 'What is 47"):
        explainer.explain_all(QUERY)
    with pytest.raises(ValueError, match="this one has 300: '7777"):
        explainer.explain_all([QUERY, "7" * 300])


def test_a_reading_serves_the_explainer_that_read_it(explainer):
    other = replace(explainer, task="task2")
    with pytest.raises(ValueError, match=r"another explainer \(task2\) read 'What is 47"):
        explainer.explain(other.read([QUERY])[0])


def test_tokens_are_what_the_backbone_sees(explainer):
    e = explainer.explain(QUERY)
    assert "".join(e.tokens) == QUERY
    assert {"4", "7", "3", "8"} <= set(e.tokens)
    assert len(e.tokens) == len(explainer.backbone.encode([QUERY])[0])


@pytest.mark.parametrize(
    ("text", "value", "noted"),
    [
        ("What is 47 plus 38?", 85, None),
        ("What is 40 plus 1?", 41, "operand 2 is outside 2..50"),
        ("What is 18 plus 7 minus 3?", 22, "Task 1 is one addition"),
        ("What is 90 plus 80?", 170, "the true value 170 is outside 2..100"),
        ("so 3 plus 4, can you solve?", 7, "the words are none of those"),
        ("forty-seven plus thirty-eight", None, "not parsed: no true value known"),
        ("４７ plus ３８", None, "not parsed: no true value known"),
        ("سبعة زائد ثمانية", None, "not parsed: no true value known"),
        ("{a} plus {b} {{7*7}} <script>", None, "not parsed: no true value known"),
        ("%s %d \\x00 47 plus", None, "not parsed: no true value known"),
        ("What is 3 plus 4?\udcff", None, "no valid Unicode"),
        ("3 plus 4 " * 5, None, "not parsed"),
    ],
)
def test_any_text_gets_an_answer_with_notes(explainer, text, value, noted):
    e = explainer.explain(text)
    assert value is None or e.true_value == value
    assert e.answer.value in LABELS.values
    assert (e.notes == ()) if noted is None else any(noted in note for note in e.notes)
    assert isinstance(e.card(), str)
    json.loads(e.to_json())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the question is empty"),
        (" \n\t", "the question is empty"),
        (None, "a question must be a string, got NoneType"),
        (47, "a question must be a string, got int"),
        (b"47 plus 38", "a question must be a string, got bytes"),
        ("7 " * 400, "may have at most 256 tokens, this one has"),
    ],
)
def test_an_empty_foreign_or_long_text_is_an_error_of_one_sentence(explainer, text, said):
    with pytest.raises(ValueError, match=said) as error:
        explainer.explain(text)
    assert "\n" not in str(error.value)


def test_the_longest_text_that_is_allowed_is_answered(explainer):
    text = "7 plus " * 200
    while len(explainer.backbone.encode([text])[0]) > explain.MAX_TOKENS:
        text = text[: -len("7 plus ")]
    assert explainer.explain(text).answer.value in LABELS.values


@settings(deadline=None, max_examples=60)
@given(st.text(min_size=1, max_size=40).filter(str.strip))
def test_no_text_is_a_stack_trace(explainer, text):
    e = explainer.explain(text)
    assert sum(e.probabilities) == pytest.approx(1, abs=1e-4)


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


@settings(deadline=None, max_examples=50)
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
