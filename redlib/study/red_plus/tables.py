"""The tables of `red_plus`: the base alone, with experts and router, and the controls on the same rows; how it learned.

`<metric>_below_red_plus` of `red_plus_base` is what experts and router add over their own base, paired by row.
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.study import methods, red_plus, task1, task2
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import save

CONTROLS = ("red", "softmax_moe", "global_head_full_data", "mlp_full_data", "fourier_full_data")
ACCURACIES = ("value_accuracy", "range_accuracy", "router_accuracy")


def main_tables(profile: Profile) -> Stage:
    """red_plus.csv: accuracies of every form and of the controls by task, split, range, length and operators, and how
    far each is below `red_plus`; red_plus_curves.csv: the loss and accuracy of every part by epoch."""
    own = {task: red_plus.settings(profile, task) for task in red_plus.TASKS}
    inputs = {f"{task} {s.split}": red_plus.predictions_stage(s) for task, made in own.items() for s in made}
    controls = {f"{task} {s.split}": _controls(profile, s) for task, made in own.items() for s in made}
    inputs |= {f"controls of {name}": methods.predictions_stage(c) for name, c in controls.items() if c is not None}

    def make(stage: Stage, out: Path) -> None:
        frames = {"red_plus": [], "red_plus_curves": []}
        for task, made in own.items():
            frames["red_plus"].append(_measured(profile, stage, task, made))
            frames["red_plus_curves"].append(_curves(task, made))
        save(profile, stage, out, {name: pd.concat(parts) for name, parts in frames.items()})

    config = {"resamples": profile.bootstrap, "controls": list(CONTROLS)}
    rows = sum(s.seeds * s.pool.config["rows"] for made in own.values() for s in made)
    return Stage("red_plus tables", 1, config, make, inputs, 10 + 2e-4 * rows)


def _controls(profile: Profile, s: Setting) -> Setting | None:
    """The setting of the study's own methods on the same pool and split; None where the profile has no seeds of it."""
    if s.task == "task1":
        found = task1.setting(profile, "chosen", s.split)
    else:
        found = task2.setting(profile, "chosen", s.split, red_plus.STEPS)
    return found if found.seeds else None


def _measured(profile: Profile, stage: Stage, task: str, settings: list[Setting]) -> pd.DataFrame:
    """Test rows of all splits of a task."""
    frames = []
    for s in settings:
        for name in (f"{task} {s.split}", f"controls of {task} {s.split}"):
            if name in stage.inputs:
                frame = pd.read_parquet(stage.inputs[name].folder / "predictions.parquet")
                frames.append(frame[frame["seed"] < s.seeds])
    found = pd.concat(frames, ignore_index=True)
    wanted = found["method"].isin([*settings[0].methods, *CONTROLS]) & (found["recipe"] == "chosen")
    found = found[wanted & (found["part"] == "test")]
    tidy = evaluation.evaluate(
        found,
        settings[0].labels,
        task,
        settings[0].definition,
        reference="red_plus",
        resamples=profile.bootstrap,
    )
    below = [f"{metric}_below_red_plus" for metric in ACCURACIES]
    return tidy[tidy["metric"].isin([*ACCURACIES, *below]) & tidy["split"].isin([s.split for s in settings])]


def _curves(task: str, settings: list[Setting]) -> pd.DataFrame:
    variant = f"{settings[0].definition}/chosen".lstrip("/")
    histories = [red_plus.history(s).assign(variant=variant, split=s.split) for s in settings]
    return evaluation.training_curves(pd.concat(histories, ignore_index=True), task)


TABLES: dict[str, Callable[[Profile], Stage]] = {"red_plus": main_tables, "red_plus_curves": main_tables}
