"""How each part of a method is trained for all seeds of a setting: base, experts, routers, controls.

Every function fills a stage's folder with `<stage>-<seed>.safetensors` and `history.csv`.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from redlib import cost, models, modules, training
from redlib.config import Training
from redlib.features import TokenStates, sent
from redlib.models import FourierBank, LightBase, LinearBank, MLPBank, PooledBase, ResidualExperts, TokenBase, take
from redlib.study.data import feature_set, open_backbone
from redlib.study.settings import Data, Setting, member_seeds
from redlib.study.stage import Stage


class Frozen(nn.Module):
    """base -> [frozen part ->] bank, as one module for the loop: x (S, B, d) -> logits (S, B, C)."""

    def __init__(self, base: nn.Module, bank: nn.Module):
        super().__init__()
        self.base, self.bank = base.requires_grad_(False), bank

    def forward(self, *x: Tensor) -> Tensor:
        return self.bank(self.base(*x))


class ResidualHead(nn.Module):
    """h + delta(h) read by the frozen shared classifier: h (B, d) or (S, B, d) -> logits (S, B, C)."""

    def __init__(self, experts: ResidualExperts, classifier: LinearBank):
        super().__init__()
        self.experts, self.classifier = experts, classifier.requires_grad_(False)

    def forward(self, h: Tensor) -> Tensor:
        return self.classifier(h + self.experts(h))


class GatedHeads(nn.Module):
    """K frozen heads mixed as logits by a trained gate; heads (S, d, K*C)."""

    def __init__(self, gate: MLPBank, heads: LinearBank, K: int):
        super().__init__()
        self.gate, self.heads, self.K = gate, heads.requires_grad_(False), K

    def forward(self, h: Tensor) -> Tensor:
        alpha = torch.softmax(self.gate(h), -1)
        return torch.einsum("sbk,sbkc->sbc", alpha, self.heads(h).unflatten(-1, (self.K, -1)))


class Tuned(nn.Module):
    """Token base and classifier trained together: states (B, T, d), mask (B, T) -> logits (1, B, C)."""

    def __init__(self, base: TokenBase | LightBase, classifier: nn.Module):
        super().__init__()
        self.base, self.bank = base, classifier

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        h = self.base(states, mask)
        with torch.autocast(h.device.type, enabled=False):  # a few products, and what they say is close together
            return self.bank(h)

    def matrices(self) -> list[nn.Parameter]:
        """Those (S, n, m) of light layers."""
        return self.base.matrices()


def make_base(s: Setting, out: Path) -> None:
    """Standardisation and shared classifier on `base_share` of the training rows (recipe `chosen`)."""
    data = Data(s)
    shares = [data.by_range(rows, s.recipe.base_share, seed) for seed, rows in enumerate(data.rows["train"])]
    base = PooledBase.fit([data.x[rows] for rows in shares])
    rows = data.training_rows("classifier", data.value, shares, data.rows["validation"], range(s.seeds))

    def make(members: list[int]) -> nn.Module:
        return Frozen(take(base, members), LinearBank([rows.seeds[m] for m in members], data.d, s.labels.C))

    head, history = training.fit_members(make, rows, s.recipe.base)
    for seed in range(s.seeds):
        _save(s, out, "base", seed, {"base": take(base, [seed]), "classifier": take(head.bank, [seed])})
    history.to_csv(out / "history.csv", index=False)


def make_tuned_base(s: Setting, seed: int, out: Path, keep: Path) -> None:
    """Top layers and classifier of one seed together (recipe `source`); then frozen, and h (N, d) of the whole pool."""
    data, states, backbone = Data(s), feature_set(s.features).states(), open_backbone(s.features)
    share = data.by_range(data.rows["train"][seed], s.recipe.base_share, seed)
    init = member_seeds("classifier", [seed])
    base = TokenBase(backbone.top(s.recipe.tuned_layers))
    head = Tuned(base, LinearBank(init, backbone.hidden_size, s.labels.C))
    validation = [data.rows["validation"][seed]]
    rows = training.Rows(lambda index, _: batch(states, index[0]), data.value, [share], validation, "tuned base", init)
    history = training.fit(head, rows, s.recipe.base, keep=keep)
    history.assign(member=seed).to_csv(out / "history.csv", index=False)
    _save(s, out, "base", seed, {"base": nn.Identity(), "classifier": head.bank})
    _save(s, out, "tokens", seed, {"base": base})
    np.save(out / f"h-{seed}.npy", hidden(base, states, len(data.pool)))


def gather_bases(stage: Stage, out: Path) -> None:
    """The files of every seed's tuned base in one folder, histories joined."""
    made = [seed.folder for seed in stage.inputs.values()]
    for file in (file for folder in made for file in folder.iterdir() if file.suffix in (".safetensors", ".npy")):
        shutil.copyfile(file, out / file.name)
    histories = [pd.read_csv(folder / "history.csv") for folder in made]
    pd.concat(histories).to_csv(out / "history.csv", index=False)


def batch(states: TokenStates, index: np.ndarray) -> tuple[Tensor, Tensor]:
    """Token states (B, T, d) and mask (B, T) of some rows, where training runs."""
    states, mask = states.batch(index)
    return sent(states, training.device()), sent(mask, training.device())


@torch.no_grad()
def hidden(base: TokenBase, states: TokenStates, rows: int, chunk: int = 256) -> np.ndarray:
    """h (N, d) of every row, in batches of similar length."""
    order = np.argsort(states.lengths, kind="stable")
    base = base.to(training.device())
    parts = [base(*batch(states, order[first : first + chunk]))[0].cpu().numpy() for first in range(0, rows, chunk)]
    base.cpu()
    return np.concatenate(parts)[np.argsort(order, kind="stable")]


def make_experts(s: Setting, stage: Stage, kinds: list[str], out: Path, only: int | None = None) -> None:
    """Residual experts and full-rank heads (or one of the two `kinds`), K a seed, each on the rows of its own range or
    operation; with `only`, that one of the K alone."""
    data = Data(s, stage.inputs["base"].folder)
    everyone = [(seed, k) for seed in range(s.seeds) for k in range(s.K)]
    owner = [seed for seed, _ in everyone]
    of_expert = [[data.of_expert(data.rows[part][seed], k) for seed, k in everyone] for part in ("train", "validation")]
    mine = [m for m, (_, k) in enumerate(everyone) if only in (None, k)]
    base, classifier = _shared(s, stage)
    trained, histories = {}, []
    for name in kinds:
        rows = data.training_rows(name, data.value, *of_expert, owner).only(mine)

        def make(members: list[int], name: str = name, rows: training.Rows = rows) -> nn.Module:
            seeds, owners = [rows.seeds[m] for m in members], [owner[mine[m]] for m in members]
            if name == "heads":
                return Frozen(take(base, owners), LinearBank(seeds, data.d, s.labels.C))
            experts = ResidualExperts(seeds, data.d, s.recipe.rank)
            return Frozen(take(base, owners), ResidualHead(experts, take(classifier, owners)))

        head, history = training.fit_members(make, rows, s.recipe.experts, s.rate)
        trained[name] = head.bank if name == "heads" else head.bank.experts
        histories.append(history.assign(member=[mine[m] for m in history["member"]]))
    for seed in range(s.seeds):
        own = [i for i, m in enumerate(mine) if owner[m] == seed]
        _save(s, out, "experts", seed, {name: take(bank, own) for name, bank in trained.items()})
    pd.concat(histories).to_csv(out / "history.csv", index=False)


def gather_experts(s: Setting, stage: Stage, out: Path) -> None:
    """The experts of one expert's stage each as one bank a seed, histories joined."""
    made = [one.folder for one in stage.inputs.values()]
    for seed in range(s.seeds):
        loaded = [modules.load(folder / f"experts-{seed}.safetensors")[0] for folder in made]
        banks = {name: models.stack([parts[name] for parts in loaded]) for name in loaded[0]}
        _save(s, out, "experts", seed, banks)
    pd.concat([pd.read_csv(folder / "history.csv") for folder in made]).to_csv(out / "history.csv", index=False)


def make_routers(s: Setting, stage: Stage, kinds: list[str], out: Path) -> None:
    """RED's router on the range (or operation); the mixture's gates (2-layer, linear) on the answer, heads frozen."""
    data = Data(s, stage.inputs["base"].folder)
    hidden, K = s.recipe.router_hidden, s.K
    heads = _merged_heads(s, data, stage.inputs["experts"].folder) if "gate" in kinds else None
    banks = {
        "router": (data.expert, lambda seeds, _: MLPBank(seeds, data.d, hidden, K)),
        "gate": (data.value, lambda seeds, m: GatedHeads(MLPBank(seeds, data.d, hidden, K), take(heads, m), K)),
        "gate_linear": (data.value, lambda seeds, m: GatedHeads(MLPBank(seeds, data.d, 0, K), take(heads, m), K)),
    }
    _train_banks(s, data, stage, out, "routers", {kind: banks[kind] for kind in kinds}, s.recipe.routers)


def _merged_heads(s: Setting, data: Data, folder: Path) -> LinearBank:
    """The K trained heads of every seed as one product: weights (seeds, d, K*C)."""
    heads = [modules.load(folder / f"experts-{seed}.safetensors")[0]["heads"] for seed in range(s.seeds)]
    merged = LinearBank([0] * s.seeds, data.d, s.K * s.labels.C)
    merged.weight.data = torch.stack([bank.weight.permute(1, 0, 2).flatten(1) for bank in heads])
    merged.bias.data = torch.stack([bank.bias.permute(1, 0, 2).flatten(1) for bank in heads])
    return merged


def make_controls(s: Setting, stage: Stage, kinds: list[str], out: Path) -> None:
    """All training rows, same features: a linear head, and two networks with as many parameters as RED, one with a
    linear readout and one with a Fourier readout."""
    data, r, C = Data(s, stage.inputs["base"].folder), s.recipe, s.labels.C
    width, fourier = cost.control_widths(cost.Sizes(data.d, C, s.K, r.rank, r.router_hidden))
    banks = {
        "linear_full": (data.value, lambda seeds, _: MLPBank(seeds, data.d, 0, C)),
        "mlp_full": (data.value, lambda seeds, _: MLPBank(seeds, data.d, width, C)),
        "fourier_full": (data.value, lambda seeds, _: FourierBank(seeds, data.d, fourier, s.labels)),
    }
    _train_banks(s, data, stage, out, "controls", {kind: banks[kind] for kind in kinds}, r.controls)


def _train_banks(
    s: Setting,
    data: Data,
    stage: Stage,
    out: Path,
    file: str,
    kinds: dict[str, tuple[Tensor, Callable[[list[int], list[int]], nn.Module]]],
    loop: Training,
) -> None:
    """Train one bank a kind (targets, make(initial seeds, members)) on all training rows, a member a seed."""
    base = _shared(s, stage)[0]
    trained, histories = {}, []
    for name, (y, new) in kinds.items():
        rows = data.training_rows(name, y, data.rows["train"], data.rows["validation"], range(s.seeds))

        def make(members: list[int], rows=rows, new=new) -> nn.Module:
            return Frozen(take(base, members), new([rows.seeds[m] for m in members], members))

        head, history = training.fit_members(make, rows, loop, s.rate)
        trained[name] = head.bank.gate if isinstance(head.bank, GatedHeads) else head.bank
        histories.append(history)
    for seed in range(s.seeds):
        _save(s, out, file, seed, {name: take(bank, [seed]) for name, bank in trained.items()})
    pd.concat(histories).to_csv(out / "history.csv", index=False)


def _shared(s: Setting, stage: Stage) -> tuple[nn.Module, LinearBank]:
    """Frozen base and shared classifier, one member a seed."""
    folder = stage.inputs["base"].folder
    loaded = [modules.load(folder / f"base-{seed}.safetensors")[0] for seed in range(s.seeds)]
    return models.stack([p["base"] for p in loaded]), models.stack([p["classifier"] for p in loaded])


def _save(s: Setting, out: Path, name: str, seed: int, parts: dict[str, nn.Module]) -> None:
    modules.save(out / f"{name}-{seed}.safetensors", parts, s.passport(seed))
