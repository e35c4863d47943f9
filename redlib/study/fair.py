"""The fair comparison of RED and the softmax mixture: one arm for every change between them, on both tasks.

What the study has trained is reused; a stage a setting trains the few experts, routers and scales that it lacks.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import models, training
from redlib.config import Profile
from redlib.models import MLPBank, ResidualExperts, stack, take
from redlib.models.ablated import Balanced
from redlib.models.arms import ARMS, TRAINED, Arm, ArmModel, MixedLogits, SoloExperts
from redlib.study import methods, task1, task2
from redlib.study.parts import Frozen
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage

SEEDS = 3  # at most, where a profile does not say
SPLITS = ("text", "structure")
STEPS = ("operations", "single_heavy")  # of Task 2; the source's own gap is on the latter (4.7)
SAME = "moe_same_experts"  # RED's experts and weights mixed as logits: by the identity no other function
BUILT_FROM = ("red", "softmax_moe", "red_logit_scale", SAME)  # methods whose trained parts are reused
ROUTERS = {ARMS[arm].router_name: part for arm, part in (("red", "router"), ("softmax_moe", "gate"))}
ROUTERS[ARMS["moe_linear_gate"].router_name] = "gate_linear"
EXPERTS = {"residual": "experts", "linear": "heads"}
NAMES = {"base": "base", "classifier": "classifier", **EXPERTS, **ROUTERS}
Bank = dict[str, nn.Module]  # parts by name; members are the seeds, of experts K a seed


def settings(profile: Profile) -> list[Setting]:
    """Task 1 and Task 2 with every one of STEPS that the profile has, recipe `chosen`, on SPLITS that have seeds."""
    made = [task1.setting(profile, "chosen", split, methods=BUILT_FROM) for split in SPLITS]
    for steps in STEPS:
        if steps in profile.task2.definitions:
            made += [task2.setting(profile, "chosen", split, steps, methods=BUILT_FROM) for split in SPLITS]
    return [s for s in made if s.seeds]


def comparison_stage(s: Setting, seeds: int = SEEDS) -> Stage:
    """What the arms lack, trained for up to `seeds` seeds, and what every arm says of the test rows."""
    seeds = min(seeds, s.seeds)
    config = {"seeds": seeds, "arms": [asdict(arm) for arm in ARMS.values()]}
    inputs = {"pool": s.pool, "features": s.features, **methods.part_stages(s)}
    seconds = 5 + seeds * s.pool.config["rows"] * 8e-4
    return Stage(f"fair comparison ({s.name})", 1, config, partial(_make, s), inputs, seconds, 1 << 24)


def _make(s: Setting, stage: Stage, out: Path) -> None:
    data, seeds = Data(s, stage.inputs["base"].folder), stage.config["seeds"]
    bank = _reused(s, range(seeds))
    experts, histories = train_experts(data, bank, [kind for kind in TRAINED if kind not in EXPERTS])
    bank |= experts
    for arm in ARMS.values():
        if arm.router_name not in bank:
            bank[arm.router_name], history = train_router(data, bank, arm)
            histories.append(history)
    pd.concat(histories).to_csv(out / "history.csv", index=False)
    frames, measured = zip(*(_predict(data, bank, seed) for seed in range(seeds)), strict=True)
    pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")
    pd.concat(measured, ignore_index=True).to_csv(out / "measured.csv", index=False)


def _reused(s: Setting, seeds: Iterable[int]) -> Bank:
    """Base, classifier, experts, heads and routers of the study under the arms' names for them."""
    return bank_of([methods.load_parts(s, seed) for seed in seeds])


def bank_of(loaded: list[dict[str, nn.Module]]) -> Bank:
    """Parts of the study, one dict a seed, under the arms' names for them."""
    return {name: stack([parts[part] for parts in loaded]) for name, part in NAMES.items() if part in loaded[0]}


def _own(part: nn.Module, seed: int, seeds: int) -> range:
    """Members of one seed: one, or K where the part is a bank of experts."""
    tensors = part.state_dict().values()
    each = next(iter(tensors)).shape[0] // seeds if tensors else 1
    return range(seed * each, (seed + 1) * each)


def count_seeds(bank: Bank) -> int:
    """How many seeds a bank holds."""
    return len(next(bank["classifier"].parameters()))


def parts_of(bank: Bank, arm: Arm, seed: int) -> Bank:
    """The parts of one seed that an ArmModel is assembled from; a router that is still to be trained is left out."""
    seeds = count_seeds(bank)
    names = {"base": "base", "classifier": "classifier", "experts": arm.experts, "router": arm.router_name}
    return {role: take(bank[name], _own(bank[name], seed, seeds)) for role, name in names.items() if name in bank}


def _new_experts(kind: str, seeds: list[int], data: Data) -> nn.Module:
    """Untrained experts; a head with a hidden layer has about as many parameters as a residual expert."""
    d, rank, C = data.d, data.setting.recipe.rank, data.setting.labels.C
    if kind.startswith("residual"):
        return ResidualExperts(seeds, d, rank)
    return MLPBank(seeds, d, hidden_width(d, rank, C), C)


def hidden_width(d: int, rank: int, C: int) -> int:
    """Hidden units of a head d -> hidden -> C with the 2 * d * rank parameters of a residual expert."""
    return max(1, round((2 * d * rank - C) / (d + 1 + C)))


def train_experts(data: Data, bank: Bank, kinds: Iterable[str]) -> tuple[Bank, list[pd.DataFrame]]:
    """K experts a seed of each kind, each on the rows of its own range, all as one product."""
    s, seeds = data.setting, count_seeds(bank)
    owner = [seed for seed in range(seeds) for _ in range(s.K)]
    of_range = [
        [data.of_expert(rows, k) for rows in data.rows[part][:seeds] for k in range(s.K)]
        for part in ("train", "validation")
    ]
    trained, histories = {}, []
    for kind in kinds:
        # initial weights and batches of RED's experts, and of the heads
        rows = data.training_rows("experts" if kind.startswith("residual") else "heads", data.value, *of_range, owner)
        rows.name = kind
        term, scale = TRAINED[kind]
        solo = Arm(kind, base_term=term, scale=scale, experts=kind)

        def make(members: list[int], rows=rows, solo=solo) -> nn.Module:
            owners = [owner[m] for m in members]
            experts = _new_experts(solo.experts, [rows.seeds[m] for m in members], data)
            return Frozen(take(bank["base"], owners), SoloExperts(solo, experts, take(bank["classifier"], owners)))

        module, history = training.fit_members(make, rows, s.recipe.experts)
        trained[kind] = module.bank.experts
        histories.append(history)
    return trained, histories


def train_router(data: Data, bank: Bank, arm: Arm, balance: float = 0.0) -> tuple[nn.Module, pd.DataFrame]:
    """The arm's router, a member a seed: on the range, or on the answer through the arm's frozen experts.

    `balance`: the weight of a loss that asks for equal loads, beside the cross-entropy.
    """
    s, seeds = data.setting, range(count_seeds(bank))
    hidden = s.recipe.router_hidden if arm.router == "two_layer" else 0
    loop = s.recipe.routers.model_copy(update={"max_epochs": 1} if arm.epochs == "one" else {})
    # initial weights and batches of the study's own router or gate of this kind
    like = ("router" if arm.target == "range" else "gate") + ("" if hidden else "_linear")
    y = data.expert if arm.target == "range" else data.value
    rows = data.training_rows(like, y, *(data.rows[part][: len(seeds)] for part in ("train", "validation")), seeds)
    rows.name = arm.router_name
    if arm.target == "answer":
        each, read = torch.stack([_each(data, bank, arm, seed) for seed in seeds]), rows.inputs
        rows.inputs = lambda index, members: (*read(index, members), each[members[:, None], index])

    def make(members: list[int]) -> nn.Module:
        gate = Balanced(MLPBank([rows.seeds[m] for m in members], data.d, hidden, s.K), balance)
        return (MixedLogits if arm.target == "answer" else Frozen)(take(bank["base"], members), gate)

    module, history = training.fit_members(make, rows, loop)
    return (module.gate if arm.target == "answer" else module.bank).router, history


@torch.no_grad()
def _each(data: Data, bank: Bank, arm: Arm, seed: int, chunk: int = 4096) -> Tensor:
    """Logits (N, K, C) of every expert of the arm for every row of the pool, where training runs."""
    parts, x = parts_of(bank, arm, seed), data.x if data.x.dim() == 2 else data.x[seed]
    base, experts = (m.to(x.device) for m in (parts["base"], SoloExperts(arm, parts["experts"], parts["classifier"])))
    return torch.cat([experts(base(rows)[0]).transpose(0, 1) for rows in x.split(chunk)])


def _predict(data: Data, bank: Bank, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Test predictions of every arm of one seed, and what is measured besides: scales, and the identity's rounding."""
    s, measured = data.setting, []
    frames = []
    for arm in ARMS.values():
        parts, scale = parts_of(bank, arm, seed), None
        if arm.scale == "learned":
            scale = fit_scale(data, parts, arm, seed)
            measured.append({"method": arm.name, "seed": seed, "metric": "scale", "value": scale})
        model = ArmModel(s.labels, parts, arm, scale).eval()
        frames.append(methods.predict_part(data, model, "test", arm.name, seed))
    red, mixed = (models.assemble(name, s.labels, methods.load_parts(s, seed)) for name in ("red", SAME))
    frames.append(methods.predict_part(data, mixed, "test", SAME, seed))
    x = _rows_of(data, "test", seed)
    with torch.no_grad():
        apart, size = (red(x).logits - mixed(x).logits).abs().max(), red(x).logits.abs().max()
    measured.append({"method": SAME, "seed": seed, "metric": "logit_difference", "value": float(apart / size)})
    return pd.concat(frames, ignore_index=True), pd.DataFrame(measured)


def _rows_of(data: Data, part: str, seed: int) -> Tensor:
    rows = data.rows[part][seed]
    return (data.x[rows] if data.x.dim() == 2 else data.x[seed, rows]).cpu()


@torch.no_grad()
def fit_scale(data: Data, parts: Bank, arm: Arm, seed: int) -> float:
    """The scale between 0.001 and 1000 with the lowest cross-entropy on the validation rows, router and experts frozen.

    Logits are a straight line in the scale, so that the loss has one minimum.
    """
    x, y = _rows_of(data, "validation", seed), data.value[data.rows["validation"][seed]]
    start, end = (ArmModel(data.setting.labels, parts, arm, scale)(x).logits.double() for scale in (0.0, 1.0))
    slope = end - start

    def loss(log: float) -> float:
        return float(F.cross_entropy(start + 10**log * slope, y))

    found = scipy.optimize.minimize_scalar(loss, bounds=(-3, 3))
    return float(10**found.x)
