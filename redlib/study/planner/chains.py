"""Planners asked about chains of another kind than those that they were trained on: the same chains whose gold programs
the experts execute (the source, 4.8), half as many as a planner has test rows."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from redlib import datasets
from redlib.config import Profile
from redlib.study import operations, planner
from redlib.study.data import read_pool
from redlib.study.planner.tables import TASK, error_shares, scores
from redlib.study.stage import Stage
from redlib.study.writing import fill, save

SHARE = 0.05  # of a planner's records: half its own test part


def others(profile: Profile) -> list[str]:
    """The kinds of chains that the profile has and its planners were not trained on."""
    return [name for name in profile.operations.domains if name != profile.decomposer.chains]


def asked_stage(profile: Profile, chains: str) -> Stage:
    """pool.parquet: the chains that are asked, drawn at random from those that executors are asked."""
    d, every = profile.decomposer, operations.chains(profile, chains)
    rows = min(every.config["rows"], round(d.rows * SHARE))

    def make(stage: Stage, out: Path) -> None:
        pool = read_pool(stage.inputs["chains"].folder)
        chosen = np.sort(np.random.default_rng([13, d.pool_seed]).permutation(len(pool))[:rows])
        datasets.save(pool.iloc[chosen].reset_index(drop=True), out / "pool.parquet")

    config = {"rows": rows, "seed": d.pool_seed, "labels": asdict(operations.labels(profile))}
    return Stage("chains for planners", 1, config, make, {"chains": every}, 2, rows * 120)


def predictions_stage(profile: Profile, split: str, chains: str) -> Stage:
    """predictions.parquet, with the columns of `planner.predictions_stage`: what every planner of a split writes for
    these chains, but for those that its training has, in the split's own sense."""
    seeds, texts = range(profile.decomposer.seeds.get(split, 0)), asked_stage(profile, chains)
    inputs = {"pool": texts, "states": planner.states_stage(profile, texts), "records": planner.pool(profile)}
    inputs |= {f"planner {seed}": planner.trained_stage(profile, split, seed) for seed in seeds}

    def make(stage: Stage, out: Path) -> None:
        records, frames = planner.records_of(stage), []
        for seed in seeds:
            rows = np.flatnonzero(unseen(records, read_pool(stage.inputs["records"].folder), split, seed))
            frames.append(planner.predicted(profile, stage, records, rows, seed).assign(split=split, part="test"))
        pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")

    config = {"methods": list(planner.METHODS), "split": split, "seeds": len(seeds), "sure": planner.SURE}
    seconds = 5 + len(seeds) * texts.config["rows"] * 0.15
    return Stage(f"planner predictions ({split}, {chains} chains)", 2, config, make, inputs, seconds)


def unseen(asked: pd.DataFrame, records: pd.DataFrame, split: str, seed: int) -> np.ndarray:
    """Which of the rows asked are new to a planner in the sense of its split: of wordings held out (`phrasing`), or of
    no text (`text`) or structure (`structure`) in its training."""
    if split == "phrasing":
        return (asked["group"] == datasets.held_out(seed)).to_numpy()
    by = "structure" if split == "structure" else "text"
    train = records.iloc[planner.parts_of(records, split, seed)["train"]]
    return ~asked[by].isin(set(train[by])).to_numpy()


def chain_tables(profile: Profile) -> Stage:
    """planner_chains.csv: program_exact and program_meaning as in the table planner, and error_rate by case as in
    planner_errors, for the other kinds of chains; variant: <trained on>/chains=<asked>. Without such chains, or without
    planners, the rows are those of the planners' own chains."""
    own, inputs = profile.decomposer.chains, {}
    for split in planner.splits(profile):
        for chains in others(profile):
            inputs[f"{split}/chains={chains}"] = predictions_stage(profile, split, chains)
    if not inputs:
        inputs = {split: planner.predictions_stage(profile, split) for split in planner.splits(profile)}

    def make(stage: Stage, out: Path) -> None:
        frames = []
        for name, made in stage.inputs.items():
            read = pd.read_parquet(made.folder / "predictions.parquet")
            found = [scores(read, profile.bootstrap).assign(case="all")]
            found.append(error_shares(read, profile.bootstrap).query("metric == 'error_rate'"))
            variant = "/".join([own, *name.split("/")[1:]])
            frames.append(pd.concat(found, ignore_index=True).assign(variant=variant))
        about = {"task": TASK}
        save(profile, stage, out, {"planner_chains": fill(pd.concat(frames, ignore_index=True), **about)})

    return Stage("planner tables, other chains", 1, {"resamples": profile.bootstrap}, make, inputs, 10)


TABLES: dict[str, Callable[[Profile], Stage]] = {"planner_chains": chain_tables}
