"""The methods of the study's tables: one trained model for one seed, `method(x) -> Output`. (Executors of single steps,
the arms of the fair comparison and ablated forms have files of their own.)

x is what the base reads: pooled features (B, d), or token states (B, T, d) and their mask (B, T). Shapes: B rows, T
tokens, d hidden size, K experts, C value classes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.expressions import LabelSpace
from redlib.models.parts import check_readout


@dataclass(frozen=True)
class Output:
    """logits (B, C) over the label space; alpha (B, K) routing weights, None where a method has no router."""

    logits: Tensor
    alpha: Tensor | None = None


class Method(nn.Module):
    """One trained model for one seed, assembled from parts whose S is 1 (or K for a bank of experts).

    It says logits (B, C) and weights (B, K) of pooled features (B, d), or of (states (B, T, d), mask (B, T)). `ranges`
    (B,) are the true ones, for methods that need them.
    """

    needs: tuple[str, ...] = ()

    def __init__(self, labels: LabelSpace, parts: dict[str, nn.Module], K: int | None = None, **options: Any):
        """`K`: number of experts, by default one a range."""
        super().__init__()
        self.K = labels.K if K is None else K
        missing = [name for name in ("base", *self.needs) if name not in parts]
        if missing:
            raise ValueError(f"{type(self).__name__} needs the parts base, {', '.join(self.needs)}; missing: {missing}")
        self.labels, self.options = labels, options
        self.parts = nn.ModuleDict({name: parts[name] for name in ("base", *self.needs)})
        for name in self.needs:
            check_readout(name, parts[name], labels)
        for name in ("experts", "heads"):
            members = next(parts[name].parameters()).shape[0] if name in self.needs else self.K
            if members != self.K:
                what = f"the label space has K={labels.K} ranges" if K is None else f"K={K} experts are wanted"
                raise ValueError(f"{name} holds {members} members, but {what}")

    def hidden(self, x: Tensor | tuple[Tensor, ...]) -> Tensor:
        """h (B, d) of the rows x: pooled features (B, d), or (states (B, T, d), mask (B, T))."""
        h = self.parts["base"](*x) if isinstance(x, tuple) else self.parts["base"](x)
        return h[0] if h.dim() == 3 else h

    def route(self, x: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        """h (B, d) and the routing weights (B, K), after the option `weights`: soft, top1 or uniform."""
        h = self.hidden(x)
        alpha = torch.softmax(self.parts[self.router](h)[0], -1)
        weights = self.options.get("weights", "soft")
        if weights == "uniform":
            alpha = torch.full_like(alpha, 1 / alpha.shape[-1])
        elif weights == "top1":
            alpha = F.one_hot(alpha.argmax(-1), alpha.shape[-1]).to(alpha.dtype)
        elif weights != "soft":
            raise ValueError(f"unknown routing weights {weights!r}; valid: soft, top1, uniform")
        return h, alpha


class GlobalHead(Method):
    """One head on h, no modules (the source, 4.3.1). `head` names it: the base's classifier, or a control's."""

    def __init__(self, labels: LabelSpace, parts: dict[str, nn.Module], head: str, K: int | None = None):
        self.needs = (head,)
        super().__init__(labels, parts, K, head=head)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        return Output(self.parts[self.options["head"]](self.hidden(x))[0])


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
        h, alpha = self.route(x)
        return Output(mix(alpha, self.parts["heads"](h)), alpha)


class RED(Method):
    """Residual Expert Decomposition: classifier(h + sum_i alpha_i delta_i(h)) (the source, 4.4.3)."""

    needs = ("classifier", "experts", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h, alpha = self.route(x)
        return Output(self.parts["classifier"](h + mix(alpha, self.parts["experts"](h)))[0], alpha)


class ValueRouted(RED):
    """RED whose weights are the range probabilities of its own base: sums of the base's value probabilities."""

    needs = ("classifier", "experts")

    def route(self, x: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        h = self.hidden(x)
        return h, range_probabilities(self.parts["classifier"](h)[0], self.labels)


class LogitMixture(Method):
    """RED's experts and weights mixed as logits: sum_i alpha_i classifier(h + delta_i(h)); the same function as RED."""

    needs = ("classifier", "experts", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h, alpha = self.route(x)
        return Output(mix(alpha, self.parts["classifier"](h + self.parts["experts"](h))), alpha)


class LogitScale(Method):
    """The authors' public form: base logits + scale * sum_i alpha_i head_i(h), scale 0.1."""

    needs = ("classifier", "heads", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h, alpha = self.route(x)
        extra = mix(alpha, self.parts["heads"](h))
        return Output(self.parts["classifier"](h)[0] + self.options["scale"] * extra, alpha)


class RouterOnly(Method):
    """No expert: the router gives the range, the base classifier the value within it."""

    needs = ("classifier", "router")
    router = "router"

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        h, alpha = self.route(x)
        logits = self.parts["classifier"](h)[0]
        ends = [self.labels.index(high) + 1 for _, high in self.labels.bounds]
        within = [logits[:, first:stop].logsumexp(-1) for first, stop in pairwise([0, *ends])]
        over = alpha.clamp_min(1e-30).log() - torch.stack(within, -1)
        return Output(logits + over[:, _range_index(self.labels, logits.device)], alpha)


def mix(alpha: Tensor, outputs: Tensor) -> Tensor:
    """sum_i alpha[:, i] * outputs[i]: alpha (B, K), outputs (K, B, m) -> (B, m)."""
    return torch.einsum("bk,kbm->bm", alpha, outputs)


METHODS: dict[str, tuple[Callable[..., Method], dict[str, Any]]] = {
    "global_head": (GlobalHead, {"head": "classifier"}),
    "oracle_experts": (OracleExperts, {}),
    "uniform_average": (UniformAverage, {}),
    "softmax_moe": (SoftmaxMoE, {}),
    "red": (RED, {}),
    "red_uniform": (RED, {"weights": "uniform"}),
    "top1": (RED, {"weights": "top1"}),
    "router_only": (RouterOnly, {}),
    "moe_same_experts": (LogitMixture, {}),
    "red_logit_scale": (LogitScale, {"scale": 0.1}),
    "global_head_full_data": (GlobalHead, {"head": "linear_full"}),
    "mlp_full_data": (GlobalHead, {"head": "mlp_full"}),
    "fourier_full_data": (GlobalHead, {"head": "fourier_full"}),
}
PLUS: dict[str, tuple[Callable[..., Method], dict[str, Any]]] = {  # RED over a base that ends in a Fourier readout
    "red_plus": (RED, {}),
    "red_plus_base": (GlobalHead, {"head": "classifier"}),
    "red_plus_top1": (RED, {"weights": "top1"}),
    "red_plus_uniform": (RED, {"weights": "uniform"}),
    "red_plus_value_router": (ValueRouted, {}),
}


def needs(names: Iterable[str]) -> set[str]:
    """The trained parts that the methods with these names are built from, the base aside."""
    kinds = [(METHODS | PLUS)[name] for name in names]
    return {part for make, options in kinds for part in make.needs or (options["head"],)}


def assemble(name: str, labels: LabelSpace, parts: dict[str, nn.Module], K: int | None = None) -> Method:
    """The method called `name` from trained parts, with K experts (by default one a range).

    ValueError for an unknown name or a missing part.
    """
    known = METHODS | PLUS
    if name not in known:
        raise ValueError(f"unknown method {name!r}; valid methods: {', '.join(known)}")
    make, options = known[name]
    return make(labels, parts, K=K, **options).eval()


def range_probabilities(logits: Tensor, labels: LabelSpace) -> Tensor:
    """(B, K): sums of the value probabilities (B, C) over each range."""
    p = torch.softmax(logits, -1)
    return p.new_zeros(len(p), labels.K).index_add(1, _range_index(labels, logits.device), p)


@lru_cache(maxsize=32)
def _range_index(labels: LabelSpace, device: torch.device) -> Tensor:
    """(C,) the range of every class, made once; autograd may need it, whatever mode it is first asked for in."""
    with torch.inference_mode(False):
        return torch.tensor(labels.range_index, device=device)


def count(*parts: nn.Module) -> int:
    """Parameters of the parts."""
    return sum(p.numel() for part in parts for p in part.parameters())
