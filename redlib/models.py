"""Every model of the study: a base, readouts, experts, a router and the methods built from them.

Shapes: N or B rows, T tokens, d hidden size, K experts, C value classes, r rank, S members. A *bank* holds S
independent copies of a part as one batched product; its parameters start with S, its output is (S, B, ...).
A *method* is one trained model: `method(x) -> Output`, where x is what its base reads.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.expressions import LabelSpace

__all__ = ["LabelSpace"]


# ---- banks: S independent parts ----------------------------------------------------------------------------------


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
    """S low-rank residual adapters, delta = B gelu(A h), B = 0 at the start (the source, 4.4.1). -> (S, B, d)."""

    def __init__(self, seeds: Sequence[int], d: int, rank: int):
        super().__init__()
        self.shape = {"d": d, "rank": rank}
        self.down = LinearBank(seeds, d, rank, bias=False)
        self.up = LinearBank(seeds, rank, d, bias=False, zero=True)

    def forward(self, h: Tensor) -> Tensor:
        return self.up(F.gelu(self.down(h)))


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
    """Top layers of the backbone and mean pooling (recipe `source`): states (B, T, d), mask (B, T) -> h (1, B, d)."""

    def __init__(self, top: nn.Module):
        super().__init__()
        self.top = top

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        h = self.top(states, mask) * mask[..., None]
        return (h.sum(1) / mask.sum(1, keepdim=True))[None]


class Identity(nn.Module):
    """A base that was applied before: h is what it reads."""

    shape: dict[str, Any] = {}  # noqa: RUF012

    def forward(self, x: Tensor) -> Tensor:
        return x


# ---- methods -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """logits (B, C) over the label space; alpha (B, K) routing weights, None where a method has no router."""

    logits: Tensor
    alpha: Tensor | None = None


class Method(nn.Module):
    """One trained model for one seed, assembled from parts whose S is 1 (or K for a bank of experts)."""

    needs: tuple[str, ...] = ()

    def __init__(self, labels: LabelSpace, parts: dict[str, nn.Module], **options: Any):
        super().__init__()
        missing = [name for name in ("base", *self.needs) if name not in parts]
        if missing:
            raise ValueError(f"{type(self).__name__} needs the parts base, {', '.join(self.needs)}; missing: {missing}")
        self.labels, self.options = labels, options
        self.parts = nn.ModuleDict({name: parts[name] for name in ("base", *self.needs)})
        for name in ("experts", "heads"):
            members = next(parts[name].parameters()).shape[0] if name in self.needs else labels.K
            if members != labels.K:
                raise ValueError(f"{name} holds {members} members, but the label space has K={labels.K} ranges")

    def hidden(self, x: Tensor) -> Tensor:
        """h (B, d) of the rows x."""
        h = self.parts["base"](x)
        return h[0] if h.dim() == 3 else h

    def alpha(self, h: Tensor) -> Tensor:
        """Routing weights (B, K) of h (B, d), after the option `weights`: soft, top1 or uniform."""
        weights = self.options.get("weights", "soft")
        alpha = torch.softmax(self.parts[self.router](h)[0], -1)
        if weights == "uniform":
            return torch.full_like(alpha, 1 / alpha.shape[-1])
        if weights == "top1":
            return F.one_hot(alpha.argmax(-1), alpha.shape[-1]).to(alpha.dtype)
        if weights != "soft":
            raise ValueError(f"unknown routing weights {weights!r}; valid: soft, top1, uniform")
        return alpha


class GlobalHead(Method):
    """One linear classifier on h (the source, 4.3.1)."""

    needs = ("classifier",)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        return Output(self.parts["classifier"](self.hidden(x))[0])


class OracleExperts(Method):
    """The full-rank head of the true range answers: `ranges` (B,) are given (the source, 4.3.2)."""

    needs = ("heads",)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        if ranges is None:
            raise ValueError("oracle_experts needs the true range of every row; pass ranges")
        logits = self.parts["heads"](self.hidden(x))  # (K, B, C)
        return Output(logits[ranges, torch.arange(len(ranges))])


class UniformAverage(Method):
    """Mean of the heads' softmaxes, as log-probabilities (the source, 4.3.3)."""

    needs = ("heads",)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        log_p = torch.log_softmax(self.parts["heads"](self.hidden(x)), -1)
        return Output(torch.logsumexp(log_p, 0) - torch.tensor(float(len(log_p))).log())


class SoftmaxMoE(Method):
    """Logits of full-rank heads mixed by a gate trained on the answer (the source, 4.3.4)."""

    needs = ("heads", "gate")
    router = "gate"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h = self.hidden(x)
        alpha = self.alpha(h)
        return Output(mix(alpha, self.parts["heads"](h)), alpha)


class RED(Method):
    """Residual Expert Decomposition: classifier(h + sum_i alpha_i delta_i(h)) (the source, 4.4.3)."""

    needs = ("classifier", "experts", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h = self.hidden(x)
        alpha = self.alpha(h)
        return Output(self.parts["classifier"](h + mix(alpha, self.parts["experts"](h)))[0], alpha)


class LogitMixture(Method):
    """RED's experts and weights mixed as logits: sum_i alpha_i classifier(h + delta_i(h)); the same function as RED."""

    needs = ("classifier", "experts", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h = self.hidden(x)
        alpha = self.alpha(h)
        return Output(mix(alpha, self.parts["classifier"](h + self.parts["experts"](h))), alpha)


class LogitScale(Method):
    """The authors' public form: base logits + scale * sum_i alpha_i head_i(h), scale 0.1."""

    needs = ("classifier", "heads", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h = self.hidden(x)
        alpha = self.alpha(h)
        scale = self.options.get("scale", 0.1)
        return Output(self.parts["classifier"](h)[0] + scale * mix(alpha, self.parts["heads"](h)), alpha)


class RouterOnly(Method):
    """No expert: the router gives the range, the base classifier the value within it."""

    needs = ("classifier", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h = self.hidden(x)
        alpha = self.alpha(h)
        logits = self.parts["classifier"](h)[0]
        index = torch.tensor(self.labels.range_index)
        within = [logits[:, index == i].logsumexp(-1) for i in range(self.labels.K)]
        return Output(logits + (alpha.clamp_min(1e-30).log() - torch.stack(within, -1))[:, index], alpha)


class FullData(Method):
    """A control on all training rows and the same features: linear, or an MLP with RED's parameter count."""

    def __init__(self, labels: LabelSpace, parts: dict[str, nn.Module], head: str = "linear_full"):
        self.needs = (head,)
        super().__init__(labels, parts, head=head)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        return Output(self.parts[self.options["head"]](self.hidden(x))[0])


def mix(alpha: Tensor, outputs: Tensor) -> Tensor:
    """sum_i alpha[:, i] * outputs[i]: alpha (B, K), outputs (K, B, m) -> (B, m)."""
    return torch.einsum("bk,kbm->bm", alpha, outputs)


METHODS: dict[str, tuple[Callable[..., Method], dict[str, Any]]] = {
    "global_head": (GlobalHead, {}),
    "oracle_experts": (OracleExperts, {}),
    "uniform_average": (UniformAverage, {}),
    "softmax_moe": (SoftmaxMoE, {}),
    "red": (RED, {}),
    "red_uniform": (RED, {"weights": "uniform"}),
    "top1": (RED, {"weights": "top1"}),
    "router_only": (RouterOnly, {}),
    "moe_same_experts": (LogitMixture, {}),
    "red_logit_scale": (LogitScale, {"scale": 0.1}),
    "global_head_full_data": (FullData, {"head": "linear_full"}),
    "mlp_full_data": (FullData, {"head": "mlp_full"}),
}


def assemble(name: str, labels: LabelSpace, parts: dict[str, nn.Module]) -> Method:
    """The method called `name` from trained parts; ValueError for an unknown name or a missing part."""
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; valid methods: {', '.join(METHODS)}")
    make, options = METHODS[name]
    return make(labels, parts, **options).eval()


def range_probabilities(logits: Tensor, labels: LabelSpace) -> Tensor:
    """(B, K): sums of the value probabilities (B, C) over each range."""
    index = torch.tensor(labels.range_index, device=logits.device)
    return torch.zeros(len(logits), labels.K, device=logits.device).index_add(1, index, torch.softmax(logits, -1))


def count(*parts: nn.Module) -> int:
    """Parameters of the parts."""
    return sum(p.numel() for part in parts for p in part.parameters())
