"""Every figure of the study: one `draw_x(frame, ...)` each, from the committed tables; `save` writes PNG and SVG.

A frame is the table that the function names; every function selects its own rows and fails by name when they are
missing. `profile` and `backbone` go into the subtitle, `note` into a visible band (a smoke run's warning).
"""

from redlib.figures.circles import draw_value_circles, value_circles
from redlib.figures.differences import draw_differences
from redlib.figures.foundations import (
    draw_data_balance,
    draw_learning_curve,
    draw_pair_counts,
    draw_probe_depth,
    draw_training_curves,
)
from redlib.figures.style import save
from redlib.figures.task1 import (
    draw_accuracy_by_range,
    draw_bias_by_value,
    draw_memorisation_gap,
    draw_operand_map,
    draw_range_confusion,
    draw_reported_beside_measured,
    draw_router_reliability,
)
from redlib.figures.toy import draw_toy_mixing, toy_mixing

NO_EVIDENCE = "machinery only, no evidence"

__all__ = [
    "NO_EVIDENCE",
    "draw_accuracy_by_range",
    "draw_bias_by_value",
    "draw_data_balance",
    "draw_differences",
    "draw_learning_curve",
    "draw_memorisation_gap",
    "draw_operand_map",
    "draw_pair_counts",
    "draw_probe_depth",
    "draw_range_confusion",
    "draw_reported_beside_measured",
    "draw_router_reliability",
    "draw_toy_mixing",
    "draw_training_curves",
    "draw_value_circles",
    "save",
    "toy_mixing",
    "value_circles",
]
