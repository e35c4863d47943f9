"""What the routers of nested experts do, as rows of tables: load, entropy, agreement with the mask, single pictures."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from redlib import nested, results, routing
from redlib.config import Nested, Profile
from redlib.nested import flops, learning, maps
from redlib.routing.rows import open_ended
from redlib.statistics import Resampler
from redlib.study import nested as chapter
from redlib.study.stage import Stage

COLUMNS = ["method", "group", "x", "metric"]
FIXED = ("load", "budget_used")  # the same in every picture
STEP = 0.05  # between the budgets of the maps
WHOLE = -1  # token of what is about a whole picture


def resampler(labels: np.ndarray, rows: np.ndarray, seeds: np.ndarray, profile: Profile) -> Resampler:
    """Digits (labels, rows and seeds: (N,)) are redrawn within their class, then seeds; all placements of a digit go
    together."""
    return Resampler(seeds, rows, labels, profile.bootstrap)


def grid(n: Nested) -> list[float]:
    """Budgets from the lowest that is drawn to 1."""
    low = max(n.low, 1 / n.divisors[0])
    return [*np.round(np.arange(low, 1 - 1e-9, STEP), 4).tolist(), 1.0]


def numbers(profile: Profile, stage: Stage) -> pd.DataFrame:
    """`nested.maps.numbers` of every router and budget, and of the baselines, over held-out digits."""
    n = profile.nested
    per_seed: list[dict] = []
    where: list[tuple[np.ndarray, np.ndarray]] = []
    for seed in range(n.seeds):
        test = chapter.read(stage.inputs[f"clutter {seed}"], "clutter.npz")
        train = chapter.read(stage.inputs[f"train {seed}"], "clutter.npz")
        images, mask = test["images"][0], test["mask"][0]  # one placement of every held-out digit
        models = {"router_start": _open(stage, n, "warm", seed)}
        models |= {arm: _open(stage, n, arm, seed) for arm in ("nested", "gate", "random") if arm in n.arms}
        found = {}
        for name, model in models.items():
            for budget in n.budgets:
                told = maps.numbers(model, images, mask, budget)
                found |= {(name, group, budget, metric): values for (group, metric), values in told.items()}
        told = maps.baselines(models["router_start"], images, mask, train["images"][0], train["mask"][0])
        found |= {(name, "all", 0.0, "mask_auc"): values for name, values in told.items()}
        per_seed.append(found)
        where.append((test["labels"], test["rows"]))
    seeds = np.concatenate([np.full(len(labels), seed) for seed, (labels, _) in enumerate(where)])
    labels, rows = (np.concatenate(each) for each in zip(*where, strict=True))
    resample = resampler(labels, rows, seeds, profile)
    values = {key: np.concatenate([one[key] for one in per_seed]) for key in per_seed[0]}
    there = {key: np.isfinite(value) for key, value in values.items() if np.isfinite(value).any()}
    top = np.column_stack([np.nan_to_num(values[key]) for key in there])
    made = dict(zip(there, resample.ratio(top, np.column_stack(list(there.values()))), strict=True))
    made = {key: open_ended(value) if key[3] in FIXED else value for key, value in made.items()}
    for key in [key for key in made if key[0] in ("nested", "router_start") and key[3] == "mask_auc"]:
        for other in ("brightness", "supervised_tokens"):
            made[*key[:3], f"mask_auc_minus_{other}"] = made[key] - made[other, "all", 0.0, "mask_auc"]
    return routing.tidy(made, COLUMNS, range(n.seeds))


def _open(stage: Stage, n: Nested, name: str, seed: int) -> nested.NestedViT:
    kind = nested.ARMS.get(name, nested.NestedViT)
    return chapter.load(stage.inputs[f"{name} {seed}"], kind(chapter.shape(n)))


def shown(n: Nested, stage: Stage) -> pd.DataFrame:
    """Width of every token of a few held-out pictures, by budget, and what is answered; ValueError without the arm."""
    if "nested" not in n.arms:
        raise ValueError(f"maps need the arm nested, and the profile's arms are {', '.join(n.arms)}")
    test = chapter.read(stage.inputs["clutter 0"], "clutter.npz")
    images, mask, labels = test["images"][0, : n.shown], test["mask"][0, : n.shown], test["labels"][: n.shown]
    model = _open(stage, n, "nested", 0)
    lines = list(_picture_rows("matters", mask.astype(float), 0.0))
    lines += _picture_rows("label", labels[:, None].astype(float), 0.0, [WHOLE])
    for budget in grid(n):
        _, experts = maps.read(model, images, budget)
        said = learning.answer(lambda x, e=budget: model(x, e).softmax(-1), images)
        ratio = np.full((len(images), 1), flops.ratio(model.shape, "nested", budget))
        lines += _picture_rows("width", np.array(model.shape.shares)[experts], budget)
        for metric, values in (
            ("predicted", said.argmax(1)[:, None]),
            ("probability", said.max(1)[:, None]),
            ("flops_ratio", ratio),
        ):
            lines += _picture_rows(metric, values.astype(float), budget, [WHOLE])
    return pd.DataFrame(lines).assign(method="nested", seed="0")


def _picture_rows(metric: str, values: np.ndarray, x: float, tokens: Sequence[int] | None = None) -> Iterator[dict]:
    for picture, row in enumerate(values):
        for token, value in zip(range(len(row)) if tokens is None else tokens, row, strict=True):
            yield {"group": f"picture={picture}", "token": token, "x": x, "metric": metric, "value": float(value)}


def beside_red(red: pd.DataFrame, own: pd.DataFrame, budget: float, split: str = "structure") -> pd.DataFrame:
    """The two routers of the study by the same measures: RED's (a sample to a mixture of experts) and that of nested
    experts (a token to a width). Columns: measure, RED, nested experts; cells with intervals.

    red: the table routing (Task 1, recipe `chosen`); own: nested_routing. LookupError for missing rows.
    """
    samples = results.select(red, task="task1", variant="chosen", split=split, method="red", seed="all", part="test")
    tokens = results.select(own, method="nested", seed="all")
    tokens = tokens[np.isclose(tokens["x"], budget)]
    loads = results.select(tokens, metric="load")["value"].to_numpy()
    uneven = routing.balance(loads, np.full(len(loads), 1 / len(loads)))["load_cv"]
    lines = [
        ("what is routed", "a text", "a token of a picture"),
        ("experts", f"{len(results.select(samples, metric='load'))}", f"{len(loads)} nested widths"),
        ("load, deviation by mean", _cell(samples, "load_cv"), f"{uneven:.3f} (set by the budget)"),
        ("entropy, share of the largest", _cell(samples, "router_entropy"), _cell(tokens, "entropy")),
        ("agreement with the truth", _cell(samples, "router_accuracy"), _cell(tokens, "mask_auc_width")),
        ("the truth is", "the range of the sum (accuracy)", "the mask of the digit (AUC)"),
        ("experts that work on it", "all, weighted", "one, its weight on the MLP alone"),
        ("budget used", "all experts, always", _cell(tokens, "budget_used")),
        ("same route at less contrast", "–", _cell(tokens, "stable_contrast")),
        ("same route one patch further", "–", _cell(tokens, "stable_shift")),
    ]
    return pd.DataFrame(lines, columns=["measure", "RED", "nested experts"])


def _cell(rows: pd.DataFrame, metric: str) -> str:
    return results.cell(results.pick(rows, group="all", metric=metric))
