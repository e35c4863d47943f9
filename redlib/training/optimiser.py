"""What moves the weights: AdamW, or Muon for the matrices of hidden layers and AdamW for everything else."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from redlib import config

MOMENTUM = 0.95
RMS = 0.2  # of a Muon step at learning rate 1: about that of AdamW
ITERATIONS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # a, b, c of a s + b s^3 + c s^5, which brings singular values near 1


class Optimiser:
    """The optimiser of a training for the parameters that are trained.

    With `optimiser: muon` the module says which of its parameters are matrices of hidden layers (`matrices()`), of S
    members (S, n, m). Muon's steps have the size of AdamW's, so both have one learning rate; beside it nothing that
    AdamW trains decays, so that a readout may become as sure as it has to. ValueError for a module without matrices.
    """

    def __init__(self, module: nn.Module, parameters: Sequence[Tensor], loop: config.Training):
        self._lr, decay = loop.lr, loop.weight_decay
        self._matrices = set(_matrices(module)) if loop.by_muon else set()
        rest = [p for p in parameters if p not in self._matrices]
        self._adamw = torch.optim.AdamW(rest, loop.lr, weight_decay=0.0 if loop.by_muon else decay, fused=True)
        self._muon = Muon(self._matrices, loop.lr, decay) if self._matrices else None

    @property
    def _both(self) -> list[torch.optim.Optimizer]:
        return [self._adamw] if self._muon is None else [self._adamw, self._muon]

    def scale(self, factor: float) -> None:
        """Set the learning rate to `factor` times that of the configuration."""
        for optimiser in self._both:
            optimiser.param_groups[0]["lr"] = self._lr * factor

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for optimiser in self._both:
            optimiser.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Move every parameter along its gradient."""
        for optimiser in self._both:
            optimiser.step()

    def moments(self, p: Tensor) -> dict[str, Any]:
        """What the optimiser remembers of a parameter (of any shape), to read or change; empty at first."""
        return self._muon.state[p] if p in self._matrices else self._adamw.state[p]


def _matrices(module: nn.Module) -> list[nn.Parameter]:
    if not hasattr(module, "matrices"):
        raise ValueError(f"Muon trains matrices of hidden layers, and {type(module).__name__} names none; use adamw")
    return module.matrices()


class Muon(torch.optim.Optimizer):
    """Steps of a matrix that are as large in every direction: its momentum, orthogonalised (Jordan et al., 2024).

    For stacks of matrices (S, n, m). torch's own Muon takes one matrix, and makes its products in bfloat16, for which
    most processors have no units; these are in float32.
    """

    def __init__(self, params: Iterable[Tensor], lr: float, weight_decay: float) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        """Move every matrix of a stack (S, n, m) along its orthogonalised momentum."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p)).lerp_(p.grad, 1 - MOMENTUM)
                step = orthogonal(p.grad.lerp(momentum, MOMENTUM))  # Nesterov's
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(step, alpha=group["lr"] * RMS * max(p.shape[-2:]) ** 0.5)


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices (S, n, m) with their singular values brought near 1, by a Newton-Schulz iteration."""
    a, b, c = QUINTIC
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)  # no singular value is above 1
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x
