"""Decoding of many programs together, with keys and values kept, so that every token crosses each layer once.

Kept to a grammar, tokens that it forces follow in the same pass as the chosen one. Unrestricted, the writer chooses
every token among all program tokens, up to the end token or the length of the longest program. `greedy` takes the most
probable token each time; `search` looks for the program that is most probable as a whole.
"""

import heapq
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
BEGINNINGS = 8  # other beginnings of a program, at most, that a search follows


@dataclass
class Written:
    """A program as it is written: its tokens, with the end token if it came, and the log-probability of each.

    Log-probabilities are the writer's own, among all program tokens, whatever a grammar allows or forces. choices: the
    place of every token that was chosen, and the log-probabilities (V,) of what could have been, -inf for the others.
    """

    tokens: list[int] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)
    choices: list[tuple[int, np.ndarray]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The log-probability of the whole program."""
        return sum(self.logs)


def greedy(
    backbone: Backbone,
    writer: Writer,
    grammar: Grammar,
    prompts: Sequence[Sequence[int]],
    kept: Sequence[Grammar] | None,
    begun: Sequence[Sequence[int]] | None = None,
    batch: int = BATCH,
) -> list[Written]:
    """The programs for N prompts (token ids, the last one is the backbone's end token), in their order.

    kept (N,): the grammar that each program keeps to, over the tokens of `grammar`; None: unrestricted. begun (N,): the
    program tokens that each begins with.
    """
    begun = begun or [()] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]) + len(begun[n]))  # alike lengths end together
    groups = [order[first : first + batch] for first in range(0, len(order), batch)]

    def work(group: list[int]) -> list[Written]:
        own, given = kept and [kept[n] for n in group], [(prompts[n], begun[n]) for n in group]
        return _Decoding(backbone, writer, grammar, given, own).finish()

    if len(groups) == 1:  # all threads on its products, instead of one
        with torch.no_grad():
            done = [work(groups[0])]
    else:
        (done,) = parallel(work, [groups], backbone.device)
    found = dict(zip((n for group in groups for n in group), (w for part in done for w in part), strict=True))
    return [found[n] for n in range(len(prompts))]


def search(
    backbone: Backbone,
    writer: Writer,
    grammar: Grammar,
    prompts: Sequence[Sequence[int]],
    kept: Sequence[Grammar],
    batch: int = BATCH,
) -> list[Written]:
    """For each of N prompts the program that is most probable as a whole among those of its grammar.

    Greedy first; then, best first, every other beginning that is more probable than the best program so far, greedily
    from there. What is found is the most probable one, unless more than BEGINNINGS had to be followed.
    """
    best = greedy(backbone, writer, grammar, prompts, kept, batch=batch)
    waiting = [_others(written) for written in best]
    for _ in range(BEGINNINGS):
        going = [n for n, heap in enumerate(waiting) if heap and -heap[0][0] > best[n].score]
        if not going:
            break
        begun = [heapq.heappop(waiting[n])[1] for n in going]
        texts, keep = [prompts[n] for n in going], [kept[n] for n in going]
        for n, written in zip(going, greedy(backbone, writer, grammar, texts, keep, begun, batch), strict=True):
            for other in _others(written):
                heapq.heappush(waiting[n], other)
            best[n] = max(best[n], written, key=lambda one: one.score)
    return best


def _others(written: Written) -> list[tuple[float, list[int]]]:
    """The beginnings that were not chosen, as a heap: minus their log-probability, and their tokens."""
    sums, heap = np.cumsum([0, *written.logs]), []
    for place, logs in written.choices:
        for token in np.flatnonzero(np.isfinite(logs)).tolist():
            if token != written.tokens[place]:
                heap.append((-(sums[place] + logs[token]), [*written.tokens[:place], token]))
    heapq.heapify(heap)
    return heap


class _Decoding:
    """B programs under way: `pending` tokens of every text have not been through the layers yet."""

    def __init__(self, backbone, writer, grammar, given, grammars) -> None:
        self.backbone, self.writer, self.grammar, self.grammars = backbone, writer, grammar, grammars
        self.trunk = backbone.model.layers[: backbone.boundary]
        reach = max(len(prompt) for prompt, _ in given) + grammar.longest
        like = backbone.model.embed_tokens.weight
        self.room = room(self.trunk, len(given), reach, like)
        self.room_top = room(writer.top.layers, len(given), reach, writer.readout.weight)
        self.pending = [list(prompt) for prompt, _ in given]
        self.filled = [0] * len(given)
        self.states = [START] * len(given)
        self.written = [Written() for _ in given]
        for b, (_, begun) in enumerate(given):
            for place, token in enumerate(begun):
                if place == len(self.written[b].tokens):  # else it was forced by the one before
                    self._append(b, token)

    def finish(self) -> list[Written]:
        while rows := [b for b, ids in enumerate(self.pending) if ids]:
            logs, counts = self._logs(rows)
            for b, said in zip(rows, logs.split(counts), strict=True):
                written = self.written[b]
                new = written.tokens[len(written.logs) :]
                written.logs += said[range(len(new)), new].tolist()
            self.pending = [[] for _ in self.pending]
            last = np.cumsum(counts) - 1
            for b, said in zip(rows, logs.numpy()[last], strict=True):
                if not self._over(b):
                    self._choose(b, said)
        return self.written

    def _logs(self, rows: list[int]) -> tuple[Tensor, list[int]]:
        """Log-probabilities (n, V) of what follows those pending tokens of rows (b,) that stand before a written token
        without its log-probability, or before a choice; and how many these are of each."""
        counts = [len(ids) for ids in self.pending]
        device = self.backbone.device
        tokens = Tokens.following(counts, self.filled).to(device)
        ids = torch.tensor([token for ids in self.pending for token in ids], device=device)
        model = self.backbone.model
        states = run(self.trunk, model.rotary_emb, model.embed_tokens(ids), tokens, self.room)
        self.filled = [filled + count for filled, count in zip(self.filled, counts, strict=True)]
        wanted = [len(self.written[b].tokens) - len(self.written[b].logs) + (not self._over(b)) for b in rows]
        ends = np.cumsum([counts[b] for b in rows])
        asked = np.concatenate([np.arange(end - n, end) for end, n in zip(ends, wanted, strict=True)])
        logits = self.writer.say(states, tokens, self.room_top, torch.from_numpy(asked).to(device))
        return logits.log_softmax(-1).cpu(), wanted

    def _over(self, b: int) -> bool:
        """Whether a program has ended, or is as long as any may be."""
        written = self.written[b].tokens
        ended = self.states[b] == WHOLE if self.grammars else written[-1:] == [self.grammar.end]
        return ended or len(written) >= self.grammar.longest

    def _choose(self, b: int, logs: np.ndarray) -> None:
        """Write the most probable token (logs (V,)) that may come next."""
        if self.grammars:
            logs = np.where(self.grammars[b].allowed[self.states[b]], logs, -np.inf)
        token = int(logs.argmax())
        self.written[b].choices.append((len(self.written[b].tokens), logs))
        self.written[b].logs.append(float(logs[token]))
        self._append(b, token)

    def _append(self, b: int, token: int) -> None:
        """Write a token and, kept to a grammar, what it forces; they are pending, but for the end token."""
        chosen = [token]
        if self.grammars:
            own = self.grammars[b]
            chosen += own.forced[own.follows[self.states[b], token]]
            for one in chosen:
                self.states[b] = int(own.follows[self.states[b], one])
        self.written[b].tokens += chosen
        self.pending[b] += self.grammar.tokens[[one for one in chosen if one != self.grammar.end]].tolist()
        if self._over(b) and len(self.written[b].logs) == len(self.written[b].tokens):
            self.pending[b] = []
