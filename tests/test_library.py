"""The library of experts: whatever is done to it and in whatever order, it computes what its set of experts says."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_models import LABELS, D, make_parts
from test_modules import PASSPORT

from redlib import modules
from redlib.config import Training
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts, assemble, take
from redlib.modules import Library, columns

X = torch.randn(6, D, generator=torch.Generator().manual_seed(5))
NAMES = ("R1", "R2", "R3", "minus", "half", "a-b", "Z")  # `half` is a method of every module
PARTS = make_parts(dtype=torch.float32)
SEQUENCES = 500


def expert(seed, rank=3):
    made = ResidualExperts([seed], D, rank)
    made.up.weight.data.normal_(generator=torch.Generator().manual_seed(seed))
    return made


def library(labels=LABELS, parts=PARTS):
    return Library.of(labels, parts, passport=PASSPORT)


def logits(of, x=X):
    with torch.no_grad():
        return of(x).logits


def flags(module):
    return [m.training for m in module.modules()], [p.requires_grad for p in module.parameters()]


def frozen_parts(of):
    return [t.clone() for part in (of.base, of.classifier, of.trunk) for t in part.state_dict().values()]


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


def test_an_expert_of_another_form_is_refused_with_the_form_that_the_others_have():
    own = library()
    with pytest.raises(ValueError, match="experts here are adapters of form 'gelu', got one of form 'linear'"):
        own.add("straight", ResidualExperts([1], D, 3, "linear"))
    assert own.names == LABELS.names


def test_a_linear_router_has_columns_too():
    parts = PARTS | {"router": MLPBank([3], D, 0, LABELS.K)}
    red = assemble("red", LABELS, parts)
    assert torch.allclose(logits(Library.of(LABELS, parts)), red(X).logits, rtol=1e-5, atol=1e-5)


def test_names_that_do_not_fit_the_experts_are_refused():
    with pytest.raises(ValueError, match=r"2 names \(a, b\) do not fit the experts"):
        Library.of(LABELS, PARTS, ["a", "b"])


@torch.no_grad()
def by_hand(model, disabled):
    """Logits of experts and columns by name, in name order."""
    h = PARTS["base"](X)
    t, moved, order = torch.nn.functional.gelu(PARTS["router"].first(h))[0], h, sorted(model)
    if order:
        weight, bias = (torch.cat([getattr(model[n][1], w)[0] for n in order], -1) for w in ("weight", "bias"))
        alpha = torch.softmax(t @ weight + bias[0], -1)
    for k, name in enumerate(order):
        if name not in disabled:
            moved = moved + alpha[:, [k]] * model[name][0](h)
    return PARTS["classifier"](moved)[0]


# ---- any sequence of operations ----------------------------------------------------------------------------------


class Operations(RuleBasedStateMachine):
    """`self.model` is what the library should be: experts and columns by name, built afresh after every step."""

    folder = None

    @initialize(training=st.booleans(), grad=st.booleans())
    def start(self, training, grad):
        self.own = library()
        self.own.train(training).requires_grad_(grad)
        self.model = {n: (self.own.expert(n), self.column(n)) for n in self.own.names}
        self.order, self.disabled = list(self.own.names), set()
        self.frozen, self.others = frozen_parts(self.own), flags(self.parts_of(self.own))
        self.made = 10

    def column(self, name):
        return deepcopy(self.own.columns[f"expert {name}"])

    @staticmethod
    def parts_of(of):
        return torch.nn.ModuleList([of.base, of.classifier, of.trunk])

    def absent(self):
        return sorted(set(NAMES) - set(self.order))

    def note(self, name, at=None):
        self.model[name] = deepcopy(self.own.expert(name)), self.column(name)
        self.order.insert(len(self.order) if at is None else at, name)

    @rule(data=st.data())
    def add_and_perhaps_remove_again(self, data):
        if not self.absent():
            return
        name, before = data.draw(st.sampled_from(self.absent())), logits(self.own)
        self.made += 1
        self.own.add(name, expert(self.made))
        if data.draw(st.booleans()):
            self.own.remove(name)
            assert torch.equal(logits(self.own), before)
        else:
            self.note(name)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def remove(self, data):
        name = data.draw(st.sampled_from(self.order))
        self.own.remove(name)
        self.order.remove(name)
        self.disabled.discard(name)
        del self.model[name]

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def replace(self, data):
        name = data.draw(st.sampled_from(self.order))
        self.made += 1
        self.own.replace(name, expert(self.made))
        self.model[name] = expert(self.made), self.model[name][1]

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def rename(self, data):
        if not self.absent():
            return
        name, new, before = (
            data.draw(st.sampled_from(self.order)),
            data.draw(st.sampled_from(self.absent())),
            logits(self.own),
        )
        self.own.rename(name, new)
        self.model[new] = self.model.pop(name)
        self.order[self.order.index(name)] = new
        self.disabled = {new if n == name else n for n in self.disabled}
        assert torch.allclose(logits(self.own), before, rtol=1e-5, atol=1e-5)

    @rule(data=st.data())
    def permute(self, data):
        before, alpha = logits(self.own), dict(zip(self.order, self.own(X).alpha.T, strict=True))
        self.order = list(data.draw(st.permutations(self.order)))
        self.own.permute(self.order)
        assert torch.equal(logits(self.own), before)
        for name, column in zip(self.order, self.own(X).alpha.T, strict=True):
            assert torch.equal(column, alpha[name])

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def subset(self, data):
        size = data.draw(st.integers(1, len(self.order)))
        kept = list(data.draw(st.permutations(self.order)))[:size]
        self.own.subset(kept)
        self.order, self.disabled = kept, self.disabled & set(kept)
        self.model = {name: self.model[name] for name in kept}

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def split(self, data):
        free = self.absent()
        if len(free) < 2:
            return
        name, at = data.draw(st.sampled_from(self.order)), None
        at = self.order.index(name)
        alpha = dict(zip(self.order, self.own(X).alpha.T, strict=True))
        self.made += 2
        self.own.split(name, {free[0]: expert(self.made), free[1]: expert(self.made + 1)})
        self.order.remove(name)
        self.disabled.discard(name)
        del self.model[name]
        self.note(free[0], at)
        self.note(free[1], at + 1)
        after = dict(zip(self.order, self.own(X).alpha.T, strict=True))
        assert torch.allclose(after[free[0]] + after[free[1]], alpha[name], atol=1e-6)
        assert all(torch.allclose(after[n], alpha[n], atol=1e-6) for n in after if n in alpha)

    @precondition(lambda self: self.order)
    @rule(data=st.data())
    def disable_or_enable(self, data):
        name = data.draw(st.sampled_from(self.order))
        (self.own.enable if name in self.disabled else self.own.disable)(name)
        self.disabled ^= {name}

    @rule()
    def disable_all_is_the_base_and_enabling_brings_all_back(self):
        before = logits(self.own)
        for name in self.order:
            self.own.disable(name)
        with torch.no_grad():
            assert torch.equal(logits(self.own), PARTS["classifier"](self.own.hidden(X)[None])[0])
        for name in self.order:
            if name not in self.disabled:
                self.own.enable(name)
        assert torch.equal(logits(self.own), before)

    @rule()
    def save_and_load(self):
        before, own = logits(self.own), flags(self.own)
        self.own.save(self.folder / "library.safetensors")
        assert flags(self.own) == own
        again = Library.load(self.folder / "library.safetensors")
        assert torch.equal(logits(again), before)
        assert (again.names, again.disabled) == (self.own.names, self.own.disabled)
        again.train(self.own.training)
        for mine, theirs in zip(again.parameters(), self.own.parameters(), strict=True):
            mine.requires_grad_(theirs.requires_grad)
        self.own = again
        self.others = flags(self.parts_of(again))

    @invariant()
    def it_computes_what_its_set_of_experts_says(self):
        if hasattr(self, "own"):
            assert torch.equal(logits(self.own), by_hand(self.model, self.disabled))
            assert self.own.names == tuple(self.order)
            assert self.own.disabled == self.disabled

    def teardown(self):
        """Experts that came late are as good as the same ones that were there from the start."""
        if hasattr(self, "own"):
            fresh = Library(LABELS, *(PARTS[name] for name in ("base", "classifier")), PARTS["router"].first)
            for name in sorted(self.model):
                fresh.add(name, self.model[name][0], column=self.model[name][1])
            for name in self.disabled:
                fresh.disable(name)
            assert torch.equal(logits(self.own), logits(fresh))

    @invariant()
    def frozen_parts_and_flags_are_as_they_were(self):
        if hasattr(self, "own"):
            assert all(torch.equal(a, b) for a, b in zip(frozen_parts(self.own), self.frozen, strict=True))
            assert flags(self.parts_of(self.own)) == self.others


def test_every_sequence_of_operations_keeps_the_invariants(tmp_path):
    Operations.folder = tmp_path
    checks = settings(
        max_examples=SEQUENCES,
        stateful_step_count=5,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    case = Operations.TestCase
    case.settings = checks
    case("runTest").runTest()


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


def test_a_column_of_another_router_is_refused():
    with pytest.raises(ValueError, match=r"a column of shape \(1, 9, 1\) does not fit 6 hidden units"):
        library().add("new", expert(1), column=columns.column(torch.zeros(9), 0.0))


# ---- what does not belong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda own: own.add("R1", expert(1)), ValueError, "an expert 'R1' is there already; experts: R1, R2, R3"),
        (lambda own: own.add("R.4", expert(1)), ValueError, "'R.4' is no name for an expert; valid: a letter"),
        (lambda own: own.remove("R4"), LookupError, "no expert 'R4'; experts: R1, R2, R3"),
        (lambda own: own.replace("r1", expert(1)), LookupError, "no expert 'r1'; experts: R1, R2, R3"),
        (lambda own: own.rename("R1", "R2"), ValueError, "an expert 'R2' is there already"),
        (lambda own: own.permute(["R1", "R2"]), ValueError, "names each of them once: R1, R2, R3; got R1, R2"),
        (lambda own: own.subset(["R1", "R4"]), LookupError, "no expert 'R4'"),
        (lambda own: own.subset(["R1", "R1"]), ValueError, "a subset names an expert once; got R1, R1 of R1, R2, R3"),
        (lambda own: own.disable("all"), LookupError, "no expert 'all'"),
        (lambda own: own.enable("all"), LookupError, "no expert 'all'"),
        (lambda own: own.split("R1", {}), ValueError, "splitting 'R1' needs experts"),
        (lambda own: own.split("R1", {"R2": expert(1)}), ValueError, "an expert 'R2' is there already"),
        (lambda own: own.add("new", ResidualExperts([0], D + 1, 3)), ValueError, f"over h of {D} numbers"),
        (lambda own: own.add("new", PARTS["experts"]), ValueError, "of one member"),
        (lambda own: own.expert("R9"), LookupError, "no expert 'R9'"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(change, error, said):
    own = library()
    before = logits(own)
    with pytest.raises(error, match=said):
        change(own)
    assert own.names == LABELS.names
    assert torch.equal(logits(own), before)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        ({"layer": 3}, r"at layer 3, pooled by mean, but this RED reads .* at layer 2, .*: another layer"),
        ({"pooling": "last"}, "another pooling"),
        ({"weights_id": "x" * 64}, "another backbone"),
        (
            {"labels": LabelSpace(2, 14, (4, 8))},
            r"values 2..14, but this RED answers 2..13; widen its label space first",
        ),
    ],
)
def test_an_expert_whose_passport_does_not_agree_is_refused(about, said):
    own, made = library(), expert(1)
    own.add("fits", made, PASSPORT | {"seed": 7})
    for change in (own.add, own.replace):
        with pytest.raises(ValueError, match=said):
            change("fits" if change == own.replace else "new", made, PASSPORT | about)


def test_a_wider_label_space_needs_a_classifier_that_has_grown_and_kept_its_columns():
    wide, own = LabelSpace(2, 16, (4, 8, 13)), library()
    grown = LinearBank([9], D, wide.C)
    with pytest.raises(ValueError, match=r"2..16 needs 15 outputs, the first 12 those of the old one"):
        own.widen(wide, grown)
    for mine, old in zip(grown.parameters(), own.classifier.parameters(), strict=True):
        mine.data[..., : LABELS.C] = old.data
    before = logits(own)
    own.widen(wide, grown)
    assert torch.allclose(logits(own)[:, : LABELS.C], before, rtol=1e-5, atol=1e-5)
    own.add("R4", expert(3), PASSPORT | {"labels": wide})
    with pytest.raises(ValueError, match=r"do not extend LabelSpace"):
        own.widen(LabelSpace(2, 20, (5,)), grown)


# ---- files -------------------------------------------------------------------------------------------------------


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
