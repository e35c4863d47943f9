"""The source's claims as data, our measurements beside them, and a verdict on each.

`described` has every claim in one form, `check` judges all of them by a record; the chapters' own verdicts
(`verdicts`, `task2_verdicts`, ...) are what sentences are judged by.
"""

from redlib.claims.ablations import ablation_verdicts, ablations_beside
from redlib.claims.across import bottleneck_verdicts, harder_verdicts, single_verdicts, usage_verdicts
from redlib.claims.beyond import beyond
from redlib.claims.catalogue import DESCRIBED, DOCUMENTS, KINDS, described
from redlib.claims.checking import CHECKED, check
from redlib.claims.cost import cost_verdicts
from redlib.claims.deciding import CONTRADICTED, MEANINGS, OWN, VERDICTS
from redlib.claims.decomposed import decomposed_verdicts, executed_beside
from redlib.claims.epochs import epoch_verdicts
from redlib.claims.judges import JUDGES, Record
from redlib.claims.judging import FAILS, HOLDS, OPEN, OTHERS, SURVIVES
from redlib.claims.modularity import modularity_verdicts
from redlib.claims.nested import ADVANTAGES, DEPARTURES, beside_patch, nested_verdicts
from redlib.claims.reported import COLUMNS, METHODS, METRICS, STATED_LEVELS, beside, load, path, stated_levels
from redlib.claims.summary import counts, drawn, reason, reasons, waiting
from redlib.claims.task1 import verdicts
from redlib.claims.task2 import kinds, task2_verdicts

__all__ = [
    "ADVANTAGES",
    "CHECKED",
    "COLUMNS",
    "CONTRADICTED",
    "DEPARTURES",
    "DESCRIBED",
    "DOCUMENTS",
    "FAILS",
    "HOLDS",
    "JUDGES",
    "KINDS",
    "MEANINGS",
    "METHODS",
    "METRICS",
    "OPEN",
    "OTHERS",
    "OWN",
    "STATED_LEVELS",
    "SURVIVES",
    "VERDICTS",
    "Record",
    "ablation_verdicts",
    "ablations_beside",
    "beside",
    "beside_patch",
    "beyond",
    "bottleneck_verdicts",
    "check",
    "cost_verdicts",
    "counts",
    "decomposed_verdicts",
    "described",
    "drawn",
    "epoch_verdicts",
    "executed_beside",
    "harder_verdicts",
    "kinds",
    "load",
    "modularity_verdicts",
    "nested_verdicts",
    "path",
    "reason",
    "reasons",
    "single_verdicts",
    "stated_levels",
    "task2_verdicts",
    "usage_verdicts",
    "verdicts",
    "waiting",
]
