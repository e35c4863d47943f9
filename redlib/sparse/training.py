"""How the compared models are trained: equally many tokens of the same documents in the same order for every one.

Unlike the study's probes and experts they are trained on token streams for a fixed number of steps, with no early stop:
equal tokens is the comparison.
"""

import time

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from redlib.sparse.corpus import Corpus
from redlib.sparse.models import Alchemist

WARM = 0.1  # of the steps, in which the learning rate rises
CHUNK = 256  # documents scored at a time


def train(
    model: nn.Module, corpus: Corpus, steps: int, batch: int, lr: float, balance: float, seed: int, every: int = 50
) -> pd.DataFrame:
    """Train in place with AdamW; returns the history: step, tokens (seen so far), loss (mean since the last line),
    balance (the load-balance term, 1 where all experts are used alike, NaN without experts), seconds.

    `balance` weighs that term. The documents of every step depend on `seed` alone. FloatingPointError for a loss that
    is not finite, ValueError for fewer documents than a batch.
    """
    if len(corpus) < batch:
        raise ValueError(f"a batch of {batch} documents was asked for, and the corpus has {len(corpus)}")
    rng = np.random.default_rng([11, seed])
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1, betas=(0.9, 0.95), fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    model.train()
    history, since, seen, begin = [], [], 0, time.perf_counter()
    for step in range(1, steps + 1):
        some = corpus.batch(rng.choice(len(corpus), batch, replace=False))
        optimiser.zero_grad(set_to_none=True)
        since.append(_backward(model, some, balance))
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        seen += int(some.lengths.sum())
        if step % every == 0 or step == steps:
            mean = np.mean(since, axis=0)
            if not np.isfinite(mean[0]):
                raise FloatingPointError(f"the loss is not finite after {step} steps; lower the learning rate")
            line = {"step": step, "tokens": seen, "loss": mean[0], "balance": mean[1]}
            history.append(line | {"seconds": time.perf_counter() - begin})
            since = []
    model.eval()
    return pd.DataFrame(history)


def _rate(step: int, steps: int) -> float:
    warm = max(1, int(WARM * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.1 + 0.45 * (1 + np.cos(np.pi * (step - warm) / max(1, steps - warm)))


def _backward(model: nn.Module, some: Corpus, balance: float) -> tuple[float, float]:
    """The gradient of the mean loss over a batch's completion tokens, and of the load-balance term; both are returned.

    Short documents and long ones (over half of the longest) are passed by themselves, so that little is padding.
    """
    long = (2 * some.lengths > some.lengths.max()).numpy()
    tokens, loss, terms = int(some.targets.sum()), 0.0, 0.0
    for group in (np.flatnonzero(long), np.flatnonzero(~long)):
        if len(group):
            part, term = losses(model, some.batch(group))
            share = len(group) / len(some)
            (part / tokens + (0 if term is None else balance * share * term)).backward()
            loss += part.item() / tokens
            terms += np.nan if term is None else share * term.item()
    return loss, terms


def losses(model: nn.Module, some: Corpus) -> tuple[Tensor, Tensor | None]:
    """Cross-entropy summed over the completions' tokens, and the load-balance term where experts can rest."""
    logits, term = _logits(model, some)
    wanted = some.targets
    return F.cross_entropy(logits[:, :-1][wanted], some.ids[:, 1:][wanted], reduction="sum"), term


def _logits(model: nn.Module, some: Corpus) -> tuple[Tensor, Tensor | None]:
    """Logits (B, T, V) of whole documents and the load-balance term."""
    if isinstance(model, Alchemist):
        states, chosen = model(some.ids, some.prompts)
        return model.logits(states), balance_of(chosen.scores, chosen.weights) if model.threshold else None
    config = model.config
    if not hasattr(config, "num_experts"):
        return model(some.ids, use_cache=False).logits, None
    done = model(some.ids, use_cache=False, output_router_logits=True)
    qwen3_moe = transformers.models.qwen3_moe.modeling_qwen3_moe
    k = config.num_experts_per_tok
    term = qwen3_moe.load_balancing_loss_func(done.router_logits, config.num_experts, k, some.there)
    return done.logits, term / k  # 1 where all are used alike, whatever k is


def balance_of(scores: Tensor, weights: Tensor) -> Tensor:
    """n sum_i (share of the runs that are specialist i's) (mean score of i), as for experts: 1 at equal use.

    Both (B, n); a weight of zero is no run.
    """
    runs = (weights.detach() > 0).float()
    share = runs.sum(0) / runs.sum()
    return weights.shape[1] * (share * scores.mean(0)).sum()


@torch.no_grad()
def score(model: nn.Module, corpus: Corpus) -> pd.DataFrame:
    """For each document: kind, structure, loss (sum over its completion), tokens (of it), exact (0 or 1).

    exact: every token of the completion is the likeliest one after the true ones before it, which is when greedy
    decoding writes exactly this completion. For task1 and task2 that is the right answer.
    """
    found = []
    for first in range(0, len(corpus), CHUNK):
        some = corpus.batch(np.arange(first, min(first + CHUNK, len(corpus))))
        logits, wanted = _logits(model, some)[0][:, :-1], some.targets
        right = (logits.argmax(-1) == some.ids[:, 1:]) | ~wanted
        loss = F.cross_entropy(logits.transpose(1, 2), some.ids[:, 1:], reduction="none") * wanted
        numbers = {"loss": loss.sum(1).double(), "tokens": wanted.sum(1), "exact": right.all(1).long()}
        about = some.about[["kind", "structure"]].reset_index(drop=True)
        found.append(about.assign(**{name: value.numpy() for name, value in numbers.items()}))
    return pd.concat(found, ignore_index=True)


@torch.no_grad()
def loads(model: nn.Module, corpus: Corpus, documents: int = CHUNK) -> np.ndarray:
    """The share of the choices that fall on each expert (layers, E), or on each specialist (1, n), on the first
    documents; shape (0, 0) for a dense model."""
    some = corpus.batch(np.arange(min(documents, len(corpus))))
    if isinstance(model, Alchemist):
        runs = (model.resting(model.scores(some.ids, some.prompts)) > 0).double()
        return (runs.sum(0) / runs.sum())[None].numpy()
    if not hasattr(model.config, "num_experts"):
        return np.zeros((0, 0))
    done = model(some.ids, use_cache=False, output_router_logits=True)
    there, k, E = some.there.flatten(), model.config.num_experts_per_tok, model.config.num_experts
    chosen = [logits[there].topk(k, dim=-1).indices.flatten() for logits in done.router_logits]
    return np.stack([torch.bincount(index, minlength=E).double().numpy() / len(index) for index in chosen])
