"""A small vision transformer whose experts are nested prefixes of its features.

A token of width d reads and writes its first d features; attention is over all tokens, at the model's full width.
Where a token goes is decided once, before the first block, so tokens are sorted by expert once, every block works on
one slice an expert, and what lies beyond a token's width is not even carried along. `masked` computes the same with
masks instead (for tests, and for a gradient that tells the router what more features would be worth).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.nested.assignment import experts, gather, order, scatter, slices
from redlib.nested.capacity import SHARES, capacities, check_capacities, check_shares, counts, spent, widths

EXPANSION = 4  # hidden units of the MLP by features
GREY, SPREAD = 0.35, 0.3  # of a pixel, about


@dataclass(frozen=True)
class Shape:
    """Sizes of a model: images of `canvas` pixels a side in patches of `patch`, `dim` features, experts' `shares`.

    ValueError for an image that the patch does not divide, an odd patch, heads that do not divide the features, and
    widths that are no increasing divisors.
    """

    canvas: int = 48
    patch: int = 6
    dim: int = 64
    layers: int = 4
    heads: int = 4
    classes: int = 10
    shares: tuple[float, ...] = SHARES

    def __post_init__(self) -> None:
        if self.canvas % self.patch:
            raise ValueError(
                f"an image of {self.canvas} pixels a side cannot be cut into patches of {self.patch}; "
                f"choose a patch that divides {self.canvas}"
            )
        if self.patch % 2:
            raise ValueError(f"the stem halves the patch once, so it must be even, got {self.patch}")
        if self.dim % self.heads:
            raise ValueError(f"{self.heads} heads do not divide {self.dim} features")
        object.__setattr__(self, "shares", check_shares(self.shares))
        widths(self.dim, self.shares)

    @property
    def side(self) -> int:
        """Tokens a side."""
        return self.canvas // self.patch

    @property
    def tokens(self) -> int:
        """Tokens of an image."""
        return self.side**2

    @property
    def widths(self) -> tuple[int, ...]:
        """Features of each expert, the smallest first."""
        return widths(self.dim, self.shares)


@dataclass(frozen=True, eq=False)
class Route:
    """Where the tokens of a batch go: `order` (B, N), `counts` (E,), the router's probabilities `p` (B, N, E)."""

    order: Tensor
    counts: tuple[int, ...]
    p: Tensor

    @property
    def experts(self) -> Tensor:
        """Expert of every token, 0 the smallest: (B, N)."""
        return experts(self.order, self.counts)

    @property
    def weight(self) -> Tensor:
        """Probability of the expert that each token went to, (B, N, 1)."""
        return self.p.gather(2, self.experts[..., None])


class Block(nn.Module):
    """Attention and MLP on nested widths; `gain` is the weight of the router's probability on the MLP's output."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, EXPANSION * dim), nn.Linear(EXPANSION * dim, dim)
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, parts: list[Tensor], weights: list[Tensor], joint: bool = True) -> list[Tensor]:
        """parts: an expert's tokens each, (B, n_j, d_j), weights (B, n_j, 1). `joint`: attention over all of them."""
        qkv = [read(self.qkv, self.norm1, x) for x in parts]
        if joint:
            attended = self.attend(torch.cat(qkv, 1)).split([x.shape[1] for x in parts], 1)
        else:
            attended = [self.attend(x) for x in qkv]
        made = []
        for x, y, weight in zip(parts, attended, weights, strict=True):
            z = x + write(self.out, y, x.shape[2])
            more = write(self.down, F.gelu(read(self.up, self.norm2, z)), x.shape[2])
            made.append(z + (self.gain * weight + 1) * more)
        return made

    def attend(self, qkv: Tensor, bias: Tensor | None = None) -> Tensor:
        """Multi-head attention of (B, N, 3D) -> (B, N, D)."""
        B, N, _ = qkv.shape
        q, k, v = qkv.view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).reshape(B, N, -1)

    def masked(self, x: Tensor, mask: Tensor, passed: Tensor, weight: Tensor) -> Tensor:
        """The same on whole tokens x (B, N, D): `mask` (B, N, D) says which features a token has, `passed` (the same
        numbers, perhaps with a gradient) multiplies what is written."""
        y = self.attend(self.qkv(masked_norm(self.norm1, x, mask)))
        z = x + self.out(y) * passed
        more = self.down(F.gelu(self.up(masked_norm(self.norm2, z, mask))))
        return z + (self.gain * weight + 1) * more * passed


def read(linear: nn.Linear, norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """The input projection's first d rows on the normalised d features of x (B, n, d), at full output width."""
    d = x.shape[2]
    h = F.layer_norm(x, (d,), norm.weight[:d], norm.bias[:d], norm.eps)
    return F.linear(h, linear.weight[:, :d], linear.bias)


def write(linear: nn.Linear, y: Tensor, d: int) -> Tensor:
    """The output projection's first d columns, of y (B, n, m) at full input width: (B, n, d)."""
    return F.linear(y, linear.weight[:d], linear.bias[:d])


def masked_norm(norm: nn.LayerNorm, x: Tensor, mask: Tensor) -> Tensor:
    """Layer norm of x (B, N, D) over the features that the mask (B, N, D) keeps; the others become zero."""
    n = mask.sum(-1, keepdim=True)
    centred = (x - (x * mask).sum(-1, keepdim=True) / n) * mask
    scale = ((centred**2).sum(-1, keepdim=True) / n + norm.eps).rsqrt()
    return (centred * scale * norm.weight + norm.bias) * mask


class Stem(nn.Module):
    """Two overlapping convolutions from pixels to tokens, (B, canvas, canvas) -> (B, N, D); a linear patch learns too
    little from a few thousand images."""

    def __init__(self, shape: Shape):
        super().__init__()
        stride = shape.patch // 2
        self.first = nn.Conv2d(1, max(4, shape.dim // 2), 2 * stride - 1, stride, stride - 1)
        self.second = nn.Conv2d(self.first.out_channels, shape.dim, 3, 2, 1)
        self.norm = nn.LayerNorm(shape.dim)  # so that what is seen weighs as much as where it is
        self.place = nn.Parameter(0.7 * places(shape.side, shape.dim))

    def forward(self, images: Tensor) -> Tensor:
        seen = self.second(F.gelu(self.first((images[:, None] - GREY) / SPREAD)))
        return self.norm(seen.flatten(2).transpose(1, 2)) + self.place


def places(side: int, dim: int) -> Tensor:
    """Where a token is, (side * side, dim): sines and cosines of row and column, dealt out so that every prefix of the
    features has some of all."""
    at = torch.arange(side).float()
    waves = torch.arange(1, dim // 4 + 2) * (torch.pi / (2 * side)) * 1.5
    angles = at[:, None] * waves  # (side, waves)
    kinds = [f(angles)[:, None].expand(-1, side, -1) for f in (torch.sin, torch.cos)]
    kinds = [kind for f in kinds for kind in (f, f.transpose(0, 1))]
    return torch.stack(kinds, -1).reshape(side * side, -1)[:, :dim].clone()


class NestedViT(nn.Module):
    """Images (B, canvas, canvas) in [0, 1] to logits (B, classes) under a budget; budget 1 with gain 0 is a plain ViT.

    Tokens after the last norm are averaged with weights that one linear map gives them, and go to a linear head.
    """

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.stem = Stem(shape)
        self.router = nn.Linear(shape.dim, len(shape.shares))
        self.blocks = nn.ModuleList(Block(shape.dim, shape.heads) for _ in range(shape.layers))
        self.norm, self.head = nn.LayerNorm(shape.dim), nn.Linear(shape.dim, shape.classes)
        self.pool = nn.Linear(shape.dim, 1)

    def counts(self, budget: float | Sequence[float]) -> tuple[int, ...]:
        """Tokens of each expert, from the smallest, for a budget or for capacities; ValueError as `capacities`."""
        shares = self.shape.shares
        given = capacities(budget, shares) if isinstance(budget, int | float) else check_capacities(budget, shares)
        return counts(given, self.shape.tokens)

    def spent(self, budget: float) -> float:
        """The budget that whole tokens really use."""
        return spent(self.counts(budget), self.shape.shares)

    def route(self, x: Tensor, budget: float | Sequence[float], scores: Tensor | None = None) -> Route:
        """Router probabilities and places of tokens x (B, N, D); `scores` (B, N, E) decide instead of the router."""
        p = self.router(x).softmax(-1)
        count = self.counts(budget)
        return Route(order(p if scores is None else scores, count), count, p)

    def forward(self, images: Tensor, budget: float | Sequence[float] = 1.0, scores: Tensor | None = None) -> Tensor:
        x = self.stem(images)
        return self.classify(self.encode(x, self.route(x, budget, scores)))

    def plain(self, images: Tensor) -> Tensor:
        """Without a router: every token of images (B, canvas, canvas) at full width, logits (B, classes)."""
        parts, none = [self.stem(images)], [self.head.bias.new_zeros(())]
        for block in self.blocks:
            parts = block(parts, none)
        return self.classify(parts[0])

    def encode(self, x: Tensor, route: Route) -> Tensor:
        """Tokens x (B, N, D) after all blocks, in the order of the route: gathered by expert once, a slice each."""
        ordered, p = gather(x, route.order), gather(route.p, route.order)
        parts, weights = [], []
        for j, first, last in slices(route.counts):
            parts.append(ordered[:, first:last, : self.shape.widths[j]])
            weights.append(p[:, first:last, j : j + 1])
        for block in self.blocks:
            parts = block(parts, weights)
        whole = ordered.split([part.shape[1] for part in parts], 1)
        return torch.cat(
            [torch.cat([part, rest[..., part.shape[2] :]], 2) for part, rest in zip(parts, whole, strict=True)], 1
        )

    def tokens(self, images: Tensor, budget: float | Sequence[float]) -> Tensor:
        """Tokens after all blocks in their own places, (B, N, D)."""
        x = self.stem(images)
        route = self.route(x, budget)
        return scatter(self.encode(x, route), route.order)

    def classify(self, x: Tensor, size: Tensor | None = None) -> Tensor:
        """Tokens (B, N, D), in any order, to logits (B, classes); `size` (B, N, 1): how much each counts for."""
        h = self.norm(x)
        scores = self.pool(h) if size is None else self.pool(h) + size.log()
        return self.head((scores.softmax(1) * h).sum(1))

    def masked(
        self, images: Tensor, budget: float | Sequence[float], scores: Tensor | None = None, straight: bool = False
    ) -> Tensor:
        """The same logits (B, classes) with masks instead of slices. `straight`: what is written passes a
        straight-through mask, whose gradient is that of the probability that a token is at least so wide. There the
        router's scores are centred over the tokens of a picture: more width would help every token, and which of them
        most is the question.
        """
        x = self.stem(images)
        route = self.route(x, budget, scores)
        has = (torch.tensor(self.shape.widths)[:, None] > torch.arange(self.shape.dim)).to(x)  # (E, D)
        mask = has[route.experts]
        passed = mask
        if straight:
            logits = self.router(x)
            soft = (logits - logits.mean(1, keepdim=True)).softmax(-1) @ has
            passed = mask + soft - soft.detach()
        for block in self.blocks:
            x = block.masked(x, mask, passed, route.weight)
        return self.classify(x)
