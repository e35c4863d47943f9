"""Training histories as tidy rows: curves over epochs, and how long each stage ran before it stopped."""

import pandas as pd

from redlib.evaluation.predictions import COLUMNS

MEASURES = ("train_loss", "valid_loss", "valid_accuracy")


def training_curves(history: pd.DataFrame, task: str = "task1", run: str = "") -> pd.DataFrame:
    """Mean over members by epoch; columns COLUMNS and `epoch`, `method` is the part trained.

    `history`: the loop's columns with variant and split. A member that stopped keeps its best epoch's numbers, so that
    every epoch means the same n members; low and high are the smallest and largest member, not an interval.
    """
    rows = []
    for (variant, split, name), part in history.groupby(["variant", "split", "name"], sort=True):
        last = part["epoch"].max()
        for measure in MEASURES:
            table = part.pivot_table(index="epoch", columns="member", values=measure).reindex(range(1, last + 1))
            best = part[part["best"]].sort_values("epoch").groupby("member")[measure].last()
            table = table.fillna(best)
            where = (task, variant, split, "train" if measure == "train_loss" else "validation", name, "all", "all")
            spread = zip(table.index, table.mean(axis=1), table.min(axis=1), table.max(axis=1), strict=True)
            rows += [
                (*where, measure, mean, table.shape[1], low, high, run, epoch) for epoch, mean, low, high in spread
            ]
    return pd.DataFrame(rows, columns=[*COLUMNS, "epoch"])


def epochs(history: pd.DataFrame, limits: dict[str, int], task: str = "task1", run: str = "") -> pd.DataFrame:
    """Epochs run until stopping, best epoch and share of members that reached the limit (the source, 4.5.2).

    `limits`: max_epochs by variant and name of the part, as "variant/name". low and high: smallest, largest member.
    """
    rows = []
    for (variant, split, name), part in history.groupby(["variant", "split", "name"], sort=True):
        ran = part.groupby("member")["epoch"].max()
        best = part[part["best"]].groupby("member")["epoch"].max()
        full = (ran >= limits[f"{variant}/{name}"]).astype(float)
        for metric, series in (("epochs_run", ran), ("best_epoch", best), ("reached_limit", full)):
            where = (task, variant, split, "validation", name, "all", "all", metric)
            rows.append((*where, series.mean(), len(series), series.min(), series.max(), run))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def onset(history: pd.DataFrame) -> dict[str, float]:
    """When a part of one seed begins to know rows that it does not train on: `onset_epoch`, the first epoch whose
    validation accuracy is at least half of the best one, and that `best_accuracy`; the epoch is NaN if it is 0."""
    curve = history.set_index("epoch")["valid_accuracy"].sort_index()
    best = float(curve.max())
    return {"onset_epoch": float(curve.index[curve >= best / 2][0]) if best else float("nan"), "best_accuracy": best}
