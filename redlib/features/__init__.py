"""What a frozen backbone says about texts: pooled features and token states at any layer, computed once and cached."""

from redlib.features.forward import POOLINGS, Point, Shard, compute, sent, shards
from redlib.features.sites import LAST, POOLED, sites, token_spans
from redlib.features.states import TokenStates
from redlib.features.store import FeatureSet, token_states

__all__ = [
    "LAST",
    "POOLED",
    "POOLINGS",
    "FeatureSet",
    "Point",
    "Shard",
    "TokenStates",
    "compute",
    "sent",
    "shards",
    "sites",
    "token_spans",
    "token_states",
]
