"""The language of programs as an automaton over the few tokens that programs are made of.

A state knows what may come next; where only one token may, that token is forced and nobody has to choose it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
    longest program, with its end token. `spelling`: the tokens of every piece that programs are put together from.
    """

    tokens: np.ndarray
    follows: np.ndarray
    longest: int
    end: int
    newline: int
    max_operations: int
    largest: int
    spelling: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, backbone: Backbone, max_operations: int, largest: int) -> "Grammar":
        """The grammar in a backbone's tokens; ValueError if its tokenizer does not spell them piece by piece."""
        pieces = _pieces(max_operations, largest)
        ids = dict(zip(pieces, backbone.encode(pieces), strict=True))
        tokens = sorted({backbone.tokenizer.eos_token_id, *(token for piece in ids.values() for token in piece)})
        place = {token: number for number, token in enumerate(tokens)}
        spelling = {piece: tuple(place[token] for token in found) for piece, found in ids.items()}
        end = place[backbone.tokenizer.eos_token_id]
        (newline,) = backbone.encode(["\n"])[0]
        follows = _every(spelling, end, max_operations, largest).follows(len(tokens))
        fixed = (end, place[newline], max_operations, largest, spelling)
        return cls(np.array(tokens), follows, _longest(follows), *fixed)

    def grounded(self, numbers: Iterable[int]) -> "Grammar":
        """Those of its programs that read each of these numbers once, and each result but the last one once.

        For a query's numbers: nothing can be copied that the query does not say, twice, or not at all. ValueError for
        fewer than two numbers, more than `max_operations` and one, or one above `largest`.
        """
        numbers = sorted(numbers)
        if not 1 <= len(numbers) - 1 <= self.max_operations or not 0 <= numbers[0] <= numbers[-1] <= self.largest:
            raise ValueError(
                f"a program reads 2 to {self.max_operations + 1} numbers from 0 to {self.largest}, got {numbers}"
            )
        follows = _grounded(self.spelling, self.end, numbers).follows(len(self.tokens))
        return replace(self, follows=follows)

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


def _longest(follows: np.ndarray) -> int:
    """Tokens of the longest way through the automaton."""
    tokens, reached = 0, np.array([START])
    while len(reached := np.setdiff1d(follows[reached], [REFUSED])):
        tokens += 1
    return tokens


# ---- pieces put together -----------------------------------------------------------------------------------------


def _step(k: int) -> str:
    return f"Step {k}:"


def _left(operand: object, operator: str) -> str:
    return f" {operand} {operator}"


def _right(operand: object, k: int) -> str:
    return f" {operand} = x{k}\n"


_ANSWER = "Answer:"


def _result(j: int) -> str:
    return f" x{j}"


def _operands(k: int, largest: int) -> list[str]:
    """What a step of any program may read: a number or an earlier result."""
    return [*map(str, range(largest + 1)), *(f"x{j}" for j in range(1, k))]


def _pieces(max_operations: int, largest: int) -> list[str]:
    found = [_ANSWER]
    for k in range(1, max_operations + 1):
        operands = _operands(k, largest)
        found += [_step(k), _result(k), *(_right(operand, k) for operand in operands)]
    return [*found, *(_left(operand, operator) for operand in operands for operator in OPERATORS)]


class _Automaton:
    """States and the ways between them, added piece by piece; alternatives share their beginnings."""

    def __init__(self, spelling: Mapping[str, tuple[int, ...]]) -> None:
        self.spelling = spelling
        self.ways: list[dict[int, int]] = [{}, {}]

    def new(self) -> int:
        self.ways.append({})
        return len(self.ways) - 1

    def lead(self, start: int, piece: str, after: int, *last: int) -> int:
        """Add a piece, and `last` behind it, as a way from `start` to `after`."""
        *beginning, final = (*self.spelling[piece], *last)
        state = start
        for token in beginning:
            if token not in self.ways[state]:
                self.ways[state][token] = self.new()
            state = self.ways[state][token]
        if self.ways[state].setdefault(final, after) != after:
            raise ValueError(f"the tokenizer spells {piece!r} like the beginning of another piece of a program")
        return after

    def follows(self, tokens: int) -> np.ndarray:
        table = np.full((len(self.ways), tokens), REFUSED)
        for state, way in enumerate(self.ways):
            for token, after in way.items():
                table[state, token] = after
        return table


def _every(spelling: Mapping[str, tuple[int, ...]], end: int, max_operations: int, largest: int) -> _Automaton:
    made, fork = _Automaton(spelling), START
    for k in range(1, max_operations + 1):
        start, middle = made.lead(fork, _step(k), made.new()), made.new()
        after = made.new()
        for operand in _operands(k, largest):
            for operator in OPERATORS:
                made.lead(start, _left(operand, operator), middle)
            made.lead(middle, _right(operand, k), after)
        fork = after
        answer = made.lead(fork, _ANSWER, made.new())
        for j in range(1, k + 1):
            made.lead(answer, _result(j), WHOLE, end)
    return made


def _grounded(spelling: Mapping[str, tuple[int, ...]], end: int, numbers: Sequence[int]) -> _Automaton:
    """States behind a step are told apart by what is still unread: every step reads two, and leaves its result."""
    made, forks = _Automaton(spelling), {tuple(map(str, numbers)): START}
    for k in range(1, len(numbers)):
        behind: dict[tuple[str, ...], int] = {}
        for unread, fork in forks.items():
            start = made.lead(fork, _step(k), made.new())
            for left, others in _each(unread):
                middle = made.new()
                for operator in OPERATORS:
                    made.lead(start, _left(left, operator), middle)
                for right, rest in _each(others):
                    now = (*rest, f"x{k}")
                    if now not in behind:
                        behind[now] = made.new()
                    made.lead(middle, _right(right, k), behind[now])
        forks = behind
    (fork,) = forks.values()
    made.lead(made.lead(fork, _ANSWER, made.new()), _result(len(numbers) - 1), WHOLE, end)
    return made


def _each(unread: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every different operand, and the others."""
    for operand in dict.fromkeys(unread):
        at = unread.index(operand)
        yield operand, (*unread[:at], *unread[at + 1 :])
