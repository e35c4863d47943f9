"""Bases of `red_plus`, trained once and then frozen: a small network on pooled features, light layers on token states.

Shapes: S members, B rows, T tokens, n tokens of all rows together, d hidden size of the trunk, w width of h.
"""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.models.parts import LinearBank, PooledBase

ENDINGS = ("mean", "turns")
USUAL = 16  # tokens of a text, about: what turns are divided by, so that they begin as large as a mean


class NetworkBase(nn.Module):
    """S hidden layers with GELU over standardised pooled features: (B, d) or (S, B, d) -> h (S, B, w)."""

    def __init__(self, seeds: Sequence[int], d: int, width: int):
        super().__init__()
        self.shape = {"d": d, "width": width}
        self.first = LinearBank(seeds, d, width)
        self.register_buffer("mean", torch.zeros(len(seeds), 1, d))
        self.register_buffer("scale", torch.ones(len(seeds), 1, d))

    @classmethod
    def fit(cls, seeds: Sequence[int], rows: Sequence[Tensor], width: int) -> "NetworkBase":
        """Untrained members that standardise by the rows (n, d) of each."""
        base, seen = cls(seeds, rows[0].shape[-1], width), PooledBase.fit(rows)
        base.mean, base.scale = seen.mean, seen.scale
        return base

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.first((x - self.mean) / self.scale))


class NormBank(nn.Module):
    """S layer norms: (S, n, w) -> (S, n, w)."""

    def __init__(self, members: int, width: int):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:]) * self.gain + self.bias


class LightLayer(nn.Module):
    """S pre-norm transformer layers without dropout: tokens laid end to end (S, n, w) -> (S, n, w)."""

    def __init__(self, seeds: Sequence[int], width: int, heads: int):
        super().__init__()
        self.heads = heads
        wide = [seed + 1 for seed in seeds]
        self.before, self.between = NormBank(len(seeds), width), NormBank(len(seeds), width)
        self.qkv, self.out = LinearBank(seeds, width, 3 * width), LinearBank(wide, width, width)
        self.up = LinearBank([seed + 2 for seed in seeds], width, 4 * width)
        self.down = LinearBank([seed + 3 for seed in seeds], 4 * width, width)

    def forward(self, x: Tensor, mask: Tensor, there: Tensor) -> Tensor:
        """mask (B, T), true at tokens; there (n,), where they lie in it, flat: each sees all tokens of its text."""
        S, (B, T), w = len(x), mask.shape, x.shape[-1]
        padded = x.new_zeros(S, B * T, 3 * w).index_copy(1, there, self.qkv(self.before(x)))
        split = padded.view(S * B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        with torch.autocast(x.device.type, enabled=False):  # a CPU's backward pass is slow in bfloat16
            seen = F.scaled_dot_product_attention(*split, attn_mask=mask.repeat(S, 1)[:, None, None])
        x = x + self.out(seen.transpose(1, 2).reshape(S, B * T, w).index_select(1, there))
        return x + self.down(F.gelu(self.up(self.between(x))))


class LightBase(nn.Module):
    """S stacks of light layers over token states: states (B, T, d), mask (B, T), true at tokens -> h (S, B, w).

    ending: `mean`, h is the mean over tokens; `turns`, every token turns each of w/2 points on circles by an angle of
    its own, and h is where they end, cos and sin of the sums. Positions are learned. No product but attention's is
    spent on padding. ValueError for heads that do not divide the width, an unknown ending, an odd width of points, and
    a text of more tokens than positions.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        d: int,
        width: int,
        layers: int,
        heads: int,
        positions: int,
        ending: str = "mean",
    ):
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        if ending not in ENDINGS:
            raise ValueError(f"unknown ending of light layers {ending!r}; valid endings: {', '.join(ENDINGS)}")
        if ending == "turns" and width % 2:
            raise ValueError(f"points on circles have two numbers each; a width of {width} is odd")
        self.shape = {"d": d, "width": width, "layers": layers, "heads": heads, "positions": positions}
        self.shape |= {"ending": ending}
        self.first = LinearBank(seeds, d, width)
        self.place = LinearBank([seed + 1 for seed in seeds], positions, width, bias=False)
        self.layers = nn.ModuleList(
            LightLayer([seed + 10 * (number + 1) for seed in seeds], width, heads) for number in range(layers)
        )
        self.last = NormBank(len(seeds), width)
        self.turn = LinearBank(seeds, width, width // 2, bias=False, zero=True) if ending == "turns" else None

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        *_, x = self._streams(states, mask)
        return self._end(x, mask)

    def each(self, states: Tensor, mask: Tensor) -> list[Tensor]:
        """Means over the tokens (S, B, w) of what enters the layers and of what every layer leaves; last h."""
        *before, x = self._streams(states, mask)
        return [*(_mean_by_row(one, mask) for one in before), self._end(x, mask)]

    def matrices(self) -> list[nn.Parameter]:
        """The weights (S, n, m) of the hidden products: what Muon trains."""
        banks = (bank for layer in self.layers for bank in (layer.qkv, layer.out, layer.up, layer.down))
        return [self.first.weight, *(bank.weight for bank in banks)]

    def _end(self, x: Tensor, mask: Tensor) -> Tensor:
        """h (S, B, w) from the last norm of tokens laid end to end (S, n, w)."""
        if self.turn is None:
            return _mean_by_row(x, mask)
        with torch.autocast(x.device.type, enabled=False):  # a sum of angles is exact or it is of no use
            angles = _sum_by_row(self.turn(x.float()), mask) / USUAL
        return torch.cat([angles.cos(), angles.sin()], -1)

    def _streams(self, states: Tensor, mask: Tensor) -> Iterator[Tensor]:
        """What enters the layers, what every layer leaves, and its last norm: tokens laid end to end (S, n, w)."""
        longest, positions = mask.shape[1], self.shape["positions"]
        if longest > positions:
            raise ValueError(f"a text of {longest} tokens is longer than the {positions} positions of these layers")
        there = mask.flatten().nonzero()[:, 0]
        tokens = states.flatten(0, 1).index_select(0, there)
        x = self.first(F.layer_norm(tokens, tokens.shape[-1:])) + self.place.weight[:, there % longest]
        yield x
        for layer in self.layers:
            x = layer(x, mask, there)
            yield x
        yield self.last(x)


def _sum_by_row(x: Tensor, mask: Tensor) -> Tensor:
    """The sum over the tokens of every row, from tokens laid end to end (S, n, w): (S, B, w)."""
    row = mask.nonzero()[:, 0]
    return x.new_zeros(len(x), len(mask), x.shape[-1]).index_add(1, row, x)


def _mean_by_row(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens of every row: (S, B, w)."""
    return _sum_by_row(x, mask) / mask.sum(1)[:, None]
