"""A frozen decoder that can be entered and left at any layer.

Index l of a hidden state: 0 the embeddings, l after l layers, L (or -1) after all layers and the final norm.
"""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from redlib.backbone import layers as end_to_end


class Backbone:
    """A decoder with its tokenizer and its freeze boundary: layers below it are computed once and never trained."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        display: str,
        weights_id: str,
        top_layers: int = 2,
        evidence: bool = True,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name
        self.display = display
        self.weights_id = weights_id
        self.evidence = evidence
        self.hidden_size: int = model.config.hidden_size
        self.layers: int = len(model.layers)
        if not 0 <= top_layers <= self.layers:
            raise ValueError(f"top_layers must be between 0 and {self.layers} for {display}, got {top_layers}")
        self.boundary = self.layers - top_layers

    def __repr__(self) -> str:
        return f"Backbone({self.display}, d={self.hidden_size}, layers={self.layers}, boundary={self.boundary})"

    @property
    def device(self) -> torch.device:
        """Where its weights lie."""
        return self.model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights."""
        return self.model.embed_tokens.weight.dtype

    def encode(self, texts: Iterable[str]) -> list[list[int]]:
        """Token ids of every text, without special tokens; ValueError for a text without tokens."""
        texts = list(texts)
        if not texts:
            return []
        ids = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        for text, tokens in zip(texts, ids, strict=True):
            if not tokens:
                raise ValueError(f"text {text!r} has no tokens")
        return ids

    def layer(self, index: int) -> int:
        """The index with -1 counted from the end; ValueError outside 0..L."""
        positive = index + self.layers + 1 if index < 0 else index
        if not 0 <= positive <= self.layers:
            raise ValueError(f"{self.display} has no hidden state {index}; valid layers: 0 to {self.layers}, or -1")
        return positive

    def run(
        self, ids: Tensor, mask: Tensor | None = None, positions: Tensor | None = None, keep: Iterable[int] = (-1,)
    ) -> dict[int, Tensor]:
        """Hidden states {layer: (B, T, d)} of token ids (B, T) at the layers asked for, and no layer beyond them.

        `mask`: None or (B, T) of right-padded rows for plain causal attention, else (B, T, T), true where a query
        (second axis) sees a key. `positions` (B, T) default to 0, 1, 2, ...
        """
        return self.replay(self.model.embed_tokens(ids), 0, mask, positions, keep)

    def replay(
        self,
        states: Tensor,
        start: int,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        keep: Iterable[int] = (-1,),
    ) -> dict[int, Tensor]:
        """Like `run`, entering with the hidden states (B, T, d) of layer `start`."""
        start = self.layer(start)
        wanted = sorted({index: self.layer(index) for index in keep}.items(), key=lambda item: item[1])
        if not wanted or wanted[0][1] < start:
            raise ValueError(f"layers {[index for index, _ in wanted]} cannot be computed from layer {start}")
        attention = attention_mask(mask, states.dtype)
        if positions is None:
            positions = torch.arange(states.shape[1], device=states.device)[None]
        rotary = self.model.rotary_emb(states, positions)
        kept = {}
        reached = start
        for index, layer in wanted:
            for decoder in self.model.layers[reached:layer]:
                states = decoder(states, attention_mask=attention, position_embeddings=rotary)
            if layer == self.layers and reached < layer:
                states = self.model.norm(states)
            kept[index] = states
            reached = layer
        return kept

    def top(self, layers: int) -> "Top":
        """A trainable copy of the top layers and the final norm: (states (B, T, d), mask) -> states (B, T, d)."""
        if not 0 <= layers <= self.layers:
            raise ValueError(f"{self.display} has {self.layers} layers; cannot take the top {layers}")
        return copy.deepcopy(
            Top(self.model.layers[self.layers - layers :], self.model.norm, self.model.rotary_emb)
        ).requires_grad_(True)


class Top(nn.Module):
    """Decoder layers with the final norm, entered with hidden states of the boundary."""

    def __init__(self, layers: Iterable[nn.Module], norm: nn.Module, rotary: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.rotary = rotary

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """States (B, T, d) at the boundary and their mask (B, T), true at the tokens of right-padded rows, to final
        states (B, T, d), zero behind the end of a text: no product is spent on padding."""
        if not self.layers:  # above the last layer, states are normed already
            return states * mask[..., None]
        _check(mask, (2,))
        row, position = mask.nonzero(as_tuple=True)
        tokens = end_to_end.Tokens(row, position, len(mask))
        said = self.norm(end_to_end.run(self.layers, self.rotary, states[mask], tokens))
        return said.new_zeros(states.shape).index_put((row, position), said)


def attention_mask(mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """None for causal attention, or an additive (B, 1, T, T) mask of what each query may see.

    Real tokens of right-padded rows never see the padding behind them, so such rows need no mask.
    """
    if mask is None:
        return None
    _check(mask, (2, 3))
    if mask.dim() == 2:
        return None
    additive = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return additive.masked_fill_(~mask, torch.finfo(dtype).min)[:, None]


def _check(mask: Tensor, axes: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool or mask.dim() not in axes:
        shapes = " or ".join({2: "(B, T)", 3: "(B, T, T)"}[count] for count in axes)
        raise ValueError(f"mask must be boolean {shapes}, got {mask.dtype} {tuple(mask.shape)}")
    if mask.dim() == 2 and bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise ValueError("a (B, T) mask must be padded on the right")
