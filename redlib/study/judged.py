"""Which results the claims are judged by: a run of one's own, or the record."""

from pathlib import Path

import pandas as pd

from redlib import config, paths, results
from redlib.claims import Record
from redlib.config import Profile
from redlib.results.provenance import known_runs
from redlib.study import task1


def profile_of(profile: Profile) -> Profile:
    """The profile whose results are judged: `profile`, or the record where it has none of its own or none that is
    evidence."""
    return profile if profile.evidence and not profile.reads else config.load("record")


def folder(profile: Profile) -> Path:
    """Where these results lie: the committed tables, or what a run of the profile has made so far."""
    judged = profile_of(profile)
    return paths.results(judged.reads) if judged.reads else paths.runs(judged.name) / "results"


def record(profile: Profile) -> Record:
    """The results with their profile and ranges, as `claims.check` reads them."""
    judged = profile_of(profile)
    return Record(results.Folder(folder(profile)), judged, task1.labels(judged))


def digest(profile: Profile) -> str:
    """A hash of every judged table: what was judged with another one is out of date."""
    where = folder(profile)
    return paths.digest({name: paths.digest((where / f"{name}.csv").read_bytes()) for name in results.Folder(where)})


def about(profile: Profile) -> pd.DataFrame:
    """What stands behind the verdicts, a fact a row: results, tables, backbone, machines."""
    runs, where = known_runs(folder(profile)).values(), folder(profile)

    def each(name: str) -> str:
        return ", ".join(sorted({run[name] for run in runs if run.get(name, "none") != "none"})) or "none"

    judged = profile_of(profile)
    facts = {
        "profile": profile.name,
        "judged": f"the results of {judged.measured}" + (", as committed" if judged.reads else ", as run here"),
        "tables": f"{len(results.Folder(where))} of {where.name if not judged.reads else 'the record'}",
        "backbone": each("backbone"),
        "machines": ", ".join(part for part in (each("cpu"), each("gpu")) if part != "none") or "none",
    }
    return pd.DataFrame({"": facts})
