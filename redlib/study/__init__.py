"""The study: stages in order, the tables that they make, the notebooks that show them.

A notebook asks for a table (`study.table(profile, "task1")`, which computes what is missing) and saves what it draws
in `study.figure_folder(profile)`; `study.about(profile)` says what stands behind it, `study.answer(profile, name)` what
a notebook answers.
`study.runner` executes notebooks, `study.publish` makes a run the record.
"""

from pathlib import Path

from redlib import paths
from redlib.config import Profile
from redlib.study.about import about
from redlib.study.answers import answer
from redlib.study.stage import Stage
from redlib.study.tables import TABLES, available, table

__all__ = ["TABLES", "Stage", "about", "answer", "available", "figure_folder", "table"]


def figure_folder(profile: Profile) -> Path:
    """Where a notebook saves its figures; only `publish` writes the project's figures/."""
    return paths.runs(profile.name) / "figures"
