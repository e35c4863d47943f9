"""Names, folders and identities: what is loaded, and that damage is never taken for a model."""

import json
import os
import subprocess
import sys

import pytest
import torch
import transformers
from padded_texts import padded

from redlib import backbone
from redlib.backbone import identity


def test_unknown_names_and_types_list_the_valid_ones():
    with pytest.raises(ValueError, match=r"'gpt9'; valid names: smollm2-135m, qwen3-0.6b, tiny, or the path"):
        backbone.load("gpt9")
    with pytest.raises(ValueError, match="'int3'; valid dtypes: float32, bfloat16, float16"):
        backbone.load("tiny", dtype="int3")


def test_a_local_folder_is_the_same_backbone(folder, tiny):
    loaded = backbone.load(folder)
    assert loaded.weights_id == tiny.weights_id
    assert backbone.load(folder, dtype="bfloat16").weights_id == tiny.weights_id
    ids, mask = padded(tiny)
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
