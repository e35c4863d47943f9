"""What moves the weights: AdamW, or Muon for the matrices of hidden layers and AdamW for everything else."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from redlib import config


class Optimiser:
    """The optimiser of a training for the parameters that are trained.

    With `optimiser: muon` the module says which of its parameters are matrices of hidden layers (`matrices()`), of one
    member (1, n, m). Muon's steps have the size of AdamW's, so both have one learning rate. ValueError for a module
    without matrices, and for matrices of several members.
    """

    def __init__(self, module: nn.Module, parameters: Sequence[Tensor], loop: config.Training):
        self._lr, settings = loop.lr, {"lr": loop.lr, "weight_decay": loop.weight_decay}
        self._flat = {p: _flat(p) for p in _matrices(module)} if loop.by_muon else {}
        rest = [p for p in parameters if p not in self._flat]
        self._adamw = torch.optim.AdamW(rest, **settings, fused=True)
        self._muon = (
            torch.optim.Muon(list(self._flat.values()), **settings, adjust_lr_fn="match_rms_adamw")
            if self._flat
            else None
        )

    @property
    def _both(self) -> list[torch.optim.Optimizer]:
        return [self._adamw] if self._muon is None else [self._adamw, self._muon]

    def scale(self, factor: float) -> None:
        """Set the learning rate to `factor` times that of the configuration."""
        for optimiser in self._both:
            optimiser.param_groups[0]["lr"] = self._lr * factor

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self._adamw.zero_grad(set_to_none=True)
        for p in self._flat:
            p.grad = None

    def step(self) -> None:
        """Move every parameter along its gradient."""
        for p, flat in self._flat.items():
            flat.data, flat.grad = p.data[0], p.grad[0]
        for optimiser in self._both:
            optimiser.step()

    def moments(self, p: Tensor) -> dict[str, Any]:
        """What the optimiser remembers of a parameter (of any shape), to read or change; empty at first."""
        return self._muon.state[self._flat[p]] if p in self._flat else self._adamw.state[p]


def _matrices(module: nn.Module) -> list[nn.Parameter]:
    if not hasattr(module, "matrices"):
        raise ValueError(f"Muon trains matrices of hidden layers, and {type(module).__name__} names none; use adamw")
    return module.matrices()


def _flat(p: nn.Parameter) -> nn.Parameter:
    """A matrix (n, m) that shares the memory of a parameter (1, n, m)."""
    if len(p) != 1:
        raise ValueError(f"Muon trains one member at a time, got {len(p)}; use adamw")
    return nn.Parameter(p.detach()[0])
