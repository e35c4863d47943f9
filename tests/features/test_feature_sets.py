"""Feature sets: what is on disk is in the order of the texts, and whole or not there."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from small_backbones import POINTS, small_llama

from redlib import backbone, features, packing
from redlib.features import FeatureSet, Point, forward, progress


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
        key(model=small_llama()),
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
    with pytest.raises(
        ValueError, match="unknown pooling 'max'; valid poolings: mean, mean_skip_first, last, mean_two_depths"
    ):
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
