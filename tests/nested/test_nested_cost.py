"""What nested experts cost: FLOPs in closed form, speed, memory."""

import numpy as np
import pytest
import torch
from small_shapes import SMALL, pictures, shapes

from redlib import nested
from redlib.cost import counting
from redlib.nested import arms, flops, speed

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
