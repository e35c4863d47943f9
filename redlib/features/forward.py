"""One pass of texts through the layers that are asked for, shared beginnings once, pooled in fp32."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from redlib import packing
from redlib.backbone import Backbone
from redlib.features import trunk

TWO_DEPTHS = "mean_two_depths"
POOLINGS = ("mean", "mean_skip_first", "last", TWO_DEPTHS)
SHARD = 2_000  # texts that are computed, and cached, together
STRIP = 1024  # nodes of a strip of the fast trunk
GPU_BATCH = 16_384  # nodes of a batch of rows on a GPU, which small ones leave idle


@dataclass(frozen=True, order=True)
class Point:
    """Where a feature is read: hidden state `layer` (0 embeddings, -1 after the final norm), pooled over tokens.

    `mean_skip_first` leaves the first token out, except in a text of one token; `mean_two_depths` has beside the mean
    of hidden state `layer` that of the one half as deep, `layer // 2`: 2d numbers instead of d.
    """

    layer: int
    pooling: str = "mean"

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"unknown pooling {self.pooling!r}; valid poolings: {', '.join(POOLINGS)}")

    @property
    def label(self) -> str:
        """`layer-pooling`, as in names of files."""
        return f"{self.layer}-{self.pooling}"

    def layers(self, backbone: Backbone) -> tuple[int, ...]:
        """The hidden states that it is read from, counted from the embeddings."""
        layer = backbone.layer(self.layer)
        return (layer, layer // 2) if self.pooling == TWO_DEPTHS else (layer,)


@dataclass(frozen=True)
class Shard:
    """Features of n consecutive texts in packing order."""

    pooled: dict[Point, np.ndarray]  # (n, d) fp32, (n, 2d) at two depths
    states: np.ndarray | None  # (nodes, d) fp16
    paths: np.ndarray  # (tokens,) int32, nodes of this shard
    lengths: np.ndarray  # (n,)


def compute(
    backbone: Backbone, texts: Sequence[str], points: Iterable[Point], packed: bool = True
) -> dict[Point, np.ndarray]:
    """Pooled features {point: (N, d) fp32, (N, 2d) at two depths} of N texts, in their order, without a cache.

    `packed=False` is the plain pass: texts sorted by length, each padded to the longest of its batch.
    """
    points = list(dict.fromkeys(points))
    distinct, places = packing.sort(backbone.encode(texts), tree=packed)
    done = [shard.pooled for shard in shards(backbone, distinct, points, packed=packed)]
    return {point: np.concatenate([pooled[point] for pooled in done])[places] for point in points}


def shards(
    backbone: Backbone,
    distinct: Sequence[Sequence[int]],
    points: Sequence[Point],
    states_layer: int | None = None,
    packed: bool = True,
    skip: int = 0,
) -> Iterator[Shard]:
    """Features of distinct texts in packing order (`packing.sort`), shard by shard, without the first `skip` shards."""
    levels = {point: point.layers(backbone) for point in points}
    held = None if states_layer is None else backbone.layer(states_layer)
    layers = {layer for read in levels.values() for layer in read} | ({held} - {None})
    fast = packed and trunk.supports(backbone)
    run = trunk.Trunk(backbone, max(layers)).run if fast else _modules(backbone)

    def part(item: tuple[packing.Forest, int, int]) -> tuple[dict[Point, Tensor], Tensor | None]:
        forest, first, stop = item
        batch = forest.batch(first, stop)
        kept = run(batch, layers)
        means = {p: [_pool(kept[layer].float(), batch, p.pooling) for layer in read] for p, read in levels.items()}
        pooled = {point: torch.cat(each, -1) for point, each in means.items()}
        return pooled, None if held is None else _half(kept[held][batch.real], held)

    forests: deque[packing.Forest] = deque()  # of the shards under way

    def groups() -> Iterator[list[tuple[packing.Forest, int, int]]]:
        for start in range(skip * SHARD, len(distinct), SHARD):
            texts = distinct[start : start + SHARD]
            width = STRIP if fast else packing.WIDTH
            forests.append(packing.pack(texts, width) if packed else packing.plain(texts))
            yield [(forests[-1], *rows) for rows in forests[-1].cut(STRIP if fast else _nodes(backbone.device))]

    with contextlib.closing(parallel(part, groups(), backbone.device)) as computed:
        for parts in computed:
            forest = forests.popleft()
            yield Shard(
                pooled={point: torch.cat([pooled[point] for pooled, _ in parts]).cpu().numpy() for point in points},
                states=None if held is None else torch.cat([states for _, states in parts]).numpy(),
                paths=forest.paths,
                lengths=np.diff(forest.offsets),
            )


def settings(backbone: Backbone, packed: bool) -> list[Any]:
    """What of this pass changes the numbers (in their last digits): part of a cache key."""
    batch = _nodes(backbone.device)
    return [packing.VERSION, packed, packed and trunk.supports(backbone), SHARD, STRIP, packing.WIDTH, batch]


def _nodes(device: torch.device) -> int:
    """Nodes of a batch of rows that the decoder's own layers take at a time."""
    return packing.BATCH if device.type == "cpu" else GPU_BATCH


def _modules(backbone: Backbone) -> Callable[[packing.Batch, set[int]], dict[int, Tensor]]:
    """A pass through the decoder's own layers."""
    device = backbone.device

    def run(batch: packing.Batch, layers: set[int]) -> dict[int, Tensor]:
        mask = batch.mask
        mask = None if mask is None else sent(mask, device)
        return backbone.run(sent(batch.ids, device), mask, sent(batch.depths, device), keep=layers)

    return run


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of any shape on a device; to a GPU from pinned memory, so that nobody waits for the copy."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def parallel(work: Callable[[Any], Any], groups: Iterable[Iterable[Any]], device: torch.device) -> Iterator[list[Any]]:
    """Work done on every item, group after group, in order; on a CPU an item has one thread and all cores have items.

    Threads that share no item never wait for each other, and what an item needs stays in its core's cache. While a
    group is waited for, the next one is under way, so that no core idles at its end.
    """
    work = torch.no_grad()(work)
    threads = torch.get_num_threads()
    if device.type != "cpu" or threads == 1:
        yield from ([work(item) for item in group] for group in groups)
        return
    torch.set_num_threads(1)  # also for MKL, whose setting is shared by all threads
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        under_way: deque[list[Future]] = deque()
        for group in groups:
            under_way.append([pool.submit(work, item) for item in group])
            if len(under_way) > 1:
                yield [future.result() for future in under_way.popleft()]
        while under_way:
            yield [future.result() for future in under_way.popleft()]
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def _pool(states: Tensor, batch: packing.Batch, pooling: str) -> Tensor:
    """States (B, W, d) to a row per text (n, d)."""
    chosen = batch.last if pooling == "last" else batch.members
    if pooling == "mean_skip_first":
        chosen = chosen & ((batch.depths > 0)[:, None] | batch.last & (batch.depths == 0)[:, None])
    weights = chosen.to(states) / chosen.sum(-1, keepdim=True).clamp(min=1).to(states)
    return (weights @ states)[batch.held]


def _half(states: Tensor, layer: int) -> Tensor:
    half = states.half().cpu()
    if not bool(torch.isfinite(half).all()):
        raise ValueError(f"hidden states of layer {layer} do not fit into fp16; read them at another layer")
    return half
