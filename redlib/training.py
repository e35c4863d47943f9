"""The one training loop: S members (seeds x experts) trained side by side as one batched product.

Every member has its own rows, shuffling, initialisation and early stopping; nothing is shared between members but the
frozen parts, so training one member alone gives the same numbers up to the rounding of the batched product.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import config

LOG = logging.getLogger(__name__)  # told about long runs: a line an epoch, but at most one in EVERY seconds
EVERY = 10.0
Rate = Callable[[float], float]  # the learning rate's factor by the share of the training that is done
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


def half_cosine(done: float, final: float) -> float:
    """A factor of the learning rate by the share of the training that is done: from 1 down to `final`."""
    return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2


def fit_members(
    make: Callable[[list[int]], nn.Module], rows: Rows, loop: config.Training, rate: Rate | None = None
) -> tuple[nn.Module, pd.DataFrame]:
    """`fit` for any number of members of any size, gathered in one module; `make(members)` builds an untrained one.

    Members with equally many rows are trained together. On a CPU they are dealt to as many groups as there are
    threads, each trained by one thread: small products that share nothing need no thread to wait for another.
    """
    everyone = list(range(len(rows.train)))
    sizes = [(len(t), len(v)) for t, v in zip(rows.train, rows.validation, strict=True)]
    alike = [[m for m in everyone if sizes[m] == size] for size in sorted(set(sizes))]
    threads = torch.get_num_threads() if device().type == "cpu" else 1
    groups = [group for members in alike for group in (members[i::threads] for i in range(threads)) if group]
    parts = [make(members) for members in groups]
    histories = _side_by_side(
        [
            lambda part=part, members=members: fit(part, rows.only(members), loop, rate)
            for part, members in zip(parts, groups, strict=True)
        ]
    )
    whole = make(everyone)
    for part, members in zip(parts, groups, strict=True):
        for full, trained in zip(whole.parameters(), part.parameters(), strict=True):
            full.data[members] = trained.data
    named = [h.assign(member=[members[m] for m in h["member"]]) for h, members in zip(histories, groups, strict=True)]
    history = pd.concat(named, ignore_index=True)
    return whole.eval(), history.sort_values(["member", "epoch"], ignore_index=True)


def _side_by_side(jobs: list[Callable[[], pd.DataFrame]]) -> list[pd.DataFrame]:
    """Results of the jobs, in order; several at a time have one thread each."""
    threads = torch.get_num_threads()
    if len(jobs) == 1 or threads == 1 or device().type != "cpu":
        return [job() for job in jobs]
    torch.set_num_threads(1)  # also for MKL, whose setting is shared by all threads
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(lambda job: job(), jobs))
    finally:
        torch.set_num_threads(threads)


def fit(module: nn.Module, rows: Rows, loop: config.Training, rate: Rate | None = None) -> pd.DataFrame:
    """Train the module in place, where its inputs are, and restore each member's best weights (the source, 4.5.2).

    The module's parameters and buffers start with S; with S = 1 any module will do. It maps inputs to logits
    (S, B, C) and is trained by cross-entropy; of sequences, y (N, M), to (S, B, M, C), where a row's loss is the mean
    over its targets and a row is right if all of them are. `rate` gives the learning rate's factor by the share of all
    epochs that is done (None: 1). Returns the history: a row a member and epoch (train_loss, valid_loss,
    valid_accuracy, best). Raises FloatingPointError when a loss is not finite. Members with unequal numbers of rows
    are refused.
    """
    sizes = {len(t) for t in rows.train}, {len(v) for v in rows.validation}
    if max(map(len, sizes)) > 1:
        raise ValueError(f"{rows.name}: members trained together need equally many rows, got {sizes}")
    run = _Run(module, rows, loop, rate)
    module.train()
    start = told = time.perf_counter()
    for epoch in range(1, loop.max_epochs + 1):
        run.epoch(epoch)
        if not len(run.active):
            break
        if time.perf_counter() - told >= EVERY:
            told = time.perf_counter()
            LOG.info("%s, %.0f s", run.line(epoch), told - start)
    return run.finish()


class _Run:
    def __init__(self, module: nn.Module, rows: Rows, loop: config.Training, rate: Rate | None):
        self.rows, self.loop, self.rate = rows, loop, rate
        one = rows.inputs(np.array([rows.train[0][:1]]), np.array([0]))
        self.device = one[0].device
        self.module, self.y = module.to(self.device), rows.y.to(self.device)
        members = len(rows.train)
        self.active = np.arange(members)
        self.shuffles = [np.random.default_rng([7, seed]) for seed in rows.seeds]
        self.best_score = np.full(members, -np.inf)
        self.stale = np.zeros(members, dtype=int)
        self.trainable = [p for p in module.parameters() if p.requires_grad]
        self.best = [p.detach().clone() for p in self.trainable]
        self.full = [(p, p.detach().clone()) for p in self._frozen()]
        self.optimiser = torch.optim.AdamW(self.trainable, lr=loop.lr, weight_decay=loop.weight_decay, fused=True)
        self.history: list[dict] = []

    def _frozen(self) -> list[Tensor]:
        return [p for p in self.module.parameters() if not p.requires_grad] + list(self.module.buffers())

    def epoch(self, epoch: int) -> None:
        start = time.perf_counter()
        train_loss = self._train(epoch)
        valid_loss, accuracy = self._validate()
        score = accuracy if self.loop.monitor == "accuracy" else -valid_loss
        better = score > self.best_score[self.active]
        for i, member in enumerate(self.active):
            self.stale[member] = 0 if better[i] else self.stale[member] + 1
            if better[i]:
                self.best_score[member] = score[i]
                self._remember(i, member)
            self.history.append(
                {
                    "name": self.rows.name,
                    "member": int(member),
                    "seed": int(self.rows.seeds[member]),
                    "epoch": epoch,
                    "train_loss": train_loss[i],
                    "valid_loss": valid_loss[i],
                    "valid_accuracy": accuracy[i],
                    "best": bool(better[i]),
                    "seconds": (time.perf_counter() - start) / len(self.active),
                }
            )
        keep = self.stale[self.active] < self.loop.patience
        if not keep.all():
            self._drop(keep)

    def line(self, epoch: int) -> str:
        """Where the run stands: the best validation score is the mean over members."""
        best, loop = abs(self.best_score.mean()), self.loop
        return (
            f"{self.rows.name}: epoch {epoch} of {loop.max_epochs}, best validation {loop.monitor} {best:.3f}, "
            f"{len(self.active)} of {len(self.rows.train)} members still training"
        )

    def _train(self, epoch: int) -> np.ndarray:
        order = np.stack([self.shuffles[m].permutation(self.rows.train[m]) for m in self.active])
        total = torch.zeros(len(self.active), dtype=torch.float64, device=self.device)
        for first in range(0, order.shape[1], self.loop.batch):
            batch = order[:, first : first + self.loop.batch]
            if self.rate is not None:
                done = (epoch - 1 + first / order.shape[1]) / self.loop.max_epochs
                self.optimiser.param_groups[0]["lr"] = self.loop.lr * self.rate(done)
            total += self._step(batch) * batch.shape[1]
        mean = (total / order.shape[1]).cpu().numpy()
        if not np.isfinite(mean).all():
            member = self.active[np.flatnonzero(~np.isfinite(mean))[0]]
            raise FloatingPointError(
                f"{self.rows.name}: the loss of member {member} is not finite in epoch {epoch}; "
                "check the features for NaN or lower the learning rate"
            )
        return mean

    def _step(self, batch: np.ndarray) -> Tensor:
        """One optimiser step on batch (S, B), in micro-batches whose gradients add up to the whole batch's mean."""
        size = self.loop.micro_batch or batch.shape[1]
        mean = torch.zeros(len(batch), dtype=torch.float64, device=self.device)
        self.optimiser.zero_grad(set_to_none=True)
        for first in range(0, batch.shape[1], size):
            loss = self._losses(batch[:, first : first + size])[0].sum(1) / batch.shape[1]
            loss.sum().backward()
            mean += loss.detach().double()
        self.optimiser.step()
        return mean

    def _losses(self, index: np.ndarray) -> tuple[Tensor, Tensor]:
        """Cross-entropy and correctness of the rows index (S, B), both (S, B)."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.loop.narrow):
            logits = self.module(*self.rows.inputs(index, self.active))
        y = self.y[torch.from_numpy(index).to(self.device)]
        loss = F.cross_entropy(logits.flatten(0, -2), y.flatten(), reduction="none", ignore_index=NO_TARGET)
        loss, right = loss.view(y.shape), logits.detach().argmax(-1) == y
        if y.dim() == 2:
            return loss, right
        there = y != NO_TARGET
        return (loss * there).sum(-1) / there.sum(-1), (right | ~there).all(-1)

    @torch.no_grad()
    def _validate(self) -> tuple[np.ndarray, np.ndarray]:
        self.module.eval()
        chunk = self.loop.micro_batch or 1024
        index = np.stack([self.rows.validation[m] for m in self.active])
        sums = torch.zeros(2, len(self.active), dtype=torch.float64, device=self.device)
        for first in range(0, index.shape[1], chunk):
            loss, correct = self._losses(index[:, first : first + chunk])
            sums += torch.stack([loss.double().sum(1), correct.double().sum(1)])
        self.module.train()
        loss, accuracy = (sums / index.shape[1]).cpu().numpy()
        if not np.isfinite(loss).all():
            raise FloatingPointError(f"{self.rows.name}: the validation loss is not finite; check the features for NaN")
        return loss, accuracy

    def _remember(self, i: int, member: int) -> None:
        for best, p in zip(self.best, self.trainable, strict=True):
            if len(self.rows.train) == 1:
                best.copy_(p.detach())
            else:
                best[member] = p.detach()[i]

    def _drop(self, keep: np.ndarray) -> None:
        """Leave out members that stopped, so that the rest do not wait for them."""
        self.active = self.active[keep]
        if not len(self.active):
            return
        rows = torch.from_numpy(keep).to(self.device)
        for p in [*self.trainable, *self._frozen()]:
            p.data = p.data[rows]
            for name, value in self.optimiser.state.get(p, {}).items():
                if value.dim():
                    self.optimiser.state[p][name] = value[rows]
            p.grad = None

    def finish(self) -> pd.DataFrame:
        for p, value in [*zip(self.trainable, self.best, strict=True), *self.full]:
            p.data = value
        self.module.cpu().eval()
        return pd.DataFrame(self.history)
