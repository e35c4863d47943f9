"""Trained parts on disk, each file with a passport, and RED as a library of named experts.

The passport says which backbone weights, layer, pooling, label space, data, split and seed the parts belong to, and a
probe batch what they answer: a file that was changed, or is loaded where it does not belong, is refused in a sentence.
`save`, `load`, `load_method` are for parts; `Library` adds, removes, replaces and splits experts; `HubModule` is a file
as a repository of the Hugging Face hub.
"""

from redlib.modules.card import model_card
from redlib.modules.experts import Library
from redlib.modules.files import load, load_method, read_passport, save
from redlib.modules.hub import HubModule
from redlib.modules.passport import FIELDS, FORMAT, check_backbone, complete, tokenizer_id
from redlib.modules.probe import ROWS_OF_STATES, TOLERANCE, Answer, Probe
from redlib.modules.specs import State

__all__ = [
    "FIELDS",
    "FORMAT",
    "ROWS_OF_STATES",
    "TOLERANCE",
    "Answer",
    "HubModule",
    "Library",
    "Probe",
    "State",
    "check_backbone",
    "complete",
    "load",
    "load_method",
    "model_card",
    "read_passport",
    "save",
    "tokenizer_id",
]
