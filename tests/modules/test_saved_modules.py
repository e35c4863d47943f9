"""Saved parts come back bit for bit, and answer the probe batch as they did."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passports import PASSPORT, TEXTS
from test_models import LABELS, D, make_parts

from redlib import backbone, models, modules
from redlib.models import LabelSpace, LinearBank, TokenBase, assemble
from redlib.modules import files, probe

# ---- round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(models.METHODS))
def test_a_reloaded_method_gives_the_same_bits(tmp_path, name):
    parts = make_parts(dtype=torch.float32)
    method = assemble(name, LABELS, parts)
    modules.save(tmp_path / "m.safetensors", dict(method.parts), PASSPORT, method=name)
    again, passport = modules.load_method(tmp_path / "m.safetensors")
    x, ranges = torch.randn(9, D), torch.arange(9) % LABELS.K
    with torch.no_grad():
        assert torch.equal(again(x, ranges).logits, method(x, ranges).logits)
    assert passport["method"] == passport["kind"] == name
    assert again.labels == LABELS != LabelSpace()
    assert not any(p.requires_grad for p in again.parameters())


@pytest.mark.parametrize("name", ["experts", "router", "classifier", "base"])
def test_a_part_alone_is_a_file_of_its_own_kind(tmp_path, name):
    part = make_parts(dtype=torch.float32)[name]
    modules.save(tmp_path / "m.safetensors", {name: part}, PASSPORT)
    again, passport = modules.load(tmp_path / "m.safetensors")
    assert passport["kind"] == name
    assert all(
        torch.equal(a, b) for a, b in zip(again[name].state_dict().values(), part.state_dict().values(), strict=True)
    )


def test_a_network_of_any_kind_travels_as_its_tensors_and_its_configuration(tmp_path):
    network = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2)).bfloat16()
    state = modules.State(network.state_dict(), {"layers": 2})
    modules.save(tmp_path / "m.safetensors", {"decomposer": state}, PASSPORT)
    parts, passport = modules.load(tmp_path / "m.safetensors")
    assert passport["kind"] == "decomposer"
    assert parts["decomposer"].config == {"layers": 2}
    again = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2)).bfloat16()
    again.load_state_dict(parts["decomposer"].tensors)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), network.parameters(), strict=True))


def test_tuned_layers_come_back_on_their_own_backbone_in_half_the_bits_with_the_drift_noted(tmp_path, bone):
    base = TokenBase(bone.top(2))
    for p in base.parameters():
        p.data += 0.01 * torch.randn_like(p)
    passport = PASSPORT | {"weights_id": bone.weights_id, "backbone": bone.name, "layer": -1}
    own = modules.Probe.of(bone, TEXTS, -1, "mean", tuned_layers=2)
    modules.save(tmp_path / "base.safetensors", {"base": base}, passport, probe=own)
    parts, read = modules.load(tmp_path / "base.safetensors", bone)
    assert read["kind"] == "top_layers"
    states, mask = torch.randn(3, 5, bone.hidden_size), torch.ones(3, 5, dtype=torch.bool)
    with torch.no_grad():
        assert torch.equal(parts["base"](states, mask), base(states, mask))
    modules.save(tmp_path / "half.safetensors", {"base": base}, passport, probe=own, half=["base"])
    parts, read = modules.load(tmp_path / "half.safetensors", bone)
    assert read["dtypes"] == {"base": "bfloat16"}
    assert 1e-5 < read["rounding"]["base"] < 0.05
    assert read["drift"]["answers"] <= modules.TOLERANCE
    with pytest.raises(ValueError, match="pass the backbone to load them"):
        modules.load(tmp_path / "base.safetensors")


@given(st.dictionaries(st.sampled_from(["note", "subset", "profile"]), st.text() | st.integers() | st.none()))
@settings(max_examples=20)
def test_a_passport_comes_back_as_it_was(tmp_path_factory, more):
    path = tmp_path_factory.mktemp("m") / "m.safetensors"
    modules.save(path, {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT | more)
    read = modules.read_passport(path)
    assert {key: read[key] for key in more} == more
    assert modules.load(path, labels=LABELS)[1] == read
    assert LabelSpace(**read["labels"]) == LABELS


# ---- the probe batch ---------------------------------------------------------------------------------------------


def test_features_and_answers_are_checked_on_the_probe_batch(saved, bone):
    _, passport = modules.load(saved, bone)
    assert passport["drift"] == {"features": 0.0, "dtype": "float32", "answers": 0.0}
    assert modules.load(saved)[1]["drift"] == {"answers": 0.0}
    assert passport["probe"]["answers"] == ["base", "classifier", "experts", "logits", "router"]


def test_a_backbone_that_differs_in_one_layer_is_caught_though_names_and_shapes_match(saved):
    other = backbone.load("tiny")
    other.model.layers[1].mlp.down_proj.weight.data *= 1.001
    with pytest.raises(ValueError, match=r"right identity but not the right behaviour: .* and 1e-05 is allowed"):
        modules.load(saved, other)


def test_a_layer_that_the_features_never_pass_may_differ(saved):
    other = backbone.load("tiny")
    other.model.layers[3].mlp.down_proj.weight.data *= 2
    assert modules.load(saved, other)[1]["drift"]["features"] == 0


def test_another_dtype_is_let_pass_and_its_drift_reported(saved):
    drift = modules.load(saved, backbone.load("tiny", dtype="bfloat16"))[1]["drift"]
    assert drift["dtype"] == "bfloat16"
    assert 1e-4 < drift["features"] < 0.2


def test_rounding_of_another_library_is_let_pass(saved, bone, monkeypatch):
    seen = probe.seen
    monkeypatch.setattr(probe, "seen", lambda *a: tuple(t * (1 + 3e-6) for t in seen(*a)))
    assert 0 < modules.load(saved, bone)[1]["drift"]["features"] < modules.TOLERANCE


def test_parts_that_answer_otherwise_than_they_did_are_refused(saved, monkeypatch):
    plain = models.ResidualExperts.forward
    monkeypatch.setattr(models.ResidualExperts, "forward", lambda self, h: plain(self, h) * 1.001)
    with pytest.raises(ValueError, match="part 'experts' does not answer the probe texts as it did"):
        modules.load(saved)


def test_parts_without_a_base_are_probed_on_the_h_that_they_read(trained, tmp_path, bone):
    parts, passport, _ = trained
    own = modules.Probe.of(bone, TEXTS, 2, "mean", base=parts["base"])
    modules.save(tmp_path / "experts.safetensors", {"experts": parts["experts"]}, passport, probe=own)
    read, expected = files.load_probe(tmp_path / "experts.safetensors")
    assert torch.equal(read.hidden, probe.hidden(parts["base"], own.read))
    with torch.no_grad():
        assert torch.equal(expected["experts"], parts["experts"](read.hidden))


@pytest.mark.parametrize("moved", [0.0, 1e-3, float("nan")])
def test_drift_is_relative_and_never_passes_what_is_no_number(moved):
    rows = torch.randn(4, 6)
    assert probe.drift(rows * (1 + moved), rows) == pytest.approx(moved if moved == moved else float("inf"), abs=1e-6)
    assert probe.drift(rows[:2], rows) == float("inf")
