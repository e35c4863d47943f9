"""Where the time of a step goes: attention, router, dispatch, expert products, and the rest.

Modules are timed from outside while the model serves. What an expert part spends beyond its products (sorting tokens to
experts, gathering their rows, adding the results up) is dispatch: the same products are timed by themselves, on rows
that already lie together. Seconds are those of this process on its cores, so that another one does not count.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.sparse.models import Alchemist
from redlib.sparse.serving import answer

PARTS = ("attention", "router", "dispatch", "products", "rest")


def time_parts(model: nn.Module, ids: Tensor, new: int) -> dict[str, float]:
    """Seconds of each of PARTS while ids (B, T) are answered with `new` tokens.

    Products are those of a dense feed-forward part too. Dispatch of specialists is picking their texts and adding their
    states up.
    """
    with _timed(model) as (spent, asked):
        begin = process_time()
        answer(model, ids, new)
        whole = process_time() - begin
    found = dict.fromkeys(PARTS, 0.0) | {name: spent[name] for name in ("attention", "router")}
    if asked:
        found["products"] = _products(asked)
        found["dispatch"] = max(0.0, spent["experts"] - found["products"])
    elif isinstance(model, Alchemist):
        found["products"] = spent["feed"]
        found["dispatch"] = max(0.0, spent["alchemist"] - spent["specialists"] - spent["router"])
    else:
        found["products"] = spent["feed"]
    found["rest"] = max(0.0, whole - sum(found.values()))
    return found


@contextmanager
def _timed(model: nn.Module) -> Iterator[tuple[dict[str, float], list]]:
    spent: dict[str, float] = defaultdict(float)
    asked: list[tuple[nn.Module, Tensor, Tensor]] = []
    starts: dict[nn.Module, float] = {}
    handles = []

    def watch(module: nn.Module, part: str) -> None:
        def before(module, args, kwargs) -> None:
            if part == "experts":
                asked.append((module, args[0], args[1]))
            starts[module] = process_time()

        def after(module, args, kwargs, made) -> None:
            spent[part] += process_time() - starts[module]

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after, with_kwargs=True))

    for module, part in _parts(model):
        watch(module, part)
    try:
        yield spent, asked
    finally:
        for handle in handles:
            handle.remove()


def _parts(model: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    decoders = [model.model] if not isinstance(model, Alchemist) else list(model.specialists)
    for layer in (layer for decoder in decoders for layer in decoder.layers):
        yield layer.self_attn, "attention"
        if hasattr(layer.mlp, "experts"):
            yield layer.mlp.gate, "router"
            yield layer.mlp.experts, "experts"
        else:
            yield layer.mlp, "feed"
    if isinstance(model, Alchemist):
        yield model, "alchemist"
        yield model.router, "router"
        for specialist in decoders:
            yield specialist, "specialists"


@torch.no_grad()
def _products(asked: list[tuple[nn.Module, Tensor, Tensor]]) -> float:
    """Seconds of the same expert products on rows that lie together already."""
    prepared = []
    for experts, states, chosen in asked:
        for index, count in zip(*(t.tolist() for t in chosen.unique(return_counts=True)), strict=True):
            rows = states.new_ones(count, states.shape[-1])
            prepared.append((rows, experts.gate_up_proj[index], experts.down_proj[index], experts.act_fn))
    begin = process_time()
    for rows, up_weights, down_weights, activation in prepared:
        gate, up = F.linear(rows, up_weights).chunk(2, dim=-1)
        F.linear(activation(gate) * up, down_weights)
    return process_time() - begin
