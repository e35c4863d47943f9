"""The bases of `red_plus`, and what experts and a router make of them."""

import numpy as np
import pytest
import torch
from passports import PASSPORT

from redlib import models, modules
from redlib.expressions import LabelSpace
from redlib.models import FourierBank, LightBase, MLPBank, NetworkBase, ResidualExperts
from redlib.study.red_plus import parts as red_plus_parts

D, WIDTH, LABELS = 12, 8, LabelSpace()


def light(seeds, positions=16, ending="mean"):
    base = LightBase(seeds, D, WIDTH, 2, 2, positions, ending).eval()
    if ending == "turns":
        base.turn.weight.data.normal_(0, 2, generator=torch.Generator().manual_seed(2))
    return base


def tokens(rows=5, longest=7):
    states = torch.randn(rows, longest, D, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([longest, *range(2, rows + 1)])
    mask = torch.arange(longest) < lengths[:, None]
    return states * mask[..., None], mask


@pytest.mark.parametrize("ending", models.ENDINGS)
def test_what_light_layers_say_of_a_text_does_not_depend_on_the_batch_it_is_in(ending):
    states, mask = tokens()
    base = light([3], ending=ending)
    together = base(states, mask)
    for row, n in enumerate(mask.sum(1).tolist()):
        alone = base(states[row : row + 1, :n], mask[row : row + 1, :n])
        torch.testing.assert_close(together[:, row], alone[:, 0], atol=1e-5, rtol=1e-5)


def test_tokens_turn_points_on_circles_one_after_the_other():
    states, mask = tokens()
    base = light([3], ending="turns")
    with torch.no_grad():
        h = base(states, mask)[0]
        *_, said = base._streams(states, mask)
        turns = said[0] @ base.turn.weight[0] / 16
    points = torch.ones(len(mask), WIDTH // 2, dtype=torch.complex64)
    for row, turn in zip(mask.nonzero()[:, 0].tolist(), turns, strict=True):
        points[row] *= torch.polar(torch.ones_like(turn), turn)
    assert points.angle().abs().max() > 1
    torch.testing.assert_close(torch.complex(*h.chunk(2, -1)), points, atol=1e-5, rtol=0)


def test_points_that_nothing_has_turned_are_where_they_began_and_can_be_moved():
    base = LightBase([3], D, WIDTH, 1, 2, 16, "turns")
    h = base(*tokens())
    assert torch.equal(h[0, :, : WIDTH // 2], torch.ones(5, WIDTH // 2))
    assert torch.equal(h[0, :, WIDTH // 2 :], torch.zeros(5, WIDTH // 2))
    h.sum().backward()
    assert base.turn.weight.grad.abs().max() > 0


def test_the_matrices_of_light_layers_are_their_hidden_products():
    base = LightBase([3], D, WIDTH, 2, 2, 16, "turns")
    shapes = [tuple(p.shape[1:]) for p in base.matrices()]
    layer = [(WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH)]
    assert shapes == [(D, WIDTH), *layer, *layer]


def test_light_layers_know_the_order_of_tokens():
    states, mask = tokens(1)
    assert not torch.allclose(light([3])(states, mask), light([3])(states.flip(1), mask), atol=1e-3)


@pytest.mark.parametrize("make", [light, lambda seeds: NetworkBase(seeds, D, WIDTH)], ids=["tokens", "pooled"])
def test_a_member_of_a_base_is_what_it_is_alone(make):
    x = tokens() if make is light else (torch.randn(5, D),)
    many = make([1, 2, 3])
    assert many(*x).shape == (3, 5, WIDTH)
    torch.testing.assert_close(many(*x)[1], make([2])(*x)[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(models.take(many, [2])(*x)[0], many(*x)[2], atol=1e-5, rtol=1e-5)


def test_narrow_products_round_what_light_layers_say_and_leave_gradients_wide():
    base, inputs = light([3]), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        narrow = base(*inputs)
    narrow.square().mean().backward()
    wide = base(*inputs).detach()
    assert {narrow.dtype, *(p.grad.dtype for p in base.parameters())} == {torch.float32}
    assert 0 < (narrow - wide).abs().max() < 0.05 * wide.abs().max()


def test_a_light_base_refuses_long_texts_and_heads_that_do_not_divide_its_width():
    with pytest.raises(ValueError, match="a text of 7 tokens is longer than the 4 positions of these layers"):
        light([1], positions=4)(*tokens())
    with pytest.raises(ValueError, match="3 heads do not divide a width of 8"):
        LightBase([1], D, WIDTH, 1, 3, 16)
    with pytest.raises(ValueError, match="unknown ending of light layers 'sum'; valid endings: mean, turns"):
        LightBase([1], D, WIDTH, 1, 2, 16, "sum")
    with pytest.raises(ValueError, match="a width of 7 is odd"):
        LightBase([1], D, 7, 1, 1, 16, "turns")


@pytest.mark.parametrize("ending", models.ENDINGS)
def test_the_streams_of_light_layers_end_in_h(ending):
    base = LightBase([3], 12, 8, 2, 2, 16, ending).eval()
    states, mask = torch.randn(4, 7, 12), torch.arange(7) < torch.tensor([7, 2, 3, 5])[:, None]
    streams = base.each(states, mask)
    assert len(streams) == 1 + 2 + 1
    assert torch.equal(streams[-1], base(states, mask))
    assert all(stream.shape == (1, 4, 8) for stream in streams)


# ---- experts and router ------------------------------------------------------------------------------------------


def parts_with(base, experts):
    classifier = FourierBank([5], WIDTH, 0, LABELS)
    return {"base": base, "classifier": classifier, "experts": experts, "router": MLPBank([9], WIDTH, 4, LABELS.K)}


def test_a_linear_adapter_is_the_product_of_its_two_maps_and_is_saved_as_one(tmp_path):
    experts, h = ResidualExperts([1, 2], 6, 3, "linear"), torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
    experts.up.weight.data.normal_(generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        torch.testing.assert_close(experts(h), h @ (experts.down.weight @ experts.up.weight))
        modules.save(tmp_path / "a.safetensors", {"experts": experts}, PASSPORT)
        again = modules.load(tmp_path / "a.safetensors")[0]["experts"]
        assert again.form == "linear"
        assert torch.equal(again(h), experts(h))
    with pytest.raises(ValueError, match="unknown form of an adapter 'relu'; valid forms: gelu, linear"):
        ResidualExperts([1], 6, 3, "relu")


@pytest.mark.parametrize("name", ["red_plus", "red_plus_top1", "red_plus_uniform", "red_plus_value_router"])
@pytest.mark.parametrize("form", ["tokens", "pooled"])
def test_zero_experts_are_the_base_bit_for_bit(name, form):
    base, x = (light([3]), tokens()) if form == "tokens" else (NetworkBase([3], D, WIDTH), torch.randn(5, D))
    parts = parts_with(base, ResidualExperts(range(LABELS.K), WIDTH, 4))
    alone, red = (models.assemble(n, LABELS, parts) for n in ("red_plus_base", name))
    assert torch.equal(alone(x).logits, red(x).logits)
    assert red(x).alpha.shape == (5, LABELS.K)


def test_the_value_router_weighs_experts_by_the_range_probabilities_of_the_base():
    parts, x = parts_with(NetworkBase([3], D, WIDTH), ResidualExperts(range(LABELS.K), WIDTH, 4)), torch.randn(5, D)
    base, red = (models.assemble(n, LABELS, parts) for n in ("red_plus_base", "red_plus_value_router"))
    assert torch.equal(red(x).alpha, models.range_probabilities(base(x).logits, LABELS))


def test_a_router_on_the_answer_is_red_and_on_both_says_its_expert_beside_it():
    experts, classifier, h = ResidualExperts([1, 2, 3], 8, 2), FourierBank([5], 8, 0, LABELS), torch.randn(1, 6, 8)
    experts.up.weight.data.normal_()
    router = MLPBank([7], 8, 4, 3)
    parts = {"base": torch.nn.Identity(), "classifier": classifier, "experts": experts, "router": router}
    whole = models.assemble("red_plus", LABELS, parts, K=3)(h[0])
    answer = red_plus_parts.RoutedAnswer(router, experts, classifier, both=False)(h)
    torch.testing.assert_close(answer[0], whole.logits)
    both = red_plus_parts.RoutedAnswer(router, experts, classifier, both=True)(h)
    torch.testing.assert_close(both[:, :, 0], answer)
    torch.testing.assert_close(torch.softmax(both[0, :, 1], -1)[:, :3], whole.alpha)


def test_noise_is_drawn_while_a_part_trains_and_nowhere_else():
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 7)
    base, index = NetworkBase.fit([3], [x], 4), np.arange(40)[None]
    noisy = red_plus_parts.noisy(x, base, 0.5 * base.scale)
    added = noisy(index, np.array([0]))[0][0] - x
    assert (added.std(0) / x.std(0)).numpy() == pytest.approx(0.5, rel=0.5)
    assert torch.equal(noisy(index, np.array([0]))[0][0] - x, added), "the same rows again: the same noise"
    assert not torch.equal(noisy(index[:, ::-1].copy(), np.array([0]))[0][0].flip(0) - x, added)
    base.eval()
    assert torch.equal(noisy(index, np.array([0]))[0][0], x)
    silent = red_plus_parts.noisy(x, base.train(), 0.0 * base.scale)
    assert torch.equal(silent(index, np.array([0]))[0][0], x)
