"""Feature passes: every way gives the same numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_backbones import POINTS, WORDS, small_llama, the_tiny

from redlib import backbone, features
from redlib.features import Point, forward, trunk

TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)


def _direct(model, text):
    """Features of one text by itself, through transformers' own forward, at all POINTS."""
    ids = torch.tensor(model.encode([text]))
    hidden = model.model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    found = {}
    for point in POINTS:
        states = hidden[point.layer][0]
        rest = states[1:] if len(states) > 1 else states
        half = hidden[len(hidden[: point.layer]) // 2][0]  # a layer from the end counts, too
        pooled = {"mean": states.mean(0), "mean_skip_first": rest.mean(0), "last": states[-1]}
        pooled["mean_two_depths"] = torch.cat([states.mean(0), half.mean(0)])
        found[point] = pooled[point.pooling].numpy()
    return found


def _close(ours, reference, tolerance=1e-5):
    np.testing.assert_allclose(ours, reference, rtol=0, atol=tolerance * np.abs(reference).max())


def _modules_only(monkeypatch):
    monkeypatch.setattr(trunk, "supports", lambda _: False)


@pytest.mark.parametrize("way", ["trunk", "modules", "plain"])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_features_are_those_of_each_text_by_itself(way, family, tiny, texts, monkeypatch):
    model = tiny if family == "qwen3" else small_llama()
    some = texts[:9] + texts[-3:]
    assert trunk.supports(model)
    if way == "modules":
        _modules_only(monkeypatch)
    computed = features.compute(model, some, POINTS, packed=way != "plain")
    direct = [_direct(model, text) for text in some]
    for point in POINTS:
        assert computed[point].dtype == np.float32
        _close(computed[point], np.stack([found[point] for found in direct]))


@settings(max_examples=40)
@given(st.lists(TEXT, min_size=1, max_size=30), st.sampled_from([8, 33, 64, 1024]))
def test_packed_equals_plain_whatever_the_texts_and_the_strips(texts, strip):
    model = the_tiny()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forward, "STRIP", strip)
        packed = features.compute(model, texts, POINTS)
    plain = features.compute(model, texts, POINTS, packed=False)
    for point in POINTS:
        _close(packed[point], plain[point])


def test_features_do_not_depend_on_the_company(tiny, texts):
    point = Point(-1)
    alone = features.compute(tiny, texts[:5], [point])[point]
    _close(features.compute(tiny, texts, [point])[point][:5], alone)
    _close(features.compute(tiny, texts[::-1], [point])[point][::-1][:5], alone)


def test_features_do_not_depend_on_the_threads(tiny, texts, monkeypatch):
    monkeypatch.setattr(forward, "STRIP", 64)
    point, threads = Point(-1), torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(features.compute(tiny, texts, [point])[point])
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("way", ["trunk", "modules"])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_bfloat16_products_stay_near_the_exact_features(way, family, tiny, texts, monkeypatch):
    exact = tiny if family == "qwen3" else small_llama()
    model = backbone.load("tiny", dtype="bfloat16") if family == "qwen3" else small_llama()
    model.model.to(torch.bfloat16)
    if way == "modules":
        _modules_only(monkeypatch)
    elif not trunk.supports(model):
        pytest.skip("this CPU does not multiply bfloat16")
    for point in (Point(2), Point(-1)):
        _close(features.compute(model, texts, [point])[point], features.compute(exact, texts, [point])[point], 0.05)


def test_float16_takes_the_decoders_own_layers():
    assert not trunk.supports(backbone.load("tiny", dtype="float16"))


def test_a_real_backbone_gives_the_same_features_packed_and_plain(texts, monkeypatch):
    monkeypatch.delenv("REDLIB_CACHE")
    model = backbone.load("smollm2-135m")
    points = [Point(8), Point(28, "mean_skip_first"), Point(-1), Point(-1, "last")]
    packed = features.compute(model, texts[:30], points)
    plain = features.compute(model, texts[:30], points, packed=False)
    for point in points:
        _close(packed[point], plain[point])


def test_only_the_layers_below_the_deepest_point_run(tiny, texts, monkeypatch):
    _modules_only(monkeypatch)
    monkeypatch.setattr(tiny.model.layers[2], "forward", lambda *_, **__: pytest.fail("layer 3 ran"))
    features.compute(tiny, texts, [Point(2), Point(1)])
    assert len(trunk.Trunk(tiny, 2).layers) == 2
