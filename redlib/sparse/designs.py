"""The models that are compared, as numbers: shapes, and parameters and FLOPs in closed form.

One family: L layers of width d, attention of 4 heads with 2 shared key-value heads, a feed-forward part of 2d units.
Attention is then half as large as the feed-forward part, so that four experts and three whole specialists have the
same total, and one dense model can be equal to both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

HEADS, KV_HEADS = 4, 2
KINDS = ("dense", "experts", "specialists")
ONLY_LARGEST = 0.5  # no two of several weights that sum to one lie above it


@dataclass(frozen=True)
class Design:
    """A decoder by its numbers. kind `experts`: every layer has a router over feed-forward experts for each token;
    `specialists`: a router over whole decoders for each text, of which those under `threshold` rest.

    `inner`: feed-forward units of the dense part or of one expert. ValueError for an unknown kind, more active experts
    than there are, a threshold outside 0..1, or a width that the heads do not divide.
    """

    kind: str
    vocabulary: int
    width: int
    layers: int
    inner: int
    experts: int = 1
    active: int = 1
    threshold: float = 0.0
    context: int = 512

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of model {self.kind!r}; valid kinds: {', '.join(KINDS)}")
        if not 1 <= self.active <= self.experts:
            raise ValueError(f"active experts must be between 1 and {self.experts}, the experts, got {self.active}")
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must be a weight between 0 and 1, got {self.threshold}")
        if self.width < 1 or self.width % (2 * HEADS):
            raise ValueError(f"width must be a multiple of {2 * HEADS}, got {self.width}")

    @property
    def head_dim(self) -> int:
        """Features of an attention head."""
        return self.width // HEADS

    @property
    def attention(self) -> int:
        """Weights of one layer's attention that a token is multiplied with."""
        return 2 * self.width * (HEADS + KV_HEADS) * self.head_dim

    @property
    def expert(self) -> int:
        """Weights of the dense feed-forward part or of one expert."""
        return 3 * self.width * self.inner

    def parameters(self, experts: int | None = None) -> int:
        """Parameters with `experts` of the experts or specialists counted (default: all); the tied embedding is counted
        once, because the head multiplies with all of it."""
        counted = self.experts if experts is None else experts
        whole = self.kind == "specialists"
        router = 0 if self.kind == "dense" else self.experts * self.width
        layer = self.attention + 2 * self.width + 2 * self.head_dim
        layer += self.expert * (1 if whole else counted) + (0 if whole else router)
        decoder = self.layers * layer + self.width
        return self.vocabulary * self.width + decoder * (counted if whole else 1) + (router if whole else 0)

    @property
    def total(self) -> int:
        """All parameters."""
        return self.parameters()

    @property
    def active_parameters(self) -> int:
        """Those that one token is multiplied with: the chosen experts, and everything that is no expert."""
        return self.parameters(self.active)

    def flops(self, tokens: int, past: int = 0) -> int:
        """FLOPs of a pass of one text over `tokens` new tokens after `past` cached ones, scored at the last token.

        A multiply-add is two; every score of every pair is computed. A router over specialists is asked once a text.
        """
        scores = 4 * HEADS * self.head_dim * tokens * (past + tokens)
        router = 2 * self.experts * self.width
        feed = self.active if self.kind == "experts" else 1
        layer = 2 * tokens * (self.attention + feed * self.expert) + scores
        layer += tokens * router if self.kind == "experts" else 0
        runs = self.active if self.kind == "specialists" else 1
        head = 2 * self.vocabulary * self.width
        return runs * self.layers * layer + head + (router if self.kind == "specialists" and not past else 0)

    def cache_bytes(self, batch: int, length: int, itemsize: int = 4) -> int:
        """Bytes of keys and values of `batch` texts of `length` tokens."""
        runs = self.active if self.kind == "specialists" else 1
        return 2 * runs * self.layers * KV_HEADS * self.head_dim * length * batch * itemsize

    def needed_bytes(self, batch: int, length: int, itemsize: int = 4) -> int:
        """An estimate from above of what serving needs: weights, cache, and a layer's activations at the prompt."""
        runs = self.active if self.kind == "specialists" else 1
        widest = max(4 * self.width, 3 * self.inner * self.active) + HEADS * length
        working = batch * length * widest * itemsize * runs + batch * self.vocabulary * itemsize
        return self.total * itemsize + self.cache_bytes(batch, length, itemsize) + working


def lineup(
    vocabulary: int,
    width: int,
    layers: int,
    experts: int = 4,
    specialists: Sequence[int] = (3, 4),
    context: int = 512,
) -> dict[str, Design]:
    """The models of one comparison by name.

    dense_a has the active parameters of the sparse ones, dense_b their total; moe_top2 has twice as many experts of
    half the size. alchemist_soft_n runs all n specialists, alchemist_sparse_n only the one with the largest weight.
    """
    dense = Design("dense", vocabulary, width, layers, 2 * width, context=context)
    made = {
        "dense_a": dense,
        "dense_b": replace(dense, inner=experts * dense.inner),
        "moe_top1": replace(dense, kind="experts", experts=experts),
        "moe_top2": replace(dense, kind="experts", experts=2 * experts, active=2, inner=width),
    }
    for n in specialists:
        soft = replace(dense, kind="specialists", experts=n, active=n)
        made[f"alchemist_soft_{n}"] = soft
        made[f"alchemist_sparse_{n}"] = replace(soft, active=1, threshold=ONLY_LARGEST)
    return made
