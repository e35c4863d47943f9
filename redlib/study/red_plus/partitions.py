"""The ranges of `red_plus` asked otherwise: its readout knows no range, so any partition of the values can be asked."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from redlib import models
from redlib.config import Profile
from redlib.expressions import LabelSpace
from redlib.models import range_probabilities
from redlib.study import red_plus
from redlib.study.grouped import shares
from redlib.study.red_plus.beyond import METHODS, parts_of, seeds_of
from redlib.study.red_plus.parts import HiddenData
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save


def partitions(labels: LabelSpace, widths: tuple[int, ...], shifts: int) -> dict[tuple[int, int], LabelSpace]:
    """Label spaces over the same values by (width, last value of the first range): ranges of equal width but for the
    first and last. Of every width so many as `shifts`, the first boundary moving up to the width itself."""
    made = {}
    for width in widths:
        for first in sorted({round(width * turn / shifts) for turn in range(1, shifts + 1)}):
            if labels.lo <= first < labels.hi:
                made[width, first] = LabelSpace(labels.lo, labels.hi, tuple(range(first, labels.hi, width)))
    return made


def partition_tables(profile: Profile) -> Stage:
    """red_plus_partitions.csv: range accuracy when the same answers are asked for other ranges, test rows of structure.

    group first=F: the last value of the first range; x: the width of the others. range_accuracy: the range with the
    largest sum of value probabilities; range_of_value_accuracy: the range of the likeliest value.
    """
    b, made = profile.red_plus.beyond, {task: red_plus.setting(profile, task, "structure") for task in red_plus.TASKS}
    inputs = {}
    for task, s in made.items():
        inputs |= {f"{task} {name}": stage for name, stage in parts_of(s, seeds_of(profile, task)).items()}
        inputs[f"{task} pool"] = s.pool

    def make(stage: Stage, out: Path) -> None:
        frames = [_asked_otherwise(profile, s) for s in made.values()]
        save(profile, stage, out, {"red_plus_partitions": pd.concat(frames)})

    config = b.model_dump(include={"widths", "shifts", "seeds"}) | {"resamples": profile.bootstrap}
    return Stage("red_plus partitions", 1, config, make, inputs, 5)


def _asked_otherwise(profile: Profile, s: Setting) -> pd.DataFrame:
    b, hits = profile.red_plus.beyond, {}
    spaces = partitions(s.labels, b.widths, b.shifts)
    items, logits = _answers(s, seeds_of(profile, s.task))
    for (width, first), space in spaces.items():
        of_class = torch.tensor(space.range_index)
        true = of_class[torch.tensor(items["value"].to_numpy() - s.labels.lo)]
        for method, said in logits.items():
            hits[method, str(width), f"first={first}"] = {
                "range_accuracy": (range_probabilities(said, space).argmax(-1) == true).numpy(),
                "range_of_value_accuracy": (of_class[said.argmax(-1)] == true).numpy(),
            }
    found = shares(items, hits, ("method", "x", "place"), resamples=profile.bootstrap)
    found = found.assign(x=found["x"].astype(float), group=found["place"]).drop(columns="place")
    variant = f"{s.definition}/{s.recipe.name}".lstrip("/")
    return fill(found, task=s.task, variant=variant, split="structure", part="test")


@torch.no_grad()
def _answers(s: Setting, seeds: int) -> tuple[pd.DataFrame, dict[str, Tensor]]:
    """Test rows of all seeds, and every method's logits (N, C) over them."""
    items: list[pd.DataFrame] = []
    logits: dict[str, list[Tensor]] = {name: [] for name in METHODS}
    for seed in range(seeds):
        data = HiddenData(s, red_plus.base_stage(s, seed).folder)
        rows = data.rows["test"][seed]
        trained = red_plus.load_parts(s, seed) | {"base": nn.Identity()}  # h is stored
        items.append(data.pool.iloc[rows][["structure", "value", "range"]].assign(seed=seed))
        for name, said in logits.items():
            said.append(models.assemble(name, s.labels, trained, s.K)(data.x[rows].cpu()).logits)
    return pd.concat(items, ignore_index=True), {name: torch.cat(said) for name, said in logits.items()}


TABLES: dict[str, Callable[[Profile], Stage]] = {"red_plus_partitions": partition_tables}
