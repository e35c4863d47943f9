"""Parts are read only where they belong and as they were; the rest is refused in a sentence."""

import json
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passports import PASSPORT, OtherBackbone
from safetensors import safe_open
from safetensors.torch import save_file
from test_models import LABELS, D

from redlib import modules
from redlib.models import LabelSpace, LinearBank
from redlib.modules import files


@given(data=st.data())
@settings(max_examples=60)
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
