"""The tables of sparse against dense: sizes, quality after training, and how loads and losses went."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import cost
from redlib.config import Profile
from redlib.sparse import corpus, models, quantised
from redlib.statistics import Resampler
from redlib.study import sparse
from redlib.study.sparse.timing import timing_tables
from redlib.study.stage import Stage
from redlib.study.writing import save

AGAINST = ("dense_a", "dense_b", "moe_top1", "alchemist_sparse_3")  # those that there are
NOTHING = {"task": "sparse", "low": np.nan, "high": np.nan, "n": pd.NA}


def quality_tables(profile: Profile) -> Stage:
    """sparse_models.csv, sparse_quality.csv and sparse_training.csv.

    sparse_models: method; metric total and total_counted (parameters), active, stored_bytes, flops (of a step after the
    profile's prompt) and flops_counted; of quantised.OF_DENSE, too, without the two counts. sparse_quality, of all
    these: group all, task1, task2, program; metric loss (mean over the tokens of completions), exact (share of
    completions), and both minus those of AGAINST (`loss_minus_dense_a`); variant zero-shot: exact of pretrained models
    (share of right answers) on task1 and task2. sparse_training, by epoch (the step): metric
    train_loss, balance, tokens; at the last one also load, group `layer.expert`.
    """
    c = profile.sparse
    names = sparse.names(profile)
    inputs = {name: sparse.model_stage(profile, name) for name in names}
    inputs["quantised"] = sparse.quantised_stage(profile)
    asked = {name: sparse.zero_shot_stage(profile, name) for name in sparse.at_hand(profile)}
    inputs |= {f"zero shot {name}": stage for name, stage in asked.items()}
    config = {"names": names, "bootstrap": profile.bootstrap, "prompt": c.prompt}

    def make(stage: Stage, out: Path) -> None:
        variant = f"width={c.width}"
        scores = {name: _read(stage, name, "scores") for name in names}
        scores |= {name: _read(stage, "quantised", name) for name in quantised.OF_DENSE}
        frames = {
            "sparse_models": _sizes(profile, stage),
            "sparse_quality": _quality(scores, profile.bootstrap),
            "sparse_training": _training(stage, names),
        }
        for name, part in (("sparse_models", "none"), ("sparse_quality", "test"), ("sparse_training", "train")):
            split = "none" if part == "none" else sparse.SPLIT
            about = {"variant": variant, "split": split, "part": part}
            frames[name] = frames[name].assign(**about, **{k: v for k, v in NOTHING.items() if k not in frames[name]})
        others = _zero_shot({name: _read(stage, f"zero shot {name}", "scores") for name in asked}, profile.bootstrap)
        frames["sparse_quality"] = pd.concat([frames["sparse_quality"], others])
        save(profile, stage, out, frames)

    return Stage("sparse quality tables", 2, config, make, inputs, 20)


def _read(stage: Stage, name: str, what: str) -> pd.DataFrame:
    return pd.read_parquet(stage.inputs[name].folder / f"{what}.parquet")


def _sizes(profile: Profile, stage: Stage) -> pd.DataFrame:
    """Closed forms beside counts from the real modules, the step of one token after a prompt."""
    length, lines = profile.sparse.prompt, []
    source = next(iter(stage.inputs.values())).inputs["corpus"]
    tokens = sparse.read_corpus(source.folder)[1]
    ids = corpus.prompts(sparse.texts(source), tokens, 1, length + 1).repeat(2, 1)
    for name, design in sparse.lineup(profile, len(tokens)).items():
        model = sparse.load(stage.inputs[name], profile)
        numbers = {
            "total": design.total,
            "total_counted": sum(p.numel() for p in model.parameters()),
            "active": design.active_parameters,
            "stored_bytes": models.stored_bytes(model),
            "flops": design.flops(1, length),
            "flops_counted": counted_flops(model, ids),
        }
        lines += [{"method": name, "metric": metric, "value": value} for metric, value in numbers.items()]
    dense, large = sparse.load(stage.inputs["dense_b"], profile), sparse.lineup(profile, len(tokens))["dense_b"]
    for name, bits in quantised.OF_DENSE.items():
        stored = models.stored_bytes(quantised.quantised(dense, bits))
        numbers = {"total": large.total, "active": large.total, "stored_bytes": stored, "flops": large.flops(1, length)}
        lines += [{"method": name, "metric": metric, "value": value} for metric, value in numbers.items()]
    return pd.DataFrame(lines).assign(seed="all", group="all")


@torch.no_grad()
def counted_flops(model: torch.nn.Module, ids: torch.Tensor) -> int:
    """FLOPs of the step over the last token of ids (2, T), for one of the two equal rows, by torch's counter."""
    state = models.advance(model, ids[:, :-1])[1]
    return cost.flops(torch.no_grad()(models.advance), model, ids[:, -1:], state) // len(ids)


def _quality(scores: dict[str, pd.DataFrame], resamples: int) -> pd.DataFrame:
    """Loss and exactness by kind, with intervals over structures, then seeds; differences on the same documents."""
    first = next(iter(scores.values()))
    lines = []
    for group in ("all", *corpus.KINDS):
        here = np.ones(len(first), bool) if group == "all" else (first["kind"] == group).to_numpy()
        rows = first[here]
        resampler = Resampler(rows["seed"], rows["structure"], resamples=resamples)
        loss, exact = (np.stack([s.loc[here, column] for s in scores.values()], 1) for column in ("loss", "exact"))
        weights = np.stack([rows["tokens"]] * len(scores), 1)
        found = {
            "loss": dict(zip(scores, resampler.ratio(loss, weights), strict=True)),
            "exact": dict(zip(scores, resampler.ratio(exact, np.ones_like(exact)), strict=True)),
        }
        for metric, by_name in found.items():
            for name, statistic in by_name.items():
                lines += _rows(statistic, resampler, name, group, metric)
                for other in AGAINST:
                    if name != other and other in by_name:
                        gap = (statistic - by_name[other]).overall()
                        lines.append(
                            {"method": name, "group": group, "metric": f"{metric}_minus_{other}", "seed": "all"}
                            | asdict(gap)
                        )
    return pd.DataFrame(lines)


def _zero_shot(scores: dict[str, pd.DataFrame], resamples: int) -> pd.DataFrame:
    """How often pretrained models are right, with intervals over structures."""
    lines = []
    for name, whole in scores.items():
        for group, rows in whole.groupby("kind"):
            exact = rows[["exact"]].to_numpy(float)
            resampler = Resampler(rows["seed"], rows["structure"], resamples=resamples)
            share = resampler.ratio(exact, np.ones_like(exact))[0]
            lines.append({"method": name, "group": group, **asdict(share.overall())})
    about = {"task": "sparse", "variant": "zero-shot", "split": sparse.SPLIT, "part": "test"}
    return pd.DataFrame(lines).assign(**about, metric="exact", seed="all")


def _rows(statistic, resampler: Resampler, name: str, group: str, metric: str) -> Iterator[dict]:
    about = {"method": name, "group": group, "metric": metric}
    yield {**about, "seed": "all", **asdict(statistic.overall())}
    for position, seed in enumerate(resampler.seeds):
        yield {**about, "seed": str(seed), **asdict(statistic.of_seed(position))}


def _training(stage: Stage, names: list[str]) -> pd.DataFrame:
    lines = []
    for name in names:
        history = _read(stage, name, "history").rename(columns={"loss": "train_loss", "step": "epoch"})
        long = history.melt(["seed", "epoch"], ["train_loss", "balance", "tokens"], "metric").dropna(subset="value")
        lines.append(long.assign(method=name, group="all"))
        last = int(history["epoch"].max())
        loads = json.loads((stage.inputs[name].folder / "loads.json").read_text())
        for seed, layers in loads.items():
            cells = [(f"{i}.{j}", share) for i, layer in enumerate(layers) for j, share in enumerate(layer)]
            frame = pd.DataFrame(cells, columns=["group", "value"])
            lines.append(frame.assign(method=name, metric="load", seed=int(seed), epoch=last))
    frame = pd.concat([line for line in lines if len(line)], ignore_index=True)
    return frame.assign(seed=frame["seed"].astype(str))


TABLES: dict[str, Callable[[Profile], Stage]] = {
    **dict.fromkeys(("sparse_models", "sparse_quality", "sparse_training"), quality_tables),
    **dict.fromkeys(("sparse_serving", "sparse_growth", "sparse_time"), timing_tables),
}
