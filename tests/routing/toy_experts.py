"""What tests of routing share: a small label space, and methods over it."""

import torch

from redlib import models, routing
from redlib.expressions import LabelSpace

SPACE = LabelSpace(2, 13, (5, 9))  # three ranges of four values
K, C = SPACE.K, SPACE.C


def red(seed=0, trained=True):
    """A RED and a softmax mixture over SPACE with the same base, d = 8."""
    parts = {
        "base": torch.nn.Identity(),
        "classifier": models.LinearBank([seed], 8, C),
        "experts": models.ResidualExperts(range(K), 8, 2),
        "router": models.MLPBank([seed + 1], 8, 4, K),
        "heads": models.LinearBank(range(K), 8, C),
        "gate": models.MLPBank([seed + 2], 8, 4, K),
    }
    if trained:
        parts["experts"].up.weight.data.normal_(generator=torch.Generator().manual_seed(seed))
    return parts


def opened(name="red", n=50, seed=0):
    x = 2 * torch.randn(n, 8, generator=torch.Generator().manual_seed(seed))
    method = models.assemble(name, SPACE, red(seed))
    return routing.open_experts(method, x), method, x
