"""States at named tokens of a text (an operand, the operator, the last token) at several depths, in one pass.

A causal decoder's state at a token is the last state of the text cut off behind it. So the cut texts go through the
packed pass beside the whole ones, and the prefix tree, which they are part of, computes nothing twice.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from redlib import packing
from redlib.backbone import Backbone
from redlib.features import forward
from redlib.features.forward import Point

POOLED, LAST = "pooled", "last_token"
Site = tuple[int, str]  # layer, name of the place


def token_spans(
    backbone: Backbone, texts: Sequence[str], spans: Sequence[Mapping[str, tuple[int, int]]]
) -> dict[str, np.ndarray]:
    """Stretches of characters as stretches of tokens: {name: (N, 2)}, the first token and one past the last.

    `spans` has one {name: (first character, one past the last)} a text. A token that holds any character of a stretch
    belongs to it; ValueError where none does.
    """
    offsets = backbone.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    found = {}
    for name in spans[0]:
        found[name] = np.empty((len(texts), 2), np.int64)
        for row, (text, places) in enumerate(zip(texts, offsets, strict=True)):
            first, stop = spans[row][name]
            inside = [token for token, (start, end) in enumerate(places) if start < stop and end > first]
            if not inside:
                raise ValueError(f"no token of {text!r} holds its {name} at characters {first} to {stop}")
            found[name][row] = inside[0], inside[-1] + 1
    return found


def sites(
    backbone: Backbone, texts: Sequence[str], stops: Mapping[str, np.ndarray], layers: Iterable[int]
) -> dict[Site, np.ndarray]:
    """States {(layer, place): (N, d) fp32} of N texts, in their order.

    Places are "pooled" (the mean over all tokens), "last_token", and for every (N,) array of `stops` the last of so
    many tokens. ValueError for a stop outside 1..T.
    """
    encoded = backbone.encode(texts)
    lengths = np.array([len(tokens) for tokens in encoded])
    for name, stop in stops.items():
        outside = (stop < 1) | (stop > lengths)
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(f"{name}: {texts[row]!r} has {lengths[row]} tokens, and token {stop[row]} was asked for")
    cut = {POOLED: lengths, LAST: lengths, **stops}
    beginnings = [tokens[:stop] for stop_of in cut.values() for tokens, stop in zip(encoded, stop_of, strict=True)]
    distinct, where = packing.sort(beginnings)
    place_of = dict(zip(cut, where.reshape(len(cut), len(encoded)), strict=True))  # of each text among the distinct
    layers = list(layers)
    points = [Point(layer, pooling) for layer in layers for pooling in ("mean", "last")]
    size = (len(encoded), backbone.hidden_size)
    states = {(layer, name): np.empty(size, np.float32) for layer in layers for name in cut}
    first = 0
    for shard in forward.shards(backbone, distinct, points):
        stop = first + len(shard.lengths)
        for (layer, name), filled in states.items():
            here = np.flatnonzero((place_of[name] >= first) & (place_of[name] < stop))
            pooled = shard.pooled[Point(layer, "mean" if name == POOLED else "last")]
            filled[here] = pooled[place_of[name][here] - first]
        first = stop
    return states
