"""Texts with their programs as one sequence of tokens: what the planner is trained on and scored on.

A sequence is the text, the backbone's end token, and the program; what has to be said begins at that end token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from redlib.backbone import Backbone
from redlib.decomposer.grammar import Grammar
from redlib.decomposer.writer import Writer
from redlib.features import TokenStates
from redlib.training import NO_TARGET

Batch = tuple[Tensor, Tensor, Tensor]


def spelled(backbone: Backbone, texts: Sequence[str], programs: Sequence[str]) -> list[str]:
    """Every text with its program behind it, to be encoded whole."""
    return [f"{prompt}{program}" for prompt, program in zip(prompts(backbone, texts), programs, strict=True)]


def prompts(backbone: Backbone, texts: Sequence[str]) -> list[str]:
    """Every text as a program follows it."""
    return [f"{text}{backbone.tokenizer.eos_token}" for text in texts]


@dataclass(frozen=True, eq=False)
class Sequences:
    """N texts with their programs: states at the boundary, and targets (N, M), NO_TARGET behind the end.

    starts (N,): the position in the text where the first target is said.
    """

    states: TokenStates
    targets: Tensor
    starts: np.ndarray

    @classmethod
    def of(
        cls, backbone: Backbone, grammar: Grammar, texts: Sequence[str], programs: Sequence[str], states
    ) -> "Sequences":
        """From the token states of `spelled(texts, programs)`; ValueError for a program outside the grammar."""
        lengths = np.array([len(ids) for ids in backbone.encode(prompts(backbone, texts))])
        targets = torch.full((len(texts), grammar.longest), NO_TARGET)
        for row, ids in enumerate(backbone.encode(spelled(backbone, texts, programs))):
            program = [*grammar.places(ids[lengths[row] :]), grammar.end]
            grammar.walk(program)
            targets[row, : len(program)] = torch.tensor(program)
        return cls(states, targets, lengths - 1)

    def batch(self, rows: np.ndarray, device: torch.device) -> Batch:
        """What a writer reads of some rows: states (B, T, d), mask (B, T), starts (B,)."""
        states, mask = self.states.batch(rows)
        return states.to(device), mask.to(device), torch.from_numpy(self.starts[rows]).to(device)


@torch.no_grad()
def margins(
    writer: Writer,
    sequences: Sequences,
    rows: np.ndarray,
    modes: Sequence[Sequence[Grammar] | None],
    batch: int = 32,
) -> tuple[np.ndarray, np.ndarray]:
    """By one pass with the gold tokens given: how far N gold programs lead in each of m modes of greedy decoding,
    (N, m), and their tokens' log-probabilities among all program tokens (N, M), 0 behind the end.

    modes (m,): the grammars (N,) that decoding keeps the programs to, None for unrestricted. The lead is the smallest
    of a program's tokens: the gold token's logit minus that of the best other that is allowed. Where it is positive,
    greedy decoding writes the gold program: having chosen the gold tokens so far, it chooses the next one. ValueError
    for a gold program that its grammar does not allow.
    """
    device = writer.readout.weight.device
    found, said = [], []
    for first in range(0, len(rows), batch):
        chosen = rows[first : first + batch]
        logits = writer(*sequences.batch(chosen, device))[0]  # (B, M, V)
        target = sequences.targets[torch.from_numpy(chosen)].to(device)
        there, gold = target != NO_TARGET, target.clamp(min=0)[..., None]
        ahead = []
        for mode in modes:
            of_mode = logits
            if mode is not None:
                refused = _refused(mode[first : first + batch], target)
                of_mode = logits.masked_fill(torch.from_numpy(refused).to(device), -torch.inf)
            others = of_mode.scatter(-1, gold, -torch.inf).amax(-1)
            lead = of_mode.gather(-1, gold)[..., 0] - others
            ahead.append(lead.masked_fill(~there, torch.inf).amin(-1))
        found.append(torch.stack(ahead, 1).cpu().numpy())
        logs = logits.log_softmax(-1).gather(-1, gold)[..., 0]
        said.append(logs.masked_fill(~there, 0).cpu().numpy())
    return np.concatenate(found), np.concatenate(said)


def _refused(grammars: Sequence[Grammar], targets: Tensor) -> np.ndarray:
    """(B, M, V) bool: what each grammar refuses where each token of its gold program (B, M) is chosen."""
    refused = np.zeros((*targets.shape, len(grammars[0].tokens)), dtype=bool)
    for row, (grammar, program) in enumerate(zip(grammars, targets.tolist(), strict=True)):
        states = grammar.walk([token for token in program if token != NO_TARGET])
        refused[row, : len(states)] = ~grammar.allowed[states]
    return refused
