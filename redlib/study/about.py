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
        **(_definitions(profile) if "task2" in set(rows["task"]) else _task1(profile)),
        "intervals": f"95 %, {profile.bootstrap:,} resamples",
        "run": f"{run}, commit {head[:7]}{' with changes' if changed else ''}",
    }
    return pd.DataFrame({"": facts})


def _task1(profile: Profile) -> dict[str, str]:
    t = profile.task1
    seeds = {"seeds, recipe chosen": _seeds(t.seeds), "seeds, recipe source": _seeds(t.source_seeds)}
    return {"texts": f"{t.rows:,}", **seeds}


def _definitions(profile: Profile) -> dict[str, str]:
    """Task 2's, by definition of steps."""
    made = profile.task2.definitions.items()
    source = [f"{name} ({_seeds(d.source_seeds)})" for name, d in made if d.source_seeds]
    return {
        "texts": ", ".join(f"{name} {d.rows:,}" for name, d in made),
        "seeds, recipe chosen": ", ".join(f"{name} ({_seeds(d.seeds)})" for name, d in made),
        "seeds, recipe source": ", ".join(source) or "none",
    }


def _seeds(by_split: dict[str, int]) -> str:
    return ", ".join(f"{split} {seeds}" for split, seeds in by_split.items())
