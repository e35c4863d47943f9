"""Memory of training and inference, counted on the meta device: every tensor that lives is noted, none is filled.

Counted are the bytes of tensors. A device takes more for its context, its libraries and what its allocator keeps.
"""

import copy
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from redlib.backbone import Backbone
from redlib.cost.shapes import Shape, skeleton


@dataclass(frozen=True)
class Memory:
    """Bytes by what they hold, and the largest sum alive at one moment (`peak`).

    `working` is the largest sum of everything else: activations, what the backward pass keeps, temporaries. It is
    reached while other parts may be absent, so that the parts add up to at least the peak.
    """

    weights: int
    gradients: int
    optimiser: int
    working: int
    peak: int


class Ledger(TorchDispatchMode):
    """Bytes of all storages alive, over time. `watch` tensors that are there before it starts."""

    def __init__(self, there: Iterable[Tensor] = ()):
        super().__init__()
        self.events: list[tuple[int, int]] = []  # (storage, bytes that come or go)
        self._alive: dict[int, int] = {}  # address -> storage
        for tensor in there:
            self.watch(tensor)

    def watch(self, tensor: Tensor) -> int:
        """The number of the storage of a tensor of any shape."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self._alive:
            number, size = len(self.events), storage.nbytes()
            self._alive[address] = number
            self.events.append((number, size))
            weakref.finalize(storage, self._gone, address, number, size).atexit = False
        return self._alive[address]

    def _gone(self, address: int, number: int, size: int) -> None:
        self._alive.pop(address, None)
        self.events.append((number, -size))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            if isinstance(leaf, Tensor):
                self.watch(leaf)
        return made

    def peak(self, without: Iterable[int] = ()) -> int:
        """The largest sum of bytes alive, storages with the numbers `without` left out."""
        left_out, now, most = set(without), 0, 0
        for number, size in self.events:
            now += 0 if number in left_out else size
            most = max(most, now)
        return most


def measure(parameters: list[Tensor], step: Callable[[], Any], optimiser: torch.optim.Optimizer | None) -> Memory:
    """Memory of two runs of `step`, the second with the optimiser's state in place; `parameters`: all weights, of any
    shape."""
    with Ledger(parameters) as ledger:
        weights = {ledger.watch(p) for p in parameters}
        gradients: set[int] = set()
        for _ in range(2 if optimiser else 1):
            step()
            gradients |= {ledger.watch(p.grad) for p in parameters if p.grad is not None}
            if optimiser:
                optimiser.step()
                optimiser.zero_grad()
        states = optimiser.state.values() if optimiser else ()
        held = [t for state in states for t in state.values() if isinstance(t, Tensor)]
        state = {ledger.watch(t) for t in held}
        events = list(ledger.events)
    size = {number: nbytes for number, nbytes in reversed(events) if nbytes >= 0}
    trained = [p for p in parameters if p.requires_grad]
    return Memory(
        weights=sum(size[number] for number in weights),
        gradients=sum(p.numel() * p.element_size() for p in trained) if gradients else 0,
        optimiser=sum(size[number] for number in state),
        working=ledger.peak(weights | gradients | state),
        peak=ledger.peak(),
    )


def training_memory(
    config: Any, batch: int, tokens: int, classes: int, top_layers: int = 2, dtype: torch.dtype = torch.float32
) -> Memory:
    """One AdamW step of the source's base (4.5): top layers and a classifier trained on mean-pooled final states.

    config: a transformers configuration; the layers below keep no activations. Attention keeps all its scores.
    """
    backbone, missing = _thin(config, top_layers, dtype)
    head = nn.Linear(backbone.hidden_size, classes, device="meta", dtype=dtype)
    for layer in backbone.model.layers[backbone.boundary :]:
        layer.requires_grad_(True)
    parameters = [*backbone.model.parameters(), *head.parameters()]
    optimiser = torch.optim.AdamW([p for p in parameters if p.requires_grad], foreach=False)
    ids = torch.zeros(batch, tokens, dtype=torch.long, device="meta")
    target = torch.zeros(batch, dtype=torch.long, device="meta")

    def step() -> None:
        F.cross_entropy(head(final_states(backbone, ids).mean(1)), target).backward()

    return _with(missing, measure(parameters, step, optimiser))


def inference_memory(config: Any, batch: int, tokens: int, dtype: torch.dtype = torch.float32) -> Memory:
    """One pass to the pooled final states without gradients."""
    backbone, missing = _thin(config, 0, dtype)
    ids = torch.zeros(batch, tokens, dtype=torch.long, device="meta")

    @torch.no_grad()
    def step() -> None:
        final_states(backbone, ids).mean(1)

    return _with(missing, measure(list(backbone.model.parameters()), step, None))


def _thin(config: Any, top_layers: int, dtype: torch.dtype) -> tuple[Backbone, int]:
    """The backbone with two of its frozen layers, and the bytes of the weights left out.

    All frozen layers are alike and none keeps anything, so that the others add their weights alone.
    """
    thin, layers = copy.deepcopy(config), min(config.num_hidden_layers, top_layers + 2)
    thin.num_hidden_layers = layers
    if getattr(thin, "layer_types", None):
        thin.layer_types = thin.layer_types[:layers]
    backbone = skeleton(thin, top_layers)
    backbone.model.to(dtype)
    return backbone, (config.num_hidden_layers - layers) * Shape.of(config).layer_parameters * dtype.itemsize


def _with(weights: int, memory: Memory) -> Memory:
    return replace(memory, weights=memory.weights + weights, peak=memory.peak + weights)


def final_states(backbone: Backbone, ids: Tensor) -> Tensor:
    """Final states (B, T, d) of token ids (B, T), without a graph below the backbone's boundary."""
    with torch.no_grad():
        states = backbone.run(ids, keep=[backbone.boundary])[backbone.boundary]
    return states if backbone.boundary == backbone.layers else backbone.replay(states, backbone.boundary)[-1]
