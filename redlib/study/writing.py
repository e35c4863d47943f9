"""How a stage writes its tables: tidy columns and one run's provenance."""

from pathlib import Path

import numpy as np
import pandas as pd

from redlib import results
from redlib.config import Profile
from redlib.study.data import open_backbone
from redlib.study.stage import Stage


def fill(frame: pd.DataFrame, **about: str) -> pd.DataFrame:
    """A frame with the columns of a result table that it lacks; `about` names their values."""
    empty = {"task": "task1", "n": pd.NA, "low": np.nan, "high": np.nan}
    return frame.assign(**{name: value for name, value in {**empty, **about}.items() if name not in frame})


def save(profile: Profile, stage: Stage, out: Path, frames: dict[str, pd.DataFrame]) -> None:
    """Write a stage's tables with one run's provenance: what was computed, with what, and how long each stage took.

    The run is that of the stage's key, which counts what it reads: two tables, or one of other seeds, are two runs.
    """
    seconds = stage.spent()
    run, about = results.provenance(open_backbone(profile.backbone), sum(seconds.values()), stage.key)
    about |= {"profile": profile.name, "evidence": profile.evidence, "stages": seconds}
    for name, frame in frames.items():
        results.save(out, name, frame.assign(run=run), {run: about})
