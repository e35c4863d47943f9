"""A library is the RED that it was made of; its columns, its files and its copies."""

import numpy as np
import pytest
import torch
from libraries import PARTS, X, expert, flags, library, logits
from passports import PASSPORT
from test_models import LABELS, D, make_parts

from redlib import modules
from redlib.config import Training
from redlib.models import MLPBank, assemble, take
from redlib.modules import Library

# ---- against RED -------------------------------------------------------------------------------------------------


def test_it_is_the_red_that_it_was_made_of():
    red = assemble("red", LABELS, make_parts(dtype=torch.float32))
    with torch.no_grad():
        mine, theirs = library()(X), red(X)
    assert torch.allclose(mine.logits, theirs.logits, rtol=1e-5, atol=1e-5)
    assert torch.allclose(mine.alpha, theirs.alpha, atol=1e-6)
    assert library().names == LABELS.names


def test_disabling_one_leaves_the_weights_and_takes_its_correction():
    own = library()
    own.disable("R2")
    with torch.no_grad():
        h = own.hidden(X)
        alpha = library()(X).alpha
        moved = h + sum(alpha[:, [k]] * PARTS["experts"](h)[k] for k in (0, 2))
        assert torch.allclose(logits(own), PARTS["classifier"](moved)[0], rtol=1e-5, atol=1e-5)
        assert torch.equal(own(X).alpha, alpha)


def test_a_linear_router_has_columns_too():
    parts = PARTS | {"router": MLPBank([3], D, 0, LABELS.K)}
    red = assemble("red", LABELS, parts)
    assert torch.allclose(logits(Library.of(LABELS, parts)), red(X).logits, rtol=1e-5, atol=1e-5)


# ---- columns -----------------------------------------------------------------------------------------------------


def test_the_weight_of_an_added_expert_is_small_and_the_others_keep_their_ratios():
    own = library()
    with torch.no_grad():
        before = own(X).alpha
        own.add("new", expert(1))
        after = own(X).alpha
    assert (after[:, -1] <= 1 / own.K + 1e-6).all()
    geometric = before.log().mean(1).exp()
    assert torch.allclose(after[:, -1], geometric / (1 + geometric), atol=1e-6)
    assert torch.allclose(after[:, :-1] / after[:, :1], before / before[:, :1], rtol=1e-4)


def test_a_column_refitted_alone_finds_its_rows_and_changes_nothing_else():
    x = torch.randn(400, D, generator=torch.Generator().manual_seed(2))
    own = Library.of(LABELS, PARTS | {"router": MLPBank([3], D, 0, LABELS.K)})
    own.add("new", expert(1))
    before = {name: t.clone() for name, t in own.state_dict().items()}
    with torch.no_grad():
        chosen = own(x).alpha[:, :-1].argmax(1)
    new = x[:, 0] > 1.0
    targets = np.where(new.numpy(), "new", np.array(own.names)[chosen.numpy()])
    rows, loop = np.arange(400), Training(lr=0.05, max_epochs=20, patience=20)
    training, grad = flags(own)
    own.refit(["new"], x, targets, rows[:300], rows[300:], loop)
    assert flags(own) == (training, grad)
    changed = {name for name, t in own.state_dict().items() if not torch.equal(t, before[name])}
    assert changed == {"columns.expert new.weight", "columns.expert new.bias"}
    with torch.no_grad():
        found = own(x).alpha.argmax(1) == own.K - 1
    assert (found == new)[300:].double().mean() > 0.8
    with pytest.raises(LookupError, match="no expert 'newer'; experts: R1, R2, R3, new"):
        own.refit(["newer"], x, targets, rows, rows, loop)


# ---- files and copies --------------------------------------------------------------------------------------------


def test_a_library_carries_its_probe_and_a_saved_red_opens_as_one(tmp_path):
    own = library()
    own.add("new", expert(1, rank=5))  # experts may differ in rank
    own.disable("R1")
    probe = modules.Probe(("a", "b"), (X[:2],))
    own.save(tmp_path / "library.safetensors", probe=probe)
    assert torch.equal(logits(Library.load(tmp_path / "library.safetensors")), logits(own))
    assert "logits" in modules.read_passport(tmp_path / "library.safetensors")["probe"]["answers"]
    modules.save(tmp_path / "red.safetensors", dict(assemble("red", LABELS, PARTS).parts), PASSPORT, "red")
    assert torch.equal(logits(Library.load(tmp_path / "red.safetensors")), logits(library()))
    with pytest.raises(ValueError, match="needs a passport to be saved"):
        Library.of(LABELS, PARTS).save(tmp_path / "n.safetensors")
    modules.save(tmp_path / "part.safetensors", {"experts": take(PARTS["experts"], [0])}, PASSPORT)
    with pytest.raises(ValueError, match="holds a set of parts, no library of experts"):
        Library.load(tmp_path / "part.safetensors")
    with pytest.raises(ValueError, match=r"holds a library, not a whole method; use load"):
        modules.load_method(tmp_path / "library.safetensors")


def test_a_copy_is_a_library_of_its_own_and_what_was_added_is_copied():
    own, made = library(), expert(1)
    other = own.copy()
    other.add("new", made)
    before = logits(other)
    made.up.weight.data.zero_()
    other.classifier.weight.data += 0
    assert torch.equal(logits(other), before)
    assert own.names == LABELS.names
