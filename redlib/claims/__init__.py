"""The source's reported numbers as data, our measurements beside them, and verdicts on what it concludes."""

from redlib.claims.cost import cost_verdicts
from redlib.claims.judging import FAILS, HOLDS, OPEN, OTHERS, SURVIVES
from redlib.claims.reported import COLUMNS, METHODS, METRICS, STATED_LEVELS, beside, load, path, stated_levels
from redlib.claims.task1 import verdicts
from redlib.claims.task2 import kinds, task2_verdicts

__all__ = [
    "COLUMNS",
    "FAILS",
    "HOLDS",
    "METHODS",
    "METRICS",
    "OPEN",
    "OTHERS",
    "STATED_LEVELS",
    "SURVIVES",
    "beside",
    "cost_verdicts",
    "kinds",
    "load",
    "path",
    "stated_levels",
    "task2_verdicts",
    "verdicts",
]
