"""Token states of many texts, stored once a trie node, gathered into padded batches."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


class TokenStates:
    """States of N texts: `nodes` (M, d) fp16, memory-mapped, and each text's way through them."""

    def __init__(self, nodes: np.ndarray, places: np.ndarray, offsets: np.ndarray, paths: np.ndarray) -> None:
        """`places` (N,) the distinct text of each row, whose nodes are paths[offsets[place] : offsets[place + 1]]."""
        self.nodes = nodes
        self._starts = offsets[:-1][places]
        self._paths = paths
        self.lengths: np.ndarray = np.diff(offsets)[places]

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor]:
        """States (B, T, d) fp32 of some rows, right-padded with zeros, and their mask (B, T), true at tokens."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self.lengths[rows]
        column = np.arange(lengths.max())
        mask = column < lengths[:, None]
        states = np.zeros((*mask.shape, self.nodes.shape[1]), dtype=np.float32)
        states[mask] = self.nodes[self._paths[(self._starts[rows][:, None] + column)[mask]]]
        return torch.from_numpy(states), torch.from_numpy(mask)
