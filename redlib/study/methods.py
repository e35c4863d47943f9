"""Stages that train every method on one split with one recipe, all seeds side by side, and predict (4.3-4.5).

base -> experts -> routers, and controls beside them; each part is trained with everything before it frozen.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from redlib import datasets, evaluation, models, modules
from redlib.config import PARTS
from redlib.expressions import OPERATORS, Expression
from redlib.study import parts
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage

_SECONDS = {"experts": 7e-6, "routers": 1.5e-5, "controls": 3e-5}  # a row and epoch, on two cores
ROUTED = ("red", "softmax_moe")  # their router accuracy is reported on every part


def base_stage(s: Setting) -> Stage:
    """Features -> h and the shared classifier, trained on `base_share` of the training rows, then frozen.

    With tuned layers every seed is a stage of its own, hours of work that must survive being cut off, gathered here.
    """
    if s.recipe.tuned_layers:
        seeds = {f"seed {seed}": tuned_stage(s, seed) for seed in range(s.seeds)}
        size = s.seeds * s.pool.config["rows"] * 2304
        return Stage(f"base ({s.name})", 1, {"seeds": s.seeds}, parts.gather_bases, seeds, 2, size)
    config = {**_base_config(s), "seeds": s.seeds}
    seconds = 2 + s.seeds * s.pool.config["rows"] * s.recipe.base_share * 0.002
    return Stage(f"base ({s.name})", 1, config, lambda stage, out: parts.make_base(s, out), _inputs(s), seconds)


def tuned_stage(s: Setting, seed: int) -> Stage:
    """Top layers and classifier of one seed, and h of every text of the pool under them."""
    rows = s.pool.config["rows"]
    return Stage(
        f"tuned base ({s.name}, seed {seed})",
        1,
        {**_base_config(s), "seed": seed},
        lambda stage, out: parts.make_tuned_base(s, seed, out, stage.checkpoint),
        _inputs(s),
        2 + rows * (s.recipe.base.max_epochs * (s.recipe.base_share * 0.006 + 0.0003) + 0.003),
        rows * 2304,
    )


def _base_config(s: Setting) -> dict:
    fields = {"layer", "pooling", "tuned_layers", "base_share", "base"}
    recipe = s.recipe.model_dump(include=fields)
    config = {"recipe": recipe, "labels": asdict(s.labels), "split": s.split, "subset": s.subset}
    config |= {"held_out": datasets.held_out(0)} if s.split == "phrasing" else {}
    return config | ({"apart": True} if s.apart else {})


def experts_stage(s: Setting) -> Stage:
    """K residual experts and K full-rank heads a seed, each on the rows of its own range; those of operations have a
    stage each and are gathered here."""
    kinds = s.needs("experts", "heads")
    if s.experts_by == "range":
        return _part_stage(s, "experts", kinds, ("rank", "experts"), parts.make_experts)
    made = {operator: expert_stage(s, k) for k, operator in enumerate(OPERATORS)}
    config = {"kinds": kinds, "seeds": s.seeds}
    return Stage(f"experts ({s.name})", 1, config, lambda stage, out: parts.gather_experts(s, stage, out), made, 1)


def expert_stage(s: Setting, k: int) -> Stage:
    """One operation's expert alone: it needs the frozen base and nothing of the other operation."""
    kinds = s.needs("experts", "heads")
    make = partial(parts.make_experts, only=k)
    return _part_stage(s, f"expert {OPERATORS[k]}", kinds, ("rank", "experts"), make)


def routers_stage(s: Setting) -> Stage:
    """The range router of RED and the answer-trained gates of the mixture, experts frozen."""
    gates = ["gate", "gate_linear"] if s.needs("gate") else []
    experts = {"experts": experts_stage(s)} if gates else {}
    return _part_stage(
        s, "routers", s.needs("router") + gates, ("router_hidden", "routers"), parts.make_routers, experts
    )


def controls_stage(s: Setting) -> Stage:
    """Plain networks on the same features and all training rows: linear, and an MLP with RED's parameter count."""
    kinds = s.needs("linear_full", "mlp_full", "fourier_full")
    return _part_stage(s, "controls", kinds, ("rank", "router_hidden", "controls"), parts.make_controls)


def _part_stage(
    s: Setting,
    name: str,
    kinds: list[str],
    fields: tuple[str, ...],
    make: Callable[[Setting, Stage, list[str], Path], None],
    extra: Mapping[str, Stage] = MappingProxyType({}),
) -> Stage:
    """A stage that trains the parts `kinds` on the frozen base; `fields` of the recipe are what it reads."""
    loop, by = fields[-1], {} if s.experts_by == "range" else {"experts_by": s.experts_by}
    by |= {} if s.final_rate is None else {"final_rate": s.final_rate}
    return Stage(
        f"{name} ({s.name})",
        2,
        {**s.recipe.model_dump(include=set(fields)), "kinds": kinds, **by},
        lambda stage, out: make(s, stage, kinds, out),
        {**_inputs(s), "base": base_stage(s), **extra},
        2 + s.seeds * s.pool.config["rows"] * getattr(s.recipe, loop).max_epochs * _SECONDS[loop],
    )


def part_stages(s: Setting) -> dict[str, Stage]:
    """The stages that train what the setting's methods are built from: base, and of experts, routers and controls
    those that are needed."""
    made = {"base": base_stage(s), "experts": experts_stage(s), "routers": routers_stage(s)}
    made["controls"] = controls_stage(s)
    return {name: stage for name, stage in made.items() if name == "base" or stage.config["kinds"]}


def predictions_stage(s: Setting) -> Stage:
    """The long frame of predictions: test and validation rows of every method, training rows of the routed ones."""
    return Stage(
        f"predictions ({s.name})",
        1,
        {"methods": list(s.methods)},
        lambda stage, out: _make_predictions(s, stage, out),
        {**_inputs(s), **part_stages(s)},
        s.seeds * s.pool.config["rows"] * 1e-4 + 2,
        s.seeds * s.pool.config["rows"] * 200,
    )


def _inputs(s: Setting) -> dict[str, Stage]:
    return {"pool": s.pool, "features": s.features}


def _make_predictions(s: Setting, stage: Stage, out: Path) -> None:
    data = Data(s, stage.inputs["base"].folder)
    frames = []
    for seed in range(s.seeds):
        trained = load_parts(s, seed)
        for name in s.methods:
            method = models.assemble(name, s.labels, trained)
            for part in PARTS if name in ROUTED else PARTS[1:]:
                frames.append(predict_part(data, method, part, name, seed))
        if "softmax_moe" in s.methods:
            linear = models.assemble("softmax_moe", s.labels, {**trained, "gate": trained["gate_linear"]})
            frames.append(
                predict_part(data, linear, "test", "softmax_moe", seed).assign(recipe=f"{s.recipe.name}/gate=linear")
            )
    pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")


def predict_part(data: Data, method: models.Method, part: str, name: str, seed: int) -> pd.DataFrame:
    """What `method`, called `name`, says of the rows of one part and seed: the long frame's rows.

    Of a task with chains the rows also say their number of operations and which operators they hold.
    """
    s, rows = data.setting, data.rows[part][seed]
    x = data.x[rows] if data.x.dim() == 2 else data.x[seed, rows]
    items = data.pool.iloc[rows][["row", "structure", "value", "range"]].reset_index(drop=True)
    if s.task != "task1":
        chains = data.pool.iloc[rows].reset_index(drop=True)
        patterns = [Expression.read(text).pattern for text in chains["expression"]]
        items = items.assign(operations=chains["operations"], pattern=patterns)
    about = {
        "split": s.split,
        "part": part,
        "recipe": s.recipe.name,
        "method": name,
        "seed": seed,
    }
    said = evaluation.predict(method, x.cpu(), s.labels, items["range"].to_numpy())
    return pd.concat([items.assign(**about), said], axis=1)


def load_parts(s: Setting, seed: int, backbone=None) -> dict:
    """Every trained part of a seed, computed if missing. With a backbone, a tuned base reads its token states;
    without one the parts of recipe `source` read the h that the base stage stored."""
    trained: dict = {}
    stages = part_stages(s)
    for name, stage in stages.items():
        trained |= modules.load(stage.run() / f"{name}-{seed}.safetensors", backbone)[0]
    if s.recipe.tuned_layers and backbone is not None:
        trained |= modules.load(stages["base"].run() / f"tokens-{seed}.safetensors", backbone)[0]
    return trained


def history(s: Setting) -> pd.DataFrame:
    """Training histories of all parts of a setting, with a column `stage`."""
    frames = [pd.read_csv(stage.run() / "history.csv").assign(stage=name) for name, stage in part_stages(s).items()]
    return pd.concat(frames, ignore_index=True)


def epoch_limits(settings: list[Setting]) -> dict[str, int]:
    """max_epochs by "variant/name of the part"."""
    loops = {"base": ("classifier", "tuned base"), "experts": ("experts", "heads")}
    loops |= {"routers": ("router", "gate", "gate_linear"), "controls": ("linear_full", "mlp_full", "fourier_full")}
    return {
        f"{s.recipe.name}/{name}": getattr(s.recipe, loop).max_epochs
        for s in settings
        for loop, names in loops.items()
        for name in names
    }
