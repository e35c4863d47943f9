"""All K experts in one batched product against a loop over them: what they add to h, mixed, and one training step.

`folded` is a third way to the same sum: the K bottlenecks side by side are one product with K r columns, and scaling
them by the routing weights before the second product spares the K corrections of every row, (K, B, d) numbers.
"""

from collections.abc import Callable, Sequence

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import cost, models
from redlib.bench.measuring import Line, Taken, in_turns, rate, ratios, repeated, report
from redlib.models import ResidualExperts

RANK = 8  # d / RANK is the smallest rank of the source
LARGEST = 64_000_000  # numbers in the corrections of a case; a larger one is left out
SECONDS = 0.05  # of calls, a turn


def run(
    rounds: int = 7,
    backbone: str = "smollm2-135m",
    counts: Sequence[int] = (5, 8, 16, 32, 64),
    batches: Sequence[int] = (1, 16, 64, 256, 1024),
    write: bool = False,
) -> pd.DataFrame:
    """Seconds and ratios for K experts of rank d/8 and B rows; d as in a backbone of cost.SHAPES.

    Cases `K=5, B=64/mixed` (all experts on the same rows, weighted) and `K=5, B=64/step` (each on rows of its own,
    forward, backward and AdamW). Metrics: `seconds_batched`, `seconds_loop`, `over_loop`, for `mixed` also
    `seconds_folded`, `folded_over_loop`.
    """
    d = cost.Shape.of(cost.configuration(backbone)).d
    lines: list[Line] = []
    for K in counts:
        for B in batches:
            if K * B * d <= LARGEST:
                lines += _compared(f"K={K}, B={B}/mixed", _mixed(K, B, d), rounds)
                lines += _compared(f"K={K}, B={B}/step", _steps(K, B, d), rounds)
    return report("experts", lines, write)


def _compared(case: str, ways: dict[str, Callable[[], object]], rounds: int) -> list[Line]:
    cases: dict[str, Callable[[], Taken]] = {
        name: lambda call=call: repeated(1, call, SECONDS) for name, call in ways.items()
    }
    turns = in_turns(cases, rounds)
    lines: list[Line] = [(case, f"seconds_{name}", 1 / rate(done), "s") for name, done in turns.items()]
    lines += ratios(case, "over_loop", turns["batched"], turns["loop"])
    if "folded" in turns:
        lines += ratios(case, "folded_over_loop", turns["folded"], turns["loop"])
    return lines


def _mixed(K: int, B: int, d: int) -> dict[str, Callable[[], Tensor]]:
    bank, h = drawn(K, d), torch.randn(B, d)
    alpha = torch.softmax(torch.randn(B, K), -1)
    alone = [(bank.down.weight[k].contiguous(), bank.up.weight[k].contiguous()) for k in range(K)]
    wide = fold(bank)
    return {
        "batched": torch.no_grad()(lambda: models.mix(alpha, bank(h))),
        "loop": torch.no_grad()(lambda: loop(alone, h, alpha)),
        "folded": torch.no_grad()(lambda: folded(wide, h, alpha)),
    }


def drawn(K: int, d: int) -> ResidualExperts:
    """K experts of rank d/8, with corrections that are not zero as a new expert's are."""
    bank = ResidualExperts(range(K), d, max(1, d // RANK))
    nn.init.normal_(bank.up.weight, std=d**-0.5, generator=torch.Generator().manual_seed(0))
    return bank


def loop(alone: Sequence[tuple[Tensor, Tensor]], h: Tensor, alpha: Tensor) -> Tensor:
    """sum_i alpha_i B_i gelu(A_i h), expert after expert: (B, d)."""
    total = torch.zeros_like(h)
    for k, (down, up) in enumerate(alone):
        total += alpha[:, k : k + 1] * (F.gelu(h @ down) @ up)
    return total


def fold(bank: ResidualExperts) -> tuple[Tensor, Tensor]:
    """The bank's maps side by side: (d, K r) and (K r, d)."""
    down, up = bank.down.weight.detach(), bank.up.weight.detach()
    return down.transpose(0, 1).flatten(1).contiguous(), up.flatten(0, 1).contiguous()


def folded(wide: tuple[Tensor, Tensor], h: Tensor, alpha: Tensor) -> Tensor:
    """The same sum as `loop`, h and the result (B, d), in two products without a dimension of experts."""
    down, up = wide
    narrow = F.gelu(h @ down).unflatten(1, (alpha.shape[1], -1)) * alpha[:, :, None]
    return narrow.flatten(1) @ up


def _steps(K: int, B: int, d: int) -> dict[str, Callable[[], object]]:
    """One training step of K experts on rows of their own, towards targets of their own."""
    h, target = torch.randn(K, B, d), torch.randn(K, B, d)
    whole, alone = drawn(K, d), [drawn(1, d) for _ in range(K)]
    steps = [_Step(bank) for bank in alone]
    together = _Step(whole)

    def one_by_one() -> None:
        for k, step in enumerate(steps):
            step(h[k : k + 1], target[k : k + 1])

    return {"batched": lambda: together(h, target), "loop": one_by_one}


class _Step:
    def __init__(self, bank: ResidualExperts) -> None:
        self.bank, self.optimiser = bank, torch.optim.AdamW(bank.parameters(), fused=True)

    def __call__(self, h: Tensor, target: Tensor) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        F.mse_loss(self.bank(h), target, reduction="sum").backward()
        self.optimiser.step()
