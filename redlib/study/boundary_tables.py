"""Tables of sweeps along the value axis and of operand maps, over the whole population of pairs (the source, 4.6.5).

Every method is trained on its task's texts as usual; here it answers every ordered pair of operands in a few wordings.
The chains of steps `operations` have two operations at least, so that there every pair is shorter than anything seen.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import evaluation
from redlib.config import Profile
from redlib.evaluation import Sweep
from redlib.statistics import Curves, Statistic, interval
from redlib.study import methods, task1, task2
from redlib.study.population import answers, population_features, population_stage, read_population, seen_pairs
from redlib.study.settings import Setting
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

SPLITS = ("text", "structure")
STEPS = ("operations", "single_heavy")
SWEPT = {  # the methods whose curves are kept; all methods have their shapes measured
    "task1": ("red", "softmax_moe", "global_head", "uniform_average", "fourier_full_data"),
    "task2": ("red", "softmax_moe", "fourier_full_data"),
}
MAPPED = ("red", "softmax_moe", "mlp_full_data", "fourier_full_data", "global_head")
MAPS = {  # table -> its metrics; each stays small
    "operand_maps": ("value_error",),
    "operand_maps_range": ("range_error",),
    "operand_maps_wordings": ("value_error_wordings",),
    "operand_maps_entropy": ("weight_entropy", "weight_entropy_wordings"),
}
REFERENCE = "red"
Answers = dict[str, list[pd.DataFrame]]


def boundary_tables(profile: Profile) -> Stage:
    """boundary_sweep.csv and boundary_sweep_task2.csv (mean curves by true value), boundary_smoothness.csv (numbers for
    their shapes), and operand_maps.csv with its companions (one seed of the structure split)."""
    settings = _settings(profile)
    spaces = {"task1": (profile.task1, task1.labels(profile)), "task2": (profile.task2, task2.labels(profile))}
    read = {
        task: population_features(profile, population_stage(task, *spaces[task], profile.population.wordings))
        for task in dict.fromkeys(s.task for s in settings)
    }
    inputs = {f"{s.task} {s.name} {name}": made for s in settings for name, made in methods.part_stages(s).items()}
    inputs |= {f"{s.task} {s.name} pool": s.pool for s in settings} | {f"{task} read": r for task, r in read.items()}
    config = {"resamples": profile.bootstrap, "seeds": profile.population.seeds, "swept": SWEPT, "mapped": list(MAPPED)}

    def make(stage: Stage, out: Path) -> None:
        save(profile, stage, out, _tables(profile, settings, read))

    return Stage("boundary tables", 1, config, make, inputs, 20 + 10 * len(settings))


def _settings(profile: Profile) -> list[Setting]:
    """Recipe `chosen` of Task 1, and of Task 2 by definition of its steps, on the splits that have seeds."""
    given = [("task1", "", profile.task1.seeds)]
    given += [("task2", name, d.seeds) for name, d in profile.task2.definitions.items() if name in STEPS]
    return [
        task1.setting(profile, "chosen", split) if task == "task1" else task2.setting(profile, "chosen", split, steps)
        for task, steps, seeds in given
        for split in SPLITS
        if seeds.get(split)
    ]


def _tables(profile: Profile, settings: list[Setting], read: dict[str, Stage]) -> dict[str, pd.DataFrame]:
    swept, shapes, mapped = frames(profile, (_swept(profile, s, read[s.task]) for s in settings))
    return {
        "boundary_sweep": swept[swept["task"] == "task1"],
        "boundary_sweep_task2": swept[swept["task"] == "task2"],
        "boundary_smoothness": shapes,
        **{name: mapped[mapped["metric"].isin(metrics)] for name, metrics in MAPS.items()},
    }


@dataclass(frozen=True, eq=False)
class Swept:
    """A setting, and what methods say of its population (`said`, a frame a seed). `curves`, `maps`: methods whose
    curves and maps are kept; `reference`: the one that all others are compared with."""

    setting: Setting
    population: pd.DataFrame
    said: Answers
    curves: Sequence[str]
    maps: Sequence[str]
    reference: str = REFERENCE

    @property
    def seeds(self) -> int:
        """How many seeds every method was asked with."""
        return len(next(iter(self.said.values())))


def _swept(profile: Profile, s: Setting, read: Stage) -> Swept:
    said = answers(s, read, min(profile.population.seeds, s.seeds))
    return Swept(s, read_population(read), said, SWEPT[s.task], MAPPED if _mapped(s) else ())


def frames(profile: Profile, asked: Iterable[Swept]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tidy curves along the value axis, numbers for their shapes, and maps of seed 0, of everything asked."""
    sweeps, shapes, maps = [], [], []
    for one in asked:
        s, population = one.setting, one.population
        seen = seen_pairs(s, population, one.seeds)
        about = {"task": s.task, "variant": _variant(s), "split": s.split, "part": "population"}
        for operator in population["operator"].unique():
            for group, sweep, said in _groups(profile, s, population, operator, seen, one.said):
                where = about | {"group": group, "operator": operator}
                curves = {name: sweep.curves(of) for name, of in said.items()}
                found = {name: sweep.shapes(of, curves[name]) for name, of in said.items()}
                shapes.append(_shape_rows(found, where, one.reference))
                sweeps += [_sweep_rows(sweep, curves[name], name, where) for name in one.curves]
        maps += list(_map_rows(one, seen[0], about))
    return tuple(pd.concat(found, ignore_index=True) for found in (sweeps, shapes, maps))


def _variant(s: Setting) -> str:
    return f"{s.definition}/{s.recipe.name}" if s.definition else s.recipe.name


def _mapped(s: Setting) -> bool:
    return s.split == "structure" and s.definition != "single_heavy"


def _groups(
    profile: Profile, s: Setting, population: pd.DataFrame, operator: str, seen: Sequence[np.ndarray], said: Answers
) -> Iterator[tuple[str, Sweep, Answers]]:
    """Group `all`, and where the split holds pairs back also `unseen`: their sweeps, and the answers to their texts."""
    mine = (population["operator"] == operator).to_numpy()
    texts = population[mine].reset_index(drop=True)
    frames = {name: [frame[mine].reset_index(drop=True) for frame in of] for name, of in said.items()}
    options = {"resamples": profile.bootstrap, "seed": zlib.crc32(f"{s.task}/{s.name}/{operator}".encode())}
    yield "all", Sweep(texts, s.labels, seeds=len(seen), **options), frames
    unseen = [~marks[mine] for marks in seen]
    if s.split == "structure" and not all(mask.all() for mask in unseen):
        yield "unseen", Sweep(texts, s.labels, unseen, **options), frames


def _sweep_rows(sweep: Sweep, curves: Curves, method: str, where: dict) -> pd.DataFrame:
    mean, low, high = curves.band()
    n, names = curves.rows.sum(0), sweep.names[: mean.shape[1]]
    frames = [
        pd.DataFrame(
            {"true_value": curves.places, "value": mean[:, m], "low": low[:, m], "high": high[:, m], "n": n}
        ).assign(metric=name)
        for m, name in enumerate(names)
    ]
    return fill(pd.concat(frames), method=method, seed="all", **where)


def _shape_rows(found: dict[str, dict[str, Statistic]], where: dict, reference: str) -> pd.DataFrame:
    """A row a method and metric, and for all methods but the reference the paired difference reference minus method."""
    rows = []
    for method, shapes in found.items():
        for metric, statistic in shapes.items():
            rows.append((method, metric, *_estimate(statistic)))
            if method != reference and metric in found[reference]:
                below = found[reference][metric] - statistic
                rows.append((method, f"{metric}_below_{reference}", *_estimate(below)))
    frame = pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high", "n"])
    return fill(frame, seed="all", **where)


def _estimate(statistic: Statistic) -> tuple[float, float, float, int]:
    found = interval(statistic)
    return found.value, found.low, found.high, found.n


def _map_rows(one: Swept, seen: np.ndarray, about: dict) -> Iterator[pd.DataFrame]:
    """Maps of seed 0: of Task 1 addition, of Task 2 subtraction."""
    operator = "addition" if one.setting.task == "task1" else "subtraction"
    mine = (one.population["operator"] == operator).to_numpy()
    for method in one.maps:
        said = one.said[method][0][mine]
        frame = evaluation.pair_maps(one.population[mine], said, one.setting.labels, seen[mine])
        yield fill(frame, method=method, seed="0", **about)


TABLES: dict[str, Callable[[Profile], Stage]] = dict.fromkeys(
    ("boundary_sweep", "boundary_sweep_task2", "boundary_smoothness", *MAPS), boundary_tables
)
