"""Counts to hold the closed forms against: parameters of real modules, and FLOPs by torch's counter."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from redlib import models
from redlib.cost.methods import PUBLIC, Cost, Sizes, control_widths
from redlib.models import FourierBank, LabelSpace, LinearBank, MLPBank, ResidualExperts
from redlib.models.arms import ARMS, ArmModel

ROWS = 2  # of one row, torch makes a product that its counter does not know


def _scores(query, key, value, *args, out_shape=None, **kwargs) -> int:
    """Scores (B, H, T, T') and their sums of values, two products."""
    batch, heads, tokens, width = query
    return 2 * batch * heads * tokens * key[2] * (width + value[3])


def _scores_backward(grad_out, query, key, value, *args, out_shape=None, **kwargs) -> int:
    """The scores again, and two products for each of the two of the forward pass."""
    batch, heads, tokens, width = query
    return 2 * batch * heads * tokens * key[2] * (3 * width + 2 * value[3])


CPU_ATTENTION = {  # torch's counter sees nothing of it
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _scores,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _scores_backward,
}


def flops(call: Callable[..., Any], *args: Any) -> int:
    """FLOPs of `call(*args)` by torch's counter, attention on the CPU included; works on the meta device too."""
    with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter:
        call(*args)
    return counter.get_total_flops()


def modules(s: Sizes) -> dict[str, nn.Module]:
    """The real parts of every method at these sizes, untrained."""
    plain, fourier = control_widths(s)
    members = range(s.K)
    return {
        "base": nn.Identity(),
        "classifier": LinearBank([0], s.d, s.C),
        "heads": LinearBank(members, s.d, s.C),
        "experts": ResidualExperts(members, s.d, s.r),
        "router": MLPBank([0], s.d, s.hidden, s.K),
        "gate": MLPBank([0], s.d, s.hidden, s.K),
        "linear_full": MLPBank([0], s.d, 0, s.C),
        "mlp_full": MLPBank([0], s.d, plain, s.C),
        "fourier_full": FourierBank([0], s.d, fourier, labels(s)),
    }


def labels(s: Sizes) -> LabelSpace:
    """A label space of C values in K ranges; ValueError when there are fewer values than ranges."""
    if s.C < s.K:
        raise ValueError(f"{s.C} classes cannot be divided among {s.K} experts")
    return LabelSpace(1, s.C, tuple(s.C * k // s.K for k in range(1, s.K)))


def counted(name: str, s: Sizes, made: dict[str, nn.Module] | None = None) -> Cost:
    """Parameters and FLOPs a text of the real method called `name`; `made`: the `modules` of these sizes."""
    made = made or modules(s)
    if name == PUBLIC:
        heads, gate = MLPBank(range(s.K), s.d, s.r, s.C), MLPBank([0], s.d, 0, s.K)
        method = ArmModel(labels(s), {**made, "experts": heads, "router": gate}, ARMS[PUBLIC])
    else:
        method = models.assemble(name, labels(s), made)
    rows, ranges = torch.zeros(ROWS, s.d), torch.zeros(ROWS, dtype=torch.long)
    with torch.no_grad():
        return Cost(models.count(method), flops(method, rows, ranges) // ROWS)
