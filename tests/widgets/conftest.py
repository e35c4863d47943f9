"""An explainer, and a made-up map of its errors."""

import numpy as np
import pandas as pd
import pytest
from panels import make_explainer

from redlib import explain


@pytest.fixture(scope="module")
def explainer():
    return make_explainer()


def errors_map(explainer):
    """A made-up map of three methods, in the columns of the table."""
    low, high = explainer.operands
    rows = [(a, b) for a in range(low, high + 1) for b in explain.seconds(explainer, a, "+")]
    frame = pd.DataFrame(rows, columns=["first", "second"])
    about = {"task": "task1", "split": "structure", "metric": "value_error", "operator": "addition"}
    frame = frame.assign(value=np.tile([0.0, 3.0, -40.0], len(frame))[: len(frame)], **about)
    return pd.concat([frame.assign(method=method) for method in ("red", "softmax_moe", "global_head")])


@pytest.fixture(scope="module")
def frame(explainer):
    return errors_map(explainer)
