"""Decoder layers on the tokens of many texts laid end to end, with or without keys and values that are kept.

No product is spent on padding, and the last layer does its work only for the tokens that are asked for. The same
function as the decoder's own layers up to rounding (a test holds it to them); training, scoring and decoding share it.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Kept = tuple[Tensor, Tensor]  # keys and values of a layer, (B, room, groups, D) each


class Tokens:
    """n tokens of B texts: row (n,) says whose each is and position (n,) where it stands there."""

    def __init__(self, row: Tensor, position: Tensor, rows: int) -> None:
        self.row, self.position, self.rows = row, position, rows
        self.reach = int(position.max()) + 1

    def to(self, device: torch.device) -> "Tokens":
        """The same tokens with row and position (n,) on a device."""
        return Tokens(self.row.to(device), self.position.to(device), self.rows)

    def __getitem__(self, chosen: Tensor) -> "Tokens":
        return Tokens(self.row[chosen], self.position[chosen], self.rows)

    @staticmethod
    def following(counts: Sequence[int], start: Sequence[int]) -> "Tokens":
        """counts[b] tokens of text b, text after text, from position start[b] on."""
        counts, start = torch.tensor(counts), torch.tensor(start)
        row = torch.repeat_interleave(counts)
        place = torch.arange(len(row)) - (counts.cumsum(0) - counts)[row]
        return Tokens(row, start[row] + place, len(counts))


class _Asked:
    """Tokens that look at those before them in their text, as a padded batch (B, M) of queries."""

    def __init__(self, tokens: Tokens, reach: int) -> None:
        counts = torch.bincount(tokens.row, minlength=tokens.rows)
        self.row, self.rows, self.width = tokens.row, tokens.rows, int(counts.max())
        self.slot = torch.arange(len(tokens.row), device=tokens.row.device) - (counts.cumsum(0) - counts)[tokens.row]
        position = torch.zeros(self.rows, self.width, dtype=torch.int64, device=tokens.row.device)
        position[self.row, self.slot] = tokens.position
        sees = torch.arange(reach, device=tokens.row.device) <= position[:, :, None]
        self.mask = sees[:, None]  # (B, 1, M, T)

    def look(self, query: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
        """query (m, heads, D), keys and values (B, T, groups, D) -> (m, heads * D)."""
        padded = query.new_zeros(self.rows, self.width, *query.shape[1:]).index_put((self.row, self.slot), query)
        answer = F.scaled_dot_product_attention(
            padded.transpose(1, 2),
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=self.mask,
            scale=scale,
            enable_gqa=True,
        )
        return answer.transpose(1, 2)[self.row, self.slot].flatten(1)


def run(
    layers: Sequence[nn.Module],
    rotary: nn.Module,
    states: Tensor,
    tokens: Tokens,
    kept: Sequence[Kept] | None = None,
    asked: Tensor | None = None,
) -> Tensor:
    """States (n, d) of tokens after the layers; of the `asked` ones alone, (m, d), where `asked` (m,) says which.

    Tokens of one text stand together in order. `kept`: keys and values of every layer, of tokens that went before;
    those of these tokens are added to them. Without it these tokens are all that there are.
    """
    cos, sin = rotary(states, tokens.position[None])
    turn = cos[0, :, None], sin[0, :, None]
    everyone = _Asked(tokens, tokens.reach)
    for number, layer in enumerate(layers):
        past = _room(layer, states, tokens) if kept is None else kept[number]
        if asked is not None and number == len(layers) - 1:
            states = _layer(layer, states, tokens, turn, past, _Asked(tokens[asked], tokens.reach), asked)
        else:
            states = _layer(layer, states, tokens, turn, past, everyone)
    return states


def _layer(
    layer: Any,
    states: Tensor,
    tokens: Tokens,
    turn: tuple[Tensor, Tensor],
    past: Kept,
    look: _Asked,
    asked: Tensor | None = None,
) -> Tensor:
    attention = layer.self_attn
    unit = layer.input_layernorm(states)
    key = attention.k_proj(unit).unflatten(-1, (-1, attention.head_dim))
    value = attention.v_proj(unit).unflatten(-1, (-1, attention.head_dim))
    if hasattr(attention, "k_norm"):
        key = attention.k_norm(key)
    where = (tokens.row, tokens.position)
    keys, values = (_store(place, where, new) for place, new in zip(past, (_turned(key, *turn), value), strict=True))
    if asked is not None:
        states, unit, turn = states[asked], unit[asked], (turn[0][asked], turn[1][asked])
    query = attention.q_proj(unit).unflatten(-1, (-1, attention.head_dim))
    if hasattr(attention, "q_norm"):
        query = attention.q_norm(query)
    reach = tokens.reach
    seen = look.look(_turned(query, *turn), keys[:, :reach], values[:, :reach], attention.scaling)
    states = states + attention.o_proj(seen)
    return states + layer.mlp(layer.post_attention_layernorm(states))


def _store(place: Tensor, where: tuple[Tensor, Tensor], new: Tensor) -> Tensor:
    """New keys or values in their place: in a kept tensor itself, else in a copy through which gradients flow."""
    new = new.to(place.dtype)  # under autocast values are narrower than what is kept
    return place.index_put(where, new) if new.requires_grad else place.index_put_(where, new)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of (n, heads, D)."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def room(layers: Sequence[nn.Module], rows: int, reach: int, like: Tensor) -> list[Kept]:
    """Empty keys and values, (B, reach, groups, D) each, of every layer for B texts of at most `reach` tokens; of the
    type of `like`."""
    made = []
    for layer in layers:
        attention = layer.self_attn
        size = (rows, reach, attention.k_proj.out_features // attention.head_dim, attention.head_dim)
        made.append((like.new_zeros(size), like.new_zeros(size)))
    return made


def _room(layer: nn.Module, states: Tensor, tokens: Tokens) -> Kept:
    return room([layer], tokens.rows, tokens.reach, states)[0]
