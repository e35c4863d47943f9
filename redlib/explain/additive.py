"""A method's logits as a sum over its experts, so that each one's part can be read, changed and added up again."""

from dataclasses import dataclass

import torch
from torch import Tensor

from redlib.explain.intervention import Intervention
from redlib.expressions import LabelSpace
from redlib.models import RED, LogitMixture, LogitScale, Method, Output, SoftmaxMoE, mix

TOLERANCE = 1e-5  # by how much a sum may differ from the method's own logits, relative to the largest of them


@dataclass(frozen=True, eq=False)
class Additive:
    """One text's logits as base (C,) + sum_i weights[i] * contributions[i].

    vectors (K, m): what an expert adds at weight 1, a correction to h (m = d, read (d, C) is the shared classifier) or
    logits (m = C, read None). contributions (K, C): what that is in logits. scores (K,): the router's, before softmax.
    rule: soft, top1 or uniform.
    """

    base: Tensor
    vectors: Tensor
    contributions: Tensor
    read: Tensor | None
    scores: Tensor
    rule: str = "soft"

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


def decompose(name: str, method: Method, h: Tensor, output: Output) -> list[Additive]:
    """The sums of B texts, h (B, d), for a method that is `additive`; `output` is what the method says of them.

    ArithmeticError when a sum is not the method's own logits, but for rounding.
    """
    parts, read = method.parts, None
    if isinstance(method, RED):
        base, vectors, read = parts["classifier"](h)[0], parts["experts"](h), parts["classifier"].weight[0]
    elif isinstance(method, LogitScale):
        base, vectors = parts["classifier"](h)[0], method.options["scale"] * parts["heads"](h)
    else:
        vectors = parts["heads"](h) if isinstance(method, SoftmaxMoE) else parts["classifier"](h + parts["experts"](h))
        base = torch.zeros_like(vectors[0])
    contributions = vectors if read is None else vectors @ read  # (K, B, C)
    error = (base + mix(output.alpha, contributions) - output.logits).abs().amax(-1)
    relative = float((error / output.logits.abs().amax(-1).clamp_min(1e-12)).max())
    if not relative <= TOLERANCE:
        raise ArithmeticError(f"the contributions of {name} miss its logits by {relative:.1e} of the largest")
    scores, rule = parts[method.router](h)[0], method.options.get("weights", "soft")
    return [
        Additive(base[i], vectors[:, i], contributions[:, i], read, scores[i], rule) for i in range(len(output.logits))
    ]
