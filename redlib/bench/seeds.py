"""All seeds and experts of a setting trained as one batched product, against the same loop member after member.

Both ways are the study's own loop (training) on the same rows, in the same batches and from the same weights, so that
they make the same experts up to rounding. No member stops early: the work is equal.
"""

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from redlib import config, cost, training
from redlib.bench.measuring import Line, in_turns, rate, ratios, report, taken
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts, take
from redlib.study.parts import Frozen, ResidualHead

LABELS = LabelSpace()
BATCH = {"experts": 64, "router": 256}  # of recipe `chosen`
HIDDEN = 256


def run(
    rounds: int = 3,
    backbone: str = "smollm2-135m",
    rows: int = 16_000,
    seeds: int = 5,
    rank: int = 72,
    epochs: int = 2,
    write: bool = False,
) -> pd.DataFrame:
    """Seconds and ratio for the experts and the router of `rows` texts (80 % of them in training) of as many seeds.

    Cases `5 seeds, 16,000 texts/experts` (seeds x K members) and `.../router` (a member a seed). Metrics:
    `seconds_together`, `seconds_one_by_one`, `over_one_by_one`.
    """
    d = cost.Shape.of(cost.configuration(backbone)).d
    x = torch.randn(rows, d, generator=torch.Generator().manual_seed(0))
    lines: list[Line] = []
    for part in BATCH:
        case, loop = f"{seeds} seeds, {rows:,} texts/{part}", config.Training(batch=BATCH[part], max_epochs=epochs)
        loop = loop.model_copy(update={"patience": epochs})
        ways = {"together": lambda p=part, o=loop: together(x, p, seeds, rank, o)}
        ways |= {"one_by_one": lambda p=part, o=loop: one_by_one(x, p, seeds, rank, o)}
        turns = in_turns({name: lambda call=call: taken(1, call) for name, call in ways.items()}, rounds)
        lines += [(case, f"seconds_{name}", 1 / rate(done), "s") for name, done in turns.items()]
        lines += ratios(case, "over_one_by_one", turns["together"], turns["one_by_one"])
    return report("seeds", lines, write)


def together(x: Tensor, part: str, seeds: int, rank: int, loop: config.Training) -> nn.Module:
    """All members as the study trains them, on rows of x (N, d)."""
    made, rows = _members(x, part, seeds, rank)
    return training.fit_members(lambda members: take(made, members), rows, loop)[0]


def one_by_one(x: Tensor, part: str, seeds: int, rank: int, loop: config.Training) -> list[nn.Module]:
    """The same members on the same x (N, d), each by itself after the one before."""
    made, rows = _members(x, part, seeds, rank)
    alone = [take(made, [member]) for member in range(len(rows.train))]
    for member, module in enumerate(alone):
        training.fit(module, rows.only([member]), loop)
    return alone


def _members(x: Tensor, part: str, seeds: int, rank: int) -> tuple[nn.Module, training.Rows]:
    """Untrained members and their rows: K experts a seed, each on a K-th of the rows, or a router a seed on all."""
    d, K, C = x.shape[1], LABELS.K, LABELS.C
    members = range(seeds * K if part == "experts" else seeds)
    own = len(x) // K if part == "experts" else len(x)
    order = [np.random.default_rng(member).permutation(len(x))[:own] for member in members]
    y = torch.from_numpy(np.random.default_rng(0).integers(C if part == "experts" else K, size=len(x)))
    tenth = own // 10
    train, validation = [o[2 * tenth :] for o in order], [o[:tenth] for o in order]
    rows = training.Rows(training.pooled_inputs(x), y, train, validation, part, list(members))
    if part == "router":
        return Frozen(nn.Identity(), MLPBank(members, d, HIDDEN, K)), rows
    classifier = LinearBank([0] * len(members), d, C)
    return Frozen(nn.Identity(), ResidualHead(ResidualExperts(members, d, rank), classifier)), rows
