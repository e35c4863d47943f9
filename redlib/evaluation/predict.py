"""Run a method over rows and write down what it says."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from redlib.models import LabelSpace, Method, range_probabilities


@torch.no_grad()
def predict(
    method: Method,
    x: Tensor | tuple[Tensor, ...],
    labels: LabelSpace,
    ranges: Sequence[int] | None = None,
    chunk: int = 4096,
    probabilities: bool = False,
) -> pd.DataFrame:
    """What the method says of N rows: features (N, d), or states (N, T, d) and mask; ranges (N,) only an oracle reads.

    Columns: predicted_value, predicted_range (largest sum of value probabilities), confidence (largest value
    probability), router_range (largest weight; -1 without a router or with equal weights), alpha_1..alpha_K
    (NaN without a router), with `probabilities` also probability_1..probability_K, those of the ranges.
    """
    truth = None if ranges is None else torch.tensor(list(ranges), dtype=torch.long)
    outputs = []
    for first in range(0, len(x[0] if isinstance(x, tuple) else x), chunk):
        rows = slice(first, first + chunk)
        part = tuple(t[rows] for t in x) if isinstance(x, tuple) else x[rows]
        outputs.append(method(part, None if truth is None else truth[rows]))
    logits = torch.cat([output.logits for output in outputs])
    confidence, index = torch.softmax(logits, -1).max(-1)
    of_range = range_probabilities(logits, labels)
    frame = pd.DataFrame(
        {
            "predicted_value": index.numpy() + labels.lo,
            "predicted_range": of_range.argmax(-1).numpy(),
            "confidence": confidence.numpy(),
            "router_range": -1,
        }
    )
    alpha = np.full((len(frame), method.K), np.nan, np.float32)
    if outputs[0].alpha is not None:
        alpha = torch.cat([output.alpha for output in outputs]).numpy()
        if method.options.get("weights") != "uniform":  # equal weights have no first choice
            frame["router_range"] = alpha.argmax(-1)
    frame = frame.join(pd.DataFrame(alpha, columns=[f"alpha_{k + 1}" for k in range(method.K)]))
    if probabilities:
        names = [f"probability_{k + 1}" for k in range(labels.K)]
        frame = frame.join(pd.DataFrame(of_range.numpy(), columns=names))
    return frame
