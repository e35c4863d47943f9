"""Texts that share their beginnings, packed as prefix trees: a causal decoder computes a shared beginning once.

Texts sorted by their token ids are cut into rows; a row is a forest whose nodes stand in depth-first order, so the
descendants of a node follow it directly and "a sees b" is `b <= a < end of b's subtree`. Position ids are depths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

VERSION = 1  # part of every cache key: raise it when packing changes the numbers
WIDTH = 256  # nodes of a row
BATCH = 512  # nodes of a batch of rows

Ids = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Batch:
    """Some rows of a forest, padded at their ends: B rows of W nodes, at most E texts a row."""

    nodes: slice  # of the forest, in order
    texts: slice  # of the forest, in order
    ids: Tensor  # (B, W) int64
    depths: Tensor  # (B, W) int64
    ends: Tensor  # (B, W) int64, one past the last descendant, in the row
    tree: bool  # False: every row is one plain text
    real: Tensor  # (B, W) bool, false at the padding
    members: Tensor  # (B, E, W) bool, the nodes of each text
    last: Tensor  # (B, E, W) bool, the last node of each text
    held: Tensor  # (B, E) bool, false where a row has fewer than E texts

    @property
    def mask(self) -> Tensor | None:
        """(B, W, W) bool, true where a node sees another (itself and its ancestors); None for plain causal rows."""
        if not self.tree:
            return None
        node = torch.arange(self.ids.shape[1])
        sees = (node <= node[:, None]) & (node[:, None] < self.ends[:, None])
        return sees | torch.eye(len(node), dtype=torch.bool)


@dataclass(frozen=True)
class Forest:
    """M nodes in rows one after another, and the way of every one of n texts through them."""

    tokens: np.ndarray  # (M,) int64
    depths: np.ndarray  # (M,) int64
    ends: np.ndarray  # (M,) int64, one past the last descendant
    rows: np.ndarray  # (R + 1,) int64, first node of every row
    texts: np.ndarray  # (R + 1,) int64, first text of every row
    paths: np.ndarray  # (total tokens,) int32, the nodes of every text, text after text
    offsets: np.ndarray  # (n + 1,) int64, where the path of every text starts
    tree: bool  # False: every row is one plain text

    @property
    def last(self) -> np.ndarray:
        """(n,) the node of each text's last token."""
        return self.paths[self.offsets[1:] - 1]

    def cut(self, nodes: int = BATCH) -> Iterator[tuple[int, int]]:
        """(first, stop) of consecutive rows, as many as fit into about `nodes` nodes when padded to the widest."""
        sizes = np.diff(self.rows)
        first = 0
        while first < len(sizes):
            stop, widest = first, 0
            while stop < len(sizes) and max(widest, sizes[stop]) * (stop + 1 - first) <= max(nodes, sizes[first]):
                widest = max(widest, sizes[stop])
                stop += 1
            yield first, stop
            first = stop

    def batch(self, first: int, stop: int) -> Batch:
        """The rows from `first` to `stop`, padded."""
        sizes = torch.from_numpy(np.diff(self.rows[first : stop + 1]))
        counts = torch.from_numpy(np.diff(self.texts[first : stop + 1]))
        nodes = slice(int(self.rows[first]), int(self.rows[stop]))
        texts = slice(int(self.texts[first]), int(self.texts[stop]))
        column = torch.arange(int(sizes.max()))
        real = column < sizes[:, None]
        held = torch.arange(int(counts.max())) < counts[:, None]
        starts = np.repeat(self.rows[first:stop], np.diff(self.rows[first : stop + 1]))
        text_starts = np.repeat(self.rows[first:stop], np.diff(self.texts[first : stop + 1]))
        ids = _padded(self.tokens[nodes], real)
        ends = _padded(self.ends[nodes] - starts, real)
        end_nodes = _padded(self.last[texts] - text_starts, held)[:, :, None]
        return Batch(
            nodes=nodes,
            texts=texts,
            ids=ids,
            depths=_padded(self.depths[nodes], real),
            ends=ends,
            tree=self.tree,
            real=real,
            members=(column <= end_nodes) & (end_nodes < ends[:, None]),
            last=column == end_nodes,
            held=held,
        )


def _padded(values: np.ndarray, where: Tensor) -> Tensor:
    result = torch.zeros(where.shape, dtype=torch.int64)
    result[where] = torch.from_numpy(values.astype(np.int64))
    return result


def sort(ids: Ids, tree: bool = True) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """(distinct texts in packing order, (N,) place of every given text among them).

    Packing order is by token ids where beginnings are shared, else by length.
    """
    given = [tuple(text) for text in ids]
    distinct = sorted(set(given), key=None if tree else lambda text: (len(text), text))
    places = {text: place for place, text in enumerate(distinct)}
    return distinct, np.array([places[text] for text in given], dtype=np.int64)


def pack(texts: Ids, width: int = WIDTH) -> Forest:
    """Texts sorted by token ids, packed into rows of at most `width` nodes (a longer text is a row of its own)."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    table = _table(texts, lengths)  # (n, T), -1 behind the end
    differs = np.ones_like(table, dtype=bool)
    differs[1:] = (table[1:] != table[:-1]) | (table[1:] < 0)
    differs = np.concatenate([differs, np.ones((len(texts), 1), dtype=bool)], axis=1)
    shared = differs.argmax(axis=1)  # length of the beginning shared with the text before
    starts = _row_starts(lengths, shared, width)
    shared[starts] = 0
    return _forest(table, lengths, shared, starts, tree=True)


def plain(texts: Ids) -> Forest:
    """Every text as a row of its own: the plain padded pass, for reference and as a fallback."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    every = np.arange(len(texts))
    return _forest(_table(texts, lengths), lengths, np.zeros_like(lengths), every, tree=False)


def _table(texts: Ids, lengths: np.ndarray) -> np.ndarray:
    table = np.full((len(texts), lengths.max()), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = np.concatenate([np.asarray(text) for text in texts])
    return table


def _row_starts(lengths: np.ndarray, shared: np.ndarray, width: int) -> np.ndarray:
    starts, used = [], 0
    for text, (length, common) in enumerate(zip(lengths.tolist(), shared.tolist(), strict=True)):
        if text == 0 or used + length - common > width:
            starts.append(text)
            used = length
        else:
            used += length - common
    return np.array(starts, dtype=np.int64)


def _forest(table: np.ndarray, lengths: np.ndarray, shared: np.ndarray, starts: np.ndarray, tree: bool) -> Forest:
    """Number the nodes: a text adds a node for each token behind the beginning that it shares with the one before."""
    count, longest = table.shape
    depth = np.arange(longest)
    first_node = np.concatenate([[0], np.cumsum(lengths - shared)])  # of each text, and the end
    fresh = (depth >= shared[:, None]) & (depth < lengths[:, None])  # (n, T) tokens that are new nodes
    opener = np.maximum.accumulate(np.where(depth >= shared[:, None], np.arange(count)[:, None], 0), axis=0)
    nodes = first_node[opener] + depth - shared[opener]  # (n, T) node of each token
    closes = np.where(depth >= shared[1:, None], np.arange(1, count)[:, None], count)
    closer = np.full((count, longest), count)
    closer[:-1] = np.minimum.accumulate(closes[::-1], axis=0)[::-1]  # the next text that leaves this node's subtree
    return Forest(
        tokens=table[fresh],
        depths=np.broadcast_to(depth, table.shape)[fresh],
        ends=first_node[closer][fresh],
        rows=np.append(first_node[starts], first_node[-1]),
        texts=np.append(starts, count),
        paths=nodes[depth < lengths[:, None]].astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        tree=tree,
    )
