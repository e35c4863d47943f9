"""Parts that methods are built from: banks, bases, readouts.

Shapes: N or B rows, T tokens, d hidden size, K experts, C value classes, r rank, S members. A *bank* holds S
independent copies of a part as one batched product; its parameters start with S, its output is (S, B, ...).
"""

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.expressions import LabelSpace

PERIODS = (2, 5, 10, 20, 50, 100, 200)
ADAPTERS = ("gelu", "linear")


class LinearBank(nn.Module):
    """S linear maps: (B, d_in) or (S, B, d_in) -> (S, B, d_out). Each member is drawn from its own seed."""

    def __init__(self, seeds: Sequence[int], d_in: int, d_out: int, bias: bool = True, zero: bool = False):
        super().__init__()
        self.shape = {"d_in": d_in, "d_out": d_out, "bias": bias}
        self.weight = nn.Parameter(torch.zeros(len(seeds), d_in, d_out))
        self.bias = nn.Parameter(torch.zeros(len(seeds), 1, d_out)) if bias else None
        if not zero:
            for member, seed in enumerate(seeds):
                generator = torch.Generator().manual_seed(seed)
                self.weight.data[member].normal_(0, d_in**-0.5, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class MLPBank(nn.Module):
    """S two-layer networks with GELU; `hidden=0` is a linear map. (B, d) or (S, B, d) -> (S, B, out)."""

    def __init__(self, seeds: Sequence[int], d: int, hidden: int, out: int):
        super().__init__()
        self.shape = {"d": d, "hidden": hidden, "out": out}
        self.first = LinearBank(seeds, d, hidden) if hidden else None
        self.last = LinearBank([seed + 1 for seed in seeds], hidden or d, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x if self.first is None else F.gelu(self.first(x)))


class ResidualExperts(nn.Module):
    """S low-rank residual adapters, delta = B gelu(A h), B = 0 at the start (the source, 4.4.1). -> (S, B, d).

    form: one of ADAPTERS; `linear` has no GELU, delta = B A h. ValueError for another.
    """

    def __init__(self, seeds: Sequence[int], d: int, rank: int, form: str = "gelu"):
        super().__init__()
        if form not in ADAPTERS:
            raise ValueError(f"unknown form of an adapter {form!r}; valid forms: {', '.join(ADAPTERS)}")
        self.form = form
        self.shape = {"d": d, "rank": rank} | ({} if form == "gelu" else {"form": form})
        self.down = LinearBank(seeds, d, rank, bias=False)
        self.up = LinearBank(seeds, rank, d, bias=False, zero=True)

    def forward(self, h: Tensor) -> Tensor:
        inner = self.down(h)
        return self.up(F.gelu(inner) if self.form == "gelu" else inner)


class FourierReadout(nn.Module):
    """S readouts that say a value as points on circles: (S, B, 2P) -> logits (S, B, C).

    Logits are products with a fixed codebook, cos and sin of 2 pi v / period for every value v and P periods; a learned
    gain scales each coordinate. The periods know that values are numbers, nothing else (arXiv 2406.03445, 2502.00873).
    ValueError for periods that give two values the same code.
    """

    def __init__(self, members: int, labels: LabelSpace, periods: Sequence[float] = PERIODS):
        super().__init__()
        check_periods(labels, periods)
        self.gain = nn.Parameter(torch.ones(members, 1, 2 * len(periods)))
        angle = 2 * math.pi * torch.tensor(labels.values)[:, None] / torch.tensor(periods)  # (C, P)
        self.codebook: Tensor
        self.register_buffer("codebook", torch.cat([angle.cos(), angle.sin()], 1).expand(members, -1, -1).clone())

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.gain) @ self.codebook.mT


def check_periods(labels: LabelSpace, periods: Sequence[float]) -> None:
    """ValueError for no period, one that is not above zero, or periods that give two values the same code: it names
    the first such pair."""
    if not len(periods) or min(periods) <= 0:
        raise ValueError(f"a Fourier readout needs one or more periods above zero, got {tuple(periods)}")
    apart = torch.arange(1, labels.C, dtype=torch.float64)[:, None]  # codes of v and v + k are as far apart for every v
    chord = (math.pi * apart / torch.tensor(periods, dtype=torch.float64)).sin().abs().amax(1)
    same = torch.nonzero(chord < 1e-6)  # nearer than fp32 can tell
    if len(same):
        second = labels.lo + int(same[0]) + 1
        raise ValueError(
            f"the periods {tuple(periods)} give the values {labels.lo} and {second} the same code; "
            f"together they must separate all values {labels.lo} to {labels.hi}"
        )


def check_readout(name: str, part: nn.Module, labels: LabelSpace) -> None:
    """ValueError for a part that says other values than the label space has; where ranges end is not asked."""
    said = getattr(part, "shape", {}).get("labels")
    if said and (said["lo"], said["hi"]) != (labels.lo, labels.hi):
        raise ValueError(
            f"{name} says values {said['lo']} to {said['hi']}, but the label space has {labels.lo} to {labels.hi}"
        )


class FourierBank(nn.Module):
    """S two-layer networks that end in a Fourier readout: (B, d) or (S, B, d) -> logits (S, B, C)."""

    def __init__(self, seeds: Sequence[int], d: int, hidden: int, labels: LabelSpace, periods=PERIODS):
        super().__init__()
        self.shape = {"d": d, "hidden": hidden, "labels": asdict(labels), "periods": list(periods)}
        self.net = MLPBank(seeds, d, hidden, 2 * len(periods))
        self.readout = FourierReadout(len(seeds), labels, periods)

    def forward(self, x: Tensor) -> Tensor:
        return self.readout(self.net(x))

    def by_period(self) -> tuple[Tensor, Tensor]:
        """The linear maps, one for each of P periods, that a bank without a hidden layer is the sum of: weights
        (S, P, d, C) and biases (S, P, C). ValueError for one with a hidden layer."""
        if self.net.first is not None:
            raise ValueError("a Fourier bank with a hidden layer is no sum of linear maps by period")
        pairs, last = (2, len(self.shape["periods"])), self.net.last  # cosines, then sines
        code = (self.readout.gain * self.readout.codebook).mT.unflatten(1, pairs)  # (S, 2, P, C)
        weight = torch.einsum("sdap,sapc->spdc", last.weight.unflatten(2, pairs), code)
        return weight, torch.einsum("sap,sapc->spc", last.bias[:, 0].unflatten(1, pairs), code)

    @property
    def weight(self) -> Tensor:
        """What a bank without a hidden layer multiplies h with: (S, d, C)."""
        return self.by_period()[0].sum(1)


def with_labels(bank: FourierBank, labels: LabelSpace) -> FourierBank:
    """The same trained networks, periods and gains, asked for the values of another label space: the readout has no
    weight of its own for any value. ValueError for a label space that the periods cannot separate."""
    wider = FourierBank([0] * len(bank.readout.gain), **(bank.shape | {"labels": labels}))
    wider.net.load_state_dict(bank.net.state_dict())
    wider.readout.gain.data = bank.readout.gain.data.clone()
    return wider.requires_grad_(False).eval()


class DigitBank(nn.Module):
    """S two-layer networks that say tens and units apart: (B, d) or (S, B, d) -> logits (S, B, C), for every value the
    sum of a logit of its tens (0, 1, 2, ...) and one of its units."""

    def __init__(self, seeds: Sequence[int], d: int, hidden: int, labels: LabelSpace):
        super().__init__()
        self.shape = {"d": d, "hidden": hidden, "labels": asdict(labels)}
        tens, units = torch.tensor(labels.values) // 10, torch.tensor(labels.values) % 10
        codes = torch.cat([F.one_hot(tens), F.one_hot(units, 10)], 1).float()
        self.net = MLPBank(seeds, d, hidden, codes.shape[1])
        self.codes: Tensor
        self.register_buffer("codes", codes.expand(len(seeds), -1, -1).clone())

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) @ self.codes.mT


def take(bank: nn.Module, members: Sequence[int]) -> nn.Module:
    """A copy of a bank (or pooled base) with these members, in this order; a part without members is copied whole."""
    copy = deepcopy(bank)
    for tensor in [*copy.parameters(), *copy.buffers()]:
        tensor.data = tensor.data[list(members)]
    return copy


def stack(banks: Sequence[nn.Module]) -> nn.Module:
    """One bank from several of the same shape, members in order."""
    copy = deepcopy(banks[0])
    for tensors in zip(*([*b.parameters(), *b.buffers()] for b in (copy, *banks)), strict=True):
        tensors[0].data = torch.cat([t.data for t in tensors[1:]])
    return copy


# ---- bases: what a method reads -> h (B, d) ----------------------------------------------------------------------


class PooledBase(nn.Module):
    """Frozen standardisation of pooled features (recipe `chosen`): (B, d) or (S, B, d) -> h (S, B, d)."""

    def __init__(self, mean: Tensor, scale: Tensor):
        super().__init__()
        self.shape = {"d": mean.shape[-1]}
        self.register_buffer("mean", mean)  # (S, 1, d)
        self.register_buffer("scale", scale)

    @classmethod
    def fit(cls, rows: Sequence[Tensor]) -> "PooledBase":
        """One member for each tensor (n, d): its mean and standard deviation by dimension."""
        mean = torch.stack([x.double().mean(0, keepdim=True) for x in rows])
        scale = torch.stack([x.double().std(0, keepdim=True, correction=0) for x in rows]).clamp_min(1e-6)
        return cls(mean.float(), scale.float())

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale


class TokenBase(nn.Module):
    """Top layers of the backbone, trained, and mean pooling after its frozen final norm (recipe `source`).

    states (B, T, d), mask (B, T) -> h (1, B, d).
    """

    def __init__(self, top: nn.Module):
        super().__init__()
        self.top = top
        self.top.norm.requires_grad_(False)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        return (self.top(states, mask).sum(1) / mask.sum(1, keepdim=True))[None]
