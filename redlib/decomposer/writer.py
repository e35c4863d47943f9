"""The trained part of a planner: top layers of the backbone, the final norm and a readout over the program tokens.

Shapes: B texts of T tokens, d hidden size, V program tokens, M tokens of the longest program.
"""

import torch
from torch import Tensor, nn

from redlib.backbone import Backbone, Top
from redlib.backbone.layers import Tokens, run
from redlib.decomposer.grammar import Grammar


class Writer(nn.Module):
    """States at the boundary -> logits of the program's next tokens.

    The readout starts as the backbone's own embeddings of the program tokens.
    """

    def __init__(self, top: Top, readout: Tensor, longest: int) -> None:
        super().__init__()
        self.top, self.longest = top, longest
        self.readout = nn.Linear(readout.shape[1], len(readout), bias=False)
        self.readout.weight.data.copy_(readout)

    @classmethod
    def of(cls, backbone: Backbone, grammar: Grammar) -> "Writer":
        """An untrained writer, in float32, for everything above the boundary; ValueError where nothing is above it."""
        layers = backbone.layers - backbone.boundary
        if not layers:
            raise ValueError(f"a planner trains the backbone's top layers, and top_layers is 0 for {backbone.display}")
        readout = backbone.model.embed_tokens.weight[torch.from_numpy(grammar.tokens).to(backbone.device)]
        return cls(backbone.top(layers), readout, grammar.longest).to(backbone.device, torch.float32)

    def forward(self, states: Tensor, mask: Tensor, starts: Tensor) -> Tensor:
        """States (B, T, d), mask (B, T) and the first position (B,) that has a program token to say -> (1, B, M, V),
        zero behind the end of a text."""
        row, position = mask.nonzero(as_tuple=True)
        asked = (position >= starts[row]).nonzero()[:, 0]
        logits = self.say(states[mask], Tokens(row, position, len(mask)), asked=asked)
        where = (row[asked], position[asked] - starts[row[asked]])
        return logits.new_zeros(len(mask), self.longest, logits.shape[-1]).index_put(where, logits)[None]

    def say(self, states: Tensor, tokens: Tokens, kept=None, asked: Tensor | None = None) -> Tensor:
        """Logits (m, V) of the tokens after the `asked` ones (m,), from states (n, d) at the boundary."""
        states = states.to(self.readout.weight.dtype)
        return self.readout(self.top.norm(run(self.top.layers, self.top.rotary, states, tokens, kept, asked))).float()
