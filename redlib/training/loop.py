"""The one training loop: AdamW or Muon, early stopping of each member by itself, the best epoch's weights restored."""

import logging
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import config
from redlib.training import checkpoint
from redlib.training.optimiser import Optimiser
from redlib.training.rows import NO_TARGET, Rows

LOG = logging.getLogger("redlib.training")  # told about long runs: a line an epoch, but at most one in EVERY seconds
EVERY = 10.0
KEPT = 60.0  # seconds between two checkpoints
Rate = Callable[[float], float]  # the learning rate's factor by the share of the training that is done


def half_cosine(done: float, final: float) -> float:
    """A factor of the learning rate by the share of the training that is done: from 1 down to `final`."""
    return final + (1 - final) * (1 + math.cos(math.pi * done)) / 2


def fit(
    module: nn.Module,
    rows: Rows,
    loop: config.Training,
    rate: Rate | None = None,
    keep: Path | None = None,
) -> pd.DataFrame:
    """Train the module in place, where its inputs are, and restore each member's best weights (the source, 4.5.2).

    The module's parameters and buffers start with S; with S = 1 any module will do. It maps inputs to logits
    (S, B, C) and is trained by cross-entropy; of sequences, y (N, M), to (S, B, M, C), where a row's loss is the mean
    over its targets and a row is right if all of them are. `rate` gives the learning rate's factor by the share of all
    epochs that is done (None: 1). Returns the history: a row a member and epoch (train_loss, valid_loss,
    valid_accuracy, best). `keep` is a file that the state of the training goes to now and then; where it holds one of
    the same training, that goes on, with the same numbers as one that was never cut off. Raises FloatingPointError
    when a loss is not finite. Members with unequal numbers of rows are refused.
    """
    sizes = {len(t) for t in rows.train}, {len(v) for v in rows.validation}
    if max(map(len, sizes)) > 1:
        raise ValueError(f"{rows.name}: members trained together need equally many rows, got {sizes}")
    run = _Run(module, rows, loop, rate)
    module.train()
    if keep is not None:
        run.resume(keep)
    start = told = kept = time.perf_counter()
    while run.going:
        run.epoch(run.done + 1)
        now = time.perf_counter()
        if run.going and now - told >= EVERY:
            told = now
            LOG.info("%s, %.0f s", run.line(), now - start)
        if keep is not None and (now - kept >= KEPT or not run.going):
            kept = now
            checkpoint.save(keep, run.state())
    return run.finish()


class _Run:
    def __init__(self, module: nn.Module, rows: Rows, loop: config.Training, rate: Rate | None):
        self.rows, self.loop, self.rate, self.done = rows, loop, rate, 0
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
        self.optimiser = Optimiser(module, self.trainable, loop)
        self.history: list[dict] = []

    def _frozen(self) -> list[Tensor]:
        return [p for p in self.module.parameters() if not p.requires_grad] + list(self.module.buffers())

    @property
    def going(self) -> bool:
        return self.done < self.loop.max_epochs and len(self.active) > 0

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
                    "train_loss": float(train_loss[i]),
                    "valid_loss": float(valid_loss[i]),
                    "valid_accuracy": float(accuracy[i]),
                    "best": bool(better[i]),
                    "seconds": (time.perf_counter() - start) / len(self.active),
                }
            )
        keep = self.stale[self.active] < self.loop.patience
        if not keep.all():
            self._drop(keep)
        self.done = epoch

    def line(self) -> str:
        """Where the run stands: the best validation score is the mean over members."""
        best, loop = abs(self.best_score.mean()), self.loop
        return (
            f"{self.rows.name}: epoch {self.done} of {loop.max_epochs}, best validation {loop.monitor} {best:.3f}, "
            f"{len(self.active)} of {len(self.rows.train)} members still training"
        )

    def _train(self, epoch: int) -> np.ndarray:
        order = np.stack([self.shuffles[m].permutation(self.rows.train[m]) for m in self.active])
        total = torch.zeros(len(self.active), dtype=torch.float64, device=self.device)
        for first in range(0, order.shape[1], self.loop.batch):
            batch = order[:, first : first + self.loop.batch]
            if self.rate is not None:
                done = (epoch - 1 + first / order.shape[1]) / self.loop.max_epochs
                self.optimiser.scale(self.rate(done))
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
        self.optimiser.zero_grad()
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
            moments = self.optimiser.moments(p)
            moments |= {name: value[rows] for name, value in moments.items() if value.dim()}
            p.grad = None

    def state(self) -> dict:
        """All that the next epoch depends on, besides what the run was made with."""
        return {
            "of": self._of(),
            "done": self.done,
            "members": [self.active.tolist(), self.stale.tolist(), self.best_score.tolist()],
            "now": [p.detach() for p in [*self.trainable, *self._frozen()]],
            "best": self.best,
            "moments": [dict(self.optimiser.moments(p)) for p in self.trainable],
            "chance": [*(shuffle.bit_generator.state for shuffle in self.shuffles), torch.get_rng_state()],
            "history": self.history,
        }

    def _of(self) -> dict:
        """What tells one training from another."""
        rows = [[len(part) for part in parts] for parts in (self.rows.train, self.rows.validation)]
        shapes = [list(p.shape) for p in self.best]
        return {"name": self.rows.name, "seeds": self.rows.seeds, "rows": rows, "shapes": shapes} | {
            "loop": self.loop.model_dump(mode="json")
        }

    def resume(self, keep: Path) -> None:
        """Go on from the state in a file, if it holds one of this training."""
        state = checkpoint.load(keep, self._of())
        if state is None:
            return
        self.done, self.history = state["done"], state["history"]
        active, stale, score = state["members"]
        self.active, self.stale, self.best_score = np.array(active, int), np.array(stale), np.array(score)
        for p, now in zip([*self.trainable, *self._frozen()], state["now"], strict=True):
            p.data = now.to(self.device)
        self.best = [best.to(self.device) for best in state["best"]]
        for p, moments in zip(self.trainable, state["moments"], strict=True):
            self.optimiser.moments(p).update({name: value.to(self.device) for name, value in moments.items()})
        *shuffles, noise = state["chance"]
        for shuffle, chance in zip(self.shuffles, shuffles, strict=True):
            shuffle.bit_generator.state = chance
        torch.set_rng_state(noise)
        LOG.info("%s, goes on from where it was cut off", self.line())

    def finish(self) -> pd.DataFrame:
        for p, value in [*zip(self.trainable, self.best, strict=True), *self.full]:
            p.data = value
        self.module.cpu().eval()
        return pd.DataFrame(self.history)
