"""How the parts of `red_plus` are trained for one seed: the base, its experts one at a time, the router after them.

Everything after the base reads the h (N, w) that the base stage stored, so that trunk and base stay as they are.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from redlib import modules, training
from redlib.expressions import LabelSpace
from redlib.features import Point
from redlib.models import (
    DigitBank,
    FourierBank,
    LightBase,
    MLPBank,
    NetworkBase,
    ResidualExperts,
    mix,
    stack,
    take,
)
from redlib.study import ablations
from redlib.study.data import feature_set
from redlib.study.parts import ResidualHead, Tuned, batch, hidden
from redlib.study.settings import Data, Setting, member_seeds
from redlib.study.stage import Stage

NEVER = -1e9  # a logit that no probability is left for


class PlusSetting(Setting):
    """A setting of `red_plus`, whose experts may be for other groups of values than the task's ranges."""

    @property
    def K(self) -> int:
        return self.recipe.groups or self.labels.K


class RoutedAnswer(nn.Module):
    """A router trained through frozen experts: h (1, B, w) -> logits of the answer (1, B, C), or with `both`
    (1, B, 2, C): those and the router's own, filled up to C."""

    def __init__(self, router: MLPBank, experts: ResidualExperts, classifier: nn.Module, both: bool):
        super().__init__()
        self.router, self.both = router, both
        self.experts, self.classifier = experts.requires_grad_(False), classifier.requires_grad_(False)

    def forward(self, h: Tensor) -> Tensor:
        chosen = self.router(h)
        logits = self.classifier(h + mix(torch.softmax(chosen, -1)[0], self.experts(h)))
        if not self.both:
            return logits
        filled = F.pad(chosen, (0, logits.shape[-1] - chosen.shape[-1]), value=NEVER)
        return torch.stack([logits, filled], 2)


class HiddenData(Data):
    """Rows and targets of a setting, and as features the frozen h (N, w) of one seed."""

    def __init__(self, s: Setting, folder: Path):
        super().__init__(s)
        self.folder = folder

    @cached_property
    def x(self) -> Tensor:
        return torch.from_numpy(np.load(self.folder / "h.npy")).to(training.device())

    def noise(self, seed: int) -> Tensor:
        """The standard deviation (w,) of the form's noise on h: a share of that of the training rows."""
        return self.setting.recipe.noise * self.x[self.rows["train"][seed]].std(0)

    @cached_property
    def expert(self) -> Tensor:
        if self.setting.experts_by == "operation":
            return super().expert
        return torch.tensor(groups(self.setting, self.pool["value"].to_numpy()).range_index)[self.value]


def groups(s: Setting, values: np.ndarray) -> LabelSpace:
    """The ranges that the experts of a setting are for: the task's, or as many groups of the values (N,) as asked."""
    return s.labels if s.recipe.groups is None else ablations.groups(s.labels, values, s.recipe.groups)


def one_cycle(done: float, warm: float = 0.3) -> float:
    """The learning rate's factor by the share of a training that is done: up from 0.04 to 1, then down to 0."""
    if done < warm:
        return training.half_cosine(1 - done / warm, 0.04)
    return training.half_cosine((done - warm) / (1 - warm), 0.0)


def make_base(s: Setting, seed: int, out: Path, keep: Path, without: int | None = None) -> None:
    """Base and Fourier classifier together on `base_share` of the training rows, and h of every text of the pool.
    `without`: a group of wordings that neither training nor validation sees."""
    data, form = Data(s), s.recipe
    train, validation = data.rows["train"][seed], data.rows["validation"][seed]
    if without is not None:
        wording = data.pool["group"].to_numpy()
        train, validation = (rows[wording[rows] != without] for rows in (train, validation))
    share = data.by_range(train, form.base_share, seed)
    init = member_seeds("red_plus base", [seed])
    classifier = _classifier(s, init[0] + 7)
    if form.layers:
        states = feature_set(s.features).states()
        shape = form.width, form.layers, form.heads, form.positions, form.ending
        base = LightBase(init, states.nodes.shape[1], *shape)
        head, inputs = Tuned(base, classifier), lambda index, members: batch(states, index[0])
    else:
        base = NetworkBase.fit(init, [data.x[share]], form.width)
        head = nn.Sequential(base, classifier)
        inputs = noisy(data.x, head, form.noise * base.scale)
    rows = training.Rows(inputs, data.value, [share], [validation], "red_plus base", init)
    history = training.fit(head, rows, form.base, one_cycle, keep)
    history.assign(member=seed).to_csv(out / "history.csv", index=False)
    modules.save(out / "base.safetensors", {"base": base, "classifier": classifier}, s.passport(seed))
    np.save(out / "h.npy", read_by(base, s, s.features))


def noisy(x: Tensor, module: nn.Module, scale: Tensor) -> Callable:
    """Inputs for `Rows` from features x (N, d), with Gaussian noise of standard deviation `scale` (d,) in training.

    The numbers of a batch's rows are its seed, so that neither what else is trained nor a training that was cut off
    changes the noise.
    """
    inputs = training.pooled_inputs(x)

    def drawn(index: np.ndarray, members: np.ndarray) -> tuple[Tensor]:
        (rows,) = inputs(index, members)
        if not (module.training and scale.any()):
            return (rows,)
        normal = np.random.default_rng(index.ravel()).standard_normal(rows.shape, dtype=np.float32)
        return (rows + scale.to(x.device) * torch.from_numpy(normal).to(x.device),)

    return drawn


def read_by(base: nn.Module, s: Setting, features: Stage) -> np.ndarray:
    """h (N, w) that the base of a setting makes of every text of a features stage: its own pool's, or other texts."""
    found = feature_set(features)
    if s.recipe.layers:
        return hidden(base, found.states(), len(found.states()))
    x = torch.from_numpy(np.array(found.pooled(Point(s.recipe.layer, s.recipe.pooling))))
    return _hidden_pooled(base, x.to(training.device()))


def _classifier(s: Setting, seed: int) -> nn.Module:
    """The untrained classifier of the form's readout: h (1, B, w) -> logits (1, B, C)."""
    form = s.recipe
    if form.readout == "fourier":
        return FourierBank([seed], form.width, 0, s.labels, form.periods)
    if form.readout == "digits":
        return DigitBank([seed], form.width, 0, s.labels)
    return MLPBank([seed], form.width, 0, s.labels.C)


@torch.no_grad()
def _hidden_pooled(base: NetworkBase, x: Tensor, chunk: int = 4096) -> np.ndarray:
    """h (N, w) of pooled features (N, d)."""
    base = base.to(x.device)
    return np.concatenate([base(rows)[0].cpu().numpy() for rows in x.split(chunk)])


def rows_of_expert(data: Data, rows: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Of rows (n,) those of expert k, and so many of the others that these are `foreign_share` of all."""
    share, own = data.setting.recipe.foreign_share, data.of_expert(rows, k)
    others = np.setdiff1d(rows, own)
    wanted = min(len(others), round(len(own) * share / (1 - share)))
    foreign = np.random.default_rng([13, seed, k]).choice(others, wanted, replace=False)
    return np.sort(np.concatenate([own, foreign]))


def train_expert(data: HiddenData, classifier: nn.Module, seed: int, k: int) -> tuple[ResidualExperts, pd.DataFrame]:
    """Expert k alone, read by the frozen classifier: the same numbers whichever other experts are trained, and when."""
    s = data.setting
    train, validation = (rows_of_expert(data, data.rows[part][seed], k, seed) for part in ("train", "validation"))
    init = [member_seeds("red_plus experts", [seed] * s.K)[k]]
    head = ResidualHead(ResidualExperts(init, data.d, s.recipe.rank, s.recipe.adapter), take(classifier, [0]))
    inputs = noisy(data.x, head, data.noise(seed))
    rows = training.Rows(inputs, data.value, [train], [validation], "red_plus expert", init)
    history = training.fit(head, rows, s.recipe.experts)
    return head.experts, history.assign(member=seed * s.K + k)


def make_experts(s: Setting, seed: int, stage: Stage, out: Path) -> None:
    """K residual experts, each on its own."""
    folder = stage.inputs["base"].folder
    data, classifier = HiddenData(s, folder), modules.load(folder / "base.safetensors")[0]["classifier"]
    experts, histories = zip(*(train_expert(data, classifier, seed, k) for k in range(s.K)), strict=True)
    modules.save(out / "experts.safetensors", {"experts": stack(experts)}, s.passport(seed))
    pd.concat(histories).to_csv(out / "history.csv", index=False)


def make_router(s: Setting, seed: int, stage: Stage, out: Path) -> None:
    """The router over all training rows: on which expert is meant, on the answer through the frozen experts, or on
    both at once."""
    data = HiddenData(s, stage.inputs["base"].folder)
    train, validation = (data.rows[part][seed] for part in ("train", "validation"))
    init = member_seeds("red_plus router", [seed])
    router = MLPBank(init, data.d, s.recipe.router_hidden, s.K)
    module, y = router, data.expert
    if s.recipe.router_target != "range":
        both = s.recipe.router_target == "both"
        experts = modules.load(stage.inputs["experts"].folder / "experts.safetensors")[0]["experts"]
        classifier = modules.load(stage.inputs["base"].folder / "base.safetensors")[0]["classifier"]
        module, y = RoutedAnswer(router, experts, classifier, both), data.value
        y = torch.stack([data.value, data.expert], 1) if both else y
    inputs = noisy(data.x, module, data.noise(seed))
    rows = training.Rows(inputs, y, [train], [validation], "red_plus router", init)
    training.fit(module, rows, s.recipe.routers).assign(member=seed).to_csv(out / "history.csv", index=False)
    modules.save(out / "router.safetensors", {"router": router}, s.passport(seed))
