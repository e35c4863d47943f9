"""RED with 1 to 10 experts: the same values cut into K ranges of equal width, everything else as it is."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import evaluation, models
from redlib.config import Profile
from redlib.models import LabelSpace, MLPBank
from redlib.modules import Library
from redlib.study.modularity import answers, inputs
from redlib.study.modularity.parts import Bank, Questions, experts, own, reused, router
from redlib.study.settings import Data, Setting
from redlib.study.stage import Stage

CAPACITIES = ("rank", "parameters")  # what stays the same whatever K: each expert's rank, or all experts' parameters


def equal(labels: LabelSpace, K: int) -> LabelSpace:
    """The same values in K ranges as equal in width as whole numbers can be; ValueError for more ranges than values."""
    if not 1 <= K <= labels.C:
        raise ValueError(f"{labels.C} values can be cut into 1 to {labels.C} ranges, not {K}")
    return LabelSpace(labels.lo, labels.hi, tuple(labels.lo - 1 + round(labels.C * k / K) for k in range(1, K)))


def rank_for(s: Setting, K: int, same: str) -> int:
    """The rank of each of K experts; with the same `parameters`, that of the study's experts shared out anew."""
    return s.recipe.rank if same == "rank" else max(1, round(s.labels.K * s.recipe.rank / K))


def ranges_stages(profile: Profile, s: Setting) -> dict[str, Stage]:
    """A stage a number of ranges, `K=<K>`, and `red` with the study's own.

    Each makes predictions.parquet: the long frame with `same` (CAPACITIES), `rank`, `parameters` and `own_range`, the
    expert of the row; its ranges are the study's.
    """
    m = profile.modularity
    config = {"seeds": min(m.seeds, s.seeds), "labels": asdict(s.labels)}
    seconds = 5 + config["seeds"] * s.pool.config["rows"] * 1e-3
    trained = {
        f"K={K}": Stage(f"{K} ranges ({s.name})", 1, config | {"K": K}, partial(_train, s), inputs(s), seconds, 1 << 22)
        for K in m.ranges
    }
    return trained | {"red": Stage(f"own ranges ({s.name})", 1, config, partial(_own, s), inputs(s), 5, 1 << 22)}


def _train(s: Setting, stage: Stage, out: Path) -> None:
    bank, known = _reads(s, stage)
    _save(_with(s, bank, known, equal(s.labels, stage.config["K"])), out)


def _own(s: Setting, stage: Stage, out: Path) -> None:
    bank, known = _reads(s, stage)
    libraries = [Library.of(s.labels, own(bank, seed)) for seed in range(stage.config["seeds"])]
    frames = [
        _frame(s, red, known, seed, "red", same, s.recipe.rank, s.labels)
        for seed, red in enumerate(libraries)
        for same in CAPACITIES
    ]
    _save(frames, out)


def _reads(s: Setting, stage: Stage) -> tuple[Bank, Questions]:
    """The parts of RED that are kept, and the rows of Task 1."""
    return reused(stage, stage.config["seeds"]), Questions.of(Data(s, stage.inputs["base"].folder), s.labels)


def _save(frames: list[pd.DataFrame], out: Path) -> None:
    pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")


def _with(s: Setting, bank: Bank, known: Questions, space: LabelSpace) -> list[pd.DataFrame]:
    seeds = range(len(bank["classifier"].weight))
    owner = [seed for seed in seeds for _ in space.bounds]
    rows = [
        tuple(known.rows(part, seed, bounds) for part in ("train", "validation"))
        for seed in seeds
        for bounds in space.bounds
    ]
    target = torch.tensor(space.range_index)[known.data.value]
    routed = router(s, bank, known.data, target, space.K) if space.K > 1 else MLPBank(seeds, known.data.d, 0, 1)
    frames = []
    for same in CAPACITIES:
        rank = rank_for(s, space.K, same)
        made = bank | {"experts": experts(s, bank, "experts", known, rows, owner, rank), "router": routed}
        for seed in seeds:
            library = Library.of(s.labels, own(made, seed), space.names)
            frames.append(_frame(s, library, known, seed, f"K={space.K}", same, rank, space))
    return frames


@torch.no_grad()
def _frame(
    s: Setting, library: Library, known: Questions, seed: int, name: str, same: str, rank: int, space: LabelSpace
) -> pd.DataFrame:
    rows = known.data.rows["test"][seed]
    routed = evaluation.predict(library, known.x[rows].cpu(), s.labels)["router_range"].to_numpy()
    about = {"same": same, "rank": rank, "parameters": models.count(library.experts)}
    frame = answers(library, known, "task1", name, s, seed).assign(**about)
    return frame.assign(router_range=routed, own_range=np.array(space.range_index)[known.data.value[rows].numpy()])
