"""The language of programs as an automaton over the few tokens that programs are made of.

A state knows what may come next; where only one token may, that token is forced and nobody has to choose it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from redlib.backbone import Backbone
from redlib.expressions import OPERATORS

WHOLE, START = 0, 1  # the states behind and before a program
REFUSED = -1


@dataclass(frozen=True, eq=False)
class Grammar:
    """All programs of at most `max_operations` steps with numbers from 0 to `largest`, each with an end token behind.

    tokens (V,): the backbone's ids of the program tokens; a token is named by its place among them. follows (G, V):
    the state that a token leads to from each of G states, REFUSED where it is not allowed. `longest`: tokens of the
    longest program, with its end token.
    """

    tokens: np.ndarray
    follows: np.ndarray
    longest: int
    end: int
    newline: int
    max_operations: int
    largest: int

    @classmethod
    def of(cls, backbone: Backbone, max_operations: int, largest: int) -> "Grammar":
        """The grammar in a backbone's tokens; ValueError if its tokenizer does not spell them piece by piece."""
        end = backbone.tokenizer.eos_token_id
        ways = _ways(backbone.encode, end, max_operations, largest)
        tokens = sorted({token for way in ways for token in way})
        place = {token: number for number, token in enumerate(tokens)}
        follows = np.full((len(ways), len(tokens)), REFUSED)
        for state, way in enumerate(ways):
            for token, after in way.items():
                follows[state, place[token]] = after
        (newline,) = backbone.encode(["\n"])[0]
        longest = _longest(follows)
        return cls(np.array(tokens), follows, longest, place[end], place[newline], max_operations, largest)

    @cached_property
    def allowed(self) -> np.ndarray:
        """(G, V) bool: which tokens may come next in every state."""
        return self.follows != REFUSED

    @cached_property
    def forced(self) -> list[tuple[int, ...]]:
        """For every state the tokens that must come next, up to the next choice or the end of the program."""
        choices, only, runs = self.allowed.sum(axis=1), self.allowed.argmax(axis=1).tolist(), []
        for state in range(len(self.follows)):
            run: list[int] = []
            while choices[state] == 1:
                run.append(only[state])
                state = self.follows[state, run[-1]]
            runs.append(tuple(run))
        return runs

    def walk(self, program: Sequence[int]) -> np.ndarray:
        """The state in which each token of a program is chosen, (tokens,); ValueError at one that is not allowed."""
        state, states = START, []
        for number, token in enumerate(program, start=1):
            states.append(state)
            state = self.follows[state, token]
            if state == REFUSED:
                raise ValueError(f"token {number} of the program is not allowed by the grammar where it stands")
        return np.array(states)

    def places(self, ids: Sequence[int]) -> list[int]:
        """A backbone's ids as program tokens; ValueError for an id that no program has."""
        found = np.searchsorted(self.tokens, ids).clip(max=len(self.tokens) - 1)
        strange = np.flatnonzero(self.tokens[found] != ids)
        if len(strange):
            raise ValueError(f"token {strange[0] + 1} of the program is none of the {len(self.tokens)} program tokens")
        return found.tolist()

    def text(self, backbone: Backbone, program: Sequence[int]) -> str:
        """What the tokens say, without the end token."""
        ids = self.tokens[[token for token in program if token != self.end]].tolist()
        return backbone.tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def _ways(
    encode: Callable[[list[str]], list[list[int]]], end: int, max_operations: int, largest: int
) -> list[dict[int, int]]:
    """For every state the tokens that may come next and where they lead; alternatives share their beginnings."""
    ways: list[dict[int, int]] = [{}, {}]

    def new() -> int:
        ways.append({})
        return len(ways) - 1

    def lead(start: int, words: list[str], after: int, last: tuple[int, ...] = ()) -> int:
        """Add every word, and `last` behind it, as a way from `start` to `after`."""
        for word, tokens in zip(words, encode(words), strict=True):
            *beginning, final = (*tokens, *last)
            state = start
            for token in beginning:
                if token not in ways[state]:
                    ways[state][token] = new()
                state = ways[state][token]
            if ways[state].setdefault(final, after) != after:
                raise ValueError(f"the tokenizer spells {word!r} like the beginning of another piece of a program")
        return after

    fork = START
    numbers = [str(number) for number in range(largest + 1)]
    for k in range(1, max_operations + 1):
        operands = [*numbers, *(f"x{j}" for j in range(1, k))]
        start = lead(fork, [f"Step {k}:"], new())
        middle = lead(start, [f" {left} {operator}" for left in operands for operator in OPERATORS], new())
        fork = lead(middle, [f" {right} = x{k}\n" for right in operands], new())
        answer = lead(fork, ["Answer:"], new())
        lead(answer, [f" x{j}" for j in range(1, k + 1)], WHOLE, (end,))
    return ways


def _longest(follows: np.ndarray) -> int:
    """Tokens of the longest way through the automaton."""
    tokens, reached = 0, np.array([START])
    while len(reached := np.setdiff1d(follows[reached], [REFUSED])):
        tokens += 1
    return tokens
