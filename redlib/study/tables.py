"""Any table of a profile by name: made if it is missing, or read from the record."""

from collections.abc import Callable

import pandas as pd

from redlib import paths, results
from redlib.config import Profile
from redlib.study import task1_tables
from redlib.study.stage import Say, Stage

TABLES: dict[str, Callable[[Profile], Stage]] = {**task1_tables.TABLES}


def table(profile: Profile, name: str, say: Say = print) -> pd.DataFrame:
    """The tidy table `name` of a profile, computed with everything that it reads if it is missing.

    A profile that reads a record never computes: FileNotFoundError names the missing table and what makes it.
    ValueError for an unknown table names the valid ones.
    """
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}; valid tables: {', '.join(sorted(TABLES))}")
    if not profile.reads:
        return results.load(TABLES[name](profile).run(say), name)
    folder = paths.results(profile.reads)
    if not (folder / f"{name}.csv").is_file():
        make = f"python -m redlib run --profile {profile.reads}, then python -m redlib publish"
        raise FileNotFoundError(f"the record has no table {name!r} in data/results/{profile.reads}; made by: {make}")
    return results.load(folder, name)
