"""Single steps a + b and a - b: the domains that operation experts are trained in, their rows, and who leaves them.

Two domains (the source, 4.2.6, names the first): in `source` both operands are those of a text, so that a partial
result may already be outside; `closed` takes every label as its first operand, and a chain whose partial results are
labels never leaves it.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from redlib.config import PARTS
from redlib.datasets.chains import whole
from redlib.datasets.pool import Drawn, frame
from redlib.datasets.splits import split as by_parts
from redlib.expressions import OPERATORS, SOURCE_LABELS, SOURCE_OPERANDS, Expression, LabelSpace
from redlib.phrasing import TASK2, ChainTemplate, render
from redlib.programs import SIGN, Program

DOMAINS = ("source", "closed")
EVEN = 0.6  # of every step's equal share is certain; equal sizes alone could not fill a part with whole structures
Step = tuple[int, str, int]


@dataclass(frozen=True)
class Domain:
    """The steps a op b with a in `first`, b in `second` and the result in `result` (first and last; None: any)."""

    first: tuple[int, int]
    second: tuple[int, int]
    result: tuple[int, int] | None = None

    def holds(self, a, sign, b):
        """Whether a + sign * b is one of the steps: for numbers, or element by element for arrays of one shape."""
        inside = (self.first[0] <= a) & (a <= self.first[1]) & (self.second[0] <= b) & (b <= self.second[1])
        if self.result is None:
            return inside
        result = a + sign * b
        return inside & (self.result[0] <= result) & (result <= self.result[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """Operators, first operands, second operands: the shape of an array with a cell for every step."""
        return len(OPERATORS), self.first[1] - self.first[0] + 1, self.second[1] - self.second[0] + 1

    def mask(self) -> np.ndarray:
        """Which cells of `shape` are steps of the domain."""
        operator, a, b = np.indices(self.shape)
        signs = np.array([SIGN[name] for name in OPERATORS])
        return np.broadcast_to(self.holds(a + self.first[0], signs[operator], b + self.second[0]), self.shape)

    def steps(self, operator: str | None = None) -> list[Step]:
        """Every step, of one operator or of all (+ first), by first then by second operand: the finite population."""
        cells = np.argwhere(self.mask()).tolist()
        found = [(a + self.first[0], OPERATORS[o], b + self.second[0]) for o, a, b in cells]
        return found if operator is None else [step for step in found if step[1] == operator]


def domain(name: str, operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS) -> Domain:
    """The domain `source` or `closed` of chains over these operands and labels; ValueError for another name."""
    if name not in DOMAINS:
        raise ValueError(f"unknown domain {name!r}; valid domains: {', '.join(DOMAINS)}")
    results = (labels.lo, labels.hi)
    anything = (min(operands[0], labels.lo), max(operands[1], labels.hi))
    return Domain(operands if name == "source" else anything, operands, results)


def reachable(operands: tuple[int, int] = SOURCE_OPERANDS, labels: LabelSpace = SOURCE_LABELS) -> Domain:
    """Every step that executing chains over these operands can meet when each result is a label, in a domain or not."""
    return Domain(domain("closed", operands, labels).first, operands)


def _phrasings() -> Iterator[ChainTemplate]:
    """The first frame of every wording that can say one operation; of a formula, the bare one."""
    said = set()
    for template in TASK2:
        wording = template.wording
        fits = wording.form != "formula" or not template.before + template.after
        if wording.least == 1 and fits and wording.id not in said:
            said.add(wording.id)
            yield template


PHRASINGS = tuple(_phrasings())  # each says both operators; the one of `canonical` is among them


def canonical(step: Step) -> str:
    """The one text that execution says a step with: "12 + 5"."""
    a, operator, b = step
    return f"{a} {operator} {b}"


CANONICAL = next(t for t in PHRASINGS if render(Expression((2, 3), ("+",)), t) == canonical((2, "+", 3)))


def build(operator: str, rows: int, seed: int, within: Domain, labels: LabelSpace = SOURCE_LABELS) -> pd.DataFrame:
    """The rows of one operation expert (the source, 4.2.6: 20,000): a pool with `datasets.COLUMNS`, texts unique.

    Every range has its share of the steps of the domain. There, every step has `EVEN` of its equal share of the rows,
    rounded down, and the rest fall at random; each row of a step has another of the `PHRASINGS`, the first of a certain
    row is `CANONICAL`. Raises ValueError for an unknown operator and for more rows than there are texts.
    """
    if operator not in OPERATORS:
        raise ValueError(f"unknown operator {operator!r}; valid operators: {', '.join(OPERATORS)}")
    population = within.steps(operator)
    texts = len(population) * len(PHRASINGS)
    if not 0 < rows <= texts:
        raise ValueError(
            f"{rows} rows of {operator!r} are wanted, but {len(population)} steps x {len(PHRASINGS)} phrasings give "
            f"1 to {texts} texts"
        )
    rng = random.Random(f"steps/{operator}/{seed}")
    by_range: dict[int, list[Expression]] = {}
    for a, _, b in population:
        expression = Expression((a, b), (operator,))
        by_range.setdefault(labels.range_of(expression.value), []).append(expression)
    counts = whole({k: rows * len(of_range) / len(population) for k, of_range in by_range.items()}, rows)
    drawn = [row for k, of_range in by_range.items() for row in _said(of_range, counts[k], rng)]
    rng.shuffle(drawn)
    return frame(drawn, labels)


def _said(expressions: list[Expression], rows: int, rng: random.Random) -> Drawn:
    """`rows` distinct (expression, phrasing) pairs, at least `EVEN` of the mean number for every expression."""
    least = int(EVEN * rows / len(expressions))
    others = [template for template in PHRASINGS if template is not CANONICAL]
    hands = [(CANONICAL, *rng.sample(others, len(others))) for _ in expressions]
    dealt = [(e, template) for e, hand in zip(expressions, hands, strict=True) for template in hand[:least]]
    left = [(e, template) for e, hand in zip(expressions, hands, strict=True) for template in hand[least:]]
    return dealt + rng.sample(left, rows - len(dealt))


def pool(rows: int, seed: int, within: Domain, labels: LabelSpace = SOURCE_LABELS) -> pd.DataFrame:
    """The rows of all operation experts as one pool, `rows` of each operation, in order of OPERATORS."""
    made = pd.concat([build(operator, rows, seed, within, labels) for operator in OPERATORS], ignore_index=True)
    return made.assign(row=np.arange(len(made)))


def operation(pool: pd.DataFrame) -> np.ndarray:
    """Which of OPERATORS every row of a pool of single steps has, (N,)."""
    read = {text: OPERATORS.index(Expression.read(text).operators[0]) for text in pool["expression"].unique()}
    return pool["expression"].map(read).to_numpy()


def split(pool: pd.DataFrame, by: str, seed: int) -> pd.Series:
    """`datasets.split` of each operation alone: every expert has its own parts and, by structure, all of its values.

    In the `text` split the canonical texts, which execution says, stay in training, as the source's one text of a step
    does (4.2.6): other wordings are held out, and new are the chains, not their steps.
    """
    of_row, fixed = operation(pool), (pool["template"] == CANONICAL.id) & (by == "text")
    parts = [by_parts(pool[(of_row == k) & ~fixed], by, seed) for k in range(len(OPERATORS))]
    return pd.concat(parts).reindex(pool.index, fill_value=PARTS[0])


def departures(pools: Mapping[str, pd.DataFrame], experts: Mapping[str, Domain]) -> pd.DataFrame:
    """How many programs leave the experts' domain, one line for each pool of chains, domain and number of operations.

    Columns: chains (the pool's name), experts (the domain's), operations ("2", .., "all"), programs, leaving (those
    with a step outside), share, steps, steps_outside. Partial results are exact.
    """
    lines = []
    for chains, pool in pools.items():
        traces = {text: Program.from_expression(Expression.read(text)).trace() for text in pool["expression"].unique()}
        for name, within in experts.items():
            outside = {
                text: sum(not within.holds(s.a, SIGN[s.operator], s.b) for s in trace) for text, trace in traces.items()
            }
            counted = pool[["operations"]].assign(outside=pool["expression"].map(outside))
            lengths = sorted(counted["operations"].unique().tolist())
            for operations in (*lengths, "all"):
                of = counted if operations == "all" else counted[counted["operations"] == operations]
                lines.append((chains, name, str(operations), *_left(of)))
    columns = ("chains", "experts", "operations", "programs", "leaving", "share", "steps", "steps_outside")
    return pd.DataFrame(lines, columns=columns)


def _left(programs: pd.DataFrame) -> tuple[int, int, float, int, int]:
    leaving = int((programs["outside"] > 0).sum())
    share = leaving / len(programs)
    return len(programs), leaving, share, int(programs["operations"].sum()), int(programs["outside"].sum())
