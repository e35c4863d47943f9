"""What tests of `red_plus` share: small profiles of what it is worth and of its uses, and untrained parts."""

import torch

from redlib import results
from redlib.expressions import LabelSpace
from redlib.models import FourierBank, MLPBank, ResidualExperts
from redlib.study import table

WORTH = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 1},
    "task1.source_seeds": {},
    "task2.definitions.operations.rows": 250,
    "task2.definitions.operations.seeds": {"structure": 1},
    "task2.definitions.operations.source_seeds": {},
    "red_plus.task1.seeds": {"structure": 1},
    "red_plus.task2.seeds": {"structure": 1},
    "red_plus.parts.rows": {"task1": 250, "task2": 250},
    "red_plus.parts.data": [100],
}
USES = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 1},
    "task2.definitions": {"operations": {"rows": 250, "seeds": {"structure": 1}}},
    "red_plus.task1.seeds": {"structure": 1},
    "decomposer.seeds": {},
    "operations.rows": 300,
    "operations.chains": 100,
    "operations.domains": ["closed"],
    "operations.seeds": {"structure": 1},
    "population.wordings": 1,
    "bootstrap": 10,
}
LABELS, WIDTH = LabelSpace(), 8


def made(profile, name):
    """A table, made and found tidy."""
    found = table(profile, name, say=lambda line: None)
    results.validate(found)
    return found


def plus_parts(base, K=LABELS.K, trained=True):
    experts = ResidualExperts(range(K), WIDTH, 4)
    if trained:
        experts.up.weight.data.normal_(0, 0.5, generator=torch.Generator().manual_seed(0))
    classifier, router = FourierBank([5], WIDTH, 0, LABELS), MLPBank([9], WIDTH, 4, K)
    return {"base": base, "classifier": classifier, "experts": experts, "router": router}
