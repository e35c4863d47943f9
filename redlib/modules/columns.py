"""A router's last layer one column at a time: what it takes to add, split or refit one expert's weight alone."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import training
from redlib.config import Training
from redlib.models import LinearBank


def column(weight: Tensor, bias: Tensor | float) -> LinearBank:
    """One frozen column: weight (H,) or (H, 1), and a bias."""
    made = LinearBank([0], weight.numel(), 1, zero=True).requires_grad_(False)
    made.weight.data[0, :, 0] = weight.detach().flatten()
    made.bias.data[:] = bias
    return made


def mean(columns: Sequence[LinearBank], hidden: int) -> LinearBank:
    """The mean of the columns, the rule for an added expert: its score is the mean of the others' scores, so that its
    weight is the geometric mean of theirs before all are scaled to sum to one. It is at most 1 / (K + 1), and next to
    nothing where the router is sure. Zero where there is no other column."""
    if not columns:
        return column(torch.zeros(hidden), 0.0)
    weights, biases = (torch.stack([getattr(c, name).data[0] for c in columns]) for name in ("weight", "bias"))
    return column(weights.mean(0), biases.mean(0).flatten())


def share(of: LinearBank, pieces: int) -> LinearBank:
    """A column for each of some pieces of an expert: together they have the weight that it had, everywhere."""
    return column(of.weight.data[0], of.bias.detach().flatten() - torch.tensor(float(pieces)).log())


def scores(columns: Sequence[LinearBank], t: Tensor) -> Tensor:
    """t (..., H) -> scores (..., K), one product for all."""
    return t @ torch.cat([c.weight[0] for c in columns], -1) + torch.cat([c.bias[0, 0] for c in columns])


class _Columns(nn.Module):
    """Columns in name order, of which some are trained: t (1, B, H) -> scores (1, B, K)."""

    def __init__(self, columns: Mapping[str, LinearBank], trained: Sequence[str]):
        super().__init__()
        self.columns = nn.ModuleList(columns[name] for name in sorted(columns))
        for name, one in zip(sorted(columns), self.columns, strict=True):
            one.requires_grad_(name in trained)

    def forward(self, t: Tensor) -> Tensor:
        return scores(list(self.columns), t)


def refit(
    columns: Mapping[str, LinearBank],
    names: Sequence[str],
    t: Tensor,
    targets: Sequence[str],
    train: np.ndarray,
    validation: np.ndarray,
    loop: Training,
    seed: int = 0,
) -> dict[str, LinearBank]:
    """New columns for the experts `names`, all others as they are: trained to say which expert a row is for.

    t (N, H): what the columns read; targets (N,) names of experts; train and validation are rows.
    """
    order = sorted(columns)
    fresh = {name: column(c.weight.data[0], c.bias.detach().flatten()) for name, c in columns.items()}
    module = _Columns(fresh, names)
    y = torch.tensor([order.index(name) for name in targets])
    rows = training.Rows(training.pooled_inputs(t), y, [train], [validation], "column", [seed])
    training.fit(module, rows, loop)
    return {name: fresh[name].requires_grad_(False) for name in names}


def trunk_states(trunk: nn.Module | None, h: Tensor) -> Tensor:
    """What the columns read of h (B, d): the router's hidden units (B, H), or h itself for a linear router."""
    return h if trunk is None else F.gelu(trunk(h[None]))[0]
