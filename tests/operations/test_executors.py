"""Executors with given weights: with all weight on one expert, with equal weights, and what is refused."""

import pytest
import torch

from redlib import config
from redlib.expressions import LabelSpace
from redlib.models import LinearBank, MLPBank, PooledBase, ResidualExperts, take
from redlib.models.executors import ORACLE, Cast, executor
from redlib.study import operations

SPACE = LabelSpace(2, 12, (5, 8))
D, K = 6, 2


def parts(chosen: int | None = None) -> dict:
    """Random parts with K operations; `chosen`: router and gate put all weight on that expert."""
    generator = torch.Generator().manual_seed(0)
    base = PooledBase(torch.zeros(1, 1, D), torch.ones(1, 1, D))
    experts = ResidualExperts([1, 2], D, 3)
    experts.up.weight.data.normal_(0, 1, generator=generator)
    router = MLPBank([5], D, 4, K)
    if chosen is not None:
        router.last.weight.data.zero_()
        router.last.bias.data = torch.full((1, 1, K), -1e4)
        router.last.bias.data[..., chosen] = 1e4
    heads = LinearBank([3, 4], D, SPACE.C)
    return {"base": base, "classifier": LinearBank([9], D, SPACE.C), "experts": experts} | {
        "heads": heads,
        "router": router,
        "gate": router,
    }


@pytest.mark.parametrize("k", range(K))
def test_with_all_weight_on_one_expert_every_executor_is_that_expert(k):
    x, made = torch.randn(50, D, generator=torch.Generator().manual_seed(1)), parts(k)
    with torch.no_grad():
        h = made["base"](x)[0]
        alone = made["classifier"](h + made["experts"](h)[k])[0]
        head = made["heads"](h)[k]
        for name in ("red", "top1"):
            assert torch.allclose(executor(name, SPACE, made, K)(x).logits, alone, atol=1e-5), name
        oracle = executor(ORACLE, SPACE, made, K)(x, torch.full((50,), k)).logits
        assert torch.allclose(oracle, alone, atol=1e-5)
        assert torch.allclose(executor("softmax_moe", SPACE, made, K)(x).logits, head, atol=1e-5)
        only = made | {name: take(made[name], [k]) for name in ("experts", "heads")}
        only["router"] = MLPBank([5], D, 4, 1)
        assert torch.allclose(executor("red_uniform", SPACE, only, 1)(x).logits, alone, atol=1e-5)
        average = executor("uniform_average", SPACE, only, 1)(x).logits
        assert torch.allclose(average, torch.log_softmax(head, -1), atol=1e-5)


def test_equal_weights_are_a_kth_each_and_a_cast_router_only_moves_weights_a_little():
    x, made = torch.randn(50, D, generator=torch.Generator().manual_seed(1)), parts()
    with torch.no_grad():
        assert (executor("red_uniform", SPACE, made, K)(x).alpha == 1 / K).all()
        exact = executor("red", SPACE, made, K)(x).alpha
        cast = executor("red", SPACE, parts() | {"router": Cast(parts()["router"], torch.bfloat16)}, K)(x).alpha
    assert cast.dtype == exact.dtype
    assert 0 < (exact - cast).abs().max() < 0.05


def test_what_is_no_executor_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="unknown executor 'magic'; valid executors: red, top1"):
        executor("magic", SPACE, parts(), K)
    with pytest.raises(ValueError, match="experts holds 2 members, but K=3 experts are wanted"):
        executor("red", SPACE, parts(), 3)
    with pytest.raises(ValueError, match="needs the true operation of every step"):
        executor(ORACLE, SPACE, parts(), K)(torch.zeros(1, D))
    with pytest.raises(ValueError, match="has no domain of steps 'open'; valid domains: closed, source"):
        operations.pool(config.load("smoke"), "open")
