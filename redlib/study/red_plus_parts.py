"""How the parts of `red_plus` are trained for one seed: the base, its experts one at a time, the router after them.

Everything after the base reads the h (N, w) that the base stage stored, so that trunk and base stay as they are.
"""

from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from redlib import modules, training
from redlib.models import FourierBank, LightBase, MLPBank, NetworkBase, ResidualExperts, stack, take
from redlib.study.data import feature_set
from redlib.study.parts import ResidualHead, Tuned, batch, hidden
from redlib.study.settings import Data, Setting, member_seeds
from redlib.study.stage import Stage


class HiddenData(Data):
    """Rows and targets of a setting, and as features the frozen h (N, w) of one seed."""

    def __init__(self, s: Setting, folder: Path):
        super().__init__(s)
        self.folder = folder

    @cached_property
    def x(self) -> Tensor:
        return torch.from_numpy(np.load(self.folder / "h.npy")).to(training.device())


def one_cycle(done: float, warm: float = 0.3) -> float:
    """The learning rate's factor by the share of a training that is done: up from 0.04 to 1, then down to 0."""
    if done < warm:
        return training.half_cosine(1 - done / warm, 0.04)
    return training.half_cosine((done - warm) / (1 - warm), 0.0)


def make_base(s: Setting, seed: int, out: Path) -> None:
    """Base and Fourier classifier together on `base_share` of the training rows, and h of every text of the pool."""
    data, form = Data(s), s.recipe
    share = data.by_range(data.rows["train"][seed], form.base_share, seed)
    init = member_seeds("red_plus base", [seed])
    classifier = FourierBank([init[0] + 7], form.width, 0, s.labels, form.periods)
    if form.layers:
        states = feature_set(s.features).states()
        base = LightBase(init, states.nodes.shape[1], form.width, form.layers, form.heads, form.positions)
        head, inputs = Tuned(base, classifier), lambda index, members: batch(states, index[0])
    else:
        base = NetworkBase.fit(init, [data.x[share]], form.width)
        head, inputs = nn.Sequential(base, classifier), training.pooled_inputs(data.x)
    rows = training.Rows(inputs, data.value, [share], [data.rows["validation"][seed]], "red_plus base", init)
    training.fit(head, rows, form.base, one_cycle).assign(member=seed).to_csv(out / "history.csv", index=False)
    modules.save(out / "base.safetensors", {"base": base, "classifier": classifier}, s.passport(seed))
    np.save(out / "h.npy", hidden(base, states, len(data.pool)) if form.layers else _hidden_pooled(base, data.x))


@torch.no_grad()
def _hidden_pooled(base: NetworkBase, x: Tensor, chunk: int = 4096) -> np.ndarray:
    """h (N, w) of pooled features (N, d)."""
    base = base.to(x.device)
    return np.concatenate([base(rows)[0].cpu().numpy() for rows in x.split(chunk)])


def rows_of_expert(data: Data, rows: np.ndarray, k: int, seed: int) -> np.ndarray:
    """The rows of range k, and so many of the others that these are `foreign_share` of all."""
    share, own = data.setting.recipe.foreign_share, data.of_range(rows, k)
    others = np.setdiff1d(rows, own)
    wanted = min(len(others), round(len(own) * share / (1 - share)))
    foreign = np.random.default_rng([13, seed, k]).choice(others, wanted, replace=False)
    return np.sort(np.concatenate([own, foreign]))


def train_expert(data: HiddenData, classifier: FourierBank, seed: int, k: int) -> tuple[ResidualExperts, pd.DataFrame]:
    """Expert k alone, read by the frozen classifier: the same numbers whichever other experts are trained, and when."""
    s = data.setting
    train, validation = (rows_of_expert(data, data.rows[part][seed], k, seed) for part in ("train", "validation"))
    init = [member_seeds("red_plus experts", [seed] * s.K)[k]]
    rows = training.Rows(training.pooled_inputs(data.x), data.value, [train], [validation], "red_plus expert", init)
    head = ResidualHead(ResidualExperts(init, data.d, s.recipe.rank), take(classifier, [0]))
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
    """The router on the range, over all training rows."""
    data = HiddenData(s, stage.inputs["base"].folder)
    train, validation = (data.rows[part][seed] for part in ("train", "validation"))
    init = member_seeds("red_plus router", [seed])
    rows = training.Rows(training.pooled_inputs(data.x), data.range, [train], [validation], "red_plus router", init)
    router = MLPBank(init, data.d, s.recipe.router_hidden, s.K)
    training.fit(router, rows, s.recipe.routers).assign(member=seed).to_csv(out / "history.csv", index=False)
    modules.save(out / "router.safetensors", {"router": router}, s.passport(seed))
