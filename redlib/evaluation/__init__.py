"""From predictions to tables: one long frame of predictions in, tidy rows with intervals out.

`evaluate` gives every metric; `bias_by_value`, `range_confusion` and `operand_map` give what the figures draw;
`levels` reads a table through the source's thresholds, `near_boundaries` the bias at the ranges' edges.
"""

from redlib.evaluation.boundaries import near_boundaries
from redlib.evaluation.history import epochs, training_curves
from redlib.evaluation.levels import ACCURACY_LEVELS, MACRO_F1_LEVELS, level, levels
from redlib.evaluation.maps import bias_by_value, operand_map, range_confusion
from redlib.evaluation.predict import predict
from redlib.evaluation.predictions import COLUMNS, PREDICTION_COLUMNS, check
from redlib.evaluation.tables import evaluate

__all__ = [
    "ACCURACY_LEVELS",
    "COLUMNS",
    "MACRO_F1_LEVELS",
    "PREDICTION_COLUMNS",
    "bias_by_value",
    "check",
    "epochs",
    "evaluate",
    "level",
    "levels",
    "near_boundaries",
    "operand_map",
    "predict",
    "range_confusion",
    "training_curves",
]
