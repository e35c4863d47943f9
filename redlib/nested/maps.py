"""What a router does with the tokens of each picture, and whether it looks where the digit is.

Everything is a number a picture, so that the study's resampling (digits, then seeds) gives the intervals.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from redlib import routing
from redlib.nested import digits
from redlib.nested.learning import answer
from redlib.nested.vit import NestedViT

CONTRAST = 0.8  # of the pictures whose routes are compared with the untouched ones
LEARNED_ON = 500  # pictures behind the supervised baselines


def aucs(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """By picture, the share of pairs of a token that matters and one that does not that the score puts in order (ties
    half), (n,), NaN where a picture has only one kind; scores, mask (n, N)."""
    many, few = mask.sum(1), (~mask).sum(1)
    ranks = (scipy.stats.rankdata(scores, axis=1) * mask).sum(1)
    pairs = (many * few).astype(float)
    return np.divide(ranks - many * (many + 1) / 2, pairs, out=np.full(len(mask), np.nan), where=pairs > 0)


def read(model: NestedViT, images: np.ndarray, budget: float) -> tuple[np.ndarray, np.ndarray]:
    """Router probabilities (n, N, E) and experts (n, N) of pictures (n, canvas, canvas), uint8."""

    def call(batch: Tensor) -> Tensor:
        route = model.route(model.stem(batch), budget)
        return torch.cat([route.p, route.experts[..., None].to(route.p)], 2)

    both = answer(call, images)
    return both[..., :-1], both[..., -1].astype(np.int64)


def numbers(model: NestedViT, images: np.ndarray, mask: np.ndarray, budget: float) -> dict[tuple[str, str], np.ndarray]:
    """{(group, metric): (n,)} of a router at a budget; groups all and width=<share>.

    By width: load (share of tokens) and mask_share (share of its tokens that matter). All: entropy (share of the
    largest), budget_used, mask_auc (of the expected width under the router's probabilities), mask_auc_width (of the
    width that a token got), mask_width (mean width of tokens that matter) and other_width, stable_contrast and
    stable_shift (share of tokens with the same expert at less contrast, and after a shift by one patch).
    """
    p, experts = read(model, images, budget)
    shares = np.array(model.shape.shares)
    n, N, E = p.shape
    width = shares[experts]
    found = {
        ("all", "entropy"): routing.entropy(p.reshape(-1, E)).reshape(n, N).mean(1),
        ("all", "budget_used"): width.mean(1),
        ("all", "mask_auc"): aucs(p @ shares, mask),
        ("all", "mask_auc_width"): aucs(width, mask),
        ("all", "mask_width"): _mean(width, mask),
        ("all", "other_width"): _mean(width, ~mask),
        ("all", "stable_contrast"): _contrast(model, images, budget, experts),
        ("all", "stable_shift"): _shift(model, images, budget, experts),
    }
    for expert, share in enumerate(shares):
        mine = experts == expert
        found[f"width={share:g}", "load"] = mine.mean(1)
        found[f"width={share:g}", "mask_share"] = _mean(mask, mine)
    return found


def _mean(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    many = where.sum(1)
    return np.divide((values * where).sum(1), many, out=np.full(len(many), np.nan), where=many > 0)


def _contrast(model: NestedViT, images: np.ndarray, budget: float, experts: np.ndarray) -> np.ndarray:
    _, again = read(model, (images * CONTRAST).round().astype(np.uint8), budget)
    return (again == experts).mean(1)


def _shift(model: NestedViT, images: np.ndarray, budget: float, experts: np.ndarray) -> np.ndarray:
    """One patch to the right; the column that comes in on the left and the one that goes are left out."""
    side = model.shape.side
    _, again = read(model, np.roll(images, model.shape.patch, 2), budget)
    before, after = (x.reshape(-1, side, side) for x in (experts, again))
    return (before[:, :, :-1] == after[:, :, 1:]).mean((1, 2))


def baselines(
    model: NestedViT, images: np.ndarray, mask: np.ndarray, learn: np.ndarray, told: np.ndarray
) -> Mapping[str, np.ndarray]:
    """AUC by picture (n,) of scores that any router has to be measured against.

    brightness and contrast (standard deviation) of a patch; supervised_pixels and supervised_tokens: logistic
    regression on a patch's pixels, and on the tokens that the router reads, learned from other pictures `learn` and
    their masks `told`: the most that a linear router can know.
    """
    from sklearn.linear_model import LogisticRegression  # slow to import, and planning does not need it

    patch = model.shape.patch
    found = {
        "brightness": aucs(digits.patches(images, patch).mean(-1), mask),
        "contrast": aucs(digits.patches(images, patch).std(-1), mask),
    }
    readers: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "supervised_pixels": lambda x: digits.patches(x, patch) / 255,
        "supervised_tokens": lambda x: answer(model.stem, x),
    }
    for name, read_ in readers.items():
        x = read_(learn[:LEARNED_ON])
        fitted: Any = LogisticRegression(max_iter=300).fit(x.reshape(-1, x.shape[2]), told[:LEARNED_ON].ravel())
        seen = read_(images)
        score = fitted.decision_function(seen.reshape(-1, seen.shape[2]))
        found[name] = aucs(score.reshape(mask.shape), mask)
    return found
