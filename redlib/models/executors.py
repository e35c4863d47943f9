"""Executors of single steps: which methods can do one, and two that only they need.

Experts belong to operations here, K of them; a step says its own operation, so an oracle needs no range.
"""

from collections.abc import Mapping
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib.expressions import LabelSpace
from redlib.models.methods import RED, Method, Output, assemble, mix


class OracleOperator(RED):
    """RED with the true operation's expert at weight one; `ranges` (B,) are the true operations."""

    def forward(self, x: Tensor | tuple[Tensor, ...], ranges: Tensor | None = None) -> Output:
        if ranges is None:
            raise ValueError("oracle_operator needs the true operation of every step; pass it as ranges")
        h = self.hidden(x)
        alpha = F.one_hot(ranges, self.K).to(h.dtype)
        return Output(self.parts["classifier"](h + mix(alpha, self.parts["experts"](h)))[0], alpha)


class Cast(nn.Module):
    """A copy of a router computed in another precision: h (B, d) is cast to it, its logits (S, B, K) back."""

    def __init__(self, router: nn.Module, dtype: torch.dtype):
        super().__init__()
        self.router, self.dtype = deepcopy(router).to(dtype), dtype

    def forward(self, h: Tensor) -> Tensor:
        return self.router(h.to(self.dtype)).to(h.dtype)


OF_OPERATIONS = ("red", "top1", "red_uniform", "uniform_average", "softmax_moe")  # of METHODS, with K operations
BASE = "global_head"  # no expert: the base's shared classifier alone
ORACLE = "oracle_operator"
BY_RANGE = "red_by_range"  # RED with experts of ranges, as in Task 1, on the same rows
EXECUTORS = (*OF_OPERATIONS, ORACLE, BASE, BY_RANGE)
PLUS_EXECUTORS = ("red_plus", "red_plus_top1", "red_plus_uniform", "red_plus_base")  # with K operations, too


def executor(name: str, labels: LabelSpace, parts: Mapping[str, nn.Module], K: int) -> Method:
    """The executor called `name` from trained parts with K experts; ValueError for an unknown name or a missing part.

    `red_by_range` is RED with one expert a range, whatever K is.
    """
    if name not in (*EXECUTORS, *PLUS_EXECUTORS):
        raise ValueError(f"unknown executor {name!r}; valid executors: {', '.join((*EXECUTORS, *PLUS_EXECUTORS))}")
    if name == ORACLE:
        return OracleOperator(labels, dict(parts), K=K).eval()
    return assemble("red", labels, dict(parts)) if name == BY_RANGE else assemble(name, labels, dict(parts), K)
