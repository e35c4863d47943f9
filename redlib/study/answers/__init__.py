"""What every notebook answers to its question, in one or two sentences computed from the tables that it reads.

`answer` says it for one notebook, `answers` for all, `short` is what fits into a table. Which of two methods is better
follows from intervals, so that each sentence is true whatever the numbers are.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial

import pandas as pd

from redlib import claims, figures
from redlib.config import Profile
from redlib.study import judged
from redlib.study.answers import programs, routing, smaller, tasks
from redlib.study.answers.reading import Tables
from redlib.study.tables import table

ANSWERS: Mapping[str, Callable[[Tables], str]] = {
    "00_start_here": tasks.start_here,
    "01_data": tasks.data,
    "02_backbone_and_features": tasks.backbone,
    "03_global_head": tasks.global_head,
    "04_oracle_experts": tasks.oracle,
    "05_uniform_averaging": tasks.averaging,
    "06_softmax_mixture": tasks.mixture,
    "07_red": tasks.red,
    "08_task1_results": tasks.task1_claims,
    "09_task2_results": tasks.task2_claims,
    "10_fair_comparison": routing.fair_comparison,
    "11_routing": routing.router,
    "12_boundaries_and_operand_maps": routing.boundaries,
    "13_where_the_arithmetic_is": routing.arithmetic,
    "14_routing_case_studies": routing.case_studies,
    "15_routing_inspector": routing.inspector,
    "16_step_decomposer": programs.planner,
    "17_modular_execution": programs.execution,
    "18_modularity": programs.modularity,
    "19_ablations": programs.ablations,
    "20_red_plus": programs.red_plus,
    "21_cost_and_complexity": smaller.complexity,
    "22_sparse_savings": smaller.savings,
    "23_sparse_against_dense": smaller.sparse_dense,
    "24_nested_experts": smaller.nested_experts,
    "25_claims": smaller.all_claims,
}
EXACT = ("22_sparse_savings", "25_claims")  # arithmetic, and verdicts on the record: evidence under every profile
WAITING = "not on record yet"


def answer(profile: Profile, notebook: str, checked: pd.DataFrame | None = None) -> str:
    """The answer of one notebook, marked where the profile is no evidence.

    checked: what `claims.check` returns, where the caller has it already. ValueError for an unknown notebook names the
    valid ones; FileNotFoundError, as from `table`, where a profile that reads a record lacks a table.
    """
    if notebook not in ANSWERS:
        raise ValueError(f"unknown notebook {notebook!r}; valid notebooks: {', '.join(ANSWERS)}")
    said = ANSWERS[notebook](_tables(profile, partial(table, profile), checked))
    return said if profile.evidence or notebook in EXACT else f"**{figures.NO_EVIDENCE}:** {said}"


def answers(
    profile: Profile, read: Callable[[str], pd.DataFrame] | None = None, checked: pd.DataFrame | None = None
) -> dict[str, str]:
    """The answers of all notebooks by name; WAITING for those whose tables or rows a record does not have.

    read: gives a table by name (default: `table`), LookupError or FileNotFoundError for one that is not there; checked
    as in `answer`.
    """
    tables = _tables(profile, cache(read or partial(table, profile)), checked)
    said = {}
    for name, tell in ANSWERS.items():
        try:
            said[name] = tell(tables)
        except (FileNotFoundError, LookupError):
            if not profile.reads:
                raise
            said[name] = WAITING
    return said


def short(text: str) -> str:
    """The first sentence of an answer."""
    first, stop, _ = text.partition(". ")
    return first + "." if stop else text


def _tables(profile: Profile, read: Callable[[str], pd.DataFrame], checked: pd.DataFrame | None) -> Tables:
    def verdicts() -> pd.DataFrame:
        return claims.check(judged.record(profile)) if checked is None else checked

    return Tables(profile, read, verdicts)
