"""Any table of a profile by name: made if it is missing, or read from the record."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from redlib import paths, results
from redlib.config import Profile
from redlib.study import (
    agreement_tables,
    arithmetic_tables,
    assembly_tables,
    boundary_tables,
    case_tables,
    cost_tables,
    execution_tables,
    fair_tables,
    hardness,
    routing_tables,
    schedule,
    task1_tables,
    task2_tables,
)
from redlib.study.ablations import tables as ablation_tables
from redlib.study.data import fetch_backbone
from redlib.study.modularity import tables as modularity_tables
from redlib.study.nested import tables as nested_tables
from redlib.study.planner import chains as planner_chains
from redlib.study.planner import tables as planner_tables
from redlib.study.red_plus import beyond as red_plus_beyond
from redlib.study.red_plus import factors as red_plus_factors
from redlib.study.red_plus import inside as red_plus_inside
from redlib.study.red_plus import maps as red_plus_maps
from redlib.study.red_plus import partitions as red_plus_partitions
from redlib.study.red_plus import steps as red_plus_steps
from redlib.study.red_plus import tables as red_plus_tables
from redlib.study.red_plus import wordings as red_plus_wordings
from redlib.study.sparse import tables as sparse_tables
from redlib.study.stage import Say, Stage

TABLES: dict[str, Callable[[Profile], Stage]] = {
    **task1_tables.TABLES,
    **ablation_tables.TABLES,
    **case_tables.TABLES,
    **task2_tables.TABLES,
    **hardness.TABLES,
    **schedule.TABLES,
    **routing_tables.TABLES,
    **boundary_tables.TABLES,
    **fair_tables.TABLES,
    **modularity_tables.TABLES,
    **arithmetic_tables.TABLES,
    **agreement_tables.TABLES,
    **cost_tables.TABLES,
    **execution_tables.TABLES,
    **assembly_tables.TABLES,
    **nested_tables.TABLES,
    **sparse_tables.TABLES,
    **planner_tables.TABLES,
    **planner_chains.TABLES,
    **red_plus_tables.TABLES,
    **red_plus_factors.TABLES,
    **red_plus_inside.TABLES,
    **red_plus_beyond.TABLES,
    **red_plus_wordings.TABLES,
    **red_plus_partitions.TABLES,
    **red_plus_steps.TABLES,
    **red_plus_maps.TABLES,
}


def table(profile: Profile, name: str, say: Say = print) -> pd.DataFrame:
    """The tidy table `name` of a profile, computed with everything that it reads if it is missing.

    A profile that reads a record never computes: FileNotFoundError names the missing table and what makes it.
    ValueError for an unknown table names the valid ones.
    """
    known(name)
    if profile.reads:
        return results.read(committed(profile, name))
    fetch_backbone(profile.backbone)
    return results.load(TABLES[name](profile).run(say), name)


def known(name: str) -> None:
    """ValueError, with the valid names, for what is no table."""
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}; valid tables: {', '.join(sorted(TABLES))}")


def stages(profile: Profile, names: Iterable[str]) -> dict[str, Stage]:
    """The stages that make some tables, by name; ValueError for an unknown one, and for a profile that makes none."""
    if profile.reads:
        raise ValueError(f"profile {profile.name!r} reads the tables of {profile.reads!r} and makes none; choose that")
    names = tuple(names)
    for name in names:
        known(name)
    fetch_backbone(profile.backbone)
    return {name: TABLES[name](profile) for name in names}


def available(profile: Profile, name: str) -> bool:
    """Whether a table can be served without hours of work: it is in the record that the profile reads, or everything
    that it is made from is there."""
    if profile.reads:
        return (paths.results(profile.reads) / f"{name}.csv").is_file()
    fetch_backbone(profile.backbone)
    return ready(TABLES[name](profile))


def ready(stage: Stage) -> bool:
    """Whether everything that a table's stage reads is there."""
    return all(missing.key == stage.key for missing in stage.missing())


def committed(profile: Profile, name: str) -> Path:
    """The committed file of a table that the profile reads; FileNotFoundError names what makes it."""
    file = paths.results(profile.reads) / f"{name}.csv"
    if not file.is_file():
        make = f"python -m redlib run --profile {profile.reads} && python -m redlib publish --profile {profile.reads}"
        where = file.relative_to(paths.root()) if file.is_relative_to(paths.root()) else file
        raise FileNotFoundError(f"the record has no table {name!r} ({where}); `{make}` makes it")
    return file
