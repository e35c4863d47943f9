"""Whole populations, and answers to them that are known beforehand."""

import functools

import numpy as np
import pandas as pd

from redlib import datasets
from redlib.expressions import LabelSpace

SPACE = LabelSpace()
TWO = LabelSpace(2, 40, (20,))


@functools.cache
def whole(task="task1", operands=(2, 50), space=SPACE, wordings=1, operator="addition"):
    rows = datasets.with_operands(datasets.population(task, operands, space, wordings))
    return rows[rows["operator"] == operator].reset_index(drop=True)


def answers(population, ranges, values=None, space=SPACE, routed=True):
    """Answers that put all weight and all probability on `ranges` (N,)."""
    shares = np.eye(space.K)[np.asarray(ranges)]
    said = pd.DataFrame({"predicted_value": population["value"] if values is None else values})
    said["predicted_range"] = ranges
    for k in range(space.K):
        said[f"alpha_{k + 1}"] = shares[:, k] if routed else np.nan
        said[f"probability_{k + 1}"] = shares[:, k]
    return said
