"""What tests of the library share: libraries of a toy RED, experts to add, and what a library says."""

import torch
from passports import PASSPORT
from test_models import LABELS, D, make_parts

from redlib.models import ResidualExperts
from redlib.modules import Library

X = torch.randn(6, D, generator=torch.Generator().manual_seed(5))
PARTS = make_parts(dtype=torch.float32)


def expert(seed, rank=3):
    made = ResidualExperts([seed], D, rank)
    made.up.weight.data.normal_(generator=torch.Generator().manual_seed(seed))
    return made


def library(labels=LABELS, parts=PARTS):
    return Library.of(labels, parts, passport=PASSPORT)


def logits(of, x=X):
    with torch.no_grad():
        return of(x).logits


def flags(module):
    return [m.training for m in module.modules()], [p.requires_grad for p in module.parameters()]
