"""How much computation a layer of sparse experts saves, and against what.

The formula of the savings note sets k of E experts against all E and leaves the router out. Here one multiplication
with its addition is one operation, as there.
"""

from numbers import Integral

import pandas as pd

EXAMPLES = ((1000, 2, 512, 512), (10, 1, 64, 64), (16, 2, 256, 512))  # the note's own: E, k, d_in, d_out
COLUMNS = ("comparison", "operations", "against", "saved")


def sparse_savings(num_experts: int, active_experts: int, input_dim: int, output_dim: int) -> float:
    """Per cent of the operations of E experts that a layer saves in which k of them act: 100 (1 - k/E), one decimal.

    The dimensions cancel. ValueError unless all are whole numbers, 1 <= k <= E and the dimensions are positive.
    """
    E, k, d_in, d_out = _checked(num_experts, active_experts, input_dim, output_dim)
    return _saved(k * d_in * d_out, E * d_in * d_out)


def sparse_savings_with_router(num_experts: int, active_experts: int, input_dim: int, output_dim: int) -> float:
    """The same with the router's work counted, a linear map to one score an expert: 100 (1 - k/E - 1/d_out).

    Below zero where the router costs more than the experts that rest.
    """
    E, k, d_in, d_out = _checked(num_experts, active_experts, input_dim, output_dim)
    return _saved(k * d_in * d_out + d_in * E, E * d_in * d_out)


def view(num_experts: int, active_experts: int, input_dim: int, output_dim: int) -> pd.DataFrame:
    """The saving against everything that it can be set against, one comparison a row.

    Columns: comparison, operations (of the layer), against (operations of what it is compared with), saved (per cent).
    RED's row lets all experts act, as RED does. ValueError as `sparse_savings`.
    """
    E, k, d_in, d_out = _checked(num_experts, active_experts, input_dim, output_dim)
    one, router = d_in * d_out, d_in * E
    rows = (
        ("all experts, router left out (the savings note)", k * one, E * one),
        ("all experts, router counted", k * one + router, E * one),
        ("a dense layer of equal parameters, router counted", k * one + router, E * one + router),
        ("one plain layer of the same dimensions, router counted", k * one + router, one),
        ("RED: all experts act, router left out", E * one, E * one),
    )
    return pd.DataFrame([(*row, _saved(*row[1:])) for row in rows], columns=list(COLUMNS))


def _saved(operations: int, against: int) -> float:
    return round(100 * (against - operations) / against, 1)


def _checked(*given: int) -> tuple[int, int, int, int]:
    names = ("num_experts", "active_experts", "input_dim", "output_dim")
    for name, value in zip(names, given, strict=True):
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    E, k, d_in, d_out = (int(value) for value in given)
    if k > E:
        raise ValueError(f"active_experts must be between 1 and num_experts={E}, got {k}")
    return E, k, d_in, d_out
