"""The pool of a task: unique texts, exactly balanced over ranges and over wording groups (the source, 4.2.2, 4.2.3)."""

import random

import numpy as np
import pandas as pd

from redlib.datasets import chains
from redlib.expressions import SOURCE_LABELS, SOURCE_OPERANDS, Expression, LabelSpace, additions
from redlib.phrasing import GROUPS, TASK1, TASK2, ChainTemplate, Template, render

TASKS: dict[str, tuple[Template | ChainTemplate, ...]] = {"task1": TASK1, "task2": TASK2}
Drawn = list[tuple[Expression, Template | ChainTemplate]]
COLUMNS = {
    "row": "int64",
    "text": "str",
    "expression": "str",
    "value": "int64",
    "range": "int64",
    "template": "str",
    "group": "int64",
    "structure": "str",
    "operations": "int64",
}


def build(
    task: str,
    rows: int,
    seed: int,
    operands: tuple[int, int] = SOURCE_OPERANDS,
    labels: LabelSpace = SOURCE_LABELS,
    ordered: bool = True,
    steps: str | None = None,
    partials: tuple[int, int] | None = None,
) -> pd.DataFrame:
    """A pool of exactly `rows` unique texts, columns `COLUMNS`; the same for the same arguments everywhere.

    Every range holds rows/K texts and every (range, wording group) rows/(K*GROUPS). `operands` are the first and last
    operand. Task 1: operand pairs and templates are drawn uniformly within these; `ordered=False` uses one order of
    each pair (a <= b). Task 2: `steps` names how many operations the rows have (`STEPS`, default "operations"), in
    exact proportions in every range; `chains.quotas` says how + and - are shared out; `partials` are bounds that every
    partial result keeps (None: any).

    Raises ValueError for an unknown task or step definition, an option of the other task, rows that do not divide
    evenly, and a request that no expressions can meet or that has too few distinct texts, naming the constraint.
    """
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; valid tasks: {', '.join(TASKS)}")
    if task == "task1":
        if steps is not None:
            raise ValueError(f"steps={steps!r} is an option of task2: a row of task1 is one addition")
        if partials is not None:
            raise ValueError(f"partials={partials!r} is an option of task2: a row of task1 is one addition")
        rng = random.Random(f"task1/pool/{seed}")  # a string is hashed the same way in every process
        drawn: Drawn = _draw_additions(rows, operands, labels, ordered, rng)
    else:
        if not ordered:
            raise ValueError("ordered=False is an option of task1: it keeps one order of a pair of added operands")
        steps = "operations" if steps is None else steps
        rng = random.Random(f"task2/{steps}/pool/{seed}")
        drawn = chains.draw(rows, steps, operands, labels, rng, partials)
    rng.shuffle(drawn)
    return frame(drawn, labels)


def _draw_additions(
    rows: int, operands: tuple[int, int], labels: LabelSpace, ordered: bool, rng: random.Random
) -> Drawn:
    cells = labels.K * GROUPS
    if rows <= 0 or rows % cells:
        raise ValueError(
            f"rows must be a multiple of {cells} ({labels.K} ranges x {GROUPS} wording groups), got {rows}"
        )
    strata = additions(operands, labels, ordered)
    drawn: Drawn = []
    for name, expressions in zip(labels.names, strata, strict=True):
        for group in range(GROUPS):
            templates = [template for template in TASK1 if template.group == group]
            room = range(len(expressions) * len(templates))
            if len(room) < rows // cells:
                raise ValueError(
                    f"{rows // cells} texts are wanted from {name} in wording group {group}, but operands "
                    f"{operands[0]}..{operands[1]} give {len(expressions)} pairs x {len(templates)} templates there"
                )
            picks = (divmod(pick, len(templates)) for pick in rng.sample(room, rows // cells))
            drawn += [(expressions[pair], templates[template]) for pair, template in picks]
    return drawn


def frame(drawn: Drawn, labels: LabelSpace) -> pd.DataFrame:
    """The rows, in their order, as a pool: columns `COLUMNS`."""
    facts = {e: (e.text, e.value, labels.range_of(e.value), e.structure_key) for e in {e for e, _ in drawn}}
    expression, value, range_, structure = zip(*(facts[e] for e, _ in drawn), strict=True)
    columns = {
        "row": range(len(drawn)),
        "text": [render(e, template) for e, template in drawn],
        "expression": expression,
        "value": value,
        "range": range_,
        "template": [template.id for _, template in drawn],
        "group": [template.group for _, template in drawn],
        "structure": structure,
        "operations": [len(e.operators) for e, _ in drawn],
    }
    return pd.DataFrame(columns).astype(COLUMNS)


def one_per_pair(
    pool: pd.DataFrame, candidates: pd.Series | np.ndarray | None = None, balanced: bool = True, seed: int = 0
) -> pd.Series:
    """The source's structural de-duplication (4.2.5): a boolean mask (N,) that keeps one random text an ordered pair.

    Of the rows where `candidates` (N,) is true, or of all. `balanced` keeps as many pairs of every range as the
    smallest range has (K * 153 = 765 of a full pool); otherwise every pair stays (2,401). Raises ValueError when no
    row is a candidate.
    """
    rows = np.arange(len(pool)) if candidates is None else np.flatnonzero(np.asarray(candidates, dtype=bool))
    if not len(rows):
        raise ValueError("no candidate rows to pick one text a pair from")
    rng = random.Random(f"one_per_pair/{seed}")
    order = rng.sample(rows.tolist(), len(rows))
    kept = pool.iloc[order].assign(position=order).drop_duplicates("expression")
    if balanced:
        kept = kept.groupby("range").head(kept["range"].value_counts().min())
    mask = pd.Series(False, index=pool.index, name="one_per_pair")
    mask.iloc[kept["position"].to_numpy()] = True
    return mask
