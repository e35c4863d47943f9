"""The one dial: a `Profile` says how much is computed, on which backbone, with which settings.

`load("laptop", {"task1.rows": 8000})` returns an immutable profile; an unknown profile, field or type is an error
that names the valid ones. A stage hashes only the parts of the profile that it reads.
"""

from redlib.config.loading import load
from redlib.config.profiles import PROFILES
from redlib.config.recipes import LongTraining, PlusBeyond, PlusForm, PlusParts, PlusWordings, RedPlus
from redlib.config.sections import (
    PARTS,
    Ablations,
    Arithmetic,
    BackboneConfig,
    Config,
    Decomposer,
    Definition,
    Domain,
    Fair,
    Hardness,
    Modularity,
    Nested,
    Operations,
    PlannerTraining,
    Pooling,
    Population,
    Probe,
    Profile,
    Recipe,
    Schedule,
    Selection,
    Sparse,
    Split,
    Task1,
    Task2,
    Training,
)

__all__ = [
    "PARTS",
    "PROFILES",
    "Ablations",
    "Arithmetic",
    "BackboneConfig",
    "Config",
    "Decomposer",
    "Definition",
    "Domain",
    "Fair",
    "Hardness",
    "LongTraining",
    "Modularity",
    "Nested",
    "Operations",
    "PlannerTraining",
    "PlusBeyond",
    "PlusForm",
    "PlusParts",
    "PlusWordings",
    "Pooling",
    "Population",
    "Probe",
    "Profile",
    "Recipe",
    "RedPlus",
    "Schedule",
    "Selection",
    "Sparse",
    "Split",
    "Task1",
    "Task2",
    "Training",
    "load",
]
