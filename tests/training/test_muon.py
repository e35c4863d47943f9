"""Muon: its step for a matrix, AdamW's for the rest, and where it is refused."""

import pytest
import torch
from toy_problem import C, D, Named, rows_of

from redlib import config, training
from redlib.models import MLPBank
from redlib.training.optimiser import Muon, Optimiser


def test_muon_turns_a_matrix_evenly_in_all_directions_of_its_gradient_and_adamw_has_the_rest():
    plan = config.LongTraining(lr=0.5, weight_decay=0.1, optimiser="muon")
    module, plain = Named(MLPBank([3], 8, 6, C)), MLPBank([3], 8, 6, C)
    before = module[0].first.weight.detach()[0].clone()
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(p.shape, generator=generator) for p in plain.parameters()]
    optimiser = Optimiser(module, list(module.parameters()), plan)
    optimiser.scale(0.1)
    for p, q, gradient in zip(module.parameters(), plain.parameters(), gradients, strict=True):
        p.grad, q.grad = gradient.clone(), gradient.clone()
    optimiser.step()
    torch.optim.AdamW(plain.parameters(), lr=0.05, weight_decay=0.0, fused=True).step()
    step = before * (1 - 0.05 * 0.1) - module[0].first.weight.detach()[0]
    along = step.T @ gradients[0][0]
    torch.testing.assert_close(along, along.T, atol=0.02 * along.abs().max().item(), rtol=0)  # their polar factor
    assert torch.linalg.eigvalsh((along + along.T) / 2).min() > 0
    sizes = torch.linalg.svdvals(step)
    assert sizes.max() < 2 * sizes.min()
    assert step.square().mean().sqrt().item() == pytest.approx(0.2 * 0.05, rel=0.2)  # as large as AdamW's usually are
    for p, q in list(zip(module.parameters(), plain.parameters(), strict=True))[1:]:
        assert torch.equal(p, q), "what AdamW trains beside Muon does not decay"


def test_muon_makes_the_steps_of_torchs_own_on_every_member_of_a_stack():
    torch.manual_seed(0)
    stack = torch.nn.Parameter(torch.randn(2, 12, 7))
    alone = [torch.nn.Parameter(member.clone()) for member in stack.detach()]
    own = Muon([stack], lr=0.01, weight_decay=0.1)
    theirs = torch.optim.Muon(alone, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    before = stack.detach().clone()
    for _ in range(5):
        stack.grad = torch.randn_like(stack)
        for p, gradient in zip(alone, stack.grad, strict=True):
            p.grad = gradient.clone()
        own.step()
        theirs.step()
    moved = (stack - before).square().mean().sqrt()
    assert (stack - torch.stack(list(alone))).square().mean().sqrt() < 0.02 * moved, "theirs rounds to bfloat16"
    assert moved > 0.005


def test_muon_is_refused_where_no_matrix_is_named(problem):
    plan = config.LongTraining(optimiser="muon")
    with pytest.raises(ValueError, match="MLPBank names none; use adamw"):
        training.fit(MLPBank([1], D, 5, C), rows_of(*problem), plan)
