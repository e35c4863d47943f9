"""Expert Preferred Routing: from the largest expert down, each takes the tokens that are most probably its own.

An order holds the tokens of one image, those of the largest expert first, so that every expert's are one slice of it.
Nothing here looks from one image of a batch at another.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def order(p: Tensor, count: Sequence[int]) -> Tensor:
    """Tokens by expert, the largest expert's first: (B, N) indices.

    p (B, N, E): router probabilities, experts from the smallest; count (E,): tokens of each. From the largest expert
    down, each takes the unassigned tokens with its highest probabilities; the smallest takes the rest, in their order.
    """
    free = torch.ones(p.shape[:2], dtype=torch.bool)
    taken = []
    for j in range(p.shape[2] - 1, 0, -1):
        if count[j]:
            mine = p[..., j].masked_fill(~free, -torch.inf).topk(count[j], dim=1).indices
            free = free.scatter(1, mine, False)
            taken.append(mine)
    if count[0]:
        taken.append(free.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices[:, : count[0]])
    return torch.cat(taken, 1)


def slices(count: Sequence[int]) -> list[tuple[int, int, int]]:
    """(expert, first, last + 1) in an order, experts with tokens only, from the largest."""
    found, first = [], 0
    for j in reversed(range(len(count))):
        if count[j]:
            found.append((j, first, first + count[j]))
            first += count[j]
    return found


def experts(found: Tensor, count: Sequence[int]) -> Tensor:
    """Expert of every token in its own place, (B, N), from an order (B, N)."""
    sorted_ = torch.cat([torch.full((last - first,), j) for j, first, last in slices(count)])
    return torch.empty_like(found).scatter(1, found, sorted_.expand_as(found))


def gather(x: Tensor, found: Tensor) -> Tensor:
    """Tokens x (B, N, D) in an order (B, n)."""
    return x.gather(1, found[..., None].expand(-1, -1, x.shape[2]))


def scatter(x: Tensor, found: Tensor) -> Tensor:
    """Tokens x (B, N, D) from an order (B, N) back to their own places."""
    return torch.empty_like(x).scatter(1, found[..., None].expand_as(x), x)
