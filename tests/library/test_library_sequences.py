"""The library of experts: whatever is done to it and in whatever order, it computes what its set of experts says."""

from copy import deepcopy

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from libraries import PARTS, X, expert, flags, library, logits
from test_models import LABELS

from redlib.modules import Library

NAMES = ("R1", "R2", "R3", "minus", "half", "a-b", "Z")  # `half` is a method of every module
SEQUENCES = 500


def frozen_parts(of):
    return [t.clone() for part in (of.base, of.classifier, of.trunk) for t in part.state_dict().values()]


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
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    case = Operations.TestCase
    case.settings = checks
    case("runTest").runTest()
