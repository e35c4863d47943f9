"""Nested experts: a vision transformer that gives each token as many of its features as it is worth.

`capacity` turns a compute budget into token counts, `assignment` says which token goes where, `vit` has the model,
`arms` what it is compared with, `flops` the closed forms, `digits` pictures whose important tokens are known,
`learning` the training, `maps` what a router does, `speed` what it saves on a clock.
"""

from redlib.nested.arms import ARMS, Depths, Dropping, Grouped, merging
from redlib.nested.capacity import SHARES, capacities, counts, spent, widths
from redlib.nested.vit import NestedViT, Route, Shape

__all__ = [
    "ARMS",
    "SHARES",
    "Depths",
    "Dropping",
    "Grouped",
    "NestedViT",
    "Route",
    "Shape",
    "capacities",
    "counts",
    "merging",
    "spent",
    "widths",
]
