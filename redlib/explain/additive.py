"""A method's logits as a sum over its experts, so that each one's part can be read, changed and added up again."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from redlib.explain.intervention import Intervention
from redlib.expressions import LabelSpace
from redlib.models import RED, LogitMixture, LogitScale, Method, Output, SoftmaxMoE, ValueRouted, mix

TOLERANCE = 1e-5  # by how much a sum may differ from the method's own logits, relative to the largest of them


@dataclass(frozen=True, eq=False)
class ByPeriod:
    """Logits by period of a Fourier readout with P periods: of h alone, base (P, C), and of a correction to it, by
    `read` (P, d, C)."""

    periods: tuple[float, ...]
    base: Tensor
    read: Tensor

    def parts(self, vectors: Tensor) -> Tensor:
        """(1 + K, P, C): what every period adds to the logits for h, then for each of the corrections (K, d)."""
        return torch.cat([self.base[None], torch.einsum("kd,pdc->kpc", vectors, self.read)])


@dataclass(frozen=True, eq=False)
class Additive:
    """One text's logits as base (C,) + sum_i weights[i] * contributions[i].

    vectors (K, m): what an expert adds at weight 1, a correction to h (m = d, read (d, C) is the shared classifier) or
    logits (m = C, read None). contributions (K, C): what that is in logits. scores (K,): the router's, before softmax.
    rule: soft, top1 or uniform. by_period: None where the classifier is no Fourier readout.
    """

    base: Tensor
    vectors: Tensor
    contributions: Tensor
    read: Tensor | None
    scores: Tensor
    rule: str = "soft"
    by_period: ByPeriod | None = None

    def weights(self, change: Intervention) -> Tensor:
        """Weights (K,) after an intervention; ValueError where temperature or top_k meet a rule that ignores them."""
        K = len(self.scores)
        if change.weights is not None:
            return torch.tensor(change.weights)
        if change.routes and self.rule != "soft":
            raise ValueError(f"temperature and top_k change soft weights, and this method's are {self.rule}")
        if self.rule == "uniform":
            return torch.full((K,), 1 / K)
        alpha = torch.softmax(self.scores / change.temperature, 0)
        kept = 1 if self.rule == "top1" else change.top_k or K
        if kept == K:
            return alpha
        mask = torch.zeros(K).scatter_(0, alpha.topk(kept).indices, 1.0)
        return alpha * mask / (alpha * mask).sum()

    def changed(self, change: Intervention, labels: LabelSpace) -> tuple[Tensor, Tensor]:
        """Vectors (K, m) and contributions (K, C) after drop, scale and noise."""
        if not (change.drop or change.scale or change.noise):
            return self.vectors, self.contributions
        scale, noise = dict(change.scale), dict(change.noise)
        keep = [0.0 if name in change.drop else scale.get(name, 1.0) for name in labels.names]
        factor = torch.tensor(keep)[:, None]
        vectors, contributions = factor * self.vectors, factor * self.contributions
        if noise:
            size = torch.tensor([0.0 if name in change.drop else noise.get(name, 0.0) for name in labels.names])
            drawn = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(change.noise_seed))
            drawn = drawn / drawn.norm(dim=1, keepdim=True) * (size * self.vectors.norm(dim=1))[:, None]
            vectors, contributions = (
                vectors + drawn,
                contributions + (drawn if self.read is None else drawn @ self.read),
            )
        return vectors, contributions


def additive(method: Method) -> bool:
    """Whether a method's logits are a sum over experts, so that interventions apply to it."""
    return isinstance(method, RED | LogitMixture | LogitScale | SoftmaxMoE)


@dataclass(frozen=True, eq=False)
class _Sum:
    """The parts of a sum for B texts: base (B, C), vectors (K, B, m), contributions (K, B, C), and as in `Additive`."""

    base: Tensor
    vectors: Tensor
    contributions: Tensor
    read: Tensor | None
    periods: list[ByPeriod | None]


def decompose(methods: Mapping[str, Method], h: Tensor, outputs: Mapping[str, Output]) -> dict[str, list[Additive]]:
    """The sums of B texts, h (B, d), for those of the methods that are `additive`; `outputs` are what all say of them.

    ArithmeticError when a sum is not the method's own logits, but for rounding.
    """
    sums: dict[str, _Sum] = {}
    corrected: dict[tuple, _Sum] = {}  # by experts and classifier, which methods share
    for name, method in methods.items():
        if isinstance(method, RED):
            key = (method.parts["classifier"], method.parts["experts"])
            if key not in corrected:
                corrected[key] = _corrections(*key, h)
            sums[name] = corrected[key]
        elif additive(method):
            sums[name] = _logits(method, h)
    _check(sums, outputs)
    return {name: _by_text(methods[name], h, outputs[name], found) for name, found in sums.items()}


def _corrections(classifier: nn.Module, experts: nn.Module, h: Tensor) -> _Sum:
    vectors, read = experts(h), classifier.weight[0]
    return _Sum(classifier(h)[0], vectors, vectors @ read, read, _by_period(classifier, h))


def _logits(method: Method, h: Tensor) -> _Sum:
    parts, none = method.parts, [None] * len(h)
    if isinstance(method, LogitScale):
        vectors = method.options["scale"] * parts["heads"](h)
        return _Sum(parts["classifier"](h)[0], vectors, vectors, None, none)
    vectors = parts["heads"](h) if isinstance(method, SoftmaxMoE) else parts["classifier"](h + parts["experts"](h))
    return _Sum(torch.zeros_like(vectors[0]), vectors, vectors, None, none)


def _check(sums: Mapping[str, _Sum], outputs: Mapping[str, Output]) -> None:
    if not sums:
        return
    said = torch.stack([outputs[name].logits for name in sums])  # (methods, B, C)
    added = torch.stack([s.base + mix(outputs[name].alpha, s.contributions) for name, s in sums.items()])
    off = (added - said).abs().amax(-1) / said.abs().amax(-1).clamp_min(1e-12)
    for name, relative in zip(sums, off.amax(1).tolist(), strict=True):
        if not relative <= TOLERANCE:
            raise ArithmeticError(f"the contributions of {name} miss its logits by {relative:.1e} of the largest")


def _by_text(method: Method, h: Tensor, output: Output, found: _Sum) -> list[Additive]:
    by_value = isinstance(method, ValueRouted)  # its weights are probabilities, not a router's
    scores = output.alpha.clamp_min(1e-30).log() if by_value else method.parts[method.router](h)[0]
    rule = method.options.get("weights", "soft")
    return [
        Additive(
            found.base[i], found.vectors[:, i], found.contributions[:, i], found.read, scores[i], rule, found.periods[i]
        )
        for i in range(len(h))
    ]


def _by_period(classifier: nn.Module, h: Tensor) -> list[ByPeriod | None]:
    """The base of every row of h (B, d) by period; None for a classifier that is no Fourier readout."""
    periods = classifier.shape.get("periods")
    if periods is None:
        return [None] * len(h)
    weight, bias = (t[0] for t in classifier.by_period())
    base = torch.einsum("bd,pdc->bpc", h, weight) + bias
    return [ByPeriod(tuple(periods), base[i], weight) for i in range(len(h))]
