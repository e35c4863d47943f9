"""Saved parts come back bit for bit, and only where they belong."""

import json

import pytest
import torch
from safetensors.torch import save_file
from test_models import LABELS, D, make_parts

from redlib import backbone, models, modules
from redlib.models import LabelSpace, LinearBank, TokenBase, assemble

PASSPORT = {
    "weights_id": "w" * 64,
    "backbone": "toy",
    "recipe": "chosen",
    "layer": 2,
    "pooling": "mean",
    "labels": LABELS,
    "split": "structure",
    "seed": 0,
}


class OtherBackbone:
    weights_id = "x" * 64
    display = "another model"


@pytest.mark.parametrize("name", list(models.METHODS))
def test_a_reloaded_method_gives_the_same_bits(tmp_path, name):
    parts = make_parts(dtype=torch.float32)
    method = assemble(name, LABELS, parts)
    modules.save(tmp_path / "m.safetensors", dict(method.parts), PASSPORT, method=name)
    again, passport = modules.load_method(tmp_path / "m.safetensors")
    x, ranges = torch.randn(9, D), torch.arange(9) % LABELS.K
    with torch.no_grad():
        assert torch.equal(again(x, ranges).logits, method(x, ranges).logits)
    assert passport["method"] == name
    assert not any(p.requires_grad for p in again.parameters())


def test_tuned_layers_come_back_on_their_own_backbone(tmp_path):
    bone = backbone.load("tiny")
    base = TokenBase(bone.top(2))
    for p in base.parameters():
        p.data += 0.01 * torch.randn_like(p)
    passport = PASSPORT | {"weights_id": bone.weights_id, "backbone": bone.name}
    modules.save(tmp_path / "base.safetensors", {"base": base}, passport)
    parts, _ = modules.load(tmp_path / "base.safetensors", bone)
    states, mask = torch.randn(3, 5, bone.hidden_size), torch.ones(3, 5, dtype=torch.bool)
    with torch.no_grad():
        assert torch.equal(parts["base"](states, mask), base(states, mask))
    with pytest.raises(ValueError, match="pass the backbone to load them"):
        modules.load(tmp_path / "base.safetensors")


def test_another_backbone_is_refused_by_name(tmp_path):
    modules.save(tmp_path / "m.safetensors", make_parts(dtype=torch.float32), PASSPORT)
    with pytest.raises(
        ValueError, match=r"trained on toy .weights wwwwwwwwwwww., but the backbone given is another model"
    ):
        modules.load(tmp_path / "m.safetensors", OtherBackbone())


def test_an_incomplete_passport_is_refused(tmp_path):
    incomplete = {key: value for key, value in PASSPORT.items() if key not in ("weights_id", "seed")}
    with pytest.raises(ValueError, match="missing: weights_id, seed"):
        modules.save(tmp_path / "m.safetensors", {}, incomplete)
    assert not list(tmp_path.iterdir())


def test_truncated_foreign_and_future_files_are_refused(tmp_path):
    good = tmp_path / "m.safetensors"
    modules.save(good, {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT)
    (tmp_path / "short.safetensors").write_bytes(good.read_bytes()[:-40])
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign.safetensors")
    future = {"passport": json.dumps({"format": "redlib-module/9"})}
    save_file({"a": torch.zeros(1)}, tmp_path / "future.safetensors", metadata=future)
    for name, message in (
        ("short", "is not a module of this study"),
        ("foreign", "is not a module of this study"),
        ("future", "has format 'redlib-module/9'; this version reads 'redlib-module/1'"),
    ):
        with pytest.raises(ValueError, match=message):
            modules.load(tmp_path / f"{name}.safetensors")
    with pytest.raises(FileNotFoundError, match=r"no module file 'absent.safetensors'"):
        modules.load(tmp_path / "absent.safetensors")


def test_parts_alone_are_no_method(tmp_path):
    modules.save(tmp_path / "m.safetensors", {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT)
    with pytest.raises(ValueError, match=r"holds parts \(classifier\), not a whole method"):
        modules.load_method(tmp_path / "m.safetensors")


def test_the_label_space_comes_back_from_the_passport(tmp_path):
    modules.save(tmp_path / "m.safetensors", dict(assemble("red", LABELS, make_parts()).parts), PASSPORT, "red")
    method, _ = modules.load_method(tmp_path / "m.safetensors")
    assert method.labels == LABELS != LabelSpace()
