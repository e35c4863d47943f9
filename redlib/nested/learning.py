"""How the models of this chapter learn: AdamW, a cosine schedule, augmented views, and a loss an arm.

The study's one loop (`redlib.training`) trains many small heads at once on fixed features and stops each by itself.
Here one network reads pictures that differ every epoch, under a budget that differs every step, and the length of
training is given: equal training FLOPs for every arm.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import config
from redlib.nested.vit import NestedViT

Loss = Callable[[nn.Module, Tensor, Tensor, np.random.Generator], Tensor]
WARM = 0.05  # share of the steps over which the learning rate rises
SHIFT = 2  # pixels
CONTRAST = 0.2


def plain(model: NestedViT, images: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
    """Every token at full width, without a router: images (B, canvas, canvas), labels (B,)."""
    return F.cross_entropy(model.plain(images), labels)


def joint(model: NestedViT, images: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
    """The nested warm start: every token at full width, and all at one smaller width, which is drawn every step; images
    (B, canvas, canvas), labels (B,)."""
    E = len(model.shape.shares)
    alone = np.eye(E)[rng.integers(max(1, E - 1))]
    return (F.cross_entropy(model.plain(images), labels) + F.cross_entropy(model(images, tuple(alone)), labels)) / 2


def adaptive(low: float, high: float = 1.0, random: bool = False) -> Loss:
    """One model for every budget: a budget is drawn each step. `random`: places are drawn by lot, too; the gate keeps
    the router's probabilities."""

    def loss(model: nn.Module, images: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
        budget = float(rng.uniform(low, high))
        logits = model(images, budget, lot(model, len(images), rng)) if random else model(images, budget)
        return F.cross_entropy(logits, labels)

    return loss


def straight(low: float, high: float = 1.0) -> Loss:
    """The router's start: whole tokens with straight-through masks, at a budget drawn each step."""

    def loss(model: NestedViT, images: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
        return F.cross_entropy(model.masked(images, float(rng.uniform(low, high)), straight=True), labels)

    return loss


def lot(model: NestedViT, images: int, rng: np.random.Generator) -> Tensor:
    """Scores that say nothing, (B, N, E)."""
    shape = (images, model.shape.tokens, len(model.shape.shares))
    return torch.from_numpy(rng.random(shape, dtype=np.float32))


def batches(views: np.ndarray, epoch: int, batch: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, np.ndarray]]:
    """Augmented pictures (b, canvas, canvas) of one epoch and their rows; views (V, n, canvas, canvas), uint8.

    Each picture is in another view every epoch; shift by batch, contrast by picture.
    """
    V, n = views.shape[:2]
    rows = rng.permutation(n)
    for first in range(0, n - min(batch, n) + 1, batch):
        mine = rows[first : first + batch]
        images = torch.from_numpy(views[(epoch + mine) % V, mine]).float() / 255
        padded = F.pad(images[:, None], (SHIFT,) * 4, mode="reflect")[:, 0]
        y, x = rng.integers(0, 2 * SHIFT + 1, 2)
        size = images.shape[1]
        contrast = torch.from_numpy(rng.uniform(1 - CONTRAST, 1 + CONTRAST, (len(mine), 1, 1))).float()
        yield padded[:, y : y + size, x : x + size] * contrast, mine


def fit(
    model: nn.Module,
    views: np.ndarray,
    labels: np.ndarray,
    loss: Loss,
    loop: config.Nested,
    epochs: float,
    seed: int,
    parameters: Sequence[nn.Parameter],
) -> list[dict]:
    """Train `parameters` in place for `epochs` (a part of one at the end); a dict an epoch: epoch, loss, seconds.

    views (V, n, canvas, canvas) uint8, labels (n,). FloatingPointError where the loss is not finite.
    """
    rng = np.random.default_rng([13, seed])
    optimiser = torch.optim.AdamW(parameters, lr=loop.lr, weight_decay=loop.weight_decay, fused=True)
    each = max(1, views.shape[1] // loop.batch)
    steps = max(1, round(epochs * each))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step, steps))
    y = torch.from_numpy(labels)
    history, done = [], 0
    model.train()
    while done < steps:
        start, total, count = time.perf_counter(), 0.0, 0
        for images, rows in batches(views, len(history), loop.batch, rng):
            optimiser.zero_grad(set_to_none=True)
            value = loss(model, images, y[rows], rng)
            value.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimiser.step()
            schedule.step()
            total, count, done = total + float(value.detach()), count + 1, done + 1
            if done == steps:
                break
        if not math.isfinite(total):
            raise FloatingPointError(f"the loss is not finite in epoch {len(history) + 1}; lower the learning rate")
        line = {"epoch": len(history) + 1, "loss": total / count, "seconds": time.perf_counter() - start}
        history.append(line)
    model.eval()
    return history


def rate(step: int, steps: int) -> float:
    """Factor of the learning rate: up in a straight line, then down along a cosine to zero."""
    warm = max(1, round(WARM * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1, steps - warm))))


@torch.no_grad()
def answer(call: Callable[[Tensor], Tensor], images: np.ndarray, chunk: int = 250) -> np.ndarray:
    """What `call` makes of pictures (n, canvas, canvas) uint8, in chunks: its results as one array."""
    parts = [call(torch.from_numpy(images[i : i + chunk]).float() / 255) for i in range(0, len(images), chunk)]
    return torch.cat(parts).numpy()
