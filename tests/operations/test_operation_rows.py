"""Rows of the operation experts: both operations, each split by itself."""

import numpy as np
import pytest

from redlib.datasets import steps
from redlib.expressions import OPERATORS


def test_the_pool_holds_both_operations_and_every_canonical_text_where_there_is_room():
    within = steps.Domain((2, 40), (2, 9), (2, 40))
    pool = steps.pool(1_000, 0, within)
    assert pool["row"].tolist() == list(range(2_000))
    assert np.bincount(steps.operation(pool)).tolist() == [1_000, 1_000]
    canonical = pool[pool["template"] == steps.CANONICAL.id]
    assert sorted(canonical["text"]) == sorted(map(steps.canonical, within.steps()))


@pytest.mark.parametrize("by", ["text", "structure"])
def test_every_operation_is_split_by_itself_and_execution_never_meets_a_new_text_of_a_seen_step(by):
    pool = steps.pool(1_000, 0, steps.Domain((2, 40), (2, 9), (2, 40)))
    parts, of_row = steps.split(pool, by, 0), steps.operation(pool)
    assert parts.index.equals(pool.index)
    for k in range(len(OPERATORS)):
        shares = parts[of_row == k].value_counts(normalize=True)
        assert 0.06 < shares["test"] == shares["validation"] <= 0.1
        assert set(pool["value"][(of_row == k) & (parts == "train")]) == set(pool["value"][of_row == k])
    canonical = pool["template"] == steps.CANONICAL.id
    if by == "text":
        assert set(parts[canonical]) == {"train"}
    else:
        assert set(parts[canonical]) == {"train", "validation", "test"}
        assert not set(pool["structure"][parts == "test"]) & set(pool["structure"][parts != "test"])
