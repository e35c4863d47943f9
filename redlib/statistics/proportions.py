"""Wilson and McNemar: only where rows are independent (one row a structure)."""

from dataclasses import dataclass

import numpy as np

LEVEL = 0.95


@dataclass(frozen=True)
class McNemar:
    """Two-sided p value, and how many rows only the first and only the second got right, out of n."""

    p: float
    only_a: int
    only_b: int
    n: int


def wilson(k: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval of a proportion k / n of independent rows; ValueError unless 0 <= k <= n and n > 0."""
    if not (n > 0 and 0 <= k <= n):
        raise ValueError(f"a proportion needs 0 <= k <= n and n > 0, got k = {k} and n = {n}")
    from statsmodels.stats.proportion import proportion_confint  # slow to import, and reading results does not need it

    low, high = proportion_confint(k, n, alpha=1 - level, method="wilson")
    return 0.0 if k == 0 else float(low), 1.0 if k == n else float(high)


def mcnemar(a_correct: np.ndarray, b_correct: np.ndarray) -> McNemar:
    """McNemar's test of two methods on the same independent rows (bool, (N,)): exact below 25 discordant rows, else
    chi-squared with continuity correction. No discordant row: p = 1."""
    a, b = np.asarray(a_correct, bool), np.asarray(b_correct, bool)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ValueError(f"McNemar's test needs two equally long lists of rows, got shapes {a.shape} and {b.shape}")
    only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
    both, neither = int((a & b).sum()), int((~a & ~b).sum())
    discordant = only_a + only_b
    p = 1.0
    if discordant:
        from statsmodels.stats.contingency_tables import mcnemar as test

        p = float(test([[both, only_a], [only_b, neither]], exact=discordant < 25, correction=True).pvalue)
    return McNemar(min(p, 1.0), only_a, only_b, a.size)
