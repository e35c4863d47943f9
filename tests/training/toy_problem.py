"""A toy problem's sizes, its rows, and a module that names its hidden matrix."""

import numpy as np
import torch

from redlib import training

N, D, C = 120, 6, 4


def rows_of(x, y, members=1, train=64, validation=32, seeds=None):
    order = np.arange(len(y))
    parts = [np.roll(order, 7 * m) for m in range(members)]
    inputs = training.pooled_inputs(x)
    cut = train + validation
    return training.Rows(inputs, y, [p[:train] for p in parts], [p[train:cut] for p in parts], "toy", seeds or [])


class Named(torch.nn.Sequential):
    """Modules of which the last is a network with a hidden matrix."""

    def matrices(self):
        return [self[-1].first.weight]
