"""Greedy decoding of many programs together, with keys and values kept, so that every token crosses each layer once.

Restricted to the grammar, tokens that it forces follow in the same pass as the chosen one. Unrestricted, the writer
chooses every token among all program tokens, up to the end token or the length of the longest program.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from redlib.backbone import Backbone
from redlib.backbone.layers import Tokens, room, run
from redlib.decomposer.grammar import START, WHOLE, Grammar
from redlib.decomposer.writer import Writer
from redlib.features.forward import parallel

BATCH = 64  # texts that one thread decodes together


@dataclass
class Written:
    """A program as it is written: its tokens, with the end token if it came, and the log-probability of each.

    Restricted, a probability is relative to what the grammar allows, and that of a forced token is 1.
    """

    tokens: list[int] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)


def greedy(
    backbone: Backbone,
    writer: Writer,
    grammar: Grammar,
    prompts: Sequence[Sequence[int]],
    restricted: bool = True,
    batch: int = BATCH,
) -> list[Written]:
    """The programs for N prompts (token ids, the last one is the backbone's end token), in their order."""
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))  # alike lengths end together
    groups = [order[first : first + batch] for first in range(0, len(order), batch)]

    def work(group: list[int]) -> list[Written]:
        return _Decoding(backbone, writer, grammar, [prompts[n] for n in group], restricted).finish()

    if len(groups) == 1:  # all threads on its products, instead of one
        with torch.no_grad():
            done = [work(groups[0])]
    else:
        (done,) = parallel(work, [groups], backbone.device)
    found = dict(zip((n for group in groups for n in group), (w for part in done for w in part), strict=True))
    return [found[n] for n in range(len(prompts))]


class _Decoding:
    """B programs under way: `pending` tokens of every text have not been through the layers yet."""

    def __init__(self, backbone, writer, grammar, prompts, restricted) -> None:
        self.backbone, self.writer, self.grammar, self.restricted = backbone, writer, grammar, restricted
        self.trunk = backbone.model.layers[: backbone.boundary]
        reach = max(map(len, prompts)) + grammar.longest
        like = backbone.model.embed_tokens.weight
        self.kept = room(self.trunk, len(prompts), reach, like)
        self.kept_top = room(writer.top.layers, len(prompts), reach, writer.readout.weight)
        self.allowed = torch.from_numpy(grammar.allowed).to(backbone.device)
        self.pending = [list(ids) for ids in prompts]
        self.filled = [0] * len(prompts)
        self.states = [START] * len(prompts)
        self.written = [Written() for _ in prompts]

    def finish(self) -> list[Written]:
        while rows := [b for b, ids in enumerate(self.pending) if ids]:
            logits = self._logits()
            if self.restricted:
                logits = logits.masked_fill(~self.allowed[[self.states[b] for b in rows]], -torch.inf)
            best = logits.log_softmax(-1).max(-1)
            for b, token, log in zip(rows, best.indices.tolist(), best.values.tolist(), strict=True):
                self._append(b, token, log)
        return self.written

    def _logits(self) -> Tensor:
        """Logits (rows, V) of what comes after the pending tokens of every text that has some."""
        counts = [len(ids) for ids in self.pending]
        device = self.backbone.device
        tokens = Tokens.following(counts, self.filled).to(device)
        ids = torch.tensor([token for ids in self.pending for token in ids], device=device)
        model = self.backbone.model
        states = run(self.trunk, model.rotary_emb, model.embed_tokens(ids), tokens, self.kept)
        last = np.cumsum([count for count in counts if count]) - 1
        self.filled = [filled + count for filled, count in zip(self.filled, counts, strict=True)]
        return self.writer.say(states, tokens, self.kept_top, torch.from_numpy(last).to(device))

    def _append(self, b: int, token: int, log: float) -> None:
        """Write a chosen token and, restricted, what it forces; nothing is pending when the program has ended."""
        grammar, written = self.grammar, self.written[b]
        chosen = [token]
        if self.restricted:
            chosen += grammar.forced[grammar.follows[self.states[b], token]]
            for one in chosen:
                self.states[b] = int(grammar.follows[self.states[b], one])
        written.tokens += chosen
        written.logs += [log, *[0.0] * (len(chosen) - 1)]
        ended = self.states[b] == WHOLE if self.restricted else token == grammar.end
        over = len(written.tokens) >= grammar.longest
        self.pending[b] = [] if ended or over else self.grammar.tokens[chosen].tolist()
