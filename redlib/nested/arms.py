"""What nested experts are compared with, all on the same blocks: dropped, skipped, merged and grouped tokens."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from redlib.nested.assignment import gather, slices
from redlib.nested.vit import NestedViT, Route, Shape


def kept(budget: float, tokens: int) -> int:
    """Tokens that go through a block when the others are left out; ValueError unless 0 < budget <= 1."""
    if not 0 < budget <= 1:
        raise ValueError(f"a share of tokens must lie above 0 and at most at 1, got {budget:g}")
    return max(1, int(budget * tokens + 1e-9))


class Dropping(NestedViT):
    """Top-k tokens by the router's first expert go on, the others are gone (as in DynamicViT, at one place)."""

    def __init__(self, shape: Shape):
        super().__init__(shape)
        self.router = nn.Linear(shape.dim, 2)

    def forward(self, images: Tensor, budget: float = 1.0, scores: Tensor | None = None) -> Tensor:
        x = self.stem(images)
        p = self.router(x).softmax(-1)[..., 1]  # (B, N)
        best = (p if scores is None else scores[..., -1]).topk(kept(budget, x.shape[1]), 1).indices
        parts, weights = [gather(x, best)], [gather(p[..., None], best)]
        for block in self.blocks:
            parts = block(parts, weights)
        return self.classify(parts[0])


class Depths(NestedViT):
    """Mixture-of-Depths: each block has a router of its own; what it leaves out skips that block (widths 0 and D).

    A block's router weighs all that the block adds by twice its probability, so that one that knows nothing (all
    probabilities 1/2, as at the start) changes nothing.
    """

    def __init__(self, shape: Shape):
        super().__init__(shape)
        self.router = nn.ModuleList(nn.Linear(shape.dim, 2) for _ in range(shape.layers))
        for router in self.router:
            nn.init.zeros_(router.weight)
            nn.init.zeros_(router.bias)

    def forward(self, images: Tensor, budget: float = 1.0) -> Tensor:
        x = self.stem(images)
        k = kept(budget, x.shape[1])
        for block, router in zip(self.blocks, self.router, strict=True):
            p = router(x).softmax(-1)[..., 1:]  # (B, N, 1)
            best = p[..., 0].topk(k, 1).indices
            old, weight = gather(x, best), gather(p, best)
            new = block([old], [weight])[0]
            place = best[..., None].expand(-1, -1, x.shape[2])
            x = x.scatter(1, place, old + 2 * weight * (new - old))
        return self.classify(x)


class Grouped(NestedViT):
    """The nested document's variant: attention inside each expert's tokens only, those of the smallest merged in pairs.

    `outputs`: `concatenated` gives every place its token back and averages, `weighted` averages by the probability of
    the expert that a token went to.
    """

    def __init__(self, shape: Shape, outputs: str = "concatenated"):
        super().__init__(shape)
        if outputs not in ("concatenated", "weighted"):
            raise ValueError(f"unknown outputs {outputs!r}; valid outputs: concatenated, weighted")
        self.outputs = outputs

    def forward(self, images: Tensor, budget: float | Sequence[float] = 1.0, scores: Tensor | None = None) -> Tensor:
        x = self.stem(images)
        route = self.route(x, budget, scores)
        encoded = self.encode(x, route)
        if self.outputs == "concatenated":
            return self.classify(encoded)
        return self.classify(encoded, gather(route.weight, route.order))

    def encode(self, x: Tensor, route: Route) -> Tensor:
        ordered, p = gather(x, route.order), gather(route.p, route.order)
        made = []
        for j, first, last in slices(route.counts):
            d, mine, w = self.shape.widths[j], ordered[:, first:last], p[:, first:last, j : j + 1]
            pairs = pair_up(mine) if self.merges(j, last - first) else None
            part, w = (mine, w) if pairs is None else (merge(mine, pairs), merge(w, pairs))
            part, w = [part[..., :d]], [w]
            for block in self.blocks:
                part = block(part, w, joint=False)
            done = part[0] if pairs is None else unmerge(part[0], pairs)
            made.append(torch.cat([done, mine[..., d:]], 2))
        return torch.cat(made, 1)

    def merges(self, expert: int, count: int) -> bool:
        """Only the smallest of several experts' tokens are merged, and only if there are two."""
        return expert == 0 and len(self.shape.shares) > 1 and count > 1


# ---- merging -----------------------------------------------------------------------------------------------------


def pair_up(x: Tensor, most: int | None = None) -> Tensor:
    """Bipartite matching (ToMe) of tokens x (B, n, D): where each goes among those that stay, (B, n) indices.

    Tokens at odd places are the candidates to go, those at even places stay; each candidate's best partner is the most
    similar one that stays, and the `most` candidates (default: all) with the best partners go.
    """
    n = x.shape[1]
    unit = torch.nn.functional.normalize(x.detach(), dim=-1)
    stay, leave = unit[:, ::2], unit[:, 1::2]
    best, partner = (leave @ stay.transpose(1, 2)).max(-1)  # (B, n // 2)
    going = torch.zeros_like(best, dtype=torch.bool)
    going = going.scatter(1, best.topk(min(most if most is not None else n, best.shape[1]), 1).indices, True)
    place = stay.shape[1] - 1 + (~going).cumsum(1)  # candidates that do not go, after those that stay
    target = torch.empty(x.shape[:2], dtype=torch.long)
    target[:, ::2] = torch.arange(stay.shape[1])
    target[:, 1::2] = torch.where(going, partner, place)
    return target


def merge(x: Tensor, target: Tensor, size: Tensor | None = None) -> Tensor:
    """Mean (by `size` (B, n, 1), default 1) of the tokens x (B, n, D) that go to the same place, (B, m, D)."""
    size = torch.ones_like(x[..., :1]) if size is None else size
    return add_up(x * size, target) / add_up(size, target)


def add_up(x: Tensor, target: Tensor) -> Tensor:
    """Sum of the tokens x (B, n, D) that go to the same of m places, (B, m, D); target (B, n): which."""
    places = int(target.max()) + 1
    return x.new_zeros(len(x), places, x.shape[2]).scatter_add(1, target[..., None].expand_as(x), x)


def unmerge(x: Tensor, target: Tensor) -> Tensor:
    """Every place gets the token that it went to, (B, n, D)."""
    return gather(x, target)


@torch.no_grad()
def merging(model: NestedViT, images: Tensor, per_block: int) -> Tensor:
    """Logits (B, classes) of images (B, canvas, canvas) by a plain model whose tokens are merged between attention and
    MLP of every block, without training (ToMe): at most `per_block` a block, attention weighted by how many tokens one
    stands for."""
    x = model.stem(images)
    size = torch.ones_like(x[..., :1])
    for block in model.blocks:
        qkv = block.qkv(block.norm1(x))
        x = x + block.out(block.attend(qkv, size.log().transpose(1, 2)[:, None]))
        if min(per_block, x.shape[1] // 2):
            keys = qkv.view(*x.shape[:2], 3, block.heads, -1)[:, :, 1].mean(2)
            target = pair_up(keys, per_block)
            x, size = merge(x, target, size), add_up(size, target)
        x = x + block.down(torch.nn.functional.gelu(block.up(block.norm2(x))))
    return model.classify(x, size)


def merged_lengths(tokens: int, layers: int, per_block: int) -> list[int]:
    """Tokens before the first block and after the merging of every block."""
    found = [tokens]
    for _ in range(layers):
        found.append(found[-1] - min(per_block, found[-1] // 2))
    return found


ARMS: dict[str, Callable[[Shape], NestedViT]] = {
    "nested": NestedViT,
    "gate": NestedViT,
    "random": NestedViT,
    "grouped": Grouped,
    "drop": Dropping,
    "depths": Depths,
    "grouped_weighted": partial(Grouped, outputs="weighted"),
}
