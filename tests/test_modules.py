"""Saved parts come back bit for bit, and only where they belong and as they were."""

import json
import pickle

import pytest
import torch
from huggingface_hub import HfApi
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from test_models import LABELS, D, make_parts

from redlib import backbone, models, modules
from redlib.models import LabelSpace, LinearBank, MLPBank, PooledBase, ResidualExperts, TokenBase, assemble
from redlib.modules import files, probe

PASSPORT = {
    "weights_id": "w" * 64,
    "backbone": "toy",
    "recipe": "chosen",
    "layer": 2,
    "pooling": "mean",
    "labels": LABELS,
    "split": "structure",
    "seed": 0,
    "tokenizer": "t" * 64,
    "dtype": "float32",
    "data": {"fingerprint": "f" * 64, "rows": 100},
    "training": {"rank": 4},
    "metrics": {"red_value_accuracy": 0.5},
    "versions": {"torch": "2"},
    "licence": "MIT",
}
TEXTS = ["What is 47 plus 38?", "Add 2 and 3.", "Tell me the sum of 20 and 21."]


class OtherBackbone:
    weights_id = "x" * 64
    display = "another model"


@pytest.fixture(scope="module")
def bone():
    return backbone.load("tiny")


@pytest.fixture
def trained(bone):
    """RED on the tiny backbone, its passport and a probe batch."""
    d, draw = bone.hidden_size, torch.Generator().manual_seed(0)
    experts = ResidualExperts(range(LABELS.K), d, 4)
    experts.up.weight.data.normal_(generator=draw)
    parts = {
        "base": PooledBase.fit([torch.randn(50, d, generator=draw)]),
        "classifier": LinearBank([0], d, LABELS.C),
        "experts": experts,
        "router": MLPBank([1], d, 6, LABELS.K),
    }
    passport = PASSPORT | {"weights_id": bone.weights_id, "backbone": bone.name}
    return parts, passport, modules.Probe.of(bone, TEXTS, 2, "mean")


@pytest.fixture
def saved(trained, tmp_path):
    parts, passport, probe = trained
    modules.save(tmp_path / "red.safetensors", parts, passport, "red", probe)
    return tmp_path / "red.safetensors"


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
@settings(max_examples=20, deadline=None)
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


# ---- refusals ----------------------------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_flipped_byte_anywhere_is_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("m") / "m.safetensors"
    modules.save(path, {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT)
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.sampled_from([1, 2, 16, 128, 255]))
    path.write_bytes(bytes(raw))
    with pytest.raises(ValueError, match=r"was changed after|is not a module|has format|lacks|is pickled"):
        modules.load(path)


def test_another_backbone_is_refused_by_name(saved):
    with pytest.raises(ValueError, match=r"trained on tiny .weights \w{12}., but the backbone given is another model"):
        modules.load(saved, OtherBackbone())


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"pooling": "last"}, "were trained for pooling 'mean', and pooling 'last' is wanted"),
        ({"layer": 4}, "were trained for layer 2, and layer 4 is wanted"),
        ({"labels": LabelSpace(2, 14, (4, 8))}, r"labels 2..13 in 3 ranges, and labels 2..14 in 3 ranges is wanted"),
        ({"colour": "red"}, "no passport has a field 'colour'; valid fields: weights_id"),
    ],
)
def test_what_is_wanted_otherwise_is_refused(saved, wanted, said):
    assert modules.load(saved, pooling="mean", layer=2, labels=LABELS)
    with pytest.raises(ValueError, match=said):
        modules.load(saved, **wanted)


def test_an_incomplete_passport_is_refused(tmp_path):
    incomplete = {key: value for key, value in PASSPORT.items() if key not in ("weights_id", "seed")}
    with pytest.raises(ValueError, match="missing: weights_id, seed"):
        modules.save(tmp_path / "m.safetensors", {}, incomplete)
    assert not list(tmp_path.iterdir())


def test_truncated_foreign_future_and_pickled_files_are_refused(tmp_path):
    good = tmp_path / "m.safetensors"
    modules.save(good, {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT)
    (tmp_path / "short.safetensors").write_bytes(good.read_bytes()[:-40])
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign.safetensors")
    future = {"passport": json.dumps({"format": "redlib-module/9"})}
    save_file({"a": torch.zeros(1)}, tmp_path / "future.safetensors", metadata=future)
    (tmp_path / "pickle.safetensors").write_bytes(pickle.dumps({"a": 1}))
    torch.save({"a": torch.zeros(1)}, tmp_path / "zip.safetensors")
    for name, message in (
        ("short", "is not a module of this study"),
        ("foreign", "is not a module of this study"),
        ("future", "has format 'redlib-module/9'; this version reads 'redlib-module/1', 'redlib-module/2'"),
        ("pickle", "is pickled, which could run code when it is read"),
        ("zip", "is pickled, which could run code when it is read"),
    ):
        with pytest.raises(ValueError, match=message):
            modules.load(tmp_path / f"{name}.safetensors")
    with pytest.raises(FileNotFoundError, match=r"no module file 'absent.safetensors'"):
        modules.load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tensors: tensors.pop("classifier.bias"), "part 'classifier' lacks bias"),
        (
            lambda tensors: tensors.update({"classifier.more": torch.zeros(1)}),
            "part 'classifier' has no place for more",
        ),
        (
            lambda tensors: tensors.update({"classifier.bias": torch.zeros(1, 1, 2)}),
            "part 'classifier' has another shape than its passport says at bias",
        ),
    ],
)
def test_a_missing_tensor_is_named_even_under_a_fitting_seal(tmp_path, change, said):
    path = tmp_path / "m.safetensors"
    modules.save(path, {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT)
    with safe_open(path, "pt") as file:
        text, tensors = file.metadata()["passport"], {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    change(tensors)
    save_file(tensors, path, metadata={"passport": text, "seal": files.seal(text, tensors)})
    with pytest.raises(ValueError, match=said):
        modules.load(path)


def test_a_file_of_the_first_format_stays_readable_without_seal_and_probe(tmp_path):
    part = LinearBank([0], D, LABELS.C)
    first = {key: PASSPORT[key] for key in ("weights_id", "backbone", "recipe", "layer", "pooling", "split", "seed")}
    spec = {"kind": "LinearBank", "members": 1, "d_in": D, "d_out": LABELS.C, "bias": True}
    labels = {"lo": LABELS.lo, "hi": LABELS.hi, "edges": list(LABELS.edges)}
    first |= {"format": "redlib-module/1", "labels": labels, "method": None, "parts": {"classifier": spec}}
    tensors = {f"classifier.{key}": value for key, value in part.state_dict().items()}
    save_file(tensors, tmp_path / "m.safetensors", metadata={"passport": json.dumps(first)})
    parts, passport = modules.load(tmp_path / "m.safetensors", layer=2)
    assert torch.equal(parts["classifier"].weight, part.weight)
    assert "drift" not in passport
    del first["layer"]
    save_file(tensors, tmp_path / "m.safetensors", metadata={"passport": json.dumps(first)})
    with pytest.raises(ValueError, match=r"the passport of 'm.safetensors' lacks layer"):
        modules.load(tmp_path / "m.safetensors")


def test_parts_alone_are_no_method_and_odd_names_no_parts(tmp_path):
    modules.save(tmp_path / "m.safetensors", {"classifier": LinearBank([0], D, LABELS.C)}, PASSPORT)
    with pytest.raises(ValueError, match=r"holds parts \(classifier\), not a whole method"):
        modules.load_method(tmp_path / "m.safetensors")
    for odd in ("a.b", "probe"):
        with pytest.raises(ValueError, match=f"names without dots that do not start with 'probe'.*{odd}"):
            modules.save(tmp_path / "m.safetensors", {odd: LinearBank([0], D, 2)}, PASSPORT)
    with pytest.raises(ValueError, match="no way to save a part of type Linear; valid: LinearBank"):
        modules.save(tmp_path / "n.safetensors", {"head": torch.nn.Linear(2, 2)}, PASSPORT)


def test_a_failed_write_leaves_the_old_file_alone(saved, trained, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(files, "save_file", lambda *a, **k: (_ for _ in ()).throw(OSError("No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        modules.save(saved, trained[0], trained[1])
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


# ---- the hub -----------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder in the place of the hub: the two calls that would go over the network."""
    folder = tmp_path / "hub"

    def create(self, repo_id, **_):
        return type("Repository", (), {"repo_id": repo_id})

    def upload(self, repo_id, folder_path, **_):
        (folder / repo_id).mkdir(parents=True)
        for file in folder_path.iterdir():
            (folder / repo_id / file.name).write_bytes(file.read_bytes())
        return repo_id

    monkeypatch.setattr(HfApi, "create_repo", create)
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    return folder


def test_a_module_goes_to_the_hub_and_comes_back_with_its_checks(hub, saved, bone, trained):
    modules.HubModule.open(saved, bone).push_to_hub("someone/red")
    there = hub / "someone" / "red"
    assert sorted(path.name for path in there.iterdir()) == ["README.md", "config.json", "module.safetensors"]
    again = modules.HubModule.from_pretrained(there, backbone=bone, pooling="mean")
    x = torch.randn(5, bone.hidden_size)
    with torch.no_grad():
        assert torch.equal(again.method()(x).logits, assemble("red", LABELS, trained[0])(x).logits)
        assert torch.allclose(again.as_library()(x).logits, again.method()(x).logits, atol=1e-5)
    for changed in ({"backbone": OtherBackbone()}, {"pooling": "last"}):
        with pytest.raises(ValueError, match="the parts were trained"):
            modules.HubModule.from_pretrained(there, **changed)


def test_a_part_alone_goes_to_a_folder_and_an_edited_passport_is_refused(trained, tmp_path):
    parts, passport, _ = trained
    modules.save(tmp_path / "router.safetensors", {"router": parts["router"]}, passport)
    modules.HubModule.open(tmp_path / "router.safetensors").save_pretrained(tmp_path / "router")
    again = modules.HubModule.from_pretrained(tmp_path / "router")
    assert torch.equal(again.parts["router"].last.weight, parts["router"].last.weight)
    config = tmp_path / "router" / "config.json"
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(ValueError, match=r"config.json in 'router' was changed"):
        modules.HubModule.from_pretrained(tmp_path / "router")


def test_the_card_says_what_the_passport_says(saved, bone):
    card = modules.model_card(modules.load(saved, bone)[1])
    assert card.data.license == "mit"
    text = str(card)
    for said in (
        "a whole RED",
        "2 to 13 in 3 ranges",
        bone.weights_id,
        "| red_value_accuracy | `0.5` |",
        "3 probe texts",
    ):
        assert said in text
