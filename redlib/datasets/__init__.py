"""Data sets: a pool of texts for a task, its splits, checks of both, and files in and out (the source, 4.2).

A pool has one row a text; `split` assigns every row of it to a part, differently for each kind of split.
"""

from redlib.datasets.chains import STEPS
from redlib.datasets.confounds import confounds
from redlib.datasets.files import load, load_jsonl, save
from redlib.datasets.pool import COLUMNS, TASKS, build, one_per_pair
from redlib.datasets.population import CANONICAL, pairs, population, with_operands
from redlib.datasets.report import budget, conflicts, report
from redlib.datasets.splits import SPLITS, held_out, split

__all__ = [
    "CANONICAL",
    "COLUMNS",
    "SPLITS",
    "STEPS",
    "TASKS",
    "budget",
    "build",
    "conflicts",
    "confounds",
    "held_out",
    "load",
    "load_jsonl",
    "one_per_pair",
    "pairs",
    "population",
    "report",
    "save",
    "split",
    "with_operands",
]
