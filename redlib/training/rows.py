"""What a run trains on: rows, targets, and the parts of every member."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

NO_TARGET = -100  # in the targets of a sequence: nothing is to be said here


@dataclass
class Rows:
    """What a run trains on. `inputs(idx (S, B), members) -> tuple` of what the module reads; y (N,) class targets, or
    (N, M) of sequences, NO_TARGET where a shorter one has none.

    train, validation: one array of row numbers a member.
    """

    inputs: Callable[[np.ndarray, np.ndarray], tuple[Tensor, ...]]
    y: Tensor
    train: Sequence[np.ndarray]
    validation: Sequence[np.ndarray]
    name: str = "model"
    seeds: Sequence[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seeds = list(self.seeds) or list(range(len(self.train)))
        if not len(self.train) == len(self.validation) == len(self.seeds):
            raise ValueError(f"{self.name}: train, validation and seeds must have one entry a member")
        for member, (train, validation) in enumerate(zip(self.train, self.validation, strict=True)):
            for part, rows in (("train", train), ("validation", validation)):
                if len(rows) == 0:
                    raise ValueError(f"{self.name}: the {part} part of member {member} is empty")
            if len(np.unique(self.y[train].numpy())) < 2:
                raise ValueError(f"{self.name}: the train part of member {member} holds one class only")

    def only(self, members: Sequence[int]) -> "Rows":
        """The same rows for some of the members, renumbered from 0."""

        def inputs(index: np.ndarray, active: np.ndarray) -> tuple[Tensor, ...]:
            return self.inputs(index, np.asarray(members)[active])

        return Rows(
            inputs,
            self.y,
            [self.train[m] for m in members],
            [self.validation[m] for m in members],
            self.name,
            [self.seeds[m] for m in members],
        )


def device() -> torch.device:
    """Where training runs: the GPU if there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def pooled_inputs(x: Tensor, groups: Sequence[int] | None = None) -> Callable:
    """Inputs for `Rows` from features x (N, d) that all members share, or x (G, N, d) with each member's group."""

    def inputs(index: np.ndarray, members: np.ndarray) -> tuple[Tensor]:
        rows = torch.from_numpy(index).to(x.device)
        if x.dim() == 2:
            return (x[rows],)
        group = torch.tensor([groups[m] for m in members]) if groups is not None else torch.from_numpy(members)
        return (x[group.to(x.device)[:, None], rows],)

    return inputs
