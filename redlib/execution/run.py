"""Many programs as arrays, executed together: N programs of at most S steps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from redlib.datasets.steps import Domain
from redlib.execution.table import NO_RANGE, UNKNOWN, Look
from redlib.programs import SIGN, Program


@dataclass(frozen=True, eq=False)
class Plans:
    """N programs of at most S steps as arrays.

    sign (N, S): +1 or -1, 0 for a step that a program lacks or that its answer does not need; number and source
    (N, S, 2): left and right operand, a number where source is -1, else the result of step `source`; answer (N,): the
    step whose result is the answer, -1 where there is no program.
    """

    sign: np.ndarray
    number: np.ndarray
    source: np.ndarray
    answer: np.ndarray

    @property
    def used(self) -> np.ndarray:
        """Which steps are executed, (N, S)."""
        return self.sign != 0


def encode(programs: Sequence[Program | None]) -> Plans:
    """Programs as arrays; None stands for a planner's text that is no program."""
    deepest = max((len(program.steps) for program in programs if program), default=1)
    size = (len(programs), deepest)
    sign, answer = np.zeros(size, np.int64), np.full(len(programs), -1)
    number, source = np.zeros((*size, 2), np.int64), np.full((*size, 2), -1)
    for n, program in enumerate(programs):
        if program is None:
            continue
        answer[n] = _index(program.answer)
        for s, (step, needed) in enumerate(zip(program.steps, program.needed, strict=True)):
            sign[n, s] = SIGN[step.operator] if needed else 0
            for side, operand in enumerate(step.operands):
                if isinstance(operand, str):
                    source[n, s, side] = _index(operand)
                else:
                    number[n, s, side] = operand
    return Plans(sign, number, source, answer)


def _index(variable: str) -> int:
    return int(variable[1:]) - 1


@dataclass(frozen=True, eq=False)
class Run:
    """What happened when an executor did the N programs of `plans`.

    first, second, result (N, S): the numbers that every used step got and gave, UNKNOWN where there is none; outside
    (N, S): used steps that are not in the experts' domain; value, range (N,): the answer, or UNKNOWN and NO_RANGE.
    """

    plans: Plans
    first: np.ndarray
    second: np.ndarray
    result: np.ndarray
    outside: np.ndarray
    value: np.ndarray
    range: np.ndarray

    @property
    def flagged(self) -> np.ndarray:
        """(N,): answers with a step outside the domain on their way, and missing ones: nobody vouches for them."""
        return self.outside.any(axis=1) | (self.value == UNKNOWN)

    @property
    def wrong(self) -> np.ndarray:
        """(N, S): used steps whose result is not the exact one of the numbers that they got."""
        return self.plans.used & (self.result != self.first + self.plans.sign * self.second)


def run(plans: Plans, look: Look, domain: Domain | None = None) -> Run:
    """Execute all programs, step after step, with an executor whose experts know `domain` (None: every step)."""
    size = plans.sign.shape
    first, second, result = (np.full(size, UNKNOWN, np.int64) for _ in range(3))
    ranges, outside = np.full(size, NO_RANGE), np.zeros(size, bool)
    for s in range(size[1]):
        rows = np.flatnonzero(plans.used[:, s])
        a, b = (_operand(plans, result, rows, s, side) for side in (0, 1))
        sign, known = plans.sign[rows, s], (a != UNKNOWN) & (b != UNKNOWN)
        first[rows, s], second[rows, s] = a, b
        values, of_values = look(a, sign, b)
        result[rows, s] = np.where(known, values, UNKNOWN)
        ranges[rows, s] = np.where(known, of_values, NO_RANGE)
        outside[rows, s] = ~(known & (domain is None or domain.holds(a, sign, b)))
    planned, rows = plans.answer >= 0, np.arange(size[0])
    value = np.where(planned, result[rows, plans.answer], UNKNOWN)
    range_ = np.where(planned, ranges[rows, plans.answer], NO_RANGE)
    return Run(plans, first, second, result, outside, value, range_)


def _operand(plans: Plans, result: np.ndarray, rows: np.ndarray, s: int, side: int) -> np.ndarray:
    source = plans.source[rows, s, side]
    return np.where(source < 0, plans.number[rows, s, side], result[rows, source])
