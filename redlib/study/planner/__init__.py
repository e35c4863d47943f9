"""Stages of the step decomposer (the source, 4.5.4): its pool, the states that it is trained on, a planner for every
split and seed, and what planners write for the test rows."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import transformers

from redlib import backbone, datasets, decomposer, features, modules, paths, training
from redlib.config import PARTS, BackboneConfig, Decomposer, Profile, Training
from redlib.decomposer import DECODINGS, Plan, Planner, Sequences, Symbolic, Written, errors
from redlib.expressions import Expression
from redlib.models import LabelSpace
from redlib.programs import Program
from redlib.study.data import fingerprint, open_backbone, pool_stage, read_pool, weights_id
from redlib.study.settings import member_seeds
from redlib.study.stage import Stage

METHODS = ("planner_searched", "planner_grounded", "planner", "planner_unrestricted", "symbolic")  # the best first
SURE = 0.1  # of logits and of log-probabilities: what rounding of cached states cannot turn; closer ones are decoded
CHECKED = 16  # programs a planner that are decoded although the margin says what will be written
FINAL_RATE = 0.1  # of the learning rate, at the end
FILE = "planner.safetensors"


def labels(profile: Profile) -> LabelSpace:
    """The values and ranges of the decomposer's chains."""
    d = profile.decomposer
    return LabelSpace(d.lo, d.hi, d.edges)


def pool(profile: Profile) -> Stage:
    """The chains in words that the decomposer's records are about."""
    d = profile.decomposer
    return pool_stage("task2", d.rows, d.pool_seed, d.operands, labels(profile), "programs", d.chains)


def splits(profile: Profile) -> list[str]:
    """The splits that have a planner."""
    return [split for split, seeds in profile.decomposer.seeds.items() if seeds]


def states_stage(profile: Profile, texts: Stage | None = None) -> Stage:
    """Token states at the boundary of every text of a pool (None: the records') with its program behind it: the trunk
    sees each record once."""
    spec, texts = profile.backbone, texts or pool(profile)
    config = {
        "backbone": spec.model_dump(),
        "weights_id": weights_id(spec),
        "threads": torch.get_num_threads(),
        "versions": [torch.__version__, transformers.__version__],
    }
    rows = texts.config["rows"]
    return Stage(
        "program states",
        1,
        config,
        lambda stage, out: paths.write_json(out / "features.json", {"key": _states(stage).key}),
        {"pool": texts},
        seconds=5 + rows * 0.09,
        bytes=rows * 70_000,
    )


def _states(stage: Stage) -> features.FeatureSet:
    bone, records = _backbone(stage), records_of(stage)
    texts = decomposer.spelled(bone, records["text"].tolist(), records["program"].tolist())
    return features.FeatureSet(bone, texts, (), bone.boundary).ensure()


def _backbone(stage: Stage) -> backbone.Backbone:
    return open_backbone(BackboneConfig(**stage.config["backbone"]))


def records_of(stage: Stage) -> pd.DataFrame:
    """The rows of the pool that a stage reads, with their programs."""
    rows = read_pool(stage.inputs["pool"].run())
    programs = {text: Program.from_expression(Expression.read(text)).text for text in rows["expression"].unique()}
    return rows.assign(program=rows["expression"].map(programs))


# ---- training ----------------------------------------------------------------------------------------------------


def trained_stage(profile: Profile, split: str, seed: int) -> Stage:
    """One planner: planner.safetensors with its passport, and history.csv. Hours of work at full size, a stage each."""
    d = profile.decomposer
    config = {**d.model_dump(include={"max_operations", "largest", "training"}), "split": split, "seed": seed}
    config |= {"held_out": datasets.held_out(seed)} if split == "phrasing" else {}
    return Stage(
        f"planner ({split}, seed {seed})",
        1,
        config,
        lambda stage, out: _train(profile, stage, out),
        {"pool": pool(profile), "states": states_stage(profile)},
        seconds=5 + d.rows * d.training.max_epochs * 0.018,
        bytes=30_000_000,
    )


def _train(profile: Profile, stage: Stage, out: Path) -> None:
    planner, history = fit(profile, stage, profile.decomposer.training, keep=stage.checkpoint)
    records, seed = records_of(stage), stage.config["seed"]
    test = parts_of(records, stage.config["split"], seed)["test"]
    planner.save(out / FILE, probe_texts(planner.backbone, records.iloc[test]))
    history.assign(member=seed, seed=seed).to_csv(out / "history.csv", index=False)


def fit(
    profile: Profile, stage: Stage, loop: Training, most: int | None = None, keep: Path | None = None
) -> tuple[Planner, pd.DataFrame]:
    """A planner of the split and seed of a stage, trained on the records that it reads, and how that went.

    most: so many training records alone. keep: where the state of the training is kept.
    """
    split, seed = stage.config["split"], stage.config["seed"]
    bone, records = open_backbone(profile.backbone), records_of(stage)
    planner = decomposer.new(bone, passport(profile, bone, split, seed))
    sequences, parts = sequences_of(planner, records, stage.inputs["states"]), parts_of(records, split, seed)
    device = training.device()
    rows = training.Rows(
        lambda index, _: sequences.batch(index[0], device),
        sequences.targets,
        [parts["train"][:most]],
        [parts["validation"]],
        "planner",
        member_seeds(f"planner/{split}", [seed]),
    )
    history = training.fit(planner.writer, rows, loop, lambda done: training.half_cosine(done, FINAL_RATE), keep)
    return planner, history


def test_records(profile: Profile, split: str, seed: int) -> pd.DataFrame:
    """The test rows of a planner, with their programs."""
    records = records_of(trained_stage(profile, split, seed))
    return records.iloc[parts_of(records, split, seed)["test"]]


def probe_texts(bone: backbone.Backbone, records: pd.DataFrame) -> list[str]:
    """Some texts with their programs, for a planner's probe batch."""
    few = records.iloc[: modules.ROWS_OF_STATES]
    return decomposer.spelled(bone, few["text"].tolist(), few["program"].tolist())


def passport(profile: Profile, bone: backbone.Backbone, split: str, seed: int) -> dict:
    """What a planner's file says about where it comes from."""
    d = profile.decomposer
    return {
        "weights_id": bone.weights_id,
        "backbone": bone.name,
        "recipe": "planner",
        "layer": bone.boundary,
        "pooling": "none",
        "top_layers": bone.layers - bone.boundary,
        "max_operations": d.max_operations,
        "largest": d.largest,
        "chains": d.chains,
        "rows": d.rows,
        "labels": asdict(labels(profile)),
        "split": split,
        "seed": seed,
        "training": d.training.model_dump(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "profile": profile.name,
        "tokenizer": modules.tokenizer_id(bone),
        "dtype": profile.backbone.dtype,
        "data": {"fingerprint": fingerprint(pool(profile).run()), "rows": d.rows},
        "metrics": {},
        "licence": "Apache-2.0 for layers of the backbone, else MIT",
    }


def sequences_of(planner: Planner, records: pd.DataFrame, states: Stage) -> Sequences:
    """What a planner is trained and scored on: the records with the states that a stage made of them."""
    texts, programs = records["text"].tolist(), records["program"].tolist()
    return Sequences.of(planner.backbone, planner.grammar, texts, programs, _states(states).states())


def parts_of(records: pd.DataFrame, split: str, seed: int) -> dict[str, np.ndarray]:
    """Rows (n,) of every part under a split and seed."""
    parts = datasets.split(records, split, seed).to_numpy()
    return {part: np.flatnonzero(parts == part) for part in PARTS}


def load(profile: Profile, split: str = "structure", seed: int = 0) -> Planner:
    """The trained planner of a split and seed, trained if it is missing.

    ValueError for one that the profile lacks, and for a profile that reads a record and never trains.
    """
    if profile.reads:
        raise ValueError(f"profile {profile.name!r} never trains a planner; choose a profile that does")
    seeds = profile.decomposer.seeds.get(split, 0)
    if not 0 <= seed < seeds:
        there = ", ".join(f"{name} 0..{n - 1}" for name, n in profile.decomposer.seeds.items() if n)
        raise ValueError(f"profile {profile.name!r} has no planner of split {split!r} and seed {seed}; it has: {there}")
    bone = open_backbone(profile.backbone)
    return decomposer.load(trained_stage(profile, split, seed).run() / FILE, bone)


# ---- predictions -------------------------------------------------------------------------------------------------


def predictions_stage(profile: Profile, split: str) -> Stage:
    """predictions.parquet: what every planner of a split writes for its test rows.

    Columns: row, text, structure, range, operations, split, part, seed, method (`METHODS`), program,
    predicted_program, exact, kind (`errors.KINDS` or right), same_meaning (it adds and subtracts the same numbers),
    step_probabilities (a list, one a line; the last one is the answer's).
    """
    seeds = range(profile.decomposer.seeds.get(split, 0))
    inputs = {"pool": pool(profile), "states": states_stage(profile)}
    inputs |= {f"planner {seed}": trained_stage(profile, split, seed) for seed in seeds}
    return Stage(
        f"planner predictions ({split})",
        1,
        {"methods": list(METHODS), "split": split, "seeds": len(seeds), "sure": SURE},
        lambda stage, out: _predict(profile, stage, out),
        inputs,
        seconds=5 + len(seeds) * profile.decomposer.rows * 0.02,
        bytes=len(seeds) * profile.decomposer.rows * 30,
    )


def _predict(profile: Profile, stage: Stage, out: Path) -> None:
    records, split, frames = records_of(stage), stage.config["split"], []
    for seed in range(stage.config["seeds"]):
        rows = parts_of(records, split, seed)["test"]
        frames.append(predicted(profile, stage, records, rows, seed).assign(split=split, part="test"))
    pd.concat(frames, ignore_index=True).to_parquet(out / "predictions.parquet")


def predicted(profile: Profile, stage: Stage, records: pd.DataFrame, rows: np.ndarray, seed: int) -> pd.DataFrame:
    """What the planner of a seed and the symbolic one write for rows (n,) of the records, a row each by every method.

    stage: one that reads `planner <seed>` and, as `states`, those of the records.
    """
    planner = decomposer.load(stage.inputs[f"planner {seed}"].folder / FILE, open_backbone(profile.backbone))
    sequences = sequences_of(planner, records, stage.inputs["states"])
    plans = dict(zip(METHODS[:-1], written(planner, records["text"], sequences, rows), strict=True))
    plans["symbolic"] = reference(profile.decomposer).decompose_all(records["text"].iloc[rows])
    items = records.iloc[rows][["row", "text", "structure", "range", "operations", "program"]]
    return pd.concat([judged(items, said).assign(method=name, seed=seed) for name, said in plans.items()])


def reference(d: Decomposer) -> Symbolic:
    """The symbolic planner with the limits of the trained one."""
    return Symbolic(d.max_operations, d.largest)


def written(planner: Planner, texts: pd.Series, sequences: Sequences, rows: np.ndarray) -> list[list[Plan]]:
    """The plans of some rows (n,) by every way of decoding (`decomposer.DECODINGS`).

    One pass with the gold programs given finds the rows for which decoding writes them: greedy decoding where each gold
    token leads (`decomposer.margins`), a search where the gold program has more than half of all probability. The
    others are decoded. AssertionError where decoding does not confirm that pass on a sample.
    """
    asked = texts.iloc[rows].tolist()
    greedily = [way for way in DECODINGS if way != "searched"]
    ahead, logs = decomposer.margins(planner.writer, sequences, rows, [planner.kept(asked, way) for way in greedily])
    sure = dict(zip(greedily, (ahead > SURE).T, strict=True)) | {"searched": logs.sum(1) > np.log(0.5) + SURE}
    made = []
    for way in DECODINGS:
        settled, open_ = np.flatnonzero(sure[way]), np.flatnonzero(~sure[way]).tolist()
        sample = settled[:: max(1, len(settled) // CHECKED)][:CHECKED].tolist()
        done = planner.decompose_all([asked[n] for n in [*open_, *sample]], way)
        plans = {n: _gold(planner, asked[n], sequences.targets[rows[n]].tolist(), logs[n]) for n in settled}
        for n, plan in zip(sample, done[len(open_) :], strict=True):
            assert plan.written == plans[n].written, f"decoding {plan.text!r} does not give what scoring says"
        plans |= dict(zip(open_, done, strict=False))
        made.append([plans[n] for n in range(len(rows))])
    return made


def _gold(planner: Planner, text: str, targets: list[int], logs: np.ndarray) -> Plan:
    """The plan of a row whose gold program is what decoding writes."""
    tokens = [token for token in targets if token != training.NO_TARGET]
    return planner.plan(text, Written(tokens, logs[: len(tokens)].tolist()))


def judged(items: pd.DataFrame, plans: list[Plan]) -> pd.DataFrame:
    """Plans beside the gold `program` of their rows: predicted_program, exact, kind, same_meaning,
    step_probabilities."""
    gold, said = [Program.read(text) for text in items["program"]], [plan.program for plan in plans]
    kinds = [errors.kind(p, g) for p, g in zip(said, gold, strict=True)]
    return items.assign(
        predicted_program=[plan.written for plan in plans],
        exact=np.array(kinds) == errors.RIGHT,
        kind=kinds,
        same_meaning=[p is not None and p.meaning == g.meaning for p, g in zip(said, gold, strict=True)],
        step_probabilities=[list(plan.probabilities) for plan in plans],
    )
