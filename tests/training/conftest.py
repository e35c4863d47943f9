"""A toy problem that can be learned."""

import pytest
import torch
from toy_problem import C, D, N


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, D, generator=generator)
    y = (x @ torch.randn(D, C, generator=generator)).argmax(-1)
    return x, y
