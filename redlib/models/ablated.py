"""What the ablations need beyond the arms: fewer weights, another order of mixing and of training, balanced loads.

Shapes: B rows, d hidden size, K experts, r rank, S members.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.models.arms import ArmModel, combine
from redlib.models.methods import Output, mix
from redlib.models.parts import LinearBank, MLPBank, ResidualExperts


class Ablated(ArmModel):
    """An arm whose `top` largest weights alone count (None: all), and which mixes `states` or `logits`.

    states: readout(h + sum_i a_i D_i); logits: sum_i a_i readout(h + D_i). With a linear readout and weights that sum
    to one these are one function.
    """

    def __init__(self, *args, top: int | None = None, mixing: str = "states", **more):
        super().__init__(*args, **more)
        self.top, self.mixing = top, mixing

    def route(self, x: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        h, alpha = super().route(x)
        return h, alpha if self.top is None else keep_top(alpha, self.top)

    def forward(self, x: Tensor, ranges: Tensor | None = None) -> Output:
        if self.mixing == "states":
            return super().forward(x, ranges)
        h, alpha = self.route(x)
        each = combine(self.arm, self.parts["classifier"], h, self.scale * self.parts["experts"](h))
        return Output(mix(alpha, each), alpha)


def keep_top(alpha: Tensor, k: int) -> Tensor:
    """The k largest weights of every row (B, K), scaled to sum to one; the others are zero."""
    top = alpha.topk(k, -1)
    kept = torch.zeros_like(alpha).scatter(-1, top.indices, top.values)
    return kept / kept.sum(-1, keepdim=True)


class Balanced(nn.Module):
    """A bank of routers; in training each member's loss gets `weight` * K * sum_k f_k p_k on top.

    f_k is the share of a batch whose largest weight is k, p_k its mean weight: least, namely 1, at equal loads.
    (B, d) or (S, B, d) -> (S, B, K).
    """

    def __init__(self, router: MLPBank, weight: float):
        super().__init__()
        self.router, self.weight = router, weight

    def forward(self, h: Tensor) -> Tensor:
        scores = self.router(h)
        if not (self.weight and scores.requires_grad):
            return scores
        return _Adding.apply(scores, self.weight * imbalance(scores).sum())


def imbalance(scores: Tensor) -> Tensor:
    """K * sum_k f_k p_k of every member (S,) from scores (S, B, K)."""
    K = scores.shape[-1]
    mean = torch.softmax(scores, -1).mean(-2)
    share = F.one_hot(scores.argmax(-1), K).to(mean).mean(-2)
    return K * (share * mean).sum(-1)


class _Adding(torch.autograd.Function):
    """Passes scores on and adds a loss to whatever is minimised further up, so that the one loop stays as it is."""

    @staticmethod
    def forward(ctx, scores: Tensor, loss: Tensor) -> Tensor:
        return scores.view_as(scores)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, gradient.new_ones(())


class JointRED(nn.Module):
    """K experts and the router of S seeds, trained together on the answer: h (S, B, d) -> logits (S, B, C).

    The experts of a seed are one product: sum_i a_i B_i gelu(A_i h) = [B_1 .. B_K] (a * gelu([A_1 .. A_K] h)).
    """

    def __init__(self, seeds: Sequence[int], d: int, K: int, rank: int, hidden: int, classifier: nn.Module):
        super().__init__()
        self.K, self.rank = K, rank
        self.down = LinearBank(seeds, d, K * rank, bias=False)
        self.up = LinearBank(seeds, K * rank, d, bias=False, zero=True)
        self.router = MLPBank(seeds, d, hidden, K)
        self.classifier = classifier.requires_grad_(False)

    def forward(self, h: Tensor) -> Tensor:
        alpha = torch.softmax(self.router(h), -1)
        inner = F.gelu(self.down(h)).unflatten(-1, (self.K, self.rank)) * alpha[..., None]
        return self.classifier(h + self.up(inner.flatten(-2)))

    def start_from(self, experts: ResidualExperts, router: MLPBank) -> "JointRED":
        """Begin with these weights: S * K experts, those of a seed together, and S routers."""
        S = len(self.down.weight)
        self.down.weight.data = experts.down.weight.data.unflatten(0, (S, self.K)).transpose(1, 2).flatten(2).clone()
        self.up.weight.data = experts.up.weight.data.unflatten(0, (S, self.K)).flatten(1, 2).clone()
        self.router.load_state_dict(router.state_dict())
        return self

    def experts(self) -> ResidualExperts:
        """The S * K experts as an ordinary bank, those of a seed together."""
        S, d = self.down.weight.shape[:2]
        bank = ResidualExperts([0] * (S * self.K), d, self.rank)
        bank.down.weight.data = self.down.weight.data.unflatten(2, (self.K, self.rank)).transpose(1, 2).flatten(0, 1)
        bank.up.weight.data = self.up.weight.data.unflatten(1, (self.K, self.rank)).flatten(0, 1)
        return bank
