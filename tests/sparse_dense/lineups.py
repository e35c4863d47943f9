"""What tests of sparse mixtures share: a small line-up of models, and token ids for them."""

import pytest
import torch

from redlib.sparse import designs, models

LINEUP = designs.lineup(300, 16, 2, specialists=(3,), context=64)
by_name = pytest.mark.parametrize("name", LINEUP)


def ids_of(batch=2, length=7, seed=0):
    return torch.randint(0, 300, (batch, length), generator=torch.Generator().manual_seed(seed))


def lively(design, seed=0):
    """A model whose routers tell texts apart."""
    model = models.build(design, seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "router" in name or "gate.weight" in name or "embed" in name:
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed)))
    return model
