"""Feature passes: every way gives the same numbers, and what is on disk is whole or not there."""

import functools
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import backbone, features, packing
from redlib.features import FeatureSet, Point, forward, progress, trunk

WORDS = ("What is", "Find", "Add", "plus", "the sum of", "7", "12", "and", "30?")
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
POINTS = [Point(layer, pooling) for layer in (0, 2, -1) for pooling in features.POOLINGS]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path))
    return tmp_path


@functools.cache
def _tiny():
    return backbone.load("tiny")


@pytest.fixture(scope="module")
def tiny():
    return _tiny()


@pytest.fixture(scope="module")
def texts():
    numbers = np.random.default_rng(0).integers(2, 51, size=(60, 2))
    return [f"{WORDS[i % 3]} {a} plus {b}" for i, (a, b) in enumerate(numbers)] + ["7", "What is 3", "7"]


def _llama():
    """A small random Llama: grouped heads, no head norms, scaled rotary frequencies."""
    tiny = backbone.load("tiny")
    size = {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 6}
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0}
    config = transformers.LlamaConfig(
        vocab_size=len(tiny.tokenizer), num_key_value_heads=2, rope_parameters=rope, initializer_range=0.2, **size
    )
    config._attn_implementation = "sdpa"
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = transformers.LlamaModel(config).eval().requires_grad_(False)
        for name, weight in model.named_parameters():
            if "norm" in name:
                weight.uniform_(0.5, 1.5)
    return backbone.Backbone(model, tiny.tokenizer, "llama", "llama", "none", top_layers=1)


def _direct(model, text):
    """Features of one text by itself, through transformers' own forward, at all POINTS."""
    ids = torch.tensor(model.encode([text]))
    hidden = model.model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    found = {}
    for point in POINTS:
        states = hidden[point.layer][0]
        rest = states[1:] if len(states) > 1 else states
        pooled = {"mean": states.mean(0), "mean_skip_first": rest.mean(0), "last": states[-1]}
        found[point] = pooled[point.pooling].numpy()
    return found


def _close(ours, reference, tolerance=1e-5):
    np.testing.assert_allclose(ours, reference, rtol=0, atol=tolerance * np.abs(reference).max())


def _modules_only(monkeypatch):
    monkeypatch.setattr(trunk, "supports", lambda _: False)


@pytest.mark.parametrize("way", ["trunk", "modules", "plain"])
@pytest.mark.parametrize("family", ["qwen3", "llama"])
def test_features_are_those_of_each_text_by_itself(way, family, tiny, texts, monkeypatch):
    model = tiny if family == "qwen3" else _llama()
    some = texts[:9] + texts[-3:]
    assert trunk.supports(model)
    if way == "modules":
        _modules_only(monkeypatch)
    computed = features.compute(model, some, POINTS, packed=way != "plain")
    direct = [_direct(model, text) for text in some]
    for point in POINTS:
        assert computed[point].dtype == np.float32
        _close(computed[point], np.stack([found[point] for found in direct]))


@settings(deadline=None, max_examples=40)
@given(st.lists(TEXT, min_size=1, max_size=30), st.sampled_from([8, 33, 64, 1024]))
def test_packed_equals_plain_whatever_the_texts_and_the_strips(texts, strip):
    model = _tiny()
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
    exact = tiny if family == "qwen3" else _llama()
    model = backbone.load("tiny", dtype="bfloat16") if family == "qwen3" else _llama()
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


def test_a_set_gives_features_in_the_order_of_the_texts(tiny, texts):
    feature_set = FeatureSet(tiny, texts, POINTS).ensure(progress=False)
    computed = features.compute(tiny, texts, POINTS)
    for point in POINTS:
        assert np.array_equal(feature_set.pooled(point), computed[point])
    assert np.array_equal(feature_set.pooled(Point(4)), computed[Point(-1)])


def test_token_states_are_gathered_padded_on_the_right(tiny, texts, monkeypatch):
    monkeypatch.setattr(forward, "SHARD", 16)
    states = FeatureSet(tiny, texts, [], states_layer=tiny.boundary).ensure(progress=False).states()
    ids = tiny.encode(texts)
    assert len(states) == len(texts)
    assert states.lengths.tolist() == [len(text) for text in ids]
    assert states.nodes.dtype == np.float16
    assert len(states.nodes) < sum(map(len, ids))
    rows = [62, 3, 61, 40]
    batch, mask = states.batch(rows)
    assert batch.dtype == torch.float32
    assert mask.sum(1).tolist() == [len(ids[row]) for row in rows]
    assert not batch[~mask].any()
    for row, held, real in zip(rows, batch, mask, strict=True):
        own = tiny.run(torch.tensor([ids[row]]), keep=[tiny.boundary])[tiny.boundary][0]
        torch.testing.assert_close(held[real], own, rtol=2e-3, atol=2e-3)


def test_cached_states_can_train_the_top(tiny, texts):
    states = FeatureSet(tiny, texts, [], states_layer=tiny.boundary).ensure(progress=False).states()
    top = tiny.top(2)
    top(*states.batch(range(8))).square().mean().backward()
    assert all(parameter.grad is not None for parameter in top.parameters())


def test_states_beyond_fp16_are_an_error(texts):
    model = backbone.load("tiny")
    model.model.embed_tokens.weight.data.mul_(1e6)
    with pytest.raises(ValueError, match="layer 0 do not fit into fp16"):
        FeatureSet(model, texts, [], states_layer=0).ensure(progress=False)


def test_a_ready_set_is_read_and_not_computed(tiny, texts, monkeypatch):
    first = FeatureSet(tiny, texts, [Point(2)]).ensure(progress=False)
    monkeypatch.setattr(features.store, "shards", lambda *_: pytest.fail("computed again"))
    again = FeatureSet(tiny, texts, [Point(2)]).ensure(progress=False)
    assert np.array_equal(again.pooled(Point(2)), first.pooled(Point(2)))


def test_the_key_changes_with_what_changes_the_numbers(tiny, texts, monkeypatch):
    point = Point(2)

    def key(model=tiny, texts=texts, points=(point,), **options):
        return FeatureSet(model, texts, points, **options).key

    base = key()
    others = [
        key(texts=texts[:-1]),
        key(texts=texts[::-1]),
        key(points=[Point(1)]),
        key(points=[Point(2, "last")]),
        key(states_layer=2),
        key(packed=False),
        key(model=backbone.load("tiny", dtype="bfloat16")),
        key(model=_llama()),
    ]
    read = features.store  # its own names: a package may be loaded twice
    for module, name in ((read.torch, "__version__"), (read.transformers, "__version__"), (packing, "VERSION")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, "0")
            others.append(key())
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 77)
        others.append(key())
    assert len({base, *others}) == len(others) + 1
    assert key() == base
    assert key(points=[Point(2), Point(2)]) == base
    assert key(model=backbone.load("tiny", top_layers=1)) == base
    assert key(points=[Point(4)]) == key(points=[Point(-1)])


def test_a_cut_off_pass_goes_on_from_the_last_finished_shard(tiny, texts, monkeypatch):
    monkeypatch.setattr(forward, "SHARD", 10)
    whole = features.compute(tiny, texts, [Point(2)])[Point(2)]
    feature_set = FeatureSet(tiny, texts, [Point(2)], states_layer=2)
    threads = torch.get_num_threads()
    written = features.store._write_part

    def stop_at_third(path, shard):
        if path.name == "00003.safetensors":
            raise KeyboardInterrupt
        written(path, shard)

    with monkeypatch.context() as patch:
        patch.setattr(features.store, "_write_part", stop_at_third)
        with pytest.raises(KeyboardInterrupt):
            feature_set.ensure(progress=False)
    assert torch.get_num_threads() == threads
    assert not feature_set.ready
    with pytest.raises(ValueError, match="not computed yet; call ensure"):
        feature_set.pooled(Point(2))
    parts = feature_set.folder.with_name(f".{feature_set.key}.parts")
    assert len(list(parts.iterdir())) == 3
    truncated = parts / "00002.safetensors"
    truncated.write_bytes(truncated.read_bytes()[:-7])
    done = []
    monkeypatch.setattr(
        features.store, "_write_part", lambda path, shard: done.append(path.stem) or written(path, shard)
    )
    feature_set.ensure(progress=False)
    assert done == ["00002", "00003", "00004", "00005", "00006"]
    assert np.array_equal(feature_set.pooled(Point(2)), whole)
    assert not parts.exists()


def test_a_killed_pass_leaves_nothing_valid_and_the_next_one_succeeds(cache, texts):
    code = (
        "import time\nfrom redlib import backbone, features\nfrom redlib.features import forward, store\n"
        "forward.SHARD = 10\n"
        f"found = features.FeatureSet(backbone.load('tiny'), {texts!r}, [features.Point(2)])\n"
        "write = store._write_part\n"
        "store._write_part = lambda path, shard: (write(path, shard), time.sleep(SLEEP))\n"
        "print(found.ensure(progress=False).key)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code.replace("SLEEP", "0.5")])
    deadline = time.monotonic() + 120
    while len(list(cache.glob("features/.*.parts/*.safetensors"))) < 2:
        assert killed.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not [path for path in (cache / "features").iterdir() if not path.name.startswith(".")]
    command = [sys.executable, "-c", code.replace("SLEEP", "0")]
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    keys = {process.communicate(timeout=120)[0].strip() for process in pair}
    assert [process.returncode for process in pair] == [0, 0]
    assert [path.name for path in (cache / "features").iterdir() if not path.name.startswith(".")] == list(keys)
    assert not list(cache.glob("features/.*.parts"))
    assert not list(cache.glob("features/.*.tmp"))


def test_a_full_disk_leaves_nothing_valid(cache, texts):
    code = (
        "import resource\nfrom redlib import backbone, features\n"
        f"found = features.FeatureSet(backbone.load('tiny'), {texts!r}, [features.Point(2)])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        "found.ensure(progress=False)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "File too large" in done.stderr.splitlines()[-1]
    assert not [path for path in (cache / "features").rglob("*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.parametrize("name", ["pooled-2-mean.npy", "states.npy", "meta.json"])
def test_a_damaged_set_is_refused_with_the_remedy(tiny, texts, name):
    feature_set = FeatureSet(tiny, texts, [Point(2)], states_layer=1).ensure(progress=False)
    file = feature_set.folder / name
    os.truncate(file, file.stat().st_size - 5)
    with pytest.raises(ValueError, match=r"features in .*delete it and run again"):
        feature_set.pooled(Point(2))
    with pytest.raises(ValueError, match="delete it and run again"):
        feature_set.ensure(progress=False)
    file.unlink()
    with pytest.raises(ValueError, match="delete it and run again"):
        feature_set.ensure(progress=False)


def test_wrong_requests_say_what_is_valid(tiny, texts):
    with pytest.raises(ValueError, match="unknown pooling 'max'; valid poolings: mean, mean_skip_first, last"):
        Point(1, "max")
    with pytest.raises(ValueError, match="no texts"):
        FeatureSet(tiny, [], [Point(1)])
    with pytest.raises(ValueError, match="neither points nor a states_layer"):
        FeatureSet(tiny, texts, [])
    with pytest.raises(ValueError, match="no hidden state 30; valid layers: 0 to 4"):
        FeatureSet(tiny, texts, [Point(30)])
    with pytest.raises(ValueError, match="text '' has no tokens"):
        FeatureSet(tiny, ["5", ""], [Point(1)]).ensure(progress=False)
    feature_set = FeatureSet(tiny, texts, [Point(1)]).ensure(progress=False)
    with pytest.raises(ValueError, match="no 2-mean; they hold: 1-mean"):
        feature_set.pooled(Point(2))
    with pytest.raises(ValueError, match="no token states; give a states_layer"):
        feature_set.states()


def test_progress_says_rate_and_time_left(tiny, texts, monkeypatch, capsys):
    monkeypatch.setattr(forward, "SHARD", 10)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    FeatureSet(tiny, texts, [Point(1)]).ensure()
    lines = capsys.readouterr().out.splitlines()
    distinct = len(set(texts))
    assert len(lines) == -(-distinct // 10)
    assert f"10 of {distinct} texts" in lines[0]
    assert all("texts/s" in line and "tokens/s" in line and "s left" in line for line in lines)
    assert lines[-1].endswith(" 0 s left")
    FeatureSet(tiny, texts, [Point(1)]).ensure()
    FeatureSet(tiny, texts, [Point(2)]).ensure(progress=False)
    assert capsys.readouterr().out == ""
