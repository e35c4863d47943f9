"""Methods against direct computations, and the identities that the study rests on."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import models
from redlib.models import (
    FourierReadout,
    LabelSpace,
    LinearBank,
    MLPBank,
    PooledBase,
    ResidualExperts,
    assemble,
    range_probabilities,
    stack,
    take,
)

LABELS = LabelSpace(2, 13, (4, 8))  # K = 3, C = 12
D, RANK = 10, 4


def make_parts(seed=0, labels=LABELS, dtype=torch.float64):
    """Parts of every method with random weights; experts already trained away from zero."""
    x = torch.randn(50, D, generator=torch.Generator().manual_seed(seed))
    many = [seed + i for i in range(labels.K)]
    experts = ResidualExperts(many, D, RANK)
    torch.manual_seed(seed)
    experts.up.weight.data.normal_()
    parts = {
        "base": PooledBase.fit([x]),
        "classifier": LinearBank([seed], D, labels.C),
        "heads": LinearBank(many, D, labels.C),
        "experts": experts,
        "router": MLPBank([seed], D, 6, labels.K),
        "gate": MLPBank([seed + 9], D, 6, labels.K),
        "linear_full": MLPBank([seed], D, 0, labels.C),
        "mlp_full": MLPBank([seed], D, 5, labels.C),
        "fourier_full": models.FourierBank([seed], D, 5, labels),
    }
    return {name: part.to(dtype) for name, part in parts.items()}


def rows(n=7, seed=1):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def hidden(parts, x):
    return ((x - parts["base"].mean) / parts["base"].scale)[0]


def test_uniform_average_is_the_mean_of_the_heads_softmaxes():
    parts, x = make_parts(), rows()
    said = torch.softmax(assemble("uniform_average", LABELS, parts)(x).logits, -1)
    h, bank = hidden(parts, x), parts["heads"]
    direct = sum(torch.softmax(h @ bank.weight[k] + bank.bias[k], -1) for k in range(LABELS.K)) / LABELS.K
    torch.testing.assert_close(said, direct)
    torch.testing.assert_close(direct.sum(-1), torch.ones(len(x), dtype=torch.float64))


def test_the_oracle_is_the_head_of_the_true_range():
    parts, x = make_parts(), rows()
    ranges = torch.tensor([0, 1, 2, 2, 1, 0, 1])
    said = assemble("oracle_experts", LABELS, parts)(x, ranges).logits
    h, bank = hidden(parts, x), parts["heads"]
    for i, k in enumerate(ranges):
        torch.testing.assert_close(said[i], h[i] @ bank.weight[k] + bank.bias[k, 0])


def test_the_oracle_refuses_rows_without_their_range():
    with pytest.raises(ValueError, match="oracle_experts needs the true range"):
        assemble("oracle_experts", LABELS, make_parts())(rows())


def test_softmax_mixture_weighs_the_heads_logits_by_its_gate():
    parts, x = make_parts(), rows()
    said = assemble("softmax_moe", LABELS, parts)(x)
    h = hidden(parts, x)
    alpha = torch.softmax(parts["gate"](h)[0], -1)
    direct = sum(alpha[:, k, None] * (h @ parts["heads"].weight[k] + parts["heads"].bias[k]) for k in range(LABELS.K))
    torch.testing.assert_close(said.logits, direct)
    torch.testing.assert_close(said.alpha, alpha)


def test_red_adds_weighted_residuals_before_the_shared_classifier():
    parts, x = make_parts(), rows()
    said = assemble("red", LABELS, parts)(x)
    h, experts = hidden(parts, x), parts["experts"]
    alpha = torch.softmax(parts["router"](h)[0], -1)
    corrected = h.clone()
    for k in range(LABELS.K):
        corrected += alpha[:, k, None] * (F.gelu(h @ experts.down.weight[k]) @ experts.up.weight[k])
    torch.testing.assert_close(said.logits, corrected @ parts["classifier"].weight[0] + parts["classifier"].bias[0])


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 9))
def test_red_is_the_logit_mixture_of_the_same_experts_with_the_same_weights(seed, n):
    parts, x = make_parts(seed), rows(n, seed)
    red, mixture = (assemble(name, LABELS, parts)(x) for name in ("red", "moe_same_experts"))
    torch.testing.assert_close(red.logits, mixture.logits, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_red_with_zero_initialised_experts_is_its_base():
    parts, x = make_parts(), rows()
    parts["experts"] = ResidualExperts([1, 2, 3], D, RANK).double()
    base = assemble("global_head", LABELS, parts)(x).logits
    for name in ("red", "red_uniform", "top1"):
        assert torch.equal(assemble(name, LABELS, parts)(x).logits, base)


@settings(max_examples=10)
@given(order=st.permutations(range(3)), seed=st.integers(0, 1000))
def test_permuting_experts_with_the_routers_outputs_changes_nothing(order, seed):
    parts, x = make_parts(seed), rows()
    before = assemble("red", LABELS, parts)(x)
    parts["experts"] = take(parts["experts"], order)
    last = parts["router"].last
    last.weight.data, last.bias.data = last.weight.data[..., order], last.bias.data[..., order]
    after = assemble("red", LABELS, parts)(x)
    torch.testing.assert_close(after.logits, before.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(after.alpha, before.alpha[:, order])


def test_top1_and_uniform_weights_are_one_hot_and_equal():
    parts, x = make_parts(), rows()
    soft = assemble("red", LABELS, parts)(x).alpha
    hard = assemble("top1", LABELS, parts)(x).alpha
    assert torch.equal(hard, F.one_hot(soft.argmax(-1), LABELS.K).double())
    assert torch.equal(assemble("red_uniform", LABELS, parts)(x).alpha, torch.full_like(soft, 1 / LABELS.K))


def test_router_only_keeps_the_routers_range_and_the_bases_value_within_it():
    parts, x = make_parts(), rows()
    said = assemble("router_only", LABELS, parts)(x)
    base = torch.softmax(assemble("global_head", LABELS, parts)(x).logits, -1)
    torch.testing.assert_close(range_probabilities(said.logits, LABELS), said.alpha)
    within = base[:, :3] / base[:, :3].sum(-1, keepdim=True)  # values 2, 3, 4 are the first range
    p = torch.softmax(said.logits, -1)
    torch.testing.assert_close(p[:, :3] / p[:, :3].sum(-1, keepdim=True), within)


def test_logit_scale_is_the_base_plus_a_tenth_of_the_mixed_heads():
    parts, x = make_parts(), rows()
    said = assemble("red_logit_scale", LABELS, parts)(x)
    h = hidden(parts, x)
    extra = torch.einsum("bk,kbc->bc", said.alpha, parts["heads"](h))
    torch.testing.assert_close(said.logits, parts["classifier"](h)[0] + 0.1 * extra)


def test_range_probabilities_are_sums_of_value_probabilities():
    logits = torch.randn(5, LABELS.C, dtype=torch.float64)
    said, p = range_probabilities(logits, LABELS), torch.softmax(logits, -1)
    assert said.shape == (5, 3)
    torch.testing.assert_close(said[:, 1], p[:, 3:7].sum(-1))  # 5..8


@pytest.mark.parametrize("name", list(models.METHODS))
def test_every_method_gives_a_logit_a_value_and_no_gradient_less_part(name):
    x = rows()
    said = assemble(name, LABELS, make_parts())(x, torch.zeros(len(x), dtype=torch.long))
    assert said.logits.shape == (len(x), LABELS.C)
    assert torch.isfinite(said.logits).all()
    if said.alpha is not None:
        torch.testing.assert_close(said.alpha.sum(-1), torch.ones(len(x), dtype=torch.float64))


def test_unknown_methods_missing_parts_and_a_wrong_number_of_experts_are_refused():
    parts = make_parts()
    with pytest.raises(ValueError, match=r"unknown method 'redd'; valid methods: global_head, .*fourier_full_data"):
        assemble("redd", LABELS, parts)
    with pytest.raises(ValueError, match=r"missing: .'router'"):
        assemble("red", LABELS, {name: part for name, part in parts.items() if name != "router"})
    with pytest.raises(ValueError, match="experts holds 2 members, but the label space has K=3"):
        assemble("red", LABELS, {**parts, "experts": take(parts["experts"], [0, 1])})


def test_a_bank_is_its_members_side_by_side():
    bank = MLPBank([5, 6, 7], D, 4, 3)
    x = torch.randn(3, 8, D)
    together = bank(x)
    for member in range(3):
        alone = take(bank, [member])(x[member])
        torch.testing.assert_close(together[member], alone[0])
    rejoined = stack([take(bank, [0]), take(bank, [1]), take(bank, [2])])
    assert all(torch.equal(a, b) for a, b in zip(bank.parameters(), rejoined.parameters(), strict=True))


def test_a_members_first_weights_depend_on_its_seed_alone():
    many, one = LinearBank([1, 2, 3], D, 4), LinearBank([2], D, 4)
    assert torch.equal(many.weight[1], one.weight[0])


def test_a_pooled_base_standardises_by_the_rows_it_was_fitted_on():
    x = torch.randn(200, D) * 3 + 1
    h = PooledBase.fit([x])(x)[0]
    torch.testing.assert_close(h.mean(0), torch.zeros(D), atol=1e-5, rtol=0)
    torch.testing.assert_close(h.std(0, correction=0), torch.ones(D), atol=1e-4, rtol=0)


def test_the_fourier_codebook_separates_all_values_and_peaks_at_the_value():
    labels = LabelSpace()
    readout = FourierReadout(1, labels)
    book = readout.codebook[0]
    assert book.shape == (labels.C, 14)
    closest = torch.cdist(book, book).fill_diagonal_(math.inf).min()
    assert closest > 0.1
    assert torch.equal(readout(book[None])[0].argmax(-1), torch.arange(labels.C))
    v, period = 37, 10
    assert book[v - 2, 2].item() == pytest.approx(math.cos(2 * math.pi * v / period), abs=1e-6)
    assert book[v - 2, 9].item() == pytest.approx(math.sin(2 * math.pi * v / period), abs=1e-6)
