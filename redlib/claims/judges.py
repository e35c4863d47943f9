"""Who judges which sentences: the chapters' verdicts, the tables that they read, and where else they can be asked.

A judge answers for a setting with a frame that has the columns claim, measured and verdict, and the numbers of a
Finding. The headline's setting comes first.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import pandas as pd

from redlib.claims import sparse
from redlib.claims.ablations import ablation_verdicts, ablations_beside
from redlib.claims.across import bottleneck_verdicts, harder_verdicts, single_verdicts, usage_verdicts
from redlib.claims.cost import cost_verdicts
from redlib.claims.deciding import compare
from redlib.claims.decomposed import decomposed_verdicts
from redlib.claims.epochs import epoch_verdicts
from redlib.claims.judging import FAILS, HOLDS, OPEN
from redlib.claims.modularity import modularity_verdicts
from redlib.claims.nested import nested_verdicts
from redlib.claims.rows import SPLITS, plain, settings
from redlib.claims.task1 import verdicts
from redlib.claims.task2 import kinds, task2_verdicts
from redlib.config import Profile
from redlib.expressions import LabelSpace
from redlib.results import cell, pick

Setting = dict[str, str]  # what was read where, as in `rows.readings_of`
BOTH = ("value_accuracy", "range_accuracy")
SINGLE = "single_heavy/"  # the definition of Task 2 with single operations
LOW_BUDGET = 0.3  # of nested experts: the claims are judged at the trained budget next to it
KEPT = {sparse.KEPT: HOLDS, sparse.CHANGED: FAILS, sparse.UNKNOWN: OPEN}


@dataclass(frozen=True)
class Record:
    """What claims are judged by: tables by name (any mapping), the profile that made them and its ranges."""

    tables: Mapping[str, pd.DataFrame]
    profile: Profile
    labels: LabelSpace


@dataclass(frozen=True)
class Judge:
    """A chapter's verdicts: its tables and notebook, where it can be asked (the headline first), and what it says."""

    tables: tuple[str, ...]
    notebook: str
    where: Callable[[Record], list[Setting]]
    says: Callable[[Record, Setting], pd.DataFrame]


def _settings_of(table: str) -> Callable[[Record], list[Setting]]:
    """Every variant and split of a table, `text` and `structure`."""

    def where(r: Record) -> list[Setting]:
        rows = plain(r.tables[table])
        pairs = settings(rows[rows["split"].isin(SPLITS[:2])])
        return [{"variant": variant, "split": split} for variant, split in pairs]

    return where


def _splits_of(table: str, **more: tuple[str, ...]) -> Callable[[Record], list[Setting]]:
    """Every split of a table, with every value of `more`."""

    def where(r: Record) -> list[Setting]:
        there = set(r.tables[table]["split"])
        choices = product([split for split in SPLITS[:2] if split in there], *more.values())
        return [dict(zip(("split", *more), choice, strict=True)) for choice in choices]

    return where


def _programs(r: Record) -> list[Setting]:
    """Every domain and split with gold programs."""
    gold = plain(r.tables["execution"])
    pairs = settings(gold[gold["variant"].str.endswith("/gold")])
    return [{"variant": variant, "split": split} for variant, split in pairs if split in SPLITS[:2]]


def _with_single(r: Record) -> list[Setting]:
    """Every variant and split of Task 2 with single operations, and both accuracies."""
    rows = plain(r.tables["task2"])
    pairs = settings(rows[rows["variant"].str.startswith(SINGLE) & (rows["group"] == "ops=1")])
    pairs = [pair for pair in pairs if pair[1] in SPLITS[:2]]
    return [{"variant": variant, "split": split, "metric": metric} for metric in BOTH for variant, split in pairs]


def _part(r: Record, table: str, s: Setting) -> pd.DataFrame:
    """The rows of one setting: little to search."""
    rows = r.tables[table]
    return rows[(rows["variant"] == s["variant"]) & (rows["split"] == s["split"]) & (rows["seed"] == "all")]


def _task1(r: Record, s: Setting) -> pd.DataFrame:
    return verdicts(_part(r, "task1", s), _part(r, "task1_bias", s), r.labels, s["variant"], s["split"], True)


def _task2(r: Record, s: Setting) -> pd.DataFrame:
    return task2_verdicts(_part(r, "task2", s), r.labels, s["variant"], s["split"], numbers=True)


def _kinds(r: Record, s: Setting) -> pd.DataFrame:
    found = kinds(_part(r, "task2", s), s["variant"], s["split"])
    return found.rename(columns={"claim_id": "claim", "level": "measured"})


def _ranks(r: Record, s: Setting) -> pd.DataFrame:
    found = ablations_beside(r.tables["ablations"], _hidden(r), r.profile.chosen.rank)
    found = found[(found["split"] == s["split"]) & (found["metric"] == s["metric"])]
    rows = found.rename(columns={"measured": "value"})
    tried = [compare(rows.iloc[[at]], s, "equal", number) for at, number in enumerate(rows["reported"])]
    verdicts, beyond = [one.result for one in tried], [one.beyond for one in tried]
    shown = [cell(row) for _, row in rows.iterrows()]
    return rows.assign(claim=rows["claim_id"], measured=shown, verdict=verdicts, beyond=beyond)


def _hidden(r: Record) -> int:
    """The hidden size of the profile's own backbone, which is the one whose texts were counted in tokens."""
    costs = r.tables["cost"]
    own = pick(costs, metric="tokens_median")["variant"]
    return int(pick(costs, variant=own, method="backbone", group="norm", metric="parameters")["value"])


def _cost(r: Record, s: Setting) -> pd.DataFrame:
    costs, scores = (r.tables["cost"], r.tables["cost_curves"]), _part(r, "task1", {"variant": "chosen", **s})
    return cost_verdicts(*costs, scores, r.labels, r.profile.chosen.rank, s["split"], numbers=True)


def _executed(r: Record, s: Setting) -> pd.DataFrame:
    domain = s["variant"].partition("/")[0]
    return decomposed_verdicts(r.tables["execution"], r.tables["execution_assembly"], domain, s["split"], numbers=True)


def _modularity(r: Record, s: Setting) -> pd.DataFrame:
    return modularity_verdicts(r.tables["modularity"], s["split"], s["metric"], numbers=True)


def _ablations(r: Record, s: Setting) -> pd.DataFrame:
    own = (_hidden(r), r.profile.chosen.rank, r.labels.K)
    return ablation_verdicts(r.tables["ablations"], *own, s["split"], numbers=True)


def _epochs(r: Record, s: Setting) -> pd.DataFrame:
    recipe = s["variant"].rpartition("/")[2]
    both, limit = (r.tables["task1_epochs"], r.tables["task2_epochs"]), r.profile.recipe(recipe).experts.max_epochs
    return epoch_verdicts(*both, s["variant"], recipe, s["split"], limit, numbers=True)


def _harder(r: Record, s: Setting) -> pd.DataFrame:
    return harder_verdicts(r.tables["task1"], r.tables["task2"], s["variant"], s["split"], numbers=True)


def _single(r: Record, s: Setting) -> pd.DataFrame:
    return single_verdicts(r.tables["task1"], r.tables["task2"], *s.values(), numbers=True)


def _bottleneck(r: Record, s: Setting) -> pd.DataFrame:
    return bottleneck_verdicts(r.tables["task2"], r.tables["execution"], s["variant"], s["split"], numbers=True)


def _usage(r: Record, s: Setting) -> pd.DataFrame:
    return usage_verdicts(r.tables["routing"], s["variant"], s["split"], numbers=True)


def _nested(r: Record, s: Setting) -> pd.DataFrame:
    budget = min(r.profile.nested.budgets, key=lambda b: abs(b - LOW_BUDGET))
    tables = (r.tables[name] for name in ("nested", "nested_routing", "nested_speed"))
    return nested_verdicts(*tables, budget, numbers=True)


def _causes(r: Record, s: Setting) -> pd.DataFrame:
    return sparse.root_causes(r.tables["sparse_serving"], r.tables["sparse_time"], numbers=True)


def _decisions(r: Record, s: Setting) -> pd.DataFrame:
    tables = (r.tables[f"sparse_{name}"] for name in ("quality", "serving", "growth"))
    found = sparse.decisions(*tables, r.profile.sparse.price, numbers=True)
    return found.rename(columns={"recommendation": "claim"}).assign(verdict=found["verdict"].map(KEPT))


def _once(r: Record) -> list[Setting]:
    return [{}]


SPARSE = "23_sparse_against_dense"
JUDGES = {
    "task1": Judge(("task1", "task1_bias"), "08_task1_results", _settings_of("task1"), _task1),
    "task2": Judge(("task2",), "09_task2_results", _settings_of("task2"), _task2),
    "kinds": Judge(("task2",), "09_task2_results", _settings_of("task2"), _kinds),
    "epochs": Judge(("task1_epochs", "task2_epochs"), "09_task2_results", _settings_of("task2"), _epochs),
    "single": Judge(("task1", "task2"), "09_task2_results", _with_single, _single),
    "harder": Judge(("task1", "task2"), "09_task2_results", _settings_of("task2"), _harder),
    "bottleneck": Judge(("task2", "execution"), "17_modular_execution", _programs, _bottleneck),
    "usage": Judge(("routing",), "11_routing", _settings_of("routing"), _usage),
    "executed": Judge(("execution", "execution_assembly"), "17_modular_execution", _programs, _executed),
    "modularity": Judge(("modularity",), "18_modularity", _splits_of("modularity", metric=BOTH), _modularity),
    "ablations": Judge(("ablations", "cost"), "19_ablations", _splits_of("ablations"), _ablations),
    "ranks": Judge(("ablations", "cost"), "19_ablations", _splits_of("ablations", metric=BOTH), _ranks),
    "cost": Judge(("cost", "cost_curves", "task1"), "21_cost_and_complexity", _splits_of("task1"), _cost),
    "causes": Judge(("sparse_serving", "sparse_time"), SPARSE, _once, _causes),
    "decisions": Judge(("sparse_quality", "sparse_serving", "sparse_growth"), SPARSE, _once, _decisions),
    "nested": Judge(("nested", "nested_routing", "nested_speed"), "24_nested_experts", _once, _nested),
}
NOTEBOOKS = {  # where rows that a claim names itself are looked at
    "task1": "08_task1_results",
    "task2": "09_task2_results",
    "task2_transfer": "09_task2_results",
    "routing": "11_routing",
    "robustness": "11_routing",
    "boundary_smoothness": "12_boundaries_and_operand_maps",
    "cases": "14_routing_case_studies",
    "red_plus": "20_red_plus",
    "execution": "17_modular_execution",
}
