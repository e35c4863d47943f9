"""What stands behind the numbers that a notebook shows."""

import pandas as pd

from redlib import paths, results
from redlib.config import Profile
from redlib.study.tables import TABLES, table


def about(profile: Profile, name: str = "task1") -> pd.DataFrame:
    """Where the table `name` comes from, a fact a row: profile, backbone, texts, seeds of every split, intervals, run.

    Made if it is missing, as `table` does, which also says what is raised.
    """
    rows = table(profile, name)
    folder = paths.results(profile.reads) if profile.reads else TABLES[name](profile).folder
    run = rows["run"].iloc[0]
    made = results.resolve(folder, run)
    head, _, changed = made["commit"].partition("+")
    facts = {
        "profile": profile.name + (f" (reads the results of {profile.reads})" if profile.reads else ""),
        "evidence": "yes" if profile.evidence else "none, machinery only",
        "backbone": made["backbone"],
        "texts": f"{profile.task1.rows:,}",
        "seeds, recipe chosen": _seeds(profile.task1.seeds),
        "seeds, recipe source": _seeds(profile.task1.source_seeds),
        "intervals": f"95 %, {profile.bootstrap:,} resamples",
        "run": f"{run}, commit {head[:7]}{' with changes' if changed else ''}",
    }
    return pd.DataFrame({"": facts})


def _seeds(by_split: dict[str, int]) -> str:
    return ", ".join(f"{split} {seeds}" for split, seeds in by_split.items())
