"""Ablated models compute what they say, and members trained together are those trained alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import config, training
from redlib.bench import seeds
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts, take
from redlib.models.ablated import Ablated, Balanced, JointRED, imbalance, keep_top
from redlib.models.arms import ARMS
from redlib.study.parts import Frozen, ResidualHead

LABELS = LabelSpace(2, 13, (5, 9))  # K = 3, C = 12
D = 6


def parts(seed=0, K=3, hidden=0, dtype=torch.float32):
    """Random parts of RED over LABELS; `hidden`: of the readout."""
    draw = torch.Generator().manual_seed(seed)
    made = {
        "base": torch.nn.Identity(),
        "classifier": MLPBank([seed], D, hidden, LABELS.C) if hidden else LinearBank([seed], D, LABELS.C),
        "experts": ResidualExperts(range(K), D, 4),
        "router": MLPBank([seed], D, 7, K),
    }
    for p in made["experts"].parameters():
        p.data.normal_(generator=draw)
    return {name: part.to(dtype) for name, part in made.items()}


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 3))
@torch.no_grad()
def test_the_largest_weights_are_kept_in_proportion(seed, k):
    alpha = torch.rand(5, 3, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    kept = keep_top(alpha, k)
    torch.testing.assert_close(kept.sum(-1), torch.ones(5))
    assert ((kept > 0).sum(-1) == k).all()
    there = kept > 0
    largest = alpha.sort(-1, descending=True).values[:, :k]
    torch.testing.assert_close(alpha[there].view(5, k).sort(-1, descending=True).values, largest)
    ratio = (kept / alpha)[there].view(5, k)
    torch.testing.assert_close(ratio, ratio[:, :1].expand(5, k))


@torch.no_grad()
def test_mixing_states_and_logits_agree_for_a_linear_readout_and_not_for_another():
    x = 3 * torch.randn(9, D, generator=torch.Generator().manual_seed(3))
    for hidden, alike in ((0, True), (5, False)):
        both = [Ablated(LABELS, parts(1, hidden=hidden), ARMS["red"], mixing=m)(x).logits for m in ("states", "logits")]
        assert torch.allclose(*both, atol=1e-4) is alike


@torch.no_grad()
def test_top_one_of_an_ablated_red_is_the_arm_with_top_one_weights_and_more_experts_than_ranges_are_possible():
    x = torch.randn(9, D, generator=torch.Generator().manual_seed(5))
    one = Ablated(LABELS, parts(2), ARMS["red"], top=1)(x)
    torch.testing.assert_close(one.logits, Ablated(LABELS, parts(2), ARMS["weights_top1"])(x).logits)
    assert Ablated(LABELS, parts(2, K=5), ARMS["red"], K=5)(x).alpha.shape == (9, 5)
    with pytest.raises(ValueError, match="experts holds 5 members"):
        Ablated(LABELS, parts(2, K=5), ARMS["red"])


def test_a_balanced_router_says_the_same_and_is_pulled_towards_equal_loads():
    torch.manual_seed(0)
    h, router = torch.randn(2, 64, D) + 1, MLPBank([0, 1], D, 0, 3)
    plain = router(h)
    assert torch.equal(Balanced(router, 0.7)(h), plain)
    expected = torch.autograd.grad((plain.sum() + 0.7 * imbalance(router(h)).sum()), [*router.parameters()])
    got = torch.autograd.grad(Balanced(router, 0.7)(h).sum(), [*router.parameters()])
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
    equal = torch.eye(3).repeat(2, 4, 1) * 50
    torch.testing.assert_close(imbalance(equal), torch.ones(2))
    assert (imbalance(torch.tensor([9.0, 0, 0]).expand(2, 8, 3)) > 2.9).all()


@torch.no_grad()
def test_joint_training_starts_from_red_and_its_parts_are_red_again():
    S, K = 2, 3
    experts, router = ResidualExperts(range(S * K), D, 4), MLPBank(range(S), D, 7, K)
    for p in experts.parameters():
        p.data.normal_()
    classifier = LinearBank(range(S), D, LABELS.C)
    joint = JointRED(range(S), D, K, 4, 7, classifier).start_from(experts, router)
    x = torch.randn(9, D)
    for seed in range(S):
        own = {"base": torch.nn.Identity(), "classifier": take(classifier, [seed]), "router": take(router, [seed])}
        for bank in (experts, joint.experts()):
            red = Ablated(LABELS, {**own, "experts": take(bank, range(seed * K, seed * K + K))}, ARMS["red"])
            torch.testing.assert_close(joint(x.expand(S, 9, D))[seed], red(x).logits, rtol=1e-4, atol=1e-5)


# ---- batched training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["experts", "joint"])
def test_members_trained_together_are_those_trained_alone_over_fifty_steps(kind):
    S, steps, n = 4, 50, 160
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(400, D, generator=draw, dtype=torch.float64)
    y = torch.randint(LABELS.C, (400,), generator=draw)
    order = [np.random.default_rng(member).permutation(400) for member in range(S)]
    rows = training.Rows(
        training.pooled_inputs(x), y, [o[:n] for o in order], [o[n : n + 60] for o in order], kind, range(S)
    )
    classifier = LinearBank(range(S), D, LABELS.C)

    def make(members):
        own = take(classifier, members)
        if kind == "experts":
            head = ResidualHead(ResidualExperts(members, D, 3), own)
        else:
            head = JointRED(members, D, 3, 2, 5, own)
        return Frozen(torch.nn.Identity(), head).double()

    loop = config.Training(lr=1e-2, batch=n // 10, max_epochs=steps // 10, patience=steps)
    whole = make(list(range(S)))
    training.fit(whole, rows, loop)
    untrained = make(list(range(S)))
    for member in range(S):
        alone = make([member])
        training.fit(alone, rows.only([member]), loop)
        for together, one in zip(whole.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(together[member], one[0], rtol=1e-9, atol=1e-10)
    assert any(not torch.equal(a, b) for a, b in zip(whole.parameters(), untrained.parameters(), strict=True))


def test_the_bench_trains_the_same_members_both_ways():
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    loop = config.Training(batch=16, max_epochs=2, patience=2)
    for part in ("experts", "router"):
        whole, alone = (way(x, part, 2, 3, loop) for way in (seeds.together, seeds.one_by_one))
        for member, one in enumerate(alone):
            for together, single in zip(whole.parameters(), one.parameters(), strict=True):
                torch.testing.assert_close(together[member], single[0], rtol=1e-3, atol=1e-4)


def test_the_bench_reports_a_ratio_for_experts_and_router(capsys):
    frame = seeds.run(rounds=1, rows=200, seeds=2, rank=2, epochs=1)
    ratio = frame[frame["metric"] == "over_one_by_one"].set_index("case")["value"]
    assert set(ratio.index) == {"2 seeds, 200 texts/experts", "2 seeds, 200 texts/router"}
    assert (ratio > 0).all()
