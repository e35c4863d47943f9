"""RED on the tiny backbone, and its file."""

import pytest
import torch
from passports import PASSPORT, TEXTS
from test_models import LABELS

from redlib import backbone, modules
from redlib.models import LinearBank, MLPBank, PooledBase, ResidualExperts


@pytest.fixture(scope="module")
def bone():
    return backbone.load("tiny")


@pytest.fixture
def trained(bone):
    """RED on the tiny backbone, its passport and a probe batch."""
    d, draw = bone.hidden_size, torch.Generator().manual_seed(0)
    experts = ResidualExperts(range(LABELS.K), d, 4)
    experts.up.weight.data.normal_(generator=draw)
    parts = {
        "base": PooledBase.fit([torch.randn(50, d, generator=draw)]),
        "classifier": LinearBank([0], d, LABELS.C),
        "experts": experts,
        "router": MLPBank([1], d, 6, LABELS.K),
    }
    passport = PASSPORT | {"weights_id": bone.weights_id, "backbone": bone.name}
    return parts, passport, modules.Probe.of(bone, TEXTS, 2, "mean")


@pytest.fixture
def saved(trained, tmp_path):
    parts, passport, probe = trained
    modules.save(tmp_path / "red.safetensors", parts, passport, "red", probe)
    return tmp_path / "red.safetensors"
