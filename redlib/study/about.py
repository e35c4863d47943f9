"""What stands behind the numbers that a notebook shows."""

from typing import get_args

import pandas as pd

from redlib import paths, results
from redlib.config import Profile
from redlib.config.recipes import Split
from redlib.study.tables import TABLES, table

RECIPES = ("chosen", "source")


def about(profile: Profile, name: str = "task1") -> pd.DataFrame:
    """Where the table `name` comes from, a fact a row: profile, backbone, texts, seeds of every split that the table is
    about, intervals, machine, run.

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
        **(_pictures(profile) if set(rows["task"]) == {"nested"} else _data(profile, rows, _most(profile, name))),
        **(_execution(profile) if name.startswith("execution") else {}),
        "intervals": f"95 %, {profile.bootstrap:,} resamples",
        "machine": f"{made['cpu']}, {made['threads']} thread{'s' if made['threads'] != 1 else ''}",
        "run": f"{run}, commit {head[:7]}{' with changes' if changed else ''}",
    }
    return pd.DataFrame({"": facts})


def _most(profile: Profile, table: str) -> int | None:
    """How many seeds a table reads at most, of those that keep rows over all seeds alone."""
    limits = dict.fromkeys(("boundary_sweep", "boundary_smoothness"), profile.population.seeds)
    limits |= dict.fromkeys(
        ("arithmetic_probes", "arithmetic_fourier", "arithmetic_agreement"), profile.arithmetic.seeds
    )
    return limits.get(table)


def _pictures(profile: Profile) -> dict[str, str]:
    """What stands behind the chapter that reads no texts."""
    n = profile.nested
    return {"pictures": f"digits of {n.digits} in clutter, {n.canvas} x {n.canvas}", "seeds": str(n.seeds)}


def _data(profile: Profile, rows: pd.DataFrame, most: int | None = None) -> dict[str, str]:
    """Texts and seeds behind the rows of a table; Task 2's by definition of steps, Task 1's named beside it. Seeds are
    those that the rows name; of a table without rows by seed the profile's, at most `most`."""
    tasks = set(rows["task"])
    if tasks == {"decomposed"}:
        d = profile.decomposer
        return {"programs": f"{d.rows:,}, {d.chains} chains", "planners by split": _seeds(_planners(profile))}
    first = "task 1" if len(tasks & {"task1", "task2"}) == 2 else ""
    sets = {first: profile.task1} if "task2" not in tasks or first else {}
    sets |= profile.task2.definitions if "task2" in tasks else {}
    whole = {
        (name, recipe): {split: min(n, most or n) for split, n in seeds.items()}
        for name, d in sets.items()
        for recipe, seeds in zip(RECIPES, (d.seeds, d.source_seeds), strict=True)
        if seeds
    }
    trained = _trained(rows, first, whole) or whole
    there = {name: d for name, d in sets.items() if name in {name for name, _ in trained}}
    by_recipe = {
        f"seeds, recipe {recipe}": {name: _seeds(trained[name, recipe]) for name in there if (name, recipe) in trained}
        for recipe in RECIPES
    }
    return {"texts": _listed({name: f"{d.rows:,}" for name, d in there.items()})} | {
        what: _listed(facts) or "none" for what, facts in by_recipe.items()
    }


def _trained(rows: pd.DataFrame, first: str, whole: dict) -> dict[tuple[str, str], dict[str, int]]:
    """Numbers of seeds by (definition of steps, recipe) and split that rows are about, Task 1 called `first`; of a
    table without rows by seed those of `whole`. Empty where no row says its recipe."""
    parts = rows["variant"].astype(str).str.split("/")
    recipe = parts.map(lambda names: next((name for name in names if name in RECIPES), ""))
    name = parts.str[0].where(rows["task"] == "task2", first)
    rows = rows.assign(name=name, recipe=recipe, seed=rows["seed"].astype(str))[recipe != ""]
    each = rows[rows["seed"] != "all"]
    counted = (each if len(each) else rows).groupby(["name", "recipe", "split"], sort=False)["seed"].nunique()
    found: dict[tuple[str, str], dict[str, int]] = {}
    for (name, recipe, split), n in counted.items():
        n = int(n) if len(each) else whole.get((name, recipe), {}).get(split)
        if n:
            found.setdefault((name, recipe), {})[split] = n
    return found


def _planners(profile: Profile) -> dict[str, int]:
    """How many planners of every split are measured: a record may hold fewer than its profile trains."""
    rows = table(profile, "planner")
    return rows[rows["seed"].astype(str) != "all"].groupby("split")["seed"].nunique().to_dict()


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
    order = {split: place for place, split in enumerate(get_args(Split))}
    return ", ".join(f"{split} {by_split[split]}" for split in sorted(by_split, key=lambda s: order.get(s, len(order))))
