"""FLOPs of one image, closed forms: a multiplication and an addition are two; norms, softmax and the like are none."""

from collections.abc import Sequence
from itertools import pairwise

from redlib.nested.arms import kept, merged_lengths
from redlib.nested.capacity import capacities, counts
from redlib.nested.vit import EXPANSION, Shape

SCALE = 2 * (3 + 1 + 2 * EXPANSION)  # FLOPs by token, feature and model width: qkv, output, MLP


def tokenwise(shape: Shape, count: Sequence[float]) -> float:
    """Projections and MLP of one block, tokens by expert (from the smallest)."""
    return SCALE * shape.dim * sum(n * d for n, d in zip(count, shape.widths, strict=True))


def attention(shape: Shape, tokens: int) -> int:
    """Scores and sums of values of one block: no expert makes them cheaper."""
    return 4 * tokens**2 * shape.dim


def around(shape: Shape, tokens: int) -> int:
    """Stem, and the head over the tokens that are left."""
    stride = shape.patch // 2
    hidden = max(4, shape.dim // 2)
    first = 2 * (2 * stride - 1) ** 2 * hidden * (2 * shape.side) ** 2
    second = 2 * 9 * hidden * shape.dim * shape.tokens
    return first + second + 2 * shape.dim * (tokens + shape.classes)


def router(shape: Shape, experts: int) -> int:
    """One linear router over all tokens."""
    return 2 * shape.dim * experts * shape.tokens


def blocks(shape: Shape, method: str, budget: float) -> float:
    """All blocks of a method at a budget (of `merge`: tokens merged a block), routers included.

    ValueError for an unknown method names the valid ones.
    """
    N, L, E = shape.tokens, shape.layers, len(shape.shares)
    full = (0,) * (E - 1)
    if method == "plain":
        return L * (tokenwise(shape, (*full, N)) + attention(shape, N))
    if method in ("nested", "gate", "random"):
        count = counts(capacities(budget, shape.shares), N)
        return L * (tokenwise(shape, count) + attention(shape, N)) + router(shape, E)
    if method in ("grouped", "grouped_weighted"):
        count = list(counts(capacities(budget, shape.shares), N))
        matching = 2 * ((count[0] + 1) // 2) * (count[0] // 2) * shape.dim if E > 1 and count[0] > 1 else 0
        if matching:
            count[0] = (count[0] + 1) // 2
        inside = sum(attention(shape, n) for n in count)
        return L * (tokenwise(shape, count) + inside) + matching + router(shape, E)
    if method in ("drop", "depths"):
        k = kept(budget, N)
        routers = router(shape, 2) * (L if method == "depths" else 1)
        return L * (tokenwise(shape, (*full, k)) + attention(shape, k)) + routers
    if method == "merge":
        return sum(_merged(shape, *pair) for pair in _steps(shape, int(budget)))
    if method == "width":
        one = [N if share == budget else 0 for share in shape.shares]
        return L * (tokenwise(shape, one) + attention(shape, N))
    raise ValueError(
        f"unknown method {method!r}; valid methods: plain, nested, gate, random, grouped, grouped_weighted, drop, "
        "depths, merge, width"
    )


def _steps(shape: Shape, per_block: int) -> list[tuple[int, int]]:
    lengths = merged_lengths(shape.tokens, shape.layers, per_block)
    return list(pairwise(lengths))


def _merged(shape: Shape, before: int, after: int) -> float:
    """A block with `before` tokens in its attention and `after` in its MLP; matching compares averaged keys."""
    D = shape.dim
    matching = 2 * ((before + 1) // 2) * (before // 2) * (D // shape.heads) if after < before else 0
    return 2 * before * D * 4 * D + attention(shape, before) + matching + 4 * after * D * EXPANSION * D


def image(shape: Shape, method: str, budget: float = 1.0) -> float:
    """A whole forward pass of one image."""
    left = shape.tokens
    if method == "drop":
        left = kept(budget, left)
    if method == "merge":
        left = merged_lengths(left, shape.layers, int(budget))[-1]
    return around(shape, left) + blocks(shape, method, budget)


def ratio(shape: Shape, method: str, budget: float) -> float:
    """A method's FLOPs by those of the plain model of the same shape, stem and head included."""
    return image(shape, method, budget) / image(shape, "plain")


def per_block(shape: Shape, budget: float) -> int:
    """Tokens to merge a block so that the FLOPs come closest to budget times the plain model's."""
    return min(range(shape.tokens // 2 + 1), key=lambda r: abs(ratio(shape, "merge", r) - budget))
