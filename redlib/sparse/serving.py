"""Speed and memory as serving benchmarks define them, and the serving document's own way beside it.

B requests of equal length are answered together, each with a fixed number of new tokens (an end of text is ignored);
the first token comes out of the prompt's pass, every further one out of a step over one token.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import pandas as pd
import psutil
import torch
from torch import Tensor, nn

from redlib.cost.memory import measure
from redlib.sparse.designs import Design
from redlib.sparse.models import Alchemist, advance, stored_bytes

Clock = Callable[[], float]
PRICE = 0.526  # per hour of the machine; that which the serving document's table implies. Set your own.
PROTOCOLS = ("serving", "source")
SOURCE_PROMPTS, SOURCE_TOKENS = 10, 16  # of the serving document's benchmark
MEASURED = {  # metric -> unit
    "ttft_ms": "ms",
    "itl_ms": "ms",
    "e2e_ms": "ms",
    "user_tokens_per_second": "1/s",
    "system_tokens_per_second": "1/s",
    "prefill_tokens_per_second": "1/s",
}


@dataclass(frozen=True)
class Answered:
    """When the tokens of `batch` requests of `prompt` tokens came out: seconds after they were sent, one a token."""

    batch: int
    prompt: int
    times: tuple[float, ...]

    def metrics(self) -> dict[str, float]:
        """Every metric of MEASURED.

        ttft: time to first token. itl: mean time between tokens after it. e2e: time to the last token. user tokens per
        second: 1 / itl. system: all new tokens over e2e. prefill: prompt tokens over ttft. One new token has no itl.
        """
        first, last, new = self.times[0], self.times[-1], len(self.times)
        found = {"ttft_ms": 1e3 * first, "e2e_ms": 1e3 * last}
        found |= {"system_tokens_per_second": self.batch * new / last}
        found |= {"prefill_tokens_per_second": self.batch * self.prompt / first}
        if new > 1:
            step = (last - first) / (new - 1)
            found |= {"itl_ms": 1e3 * step, "user_tokens_per_second": 1 / step}
        return found


@torch.no_grad()
def answer(model: nn.Module, ids: Tensor, new: int, cache: bool = True, clock: Clock = perf_counter) -> Answered:
    """Answer the prompts ids (B, T) with `new` tokens each, greedily; without a cache every step reads all again.

    ValueError where prompt and answer do not fit the model's context.
    """
    batch, prompt = ids.shape
    context = model.config.max_position_embeddings
    if new < 1:
        raise ValueError(f"new tokens must be at least 1, got {new}")
    if prompt + new > context:
        raise ValueError(f"{prompt} tokens and {new} new ones do not fit a context of {context}")
    begin, times, state, given = clock(), [], None, ids
    for _ in range(new):
        logits, state = advance(model, given, state, cache)
        token = logits.argmax(-1, keepdim=True)
        times.append(clock() - begin)
        given = token if cache else torch.cat([given, token], 1)
    return Answered(batch, prompt, tuple(times))


def check_fits(name: str, design: Design, batch: int, length: int, available: int | None = None) -> None:
    """ValueError, before anything is allocated, where serving needs more bytes than there are (default: now free)."""
    there = psutil.virtual_memory().available if available is None else available
    needed = design.needed_bytes(batch, length)
    if needed > there:
        raise ValueError(
            f"{name} with a batch of {batch} and {length} tokens needs about {needed / 1e9:.2f} GB and "
            f"{there / 1e9:.2f} GB are free; take a smaller batch or shorter texts"
        )


def in_turns(cases: Mapping[str, Callable[[], dict[str, float]]], repeats: int) -> pd.DataFrame:
    """Every case once to warm up, then `repeats` times in turn: columns case, repeat, metric, value."""
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    lines = []
    for turn in range(repeats + 1):
        for name, case in cases.items():
            found = case()
            if turn:
                lines += [(name, turn, metric, value) for metric, value in found.items()]
    return pd.DataFrame(lines, columns=["case", "repeat", "metric", "value"])


def spread(turns: pd.DataFrame) -> pd.DataFrame:
    """Median of the repeats with the smallest and the largest as low and high, n repeats: one row a case and metric."""
    grouped = turns.groupby(["case", "metric"], sort=False)["value"]
    return grouped.agg(value="median", low="min", high="max", n="size").reset_index()


def ratios(turns: pd.DataFrame, metric: str, against: str) -> pd.DataFrame:
    """Each case's metric over that of the case `against`, turn by turn, then as `spread`."""
    wide = turns[turns["metric"] == metric].pivot(index="repeat", columns="case", values="value")
    over = wide.div(wide[against], axis=0).drop(columns=against)
    long = over.reset_index().melt("repeat", var_name="case").assign(metric=f"{metric}_over_{against}")
    return spread(long)


def memory(model: nn.Module, ids: Tensor, new: int) -> dict[str, float]:
    """Bytes of weights, of the cache at the end, and of the largest working set beside them (activations) of serving
    ids (B, T), counted tensor by tensor."""
    held: dict[str, Any] = {}

    @torch.no_grad()
    def step() -> None:
        state, given = None, ids
        for _ in range(min(new, 2)):
            logits, state = advance(model, given, state)
            given = logits.argmax(-1, keepdim=True)
        held["cache"] = _cache_bytes(state)

    used = measure([*model.parameters(), *model.buffers()], step, None)
    cache = held["cache"] * (ids.shape[1] + new - 1) / (ids.shape[1] + min(new, 2) - 1)
    weights = stored_bytes(model)
    return {"weights": weights, "cache": cache, "activations": max(0.0, used.working - held["cache"])}


def _cache_bytes(state: Any) -> int:
    caches = state.caches if hasattr(state, "caches") else [state]
    layers = [layer for cache in caches if cache is not None for layer in cache.layers]
    return sum(t.numel() * t.element_size() for layer in layers for t in (layer.keys, layer.values))


def cost_per_million(tokens_per_second: float, price: float = PRICE) -> float:
    """The price of a million tokens: price per hour / 3600 / tokens per second * 1e6.

    ValueError for a price or a rate that is not positive.
    """
    if not price > 0:
        raise ValueError(f"a price per hour must be positive, got {price}")
    if not tokens_per_second > 0:
        raise ValueError(f"tokens per second must be positive, got {tokens_per_second}")
    return price / 3600 / tokens_per_second * 1e6


@torch.no_grad()
def source_protocol(model: nn.Module, prompts: Sequence[Tensor], clock: Clock = perf_counter) -> dict[str, float]:
    """Numbers as the serving document's table can be read: one pass over each prompt (1, T), no warm-up, all
    specialists run.

    tokens_per_second counts the prompt's tokens, which are read and not written; first_token_ms is the first pass of
    all; memory_bytes are the weights. The document gives no code: throughput times latency of its table is about one
    prompt of 16 tokens, which is what a single pass would give.
    """
    threshold = getattr(model, "threshold", None)
    if isinstance(model, Alchemist):
        model.threshold = 0.0
    try:
        taken = []
        for ids in prompts:
            begin = clock()
            advance(model, ids, cache=False)
            taken.append(clock() - begin)
    finally:
        if isinstance(model, Alchemist):
            model.threshold = threshold
    tokens = sum(ids.numel() for ids in prompts)
    found = {"tokens_per_second": tokens / sum(taken), "first_token_ms": 1e3 * taken[0]}
    return found | {"memory_bytes": stored_bytes(model)}


def run(model: nn.Module, ids: Tensor, new: int, protocol: str = "serving", clock: Clock = perf_counter) -> dict:
    """The metrics of one run under a protocol of PROTOCOLS; `source` reads the first rows of ids (B, T), 16 tokens
    of each.

    ValueError for another protocol.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}; valid protocols: {', '.join(PROTOCOLS)}")
    if protocol == "serving":
        return answer(model, ids, new, clock=clock).metrics()
    rows = ids[:SOURCE_PROMPTS, :SOURCE_TOKENS]
    return source_protocol(model, [row[None] for row in rows], clock)
