"""The nested model against masks and a plain one, and the arms beside it."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from small_shapes import SMALL, THREE, made, pictures, shapes

from redlib import nested
from redlib.nested import arms, assignment, speed

# ---- the model ---------------------------------------------------------------------------------------------------


@shapes
def test_at_budget_one_it_is_a_plain_transformer(shape):
    model, images = made(shape, gain=0.0), pictures(shape)
    torch_s_own = model.classify(speed.by_torch(model)(model.stem(images)))
    torch.testing.assert_close(model(images, 1.0), torch_s_own)
    torch.testing.assert_close(model.plain(images), torch_s_own)


def test_with_a_gain_the_router_weighs_the_mlp_even_at_budget_one():
    images = pictures(SMALL)
    assert not torch.allclose(made(SMALL, gain=0.7)(images), made(SMALL, gain=0.0)(images))


@shapes
@pytest.mark.parametrize("budget", [0.3, 0.62, 1.0])
def test_slices_and_masks_agree_forward_and_backward(shape, budget):
    model, images = made(shape), pictures(shape)
    found = []
    for call in (model.forward, model.masked):
        model.zero_grad()
        logits = call(images, budget)
        F.cross_entropy(logits, torch.tensor([0, 1, 2])).backward()
        found.append((logits, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}))
    (one, first), (two, second) = found
    torch.testing.assert_close(one, two)
    assert first.keys() == second.keys() == dict(model.named_parameters()).keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], msg=lambda m, name=name: f"{name}: {m}")
    assert first["router.weight"].abs().sum() > 0, "the gate reaches the router"


@shapes
def test_features_beyond_a_tokens_width_pass_unchanged(shape):
    model, images = made(shape), pictures(shape)
    before, after = model.stem(images), model.tokens(images, 0.4)
    to = model.route(before, 0.4).experts
    for expert, width in enumerate(shape.widths):
        mine = to == expert
        assert mine.any()
        assert torch.equal(after[mine][:, width:], before[mine][:, width:])
        assert not torch.isclose(after[mine][:, :width], before[mine][:, :width]).any(0).all()


def test_a_straight_through_mask_changes_the_gradient_and_not_the_answer():
    model, images = made(SMALL, gain=0.0), pictures(SMALL)
    torch.testing.assert_close(model.masked(images, 0.4, straight=True), model.masked(images, 0.4))
    for straight in (False, True):
        model.zero_grad()
        model.masked(images, 0.4, straight=straight).sum().backward()
        assert bool(model.router.weight.grad.abs().sum() > 0) is straight, "without a gain only the mask teaches it"


def test_a_straight_through_mask_asks_which_token_is_worth_more_not_whether_more_is_better():
    model, images = made(SMALL, gain=0.0), pictures(SMALL)
    F.cross_entropy(model.masked(images, 0.4, straight=True), torch.tensor([0, 1, 2])).backward()
    assert model.router.weight.grad.abs().max() > 1e-6
    assert model.router.bias.grad.abs().max() < 1e-12, "what is the same for all tokens has no effect"


def test_scores_decide_places_and_the_gate_keeps_the_routers_probabilities():
    model, images = made(SMALL), pictures(SMALL)
    x = model.stem(images)
    scores = torch.rand(3, SMALL.tokens, 4, dtype=torch.float64)
    own, drawn = model.route(x, 0.4), model.route(x, 0.4, scores)
    assert torch.equal(own.p, drawn.p)
    assert own.counts == drawn.counts
    assert not torch.equal(own.experts, drawn.experts)
    assert torch.equal(drawn.order, assignment.order(scores, drawn.counts))


# ---- arms --------------------------------------------------------------------------------------------------------


def test_dropped_tokens_have_no_part_in_the_answer():
    model, images = made(SMALL, nested.Dropping), pictures(SMALL)
    x = model.stem(images)
    p = model.router(x).softmax(-1)[..., 1]
    gone = p.argsort(1)[:, : SMALL.tokens - arms.kept(0.5, SMALL.tokens)]
    moved = x.scatter(1, gone[..., None].expand(-1, -1, SMALL.dim), 0.0)
    kept_order = p.topk(arms.kept(0.5, SMALL.tokens), 1).indices
    assert torch.equal(assignment.gather(moved, kept_order), assignment.gather(x, kept_order))
    torch.testing.assert_close(made(SMALL, nested.Dropping, gain=0.0)(images, 1.0), plain_like(images))


def plain_like(images, gain=0.0):
    """A plain model with the weights that `made` draws for an arm whose router has another size."""
    arm = made(SMALL, nested.Dropping, gain=gain)
    model = made(SMALL, gain=gain)
    model.load_state_dict({k: v for k, v in arm.state_dict().items() if not k.startswith("router")}, strict=False)
    return model(images)


def test_depths_without_knowledge_and_with_all_tokens_is_the_plain_model():
    images = pictures(SMALL)
    model = nested.Depths(SMALL).double().eval()
    plain = nested.NestedViT(SMALL).double().eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if "router" not in k}, strict=False)
    torch.testing.assert_close(model(images, 1.0), plain(images))
    assert not torch.allclose(model(images, 0.5), plain(images))


def test_a_group_attends_to_itself_only():
    model, images = made(THREE, nested.Grouped), pictures(THREE)
    x = model.stem(images)
    route = model.route(x, 0.5)
    before = model.encode(x, route)
    largest = route.experts == 2
    moved = torch.where(largest[..., None], x + torch.randn_like(x), x)
    after = model.encode(moved, route)
    rest = slice(int(largest.sum(1)[0]), None)
    torch.testing.assert_close(after[:, rest], before[:, rest])
    assert not torch.allclose(after[:, : rest.start], before[:, : rest.start])
    joint = nested.NestedViT.encode(model, moved, route)
    assert not torch.allclose(joint[:, rest], nested.NestedViT.encode(model, x, route)[:, rest])


def test_outputs_of_groups_can_be_weighted_and_nothing_else():
    images = pictures(SMALL)
    torch.manual_seed(0)
    weighted = nested.Grouped(SMALL, "weighted").double()
    assert weighted(images, 0.4).shape == (3, 5)
    with pytest.raises(ValueError, match="unknown outputs 'summed'; valid outputs: concatenated, weighted"):
        nested.Grouped(SMALL, "summed")


@settings(max_examples=30)
@given(st.integers(2, 13), st.integers(1, 9), st.integers(0, 99))
def test_merging_keeps_the_sum_of_all_tokens(n, most, seed):
    x = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, n, 3)))
    target = arms.pair_up(x, most)
    size = torch.ones(2, n, 1, dtype=torch.float64)
    merged, sizes = arms.merge(x, target, size), arms.add_up(size, target)
    assert merged.shape[1] == n - min(most, n // 2)
    torch.testing.assert_close((merged * sizes).sum(1), x.sum(1))
    assert sizes.min() >= 1


def test_the_most_similar_tokens_merge_first():
    x = torch.tensor([[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [-1.0, 0.0]]])
    assert arms.pair_up(x, 1).tolist() == [[0, 0, 1, 2]]


def test_merging_nothing_is_the_plain_model():
    model, images = made(SMALL, gain=0.0), pictures(SMALL)
    torch.testing.assert_close(nested.merging(model, images, 0), model(images))
