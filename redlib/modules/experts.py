"""RED as a library of named experts, which are added, removed, replaced, renamed, reordered, split or switched off.

Every expert stands with its own column of the router. All sums go in the order of the names, so that what is computed
depends on which experts there are and not on how they came there: the same set gives the same bits.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from redlib.config import Training
from redlib.expressions import LabelSpace
from redlib.models import LinearBank, Output, ResidualExperts, take
from redlib.modules import columns, files
from redlib.modules import passport as passports
from redlib.modules import probe as probes
from redlib.modules.probe import Probe

METHOD = "library"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Library(nn.Module):
    """classifier(h + sum_i a_i delta_i(h)) over named experts i, a = softmax of their columns (the source, 4.4).

    Without experts, or with all of them disabled, it is the base classifier. `passport` says what the parts were
    trained on; then an expert that comes with one has to agree. Nothing that is given is changed: experts are copied.
    """

    def __init__(
        self,
        labels: LabelSpace,
        base: nn.Module,
        classifier: LinearBank,
        trunk: LinearBank | None = None,
        passport: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        self.labels, self.passport, self.options = labels, passport and dict(passport), {}
        self.base, self.classifier, self.trunk = base, classifier, trunk
        self.experts, self.columns = nn.ModuleDict(), nn.ModuleDict()
        self.names: tuple[str, ...] = ()
        self.disabled: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        labels: LabelSpace,
        parts: Mapping[str, nn.Module],
        names: Sequence[str] | None = None,
        passport: Mapping[str, Any] | None = None,
    ) -> "Library":
        """From RED's trained parts base, classifier, experts (K members) and router; names default to the ranges'."""
        router, names = parts["router"], labels.names if names is None else names
        made = cls(
            labels, *(deepcopy(parts[name]) for name in ("base", "classifier")), deepcopy(router.first), passport
        )
        if not len(names) == len(parts["experts"].down.weight) == router.last.weight.shape[-1]:
            raise ValueError(f"{len(names)} names ({', '.join(names)}) do not fit the experts and the router's outputs")
        for k, name in enumerate(names):
            own = columns.column(router.last.weight[0, :, k], router.last.bias[0, 0, k])
            made.add(name, take(parts["experts"], [k]), column=own)
        return made

    @property
    def K(self) -> int:
        """Number of experts."""
        return len(self.names)

    # ---- answers -------------------------------------------------------------------------------------------------

    def hidden(self, x: Tensor | tuple[Tensor, ...]) -> Tensor:
        """h (B, d) of the rows x: pooled features (B, d), or (states (B, T, d), mask (B, T))."""
        h = self.base(*x) if isinstance(x, tuple) else self.base(x)
        return h[0] if h.dim() == 3 else h

    def weights(self, h: Tensor) -> Tensor:
        """Routing weights (B, K) of h (B, d), in the order of `names`; a disabled expert keeps its own."""
        if not self.names:
            return h.new_zeros(len(h), 0)
        order = sorted(self.names)
        said = columns.scores([self.columns[_key(name)] for name in order], columns.trunk_states(self.trunk, h))
        return torch.softmax(said, -1)[:, [order.index(name) for name in self.names]]

    def forward(self, x: Tensor | tuple[Tensor, ...], ranges: Tensor | None = None) -> Output:
        """logits (B, C) and the weights (B, K), in the order of `names`."""
        h = self.hidden(x)
        alpha, moved = self.weights(h), h[None]  # (1, B, d): a bank's product whose bits do not depend on requires_grad
        for name in sorted(set(self.names) - self.disabled):
            moved = moved + alpha[:, [self.names.index(name)]] * self.experts[_key(name)](h[None])
        return Output(self.classifier(moved)[0], alpha)

    # ---- the experts ---------------------------------------------------------------------------------------------

    def expert(self, name: str) -> ResidualExperts:
        """The expert called `name`; LookupError lists those that there are."""
        return self.experts[self._known(name)]

    def add(
        self,
        name: str,
        expert: ResidualExperts,
        passport: Mapping[str, Any] | None = None,
        column: LinearBank | None = None,
    ) -> None:
        """A new expert. Without a `column` its score is the mean of the others' (`columns.mean`); those stay as they
        are, so that the weights of any two old experts keep their ratio."""
        self._free(name)
        self._fits(expert, passport)
        if column is None:
            column = columns.mean([self.columns[_key(n)] for n in sorted(self.names)], self._width)
        elif tuple(column.weight.shape) != (1, self._width, 1):
            raise ValueError(f"a column of shape {tuple(column.weight.shape)} does not fit {self._width} hidden units")
        self._put(name, deepcopy(expert), deepcopy(column))
        self.names = (*self.names, name)

    def remove(self, name: str) -> None:
        """Without this expert and its column; its weight falls to the others in their own proportions."""
        self._drop(self._known(name))
        self.names = tuple(n for n in self.names if n != name)
        self.disabled -= {name}

    def replace(self, name: str, expert: ResidualExperts, passport: Mapping[str, Any] | None = None) -> None:
        """Another expert in the same place: it is asked where the old one was."""
        key = self._known(name)
        self._fits(expert, passport)
        self.experts[key] = deepcopy(expert)

    def rename(self, name: str, new: str) -> None:
        """The same expert under a new name, in the same place."""
        key = self._known(name)
        self._free(new)
        self._put(new, self.experts[key], self.columns[key])
        self._drop(key)
        self.names = tuple(new if n == name else n for n in self.names)
        self.disabled = frozenset(new if n == name else n for n in self.disabled)

    def permute(self, names: Iterable[str]) -> None:
        """The experts in another order: that of the weights. Logits do not depend on it."""
        names = tuple(names)
        if sorted(names) != sorted(self.names):
            raise ValueError(f"an order of the experts names each of them once: {self._list()}; got {', '.join(names)}")
        self.names = names

    def subset(self, names: Iterable[str]) -> None:
        """Only these experts, in this order; all others are removed."""
        names = tuple(names)
        for name in names:
            self._known(name)
        if len(set(names)) < len(names):
            raise ValueError(f"a subset names an expert once; got {', '.join(names)} of {self._list()}")
        for name in set(self.names) - set(names):
            self.remove(name)
        self.names = names

    def split(self, name: str, pieces: Mapping[str, ResidualExperts]) -> None:
        """Several experts in the place of one. Each starts with the same share of its weight (`columns.share`)."""
        key = self._known(name)
        for piece, expert in pieces.items():
            self._free(piece)
            self._fits(expert, None)
        if not pieces:
            raise ValueError(f"splitting {name!r} needs experts to take its place")
        at, own = self.names.index(name), columns.share(self.columns[key], len(pieces))
        before, after = self.names[:at], self.names[at + 1 :]
        self.remove(name)
        for piece, expert in pieces.items():
            self._put(piece, deepcopy(expert), deepcopy(own))
        self.names = (*before, *pieces, *after)

    def disable(self, name: str) -> None:
        """The expert does not run, and its weight goes to h as it is; its column stays."""
        self._known(name)
        self.disabled |= {name}

    def enable(self, name: str) -> None:
        """Undo `disable`."""
        self._known(name)
        self.disabled -= {name}

    def widen(self, labels: LabelSpace, classifier: LinearBank) -> None:
        """More values above the old ones. The classifier has to bring columns for them, its old ones unchanged: an
        expert alone cannot say a value that the shared classifier has no column for."""
        old = self.labels
        if labels.lo != old.lo or labels.hi < old.hi or labels.edges[: len(old.edges)] != old.edges:
            raise ValueError(f"values {labels.lo}..{labels.hi} with edges {labels.edges} do not extend {old}")
        kept = classifier.weight[..., : old.C], classifier.bias[..., : old.C]
        if classifier.weight.shape[-1] != labels.C or not all(map(torch.equal, kept, self.classifier.parameters())):
            raise ValueError(
                f"the classifier for {labels.lo}..{labels.hi} needs {labels.C} outputs, the first {old.C} those of the "
                "old one"
            )
        self.labels, self.classifier = labels, deepcopy(classifier)

    def refit(
        self,
        names: Sequence[str],
        x: Tensor | tuple[Tensor, ...],
        targets: Sequence[str],
        train: np.ndarray,
        validation: np.ndarray,
        loop: Training,
        seed: int = 0,
    ) -> None:
        """Train the columns of some experts alone to say which expert a row of x is for (targets (N,), names)."""
        for name in (*names, *sorted(set(targets))):
            self._known(name)
        with torch.no_grad():
            t = columns.trunk_states(self.trunk, self.hidden(x))
        there = {name: self.columns[_key(name)] for name in self.names}
        for name, made in columns.refit(there, names, t, targets, train, validation, loop, seed).items():
            self.columns[_key(name)] = made.train(self.columns[_key(name)].training)

    def copy(self) -> "Library":
        """A library of its own with the same parts."""
        return deepcopy(self)

    # ---- files ---------------------------------------------------------------------------------------------------

    def save(self, path: Path, passport: Mapping[str, Any] | None = None, probe: Probe | None = None) -> None:
        """One module file; `passport` replaces the library's own (ValueError without either)."""
        about = passport or self.passport
        if about is None:
            raise ValueError("a library needs a passport to be saved; pass one")
        parts = {"base": self.base, "classifier": self.classifier}
        parts |= {} if self.trunk is None else {"trunk": self.trunk}
        for name in self.names:
            parts |= {f"expert/{name}": self.experts[_key(name)], f"column/{name}": self.columns[_key(name)]}
        own = {"labels": self.labels, "library": {"names": list(self.names), "disabled": sorted(self.disabled)}}
        files.save(path, parts, {**about, **own}, METHOD, probe, answer=lambda _: lambda x: self(x).logits)

    @classmethod
    def load(cls, path: Path, backbone: Any = None, **wanted: Any) -> "Library":
        """A saved library, or the library of a saved method `red`; refusals as `files.load`."""
        parts, record = files.load(path, backbone, **wanted)
        labels = passports.labels_of(record)
        if record["method"] == "red":
            return cls.of(labels, parts, passport=record).eval()
        if record["method"] != METHOD:
            raise ValueError(f"{Path(path).name!r} holds a {record['method'] or 'set of parts'}, no library of experts")
        made = cls(labels, parts["base"], parts["classifier"], parts.get("trunk"), record)
        for name in record["library"]["names"]:
            made._put(name, parts[f"expert/{name}"], parts[f"column/{name}"])
        made.names, made.disabled = tuple(record["library"]["names"]), frozenset(record["library"]["disabled"])
        probe, expected = files.load_probe(path)
        if probe is not None:
            x = probe.read if len(probe.read) > 1 else probe.read[0]
            with torch.no_grad():
                probes.check_answers({"logits": made(x).logits}, expected)
        return made.eval()

    # ---- inside --------------------------------------------------------------------------------------------------

    @property
    def _width(self) -> int:
        return self.classifier.shape["d_in"] if self.trunk is None else self.trunk.shape["d_out"]

    def _put(self, name: str, expert: nn.Module, column: nn.Module) -> None:
        self.experts[_key(name)], self.columns[_key(name)] = expert, column

    def _drop(self, key: str) -> None:
        del self.experts[key], self.columns[key]

    def _list(self) -> str:
        return ", ".join(self.names) or "none"

    def _known(self, name: str) -> str:
        if name not in self.names:
            raise LookupError(f"no expert {name!r}; experts: {self._list()}")
        return _key(name)

    def _free(self, name: str) -> None:
        if name in self.names:
            raise ValueError(f"an expert {name!r} is there already; experts: {self._list()}")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for an expert; valid: a letter, then letters, digits, - and _")

    def _fits(self, expert: ResidualExperts, passport: Mapping[str, Any] | None) -> None:
        d = self.classifier.shape["d_in"]
        if not isinstance(expert, ResidualExperts) or expert.shape["d"] != d or len(expert.down.weight) != 1:
            raise ValueError(f"an expert here is a ResidualExperts of one member over h of {d} numbers, got {expert}")
        other = next((one for one in self.experts.values() if one.form != expert.form), None)
        if other is not None:
            raise ValueError(f"experts here are adapters of form {other.form!r}, got one of form {expert.form!r}")
        if passport is not None and self.passport is not None:
            passports.check_together(self.passport, passport, self.labels)


def _key(name: str) -> str:
    return f"expert {name}"  # a module's own attributes are no keys of a ModuleDict: `half` would be one
