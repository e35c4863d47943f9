"""Linear probes in closed form: ridge regression, read as numbers or, through discriminant analysis, as classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

PENALTIES = (1e1, 1e2, 1e3, 1e4, 1e5)  # of standardised features: from hardly any to nearly nothing left


def circle(numbers: np.ndarray, period: float) -> np.ndarray:
    """The Fourier component of numbers (N,) at a period: cos and sin of 2 pi number / period, (N, 2)."""
    angle = 2 * np.pi * np.asarray(numbers) / period
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def majority(y: np.ndarray, train: np.ndarray, scored: np.ndarray, within: np.ndarray | None = None) -> np.ndarray:
    """The most frequent class of the training rows for every scored row, or that of its own group of `within` (N,)."""
    groups = np.zeros(len(y), int) if within is None else within
    commonest = {group: np.bincount(y[train][groups[train] == group]).argmax() for group in np.unique(groups[train])}
    return np.array([commonest[group] for group in groups[scored]])


def closed(
    x: np.ndarray,
    classes: Mapping[str, np.ndarray],
    numbers: Mapping[str, np.ndarray],
    train: np.ndarray,
    choose: np.ndarray,
    scored: np.ndarray,
) -> dict[str, np.ndarray]:
    """What linear probes of features x (N, d) say of the scored rows: a class (n,) or numbers (n, m) by target.

    classes: class numbers (N,) by name; numbers: (N, m) by name; train, choose, scored: row numbers. Every target is
    regressed with the penalty whose squared error is smallest on the `choose` rows; a class target by its indicators,
    and linear discriminant analysis of the fitted indicators then says the class (penalised discriminant analysis:
    without it, classes that lie in a row hide those between them; Hastie, Buja and Tibshirani 1995).
    """
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # slow to import, and planning needs neither
    from sklearn.linear_model import Ridge

    center, scale = x[train].mean(0), np.maximum(x[train].std(0), 1e-6)
    x = (x - center) / scale
    indicators = {name: np.eye(y.max() + 1, dtype=np.float32)[y] for name, y in classes.items()}
    wanted = {**indicators, **{name: np.asarray(y, np.float32) for name, y in numbers.items()}}
    ends = np.cumsum([y.shape[1] for y in wanted.values()])
    columns = {name: slice(end - y.shape[1], end) for (name, y), end in zip(wanted.items(), ends, strict=True)}
    y = np.concatenate(list(wanted.values()), axis=1)
    fits = [Ridge(alpha=penalty, solver="cholesky").fit(x[train], y[train]) for penalty in PENALTIES]
    error = np.stack([(fit.predict(x[choose]) - y[choose]) ** 2 for fit in fits]).sum(1)  # (penalties, columns)
    said = {}
    for name, own in columns.items():
        best = fits[int(error[:, own].sum(1).argmin())]
        said[name] = _linear(best, x[scored], own)
        if name in classes:
            readers = LinearDiscriminantAnalysis().fit(_linear(best, x[train], own), classes[name][train])
            said[name] = readers.predict(said[name])
    return said


def _linear(fit: Any, x: np.ndarray, columns: slice) -> np.ndarray:
    return x @ fit.coef_[columns].T + fit.intercept_[columns]
