"""From predictions to tables: one long frame of predictions in, tidy rows with intervals out.

`evaluate` gives every metric; `bias_by_value`, `range_confusion` and `operand_map` give what the figures draw;
`levels` reads a table through the source's thresholds, `near_boundaries` the bias at the ranges' edges. Over a whole
population of operand pairs, `Sweep` follows a method along the value axis and `pair_maps` has every pair once.
"""

from redlib.evaluation.boundaries import near_boundaries
from redlib.evaluation.errors import ERROR_KINDS, digit, error_kinds, signed_errors
from redlib.evaluation.history import epochs, onset, training_curves
from redlib.evaluation.levels import ACCURACY_LEVELS, MACRO_F1_LEVELS, level, levels
from redlib.evaluation.maps import bias_by_value, operand_map, range_confusion
from redlib.evaluation.population import pair_maps
from redlib.evaluation.predict import predict
from redlib.evaluation.predictions import COLUMNS, NO_ANSWER, PREDICTION_COLUMNS, check
from redlib.evaluation.sweeps import Sweep, held_back
from redlib.evaluation.tables import evaluate

__all__ = [
    "ACCURACY_LEVELS",
    "COLUMNS",
    "ERROR_KINDS",
    "MACRO_F1_LEVELS",
    "NO_ANSWER",
    "PREDICTION_COLUMNS",
    "Sweep",
    "bias_by_value",
    "check",
    "digit",
    "epochs",
    "error_kinds",
    "evaluate",
    "held_back",
    "level",
    "levels",
    "near_boundaries",
    "onset",
    "operand_map",
    "pair_maps",
    "predict",
    "range_confusion",
    "signed_errors",
    "training_curves",
]
