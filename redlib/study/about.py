"""What stands behind the numbers that a notebook shows."""

import pandas as pd

from redlib import paths, results
from redlib.config import Profile
from redlib.study.tables import TABLES, table


def about(profile: Profile, name: str = "task1") -> pd.DataFrame:
    """Where the table `name` comes from, a fact a row: profile, backbone, texts, seeds of every split, intervals,
    machine, run.

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
        **(_pictures(profile) if set(rows["task"]) == {"nested"} else _data(profile, set(rows["task"]))),
        **(_execution(profile) if name.startswith("execution") else {}),
        "intervals": f"95 %, {profile.bootstrap:,} resamples",
        "machine": f"{made['cpu']}, {made['threads']} threads",
        "run": f"{run}, commit {head[:7]}{' with changes' if changed else ''}",
    }
    return pd.DataFrame({"": facts})


def _pictures(profile: Profile) -> dict[str, str]:
    """What stands behind the chapter that reads no texts."""
    n = profile.nested
    return {"pictures": f"digits of {n.digits} in clutter, {n.canvas} x {n.canvas}", "seeds": str(n.seeds)}


def _data(profile: Profile, tasks: set[str]) -> dict[str, str]:
    """Texts and seeds of the tasks that a table is about; Task 2's by definition of steps, Task 1's named beside it."""
    if tasks == {"decomposed"}:
        d = profile.decomposer
        return {"programs": f"{d.rows:,}, {d.chains} chains", "planners by split": _seeds(d.seeds)}
    t, both = profile.task1, {"task1", "task2"} <= tasks
    sets = {("task 1" if both else ""): t} if "task2" not in tasks or both else {}
    sets |= profile.task2.definitions if "task2" in tasks else {}
    source = {name: d.source_seeds for name, d in sets.items() if d.source_seeds}
    return {
        "texts": _listed({name: f"{d.rows:,}" for name, d in sets.items()}),
        "seeds, recipe chosen": _listed({name: _seeds(d.seeds) for name, d in sets.items()}),
        "seeds, recipe source": _listed({name: _seeds(seeds) for name, seeds in source.items()}) or "none",
    }


def _execution(profile: Profile) -> dict[str, str]:
    """Steps that operation experts are trained on, and chains that they execute."""
    o = profile.operations
    return {
        "steps": f"{o.rows:,} of each operation; domains {', '.join(o.domains)}",
        "experts by split": _seeds(o.seeds),
        "gold programs": f"{o.chains:,} of each kind of chains",
    }


def _listed(facts: dict[str, str]) -> str:
    return "; ".join(f"{name}: {fact}" if name else fact for name, fact in facts.items())


def _seeds(by_split: dict[str, int]) -> str:
    return ", ".join(f"{split} {seeds}" for split, seeds in by_split.items())
