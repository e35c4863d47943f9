"""A stranger's questions through a trained method of Task 1."""

from pathlib import Path
from typing import get_args

import pandas as pd

from redlib import datasets, statistics
from redlib.config import Profile, Split
from redlib.expressions import LabelSpace
from redlib.study import task1


def evaluate(
    profile: Profile, file: Path, method: str, split: str, recipe: str, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Accuracy (metric, value, low, high, n), rejects (line, reason), and how the intervals were made.

    Rows that are no single addition, lie outside the label space or repeat a text are rejects. Raises
    FileNotFoundError for a missing file and ValueError when no row is left.
    """
    if split not in get_args(Split):
        raise ValueError(f"unknown split {split!r}; valid splits: {', '.join(get_args(Split))}")
    t = profile.task1
    rows, rejects = datasets.load_jsonl(file, labels=LabelSpace(t.lo, t.hi, t.edges), operands=t.operands)
    single = (rows["operations"] == 1) & rows["expression"].str.contains("+", regex=False)
    reasons = pd.Series("the same text stands on an earlier line", index=rows.index).where(rows["duplicate"], "")
    reasons = reasons.where(single, "not a single addition, which is all that Task 1 asks")
    refused = pd.DataFrame({"line": rows["line"], "reason": reasons})[reasons != ""]
    rejects = pd.concat([rejects, refused]).sort_values("line", ignore_index=True)
    rows = rows[reasons == ""]
    if rows.empty:
        first = f"; line {rejects['line'].iloc[0]}: {rejects['reason'].iloc[0]}" if len(rejects) else ""
        raise ValueError(f"{file} holds no row that Task 1 can answer ({len(rejects)} rejects{first})")
    trained = task1.predictor(profile, method, split, recipe, seed)
    predicted = trained.predict(rows["text"].tolist(), rows["range"].tolist())
    right = {
        "value_accuracy": predicted["predicted_value"].to_numpy() == rows["value"].to_numpy(),
        "range_accuracy": predicted["predicted_range"].to_numpy() == rows["range"].to_numpy(),
    }
    independent = rows["structure"].is_unique
    how = "Wilson" if independent else f"resampled over {rows['structure'].nunique()} structures"
    lines = []
    for metric, hit in right.items():
        if independent:
            low, high = statistics.wilson(int(hit.sum()), len(hit))
        else:
            estimate = statistics.cluster_mean(hit, rows["structure"].to_numpy(), resamples=profile.bootstrap)
            low, high = estimate.low, estimate.high
        lines.append({"metric": metric, "value": hit.mean(), "low": low, "high": high, "n": len(hit)})
    return pd.DataFrame(lines), rejects, how
