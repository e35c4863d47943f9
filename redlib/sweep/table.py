"""The runs of a sweep as one table: rows that are there stay, and a changed run is a new row beside them."""

from collections.abc import Iterable

import pandas as pd

from redlib import paths, results
from redlib.config import Profile
from redlib.study.ablations import Entry, Run
from redlib.study.ablations.run import run_stage
from redlib.study.ablations.tables import tidy
from redlib.study.data import open_backbone
from redlib.study.stage import Stage

QUESTION = "sweep"


def table(profile: Profile, runs: Iterable[Run]) -> tuple[pd.DataFrame, dict[str, dict]]:
    """Tidy rows of those runs that are there, and the provenance behind each: accuracies with intervals.

    Column configuration: the id under which the provenance tells everything that a run was made with.
    """
    stages = {run: run_stage(profile, run) for run in runs}
    stages = {run: stage for run, stage in stages.items() if stage.done}
    frames, about = [], {}
    for run, stage in stages.items():
        identity, facts = _provenance(profile, stage)
        about[identity] = facts
        rows = tidy([Entry(QUESTION, run, run)], {run: stage.folder}, profile.bootstrap).drop(columns="x")
        frames.append(rows.assign(run=identity, configuration=identity))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(), about


def _provenance(profile: Profile, stage: Stage) -> tuple[str, dict]:
    config = {**stage.config, "rows": profile.ablations.rows, "resamples": profile.bootstrap}
    identity, facts = results.provenance(open_backbone(profile.backbone), stage.record["seconds"], config)
    return identity, {**facts, "profile": profile.name, "evidence": profile.evidence, "settings": config}


def keep(profile: Profile, name: str, frame: pd.DataFrame, about: dict[str, dict]) -> pd.DataFrame:
    """Add the rows to the run's folder `sweeps`, file <name>.csv, and return all that it holds."""
    folder = paths.runs(profile.name) / "sweeps"
    with paths.lock(folder / name):
        if (folder / f"{name}.csv").is_file():
            before = results.load(folder, name)
            new = ~frame["configuration"].isin(before["configuration"])
            frame = pd.concat([before, frame[new]], ignore_index=True)
        results.save(folder, name, frame, about)
    return frame
