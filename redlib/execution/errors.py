"""Where wrong answers come from: the planner, a step, a step outside the domain; and errors that cancel out."""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from redlib.execution.run import Run, encode, run
from redlib.execution.table import Look, symbolic
from redlib.expressions import Expression, LabelSpace
from redlib.programs import Program

KINDS = {
    "right": "right, and so was everything on the way",
    "cancelled": "right although the program or a step was wrong: errors that cancel out",
    "planner": "wrong, and the program was wrong",
    "inside": "wrong, and the first wrong step was in the experts' domain",
    "outside": "wrong, and the first wrong step was outside the experts' domain",
}


def outcomes(
    gold: Sequence[Program], predicted: Sequence[Program | None], done: Run, labels: LabelSpace
) -> pd.DataFrame:
    """One line a program: what it should give, what `done`, the run of the predicted ones, gave, and why.

    Columns: operations (of the gold program), value, range, predicted_value, predicted_range (UNKNOWN and NO_RANGE for
    no answer), exact_program, same_meaning, wrong_steps, outside_steps, flagged, kind (one of `KINDS`). A program is
    wrong when its meaning is another. Raises ValueError when the three differ in length.
    """
    if not len(gold) == len(predicted) == len(done.value):
        raise ValueError(
            f"{len(gold)} gold and {len(predicted)} predicted programs, but {len(done.value)} were executed"
        )
    truth = run(encode(gold), symbolic(labels))
    meant = np.array([p is not None and p.meaning == g.meaning for g, p in zip(gold, predicted, strict=True)], bool)
    return pd.DataFrame(
        {
            "operations": [len(program.steps) for program in gold],
            "value": truth.value,
            "range": truth.range,
            "predicted_value": done.value,
            "predicted_range": done.range,
            "exact_program": [g == p for g, p in zip(gold, predicted, strict=True)],
            "same_meaning": meant,
            "wrong_steps": done.wrong.sum(axis=1),
            "outside_steps": done.outside.sum(axis=1),
            "flagged": done.flagged,
            "kind": _kinds(done, truth.value, meant),
        }
    )


def _kinds(done: Run, truth: np.ndarray, meant: np.ndarray) -> np.ndarray:
    wrong, right = done.wrong, done.value == truth
    first_wrong = np.argmax(wrong, axis=1)  # 0 where no step is wrong, and then not asked for
    left_domain = done.outside[np.arange(len(truth)), first_wrong]
    clean = meant & ~wrong.any(axis=1)
    cases = [right & clean, right, ~meant, left_domain]
    return np.select(cases, ["right", "cancelled", "planner", "outside"], "inside")


def budget(found: pd.DataFrame) -> pd.DataFrame:
    """The error budget of `outcomes`: a line for every number of operations ("2", .., "all") and kind, adding up to 1.

    Columns: operations, kind, programs, share, n (programs of the line's length), and of the kind's programs flagged:
    a wrong answer that is not flagged would go unnoticed.
    """
    lines = []
    for operations, of in _by_length(found):
        for kind in KINDS:
            of_kind = of[of["kind"] == kind]
            share = len(of_kind) / len(of)
            lines.append((operations, kind, len(of_kind), share, len(of), int(of_kind["flagged"].sum())))
    return pd.DataFrame(lines, columns=["operations", "kind", "programs", "share", "n", "flagged"])


def compounding(programs: Sequence[Program], look: Look, labels: LabelSpace) -> pd.DataFrame:
    """The accuracy that single steps predict beside the one observed, one line for every number of operations.

    Columns: operations, programs, step_accuracy (of the steps of the exact traces of that length), compounded (the
    accuracy p of all these steps, whatever the length, to the power of the number of operations), all_right (programs
    whose steps are all right), observed (programs whose answer is right). observed - all_right: errors that cancel.
    """
    plans = encode(programs)
    truth, done = run(plans, symbolic(labels)), run(plans, look)
    predicted, _ = look(truth.first, plans.sign, truth.second)
    hits = plans.used & (predicted == truth.result)
    rows = pd.DataFrame(
        {
            "operations": plans.used.sum(axis=1),
            "hits": hits.sum(axis=1),
            "all_right": (hits == plans.used).all(axis=1),
            "observed": done.value == truth.value,
        }
    )
    table = rows.groupby("operations").agg(
        programs=("hits", "size"), hits=("hits", "sum"), all_right=("all_right", "mean"), observed=("observed", "mean")
    )
    lengths = table.index.to_numpy()
    accuracy = table["hits"].sum() / (lengths * table["programs"]).sum()
    table.insert(1, "step_accuracy", table.pop("hits") / (lengths * table["programs"]))
    table.insert(2, "compounded", accuracy**lengths)
    return table.reset_index()


def exposure(programs: Sequence[Program], seen: Collection[str]) -> list[str]:
    """How many steps of each program's exact trace are unseen: "none", "some" or "all".

    `seen` holds the structures of the training rows ("+12+5", "+12-5"): a step and its commuted twin are one.
    """
    known, words = frozenset(seen), []
    for program in programs:
        unseen = [
            min(step.a, step.b) < 0 or Expression((step.a, step.b), (step.operator,)).structure_key not in known
            for step in program.trace()
        ]
        words.append("all" if all(unseen) else "some" if any(unseen) else "none")
    return words


def _by_length(found: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    lengths = sorted(found["operations"].unique().tolist())
    return [*((str(n), found[found["operations"] == n]) for n in lengths), ("all", found)]
