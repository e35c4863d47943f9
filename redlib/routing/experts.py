"""What each expert of a trained method says of each row, so that any routing weights can be tried without the model."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from redlib.models import RED, LabelSpace, LogitMixture, Method, SoftmaxMoE, mix
from redlib.routing.weights import check_weights

CHUNK = 4096


@dataclass(frozen=True)
class Experts:
    """The K experts of one trained method on N rows.

    alpha (N, K): the router's own weights; logits (K, N, C): what each expert would say alone. A method with residual
    fusion also has h (N, d), deltas (K, N, d) and its classifier, and answers through them.
    """

    labels: LabelSpace
    alpha: Tensor
    logits: Tensor
    h: Tensor | None = None
    deltas: Tensor | None = None
    classifier: nn.Module | None = None

    @torch.no_grad()
    def answer(self, weights) -> Tensor:
        """Logits (N, C) under any routing weights (N, K), which `check_weights` checks: classifier(h + sum a_i delta_i)
        with residual fusion, else sum a_i logits_i."""
        checked = check_weights(weights, self.labels.K, len(self.alpha)).astype(np.float32)
        a = torch.from_numpy(np.ascontiguousarray(checked))
        parts = []
        for first in range(0, len(a), CHUNK):
            rows = slice(first, first + CHUNK)
            if self.classifier is None:
                parts.append(mix(a[rows], self.logits[:, rows]))
            else:
                parts.append(self.classifier(self.h[rows] + mix(a[rows], self.deltas[:, rows]))[0])
        return torch.cat(parts)


@torch.no_grad()
def open_experts(method: Method, x: Tensor) -> Experts:
    """The experts of RED, of the mixture of RED's experts, or of the softmax mixture, on rows x (N, d).

    ValueError for a method of another kind, which does not mix experts by a router.
    """
    if not isinstance(method, RED | LogitMixture | SoftmaxMoE):
        raise ValueError(
            f"{type(method).__name__} mixes no experts by a router; valid: RED, LogitMixture and SoftmaxMoE"
        )
    parts: list[tuple[Tensor, ...]] = []
    for rows in x.split(CHUNK):
        h, alpha = method.route(rows)
        if isinstance(method, SoftmaxMoE):
            parts.append((alpha, method.parts["heads"](h)))
        else:
            deltas = method.parts["experts"](h)
            logits = method.parts["classifier"](h + deltas)
            parts.append((alpha, logits, h, deltas) if isinstance(method, RED) else (alpha, logits))
    made = [torch.cat(tensors, 1 if tensors[0].dim() == 3 else 0) for tensors in zip(*parts, strict=True)]
    classifier = method.parts["classifier"] if isinstance(method, RED) else None
    return Experts(method.labels, *made, classifier=classifier)
