"""What tests of explanations and of widgets share: made-up models, a question, and what a method says by itself."""

import torch

from redlib import explain, features, models
from redlib.explain import Structures
from redlib.expressions import LabelSpace

LABELS = LabelSpace()
NAMES, K = LABELS.names, LABELS.K
ADDITIVE = ("red", "red_uniform", "top1", "moe_same_experts", "red_logit_scale", "softmax_moe")
QUERY = "What is 47 plus 38?"


def random_parts(d, seed, labels=LABELS):
    """Parts as large as trained ones, so that experts matter and routes differ."""
    K, C = labels.K, labels.C
    parts = {
        "base": models.PooledBase.fit([torch.randn(50, d, generator=torch.Generator().manual_seed(seed))]),
        "classifier": models.LinearBank([seed], d, C),
        "experts": models.ResidualExperts(range(seed, seed + K), d, 8),
        "heads": models.LinearBank(range(seed + 10, seed + 10 + K), d, C),
        "router": models.MLPBank([seed + 20], d, 16, K),
        "gate": models.MLPBank([seed + 30], d, 16, K),
        "linear_full": models.MLPBank([seed + 40], d, 0, C),
        "mlp_full": models.MLPBank([seed + 50], d, 24, C),
        "fourier_full": models.FourierBank([seed + 60], d, 24, labels),
    }
    parts["experts"].up.weight.data.normal_(0, 0.4, generator=torch.Generator().manual_seed(seed))
    return {name: part.eval().requires_grad_(False) for name, part in parts.items()}


def model(bone, seed, seen=("+12+27", "+38+46", "+3+40", "+7+18-3"), name="made up"):
    return explain.Model(f"{name} {seed}", LABELS, random_parts(bone.hidden_size, seed), Structures.of(seen))


def direct(explainer, text, method, split=None, ranges=None):
    """The method's own output for a text, from the features alone."""
    x = torch.from_numpy(features.compute(explainer.backbone, [text], [explainer.point])[explainer.point])
    with torch.no_grad():
        return models.assemble(method, LABELS, dict(explainer.model(split).parts))(x, ranges)
