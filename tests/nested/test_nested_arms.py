"""The arms of nested experts: how long each trains, what each starts from, answers by lot, and what is refused."""

import numpy as np
import pytest
import torch

from redlib import config, nested
from redlib.nested import flops
from redlib.study import nested as chapter
from redlib.study.nested import answers as nested_answers
from redlib.study.nested import routing as nested_routing
from redlib.study.nested import tables as nested_tables


@pytest.fixture(scope="module")
def profile():
    return config.load("smoke")


def test_every_arm_has_the_training_flops_of_the_plain_model(profile):
    n = profile.nested
    model = chapter.shape(n)
    total = n.epochs * flops.image(model, "plain")
    smaller = np.mean([flops.image(model, "width", share) for share in model.shares[:-1]])
    warm = n.warm_epochs * (flops.image(model, "plain") + smaller) + n.router_epochs * flops.image(model, "plain")
    for arm in nested.ARMS:
        mean = np.mean([flops.image(model, arm, float(b)) for b in np.linspace(n.low, 1, 101)])
        assert chapter.arm_epochs(n, arm) * mean + warm == pytest.approx(total)
    assert chapter.arm_epochs(n, "drop") > chapter.arm_epochs(n, "nested"), "cheaper steps, more of them"


def test_a_warm_start_that_leaves_nothing_and_an_unknown_arm_are_refused(profile):
    greedy = config.load("smoke", {"nested.warm_epochs": 9.0}).nested
    with pytest.raises(ValueError, match=r"a warm start of 9 epochs, and 0\.3 of the router, leave nothing"):
        chapter.arm_stage(greedy, "nested", 0)
    with pytest.raises(ValueError, match="unknown arm 'moe'; valid arms: nested, gate, random, grouped, drop, depths"):
        chapter.arm_stage(profile.nested, "moe", 0)
    with pytest.raises(ValueError, match=r"a budget must lie between 0\.125, the smallest width's share, and 1, got"):
        nested_tables.nested_tables(config.load("smoke", {"nested.budgets": [0.3, 0.05]}))
    without = config.load("smoke", {"nested.arms": ["random"]}).nested
    with pytest.raises(ValueError, match="maps need the arm nested, and the profile's arms are random"):
        nested_routing.shown(without, None)


def test_an_arm_starts_from_the_warm_model_and_its_router(profile):
    torch.manual_seed(0)
    warm = nested.NestedViT(chapter.shape(profile.nested))
    x = torch.randn(2, warm.shape.tokens, warm.shape.dim)
    odds = warm.router(x)[..., -1] - warm.router(x)[..., 0]
    drop = chapter.started(warm, "drop", 0.5)
    torch.testing.assert_close(drop.router(x)[..., 1] - drop.router(x)[..., 0], odds)
    assert drop.blocks[0].gain == 0.5
    depths = chapter.started(warm, "depths", 0.5)
    assert depths.blocks[0].gain == 0
    first = depths.router[0](x)
    assert torch.equal(
        (first[..., 1] - first[..., 0]).argsort(1),
        (0.1 * x @ (drop.router.weight[1] - drop.router.weight[0])).argsort(1),
    )
    grouped = chapter.started(warm, "grouped", 0.5)
    assert torch.equal(grouped.router.weight, warm.router.weight)


def test_answers_by_lot_are_the_same_every_time(profile):
    model = nested.NestedViT(chapter.shape(profile.nested)).eval()
    images = torch.rand(5, profile.nested.canvas, profile.nested.canvas)
    calls = [nested_answers.by_lot(model, 0.3, 0) for _ in range(2)]
    with torch.no_grad():
        assert torch.equal(calls[0](images), calls[1](images))
