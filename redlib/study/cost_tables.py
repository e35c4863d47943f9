"""The tables of cost, formulas and counts without training: by method, and along rank, classes and length."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from redlib import cost
from redlib.config import Profile
from redlib.cost.formulas import RED
from redlib.models import LabelSpace
from redlib.study import task1
from redlib.study.data import open_backbone, read_pool
from redlib.study.stage import Stage
from redlib.study.writing import save

PROMPTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CLASSES = (2, 3, 5, 10, 20, 50, 99, 200, 500, 1000, 2000, 5000)
BATCH, TOKENS = 16, 64  # the source's batch (4.5.2); it gives no length, and no text of ours is as long
HIDDEN = 256  # units of the source's router (4.5.3)
LENGTHS = (16, 64, 256, 1024)  # of the texts behind the memory curve
NOTHING = {"split": "none", "part": "none", "seed": "all", "rank": 0}  # columns that a count has no part in
ALL, OWN = "all layers", "as read"  # backbone FLOPs: to the end, or to the layer that recipe `chosen` reads


def cost_tables(profile: Profile) -> Stage:
    """cost.csv and cost_curves.csv, for the profile's backbone and those of cost.SHAPES (`variant`; the source, 4.10).

    cost. Of methods, by rank, group C=classes: parameters and extra_flops of one text, both also `_counted`,
    parameters_linear_router, extra_flops_skipping. Of formulas (method `formula red/4.10` ...): parameters,
    over_mixture (parameters over the mixture's), experts_over_heads, break_even_rank, rank_ten_times_smaller. Of the
    backbone: parameters by part, flops_per_token. Of the prompts: tokens_min, _median, _max. Of training and inference
    (cost.SHAPES): bytes by part. cost_curves, by curve and x: rank (parameters), classes (break_even_rank), tokens
    (share_of_backbone), length (bytes).
    """
    labels = task1.labels(profile)
    config = {
        "backbone": profile.backbone.model_dump(),
        "labels": asdict(labels),
        "hidden": profile.chosen.router_hidden,
        "layer": profile.chosen.layer,
        "ranks": sorted({profile.chosen.rank, profile.source.rank, *profile.selection.ranks}),
    }

    def make(stage: Stage, out: Path) -> None:
        shapes = _configurations(profile)
        classes = sorted({labels.C, labels.K})
        table, curves = [], []
        for name, configuration in shapes.items():
            shape = cost.Shape.of(configuration)
            own = name == profile.backbone.name
            hidden = profile.chosen.router_hidden if own else HIDDEN
            ranks = sorted({*(config["ranks"] if own else ()), *(max(1, shape.d // part) for part in (2, 4, 8))})
            lines = [
                *_of_methods(shape.d, labels, ranks, hidden),
                *_of_formulas(shape.d, labels.K, classes, ranks),
                *_of_backbone(shape),
            ]
            if name in cost.SHAPES:
                lines += _of_memory(configuration, labels.C)
            if own:
                lines += _of_prompts(profile, read_pool(stage.inputs["pool"].folder)["text"].tolist())
            table += [{"variant": name, **line} for line in lines]
            layer = open_backbone(profile.backbone).layer(profile.chosen.layer) if own else None
            drawn = [*_ranks(shape.d, labels.K, classes), *_break_even(shape.d, labels.K)]
            drawn += _shares(shape, labels, ranks, hidden, layer)
            drawn += _lengths(configuration, labels.C) if name == cost.SHAPES[-1] else []
            curves += [{"variant": name, **line} for line in drawn]
        save(profile, stage, out, {"cost": _tidy(table), "cost_curves": _tidy(curves)})

    return Stage("cost tables", 1, config, make, {"pool": task1.pool(profile)}, 30)


def _configurations(profile: Profile) -> dict[str, Any]:
    """The transformers configuration of every backbone that the tables are about, the profile's own first."""
    own = {} if profile.backbone.name in cost.SHAPES else {profile.backbone.name: _own(profile)}
    return own | {name: cost.configuration(name) for name in cost.SHAPES}


def _own(profile: Profile) -> Any:
    return open_backbone(profile.backbone).model.config


def _tidy(lines: list[dict]) -> pd.DataFrame:
    frame = pd.DataFrame([{**NOTHING, **line} for line in lines])
    empty = {"task": "cost", "low": np.nan, "high": np.nan}
    return frame.assign(**empty, n=frame.get("n", pd.NA))


def _of_methods(d: int, labels: LabelSpace, ranks: list[int], hidden: int) -> Iterator[dict]:
    for rank in ranks:
        s = cost.Sizes(d, labels.C, labels.K, rank, hidden)
        made = cost.modules(s)
        for name in cost.NAMES:
            closed, real = cost.method_cost(name, s), cost.counted(name, s, made)
            numbers = {
                "parameters": closed.parameters,
                "parameters_counted": real.parameters,
                "parameters_linear_router": cost.method_cost(name, replace(s, hidden=0)).parameters,
                "extra_flops": closed.flops,
                "extra_flops_counted": real.flops,
                "extra_flops_skipping": cost.skipping(name, s),
            }
            for metric, value in numbers.items():
                yield {"method": name, "group": f"C={s.C}", "rank": rank, "metric": metric, "value": value}


def _of_formulas(d: int, K: int, classes: list[int], ranks: list[int]) -> Iterator[dict]:
    for C in classes:
        mixture, heads = cost.leading("softmax_moe", d, C, K), K * d * C
        for name in cost.FORMULAS:
            at = {"method": f"formula {name}", "group": f"C={C}"}
            if name not in RED:
                yield {**at, "metric": "parameters", "value": cost.leading(name, d, C, K)}
                continue
            yield {**at, "metric": "break_even_rank", "value": cost.break_even(name, d, C, K)}
            yield {**at, "metric": "rank_ten_times_smaller", "value": cost.rank_for(name, 10, d, C, K)}
            for rank in ranks:
                whole = cost.leading(name, d, C, K, rank)
                experts = whole - cost.leading(name, d, C, K)
                numbers = {"parameters": whole, "over_mixture": whole / mixture, "experts_over_heads": experts / heads}
                for metric, value in numbers.items():
                    yield {**at, "rank": rank, "metric": metric, "value": value}


def _of_backbone(shape: cost.Shape) -> Iterator[dict]:
    for part, value in {**shape.parameters, "all": sum(shape.parameters.values())}.items():
        yield {"method": "backbone", "group": part, "metric": "parameters", "value": value}
    yield {"method": "backbone", "group": "layers", "metric": "flops_per_token", "value": shape.flops(1)}


def _of_prompts(profile: Profile, texts: list[str]) -> Iterator[dict]:
    """How long the texts of Task 1 are in the backbone's own tokens."""
    lengths = np.array([len(tokens) for tokens in open_backbone(profile.backbone).encode(texts)])
    for metric, value in {"min": lengths.min(), "median": np.median(lengths), "max": lengths.max()}.items():
        yield {
            "method": "prompts",
            "group": "task1",
            "metric": f"tokens_{metric}",
            "value": float(value),
            "n": len(lengths),
        }


def _of_memory(configuration: Any, classes: int) -> Iterator[dict]:
    """At the source's batch; in 16 bits, weights, gradients and optimiser alike are 16-bit numbers."""
    counts = {"inference, float32": cost.inference_memory(configuration, BATCH, TOKENS)}
    for dtype in (torch.float32, torch.bfloat16):
        name = f"training, {str(dtype).removeprefix('torch.')}"
        counts[name] = cost.training_memory(configuration, BATCH, TOKENS, classes, dtype=dtype)
    for method, memory in counts.items():
        for part, value in asdict(memory).items():
            yield {"method": method, "group": part, "metric": "bytes", "value": value}


def _ranks(d: int, K: int, classes: list[int]) -> Iterator[dict]:
    ranks = np.unique(np.geomspace(1, d, 25).round().astype(int))
    for C in classes:
        for name in cost.FORMULAS:
            for rank in ranks:
                at = {"method": f"formula {name}", "group": f"C={C}", "curve": "rank", "x": float(rank)}
                yield {**at, "metric": "parameters", "value": cost.leading(name, d, C, K, int(rank))}


def _break_even(d: int, K: int) -> Iterator[dict]:
    for name in RED:
        for C in CLASSES:
            at = {"method": f"formula {name}", "group": "all", "curve": "classes", "x": float(C)}
            yield {**at, "metric": "break_even_rank", "value": cost.break_even(name, d, C, K)}


def _shares(shape: cost.Shape, labels: LabelSpace, ranks: list[int], hidden: int, layer: int | None) -> Iterator[dict]:
    """What router, mixture and RED add to a pass through the backbone, as shares of that pass."""
    for rank in ranks:
        s = cost.Sizes(shape.d, labels.C, labels.K, rank, hidden)
        added = {name: cost.method_cost(name, s).flops for name in ("softmax_moe", "red")}
        added["router"] = cost.router_cost(s).flops
        for group, depth in {ALL: shape.layers, **({OWN: layer} if layer else {})}.items():
            for tokens in PROMPTS:
                whole = shape.flops(tokens, layers=depth)
                at = {"group": group, "curve": "tokens", "x": float(tokens), "rank": rank}
                for method, value in added.items():
                    yield {**at, "method": method, "metric": "share_of_backbone", "value": value / whole}


def _lengths(configuration: Any, classes: int) -> Iterator[dict]:
    for tokens in LENGTHS:
        peaks = {
            "training, float32": cost.training_memory(configuration, BATCH, tokens, classes).peak,
            "inference, float32": cost.inference_memory(configuration, BATCH, tokens).peak,
        }
        for method, value in peaks.items():
            at = {"group": "peak", "curve": "length", "x": float(tokens)}
            yield {**at, "method": method, "metric": "bytes", "value": value}


TABLES: dict[str, Callable[[Profile], Stage]] = {"cost": cost_tables, "cost_curves": cost_tables}
