"""What tests of nested experts share: two small shapes, models of them, and pictures."""

import numpy as np
import pytest
import torch

from redlib import nested

SMALL = nested.Shape(canvas=16, patch=4, dim=16, layers=2, heads=2, classes=5)
THREE = nested.Shape(canvas=16, patch=4, dim=16, layers=2, heads=2, classes=5, shares=(0.25, 0.5, 1.0))
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
