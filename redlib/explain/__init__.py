"""Any question explained: how it was read and routed, what each expert adds, what else could have been answered.

`Explainer.explain(text)` returns an `Explanation`; `Intervention` changes weights or experts on the way there. Nothing
here draws, trains or opens files: trained parts are passed in.
"""

from redlib.explain.additive import TOLERANCE, Additive
from redlib.explain.explainer import Explainer, Reading, View
from redlib.explain.explanation import Answer, Expert, Explanation
from redlib.explain.intervention import NOTHING, Intervention
from redlib.explain.model import Model
from redlib.explain.notes import MAX_TOKENS
from redlib.explain.seen import Neighbour, Structures
from redlib.explain.tipping import Tipping, easiest, tipping
from redlib.explain.walk import operators, question, read_walk, seconds, walk_table

__all__ = [
    "MAX_TOKENS",
    "NOTHING",
    "TOLERANCE",
    "Additive",
    "Answer",
    "Expert",
    "Explainer",
    "Explanation",
    "Intervention",
    "Model",
    "Neighbour",
    "Reading",
    "Structures",
    "Tipping",
    "View",
    "easiest",
    "operators",
    "question",
    "read_walk",
    "seconds",
    "tipping",
    "walk_table",
]
