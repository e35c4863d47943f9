"""The source's reported numbers as data, our measurements beside them, and verdicts on what it concludes."""

from redlib.claims.ablations import ablation_verdicts, ablations_beside
from redlib.claims.cost import cost_verdicts
from redlib.claims.decomposed import decomposed_verdicts, executed_beside
from redlib.claims.judging import FAILS, HOLDS, OPEN, OTHERS, SURVIVES
from redlib.claims.modularity import modularity_verdicts
from redlib.claims.nested import ADVANTAGES, DEPARTURES, nested_verdicts
from redlib.claims.reported import COLUMNS, METHODS, METRICS, STATED_LEVELS, beside, load, path, stated_levels
from redlib.claims.task1 import verdicts
from redlib.claims.task2 import kinds, task2_verdicts

__all__ = [
    "ADVANTAGES",
    "COLUMNS",
    "DEPARTURES",
    "FAILS",
    "HOLDS",
    "METHODS",
    "METRICS",
    "OPEN",
    "OTHERS",
    "STATED_LEVELS",
    "SURVIVES",
    "ablation_verdicts",
    "ablations_beside",
    "beside",
    "cost_verdicts",
    "decomposed_verdicts",
    "executed_beside",
    "kinds",
    "load",
    "modularity_verdicts",
    "nested_verdicts",
    "path",
    "stated_levels",
    "task2_verdicts",
    "verdicts",
]
