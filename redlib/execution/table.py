"""What every executor predicts for every step: look-up arrays over a finite population of steps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from redlib.datasets.steps import Domain, canonical
from redlib.expressions import OPERATORS, LabelSpace
from redlib.programs import SIGN, StepFunction

UNKNOWN = -(2**31)  # no result: the step is not in the table, or a number that it needs is itself unknown
NO_RANGE = -1
Look = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""(a, sign, b), arrays of one shape -> (value or UNKNOWN, 0-based range or NO_RANGE), arrays of that shape."""


@dataclass(frozen=True, eq=False)
class StepTable:
    """Predictions of one or more executors for every step of a population, arrays of the population's `shape`."""

    population: Domain
    values: Mapping[str, np.ndarray]
    ranges: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, population: Domain, predictions: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> "StepTable":
        """From (values (P,), 0-based ranges (P,)) of every executor for the P steps in order of `population.steps()`.

        Raises ValueError for an executor that predicts another number of steps.
        """
        cells, tables = population.mask(), ({}, {})
        for name, predicted in predictions.items():
            for table, of_step, nothing in zip(tables, predicted, (UNKNOWN, NO_RANGE), strict=True):
                if len(of_step) != cells.sum():
                    raise ValueError(
                        f"executor {name!r} predicts {len(of_step)} steps of a population of {cells.sum()}"
                    )
                table[name] = np.full(cells.shape, nothing, np.int64)
                table[name][cells] = np.asarray(of_step)
        return cls(population, *tables)

    @classmethod
    def tabulate(cls, population: Domain, functions: Mapping[str, StepFunction], labels: LabelSpace) -> "StepTable":
        """From functions of one step, each asked once about every step; the range is that of the value."""
        steps = population.steps()
        values = {name: np.array([step(*s) for s in steps], np.int64) for name, step in functions.items()}
        return cls.of(population, {name: (of_step, ranges_of(of_step, labels)) for name, of_step in values.items()})

    def look(self, executor: str) -> Look:
        """The executor as a function of arrays of steps; steps outside the population are UNKNOWN."""
        values, ranges = self.values[self._known(executor)], self.ranges[executor]
        first, second = self.population.first[0], self.population.second[0]

        def look(a: np.ndarray, sign: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            there = self.population.holds(a, sign, b)
            cells = np.where(sign > 0, *map(OPERATORS.index, "+-")), a - first, b - second
            cells = tuple(np.where(there, cell, 0) for cell in cells)
            return np.where(there, values[cells], UNKNOWN), np.where(there, ranges[cells], NO_RANGE)

        return look

    def step(self, executor: str) -> StepFunction:
        """The executor as a function of one step, for `Program.trace`; ValueError for a step outside the population."""
        look = self.look(executor)

        def step(a: int, operator: str, b: int) -> int:
            value = int(look(*map(np.asarray, (a, SIGN[operator], b)))[0])
            if value == UNKNOWN:
                first, second = (f"{least}..{most}" for least, most in (self.population.first, self.population.second))
                raise ValueError(
                    f"step {canonical((a, operator, b))!r} is out of the domain: executor {executor!r} knows steps of "
                    f"{first} and {second}"
                )
            return value

        return step

    def frame(self, executor: str, domain: Domain) -> pd.DataFrame:
        """The exact error map, one line a step of the population: operator, first, second, result (exact),
        predicted_value, predicted_range, inside (the step is in `domain`)."""
        values, ranges = self.values[self._known(executor)], self.ranges[executor]
        steps = pd.DataFrame(self.population.steps(), columns=["first", "operator", "second"])
        sign, cells = steps["operator"].map(SIGN), self.population.mask()
        return steps[["operator", "first", "second"]].assign(
            result=steps["first"] + sign * steps["second"],
            predicted_value=values[cells],
            predicted_range=ranges[cells],
            inside=domain.holds(steps["first"], sign, steps["second"]),
        )

    def _known(self, executor: str) -> str:
        if executor not in self.values:
            raise LookupError(f"no executor {executor!r} in the table; executors: {', '.join(self.values) or 'none'}")
        return executor


def ranges_of(values: np.ndarray, labels: LabelSpace) -> np.ndarray:
    """0-based range of every one of `values` of any shape, NO_RANGE outside the labels."""
    inside = (labels.lo <= values) & (values <= labels.hi)
    return np.where(inside, np.searchsorted(labels.edges, values), NO_RANGE)


def symbolic(labels: LabelSpace) -> Look:
    """The executor that computes every step: the ceiling. It knows any number; only ranges are those of the labels."""

    def look(a: np.ndarray, sign: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = a + sign * b
        return values, ranges_of(values, labels)

    return look
