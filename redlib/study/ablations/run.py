"""How a run of the ablations is made: parts of the study are reused, what differs is trained, test rows answered."""

from copy import copy
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from redlib import models, modules, training
from redlib.config import Profile
from redlib.expressions import SOURCE_LABELS, LabelSpace
from redlib.models import MLPBank, take
from redlib.models.ablated import Ablated, JointRED
from redlib.models.arms import ARMS
from redlib.study import ablations, fair, methods
from redlib.study.ablations import JOINT, Run
from redlib.study.data import open_backbone
from redlib.study.fair import Bank
from redlib.study.parts import Frozen
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage

PARTS = ("base", "experts", "routers")
KEPT = ("row", "structure", "value", "range", "split", "recipe", "part", "method", "seed")
SAID = ("predicted_value", "predicted_range", "confidence", "router_range", "expert")


@dataclass(frozen=True)
class Regrouped(Setting):
    """A setting whose experts are for the ranges of `groups` instead of the task's own."""

    groups: LabelSpace = SOURCE_LABELS

    @property
    def K(self) -> int:
        return self.groups.K


def run_stage(profile: Profile, run: Run) -> Stage:
    """What one run says of the test rows (predictions.parquet), and what is measured of it (measured.csv)."""
    s = ablations.setting(profile, run)
    inputs = {"pool": s.pool, "features": s.features}
    inputs |= {name: stage for name, stage in methods.part_stages(s).items() if name in reused(run)}
    config = {"run": run.model_dump(), "recipe": s.recipe.model_dump()}
    seconds = 2 + run.seeds * s.pool.config["rows"] * (1e-4 if reused(run) == PARTS else 4e-4)
    return Stage(f"ablation ({run.name})", 1, config, partial(_make, s, run), inputs, seconds, 1 << 20)


def reused(run: Run) -> tuple[str, ...]:
    """The stages of the study whose parts a run takes as they are."""
    experts = run.experts is None and run.expert_share == 1 and not run.readout_hidden and run.order != "joint"
    routers = run.experts is None and not run.balance and run.order != "joint"
    return tuple(name for name, kept in zip(PARTS, (True, experts, routers), strict=True) if kept)


def _make(s: Setting, run: Run, stage: Stage, out: Path) -> None:
    data = _regrouped(Data(s, stage.inputs["base"].folder), run)
    bank, histories = _train(data, run, _reused(stage, run.seeds))
    if histories:
        pd.concat(histories).to_csv(out / "history.csv", index=False)
    frames, measured = zip(*(_predict(data, run, bank, seed) for seed in range(run.seeds)), strict=True)
    pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")
    pd.concat(measured, ignore_index=True).to_csv(out / "measured.csv", index=False)


def _regrouped(data: Data, run: Run) -> Data:
    """The rows with experts for the run's own number of ranges."""
    if run.experts is None:
        return data
    s = data.setting
    groups = ablations.groups(s.labels, data.pool["value"].to_numpy(), run.experts)
    data.setting = Regrouped(**{field.name: getattr(s, field.name) for field in fields(s)}, groups=groups)
    data.expert = torch.tensor(groups.range_index)[data.value]
    return data


def _reused(stage: Stage, seeds: int) -> Bank:
    made = {name: input.folder for name, input in stage.inputs.items() if name in PARTS}
    loaded = []
    for seed in range(seeds):
        files = [folder / f"{name}-{seed}.safetensors" for name, folder in made.items()]
        loaded.append({name: part for file in files for name, part in modules.load(file)[0].items()})
    return fair.bank_of(loaded)


def _train(data: Data, run: Run, bank: Bank) -> tuple[Bank, list[pd.DataFrame]]:
    """The bank with every part that the run lacks, trained, and the histories of these."""
    s, arm, histories = data.setting, ARMS[run.arm], []
    if run.readout_hidden:
        bank["classifier"], history = _train_readout(data, run, bank)
        histories.append(history)
    if run.order != "joint" and arm.experts not in bank:
        extra, more = fair.train_experts(_fewer(data, run.expert_share), bank, [arm.experts])
        bank |= extra
        histories += more
    if s.K == 1:  # one expert needs no choice
        bank[arm.router_name] = MLPBank([0] * run.seeds, data.d, s.recipe.router_hidden, 1)
    elif run.order != "joint" and (run.balance or arm.router_name not in bank):
        bank[arm.router_name], history = fair.train_router(data, bank, arm, run.balance)
        histories.append(history)
    if run.order in JOINT:
        bank[arm.experts], bank[arm.router_name], history = _train_jointly(data, run, bank)
        histories.append(history)
    return bank, histories


def _fewer(data: Data, share: float) -> Data:
    """The same data with a share of the training rows, the same from every range."""
    if share == 1:
        return data
    fewer = copy(data)
    train = [data.by_range(rows, share, seed) for seed, rows in enumerate(data.rows["train"])]
    fewer.rows = data.rows | {"train": train}
    return fewer


def _train_readout(data: Data, run: Run, bank: Bank) -> tuple[nn.Module, pd.DataFrame]:
    """A shared classifier with a hidden layer, trained on the rows of the linear one."""
    s = data.setting
    shares = [data.by_range(rows, s.recipe.base_share, seed) for seed, rows in enumerate(data.rows["train"])]
    rows = data.training_rows("classifier", data.value, shares, data.rows["validation"], range(run.seeds))

    def make(members: list[int]) -> nn.Module:
        seeds = [rows.seeds[m] for m in members]
        return Frozen(take(bank["base"], members), MLPBank(seeds, data.d, run.readout_hidden, s.labels.C))

    module, history = training.fit_members(make, rows, s.recipe.base)
    return module.bank, history


def _train_jointly(data: Data, run: Run, bank: Bank) -> tuple[nn.Module, nn.Module, pd.DataFrame]:
    """Experts and router on the answer of all training rows, from the start or on from where they are."""
    s, arm = data.setting, ARMS[run.arm]
    rows = data.training_rows("joint", data.value, data.rows["train"], data.rows["validation"], range(run.seeds))

    def make(members: list[int]) -> nn.Module:
        seeds, classifier = [rows.seeds[m] for m in members], take(bank["classifier"], members)
        joint = JointRED(seeds, data.d, s.K, s.recipe.rank, s.recipe.router_hidden, classifier)
        if run.order == "joint_after":
            own = [m * s.K + k for m in members for k in range(s.K)]
            joint.start_from(take(bank[arm.experts], own), take(bank[arm.router_name], members))
        return Frozen(take(bank["base"], members), joint)

    module, history = training.fit_members(make, rows, s.recipe.experts)
    return module.bank.experts(), module.bank.router, history


def _predict(data: Data, run: Run, bank: Bank, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What one seed says of its test rows, and the numbers that are measured of it."""
    s, arm = data.setting, ARMS[run.arm]
    parts = fair.parts_of(bank, arm, seed)
    scale = fair.fit_scale(data, parts, arm, seed) if arm.scale == "learned" else None
    model = Ablated(s.labels, parts, arm, scale, K=s.K, top=run.top, mixing=run.mixing).eval()
    said = methods.predict_part(data, model, "test", run.arm, seed)
    said["expert"] = data.expert.numpy()[data.rows["test"][seed]]
    if s.K == 1:
        said["router_range"] = -1
    load = torch.tensor(said[[f"alpha_{k + 1}" for k in range(s.K)]].to_numpy(), dtype=torch.float64).mean(0)
    numbers = _parameters(s, parts, routed=s.K > 1 and arm.weights in ("soft", "top1"))
    numbers |= {"effective_experts": float(torch.special.entr(load).sum().exp())}
    if arm.corrects and arm.weights != "all":
        numbers |= {"logit_difference": _mixing_matters(model, _rows_of(data, seed))}
    measured = pd.DataFrame({"seed": seed, "metric": list(numbers), "value": list(numbers.values())})
    return said[[*KEPT, *SAID]], measured


def _rows_of(data: Data, seed: int) -> Tensor:
    rows = data.rows["test"][seed]
    return (data.x[rows] if data.x.dim() == 2 else data.x[seed, rows]).cpu()


def _parameters(s: Setting, parts: Bank, routed: bool) -> dict[str, int]:
    """Trained parameters of the parts that answer; `parameters` is their sum with the tuned layers' left out."""
    counted = {name: models.count(parts[name]) for name in ("classifier", "experts")}
    counted |= {"router": models.count(parts["router"]) if routed else 0}
    tuned = 0
    if s.recipe.tuned_layers:
        tuned = models.count(open_backbone(s.features).top(s.recipe.tuned_layers).layers)
    named = {f"parameters_{name}": number for name, number in counted.items()}
    return {"parameters": sum(counted.values()), **named, "parameters_tuned": tuned}


@torch.no_grad()
def _mixing_matters(model: Ablated, x: Tensor) -> float:
    """Largest difference between mixing states and mixing logits, over the largest logit."""
    own, mixing = model(x).logits, model.mixing
    model.mixing = "logits" if mixing == "states" else "states"
    other = model(x).logits
    model.mixing = mixing
    return float((own - other).abs().max() / own.abs().max())
