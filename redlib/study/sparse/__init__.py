"""Sparse mixtures against dense transformers: the stages that make the corpus and train the models."""

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

from redlib import backbone, datasets
from redlib.config import Profile
from redlib.sparse import corpus, designs, models, pretrained, quantised, training
from redlib.study import task1, task2
from redlib.study.data import open_backbone, read_pool
from redlib.study.stage import Stage

STEPS = "operations"  # the definition of Task 2 whose chains are read
SPLIT = "structure"
ASKED = 100  # questions of each task that pretrained models are asked
REPORTS = 20  # lines of a training history


def names(profile: Profile) -> list[str]:
    """The models that are trained."""
    return list(lineup(profile, vocabulary=1))


def lineup(profile: Profile, vocabulary: int, width: int | None = None) -> dict[str, designs.Design]:
    """The profile's models (`designs.lineup`), at another width if one is given."""
    c = profile.sparse
    context = max(256, *(length + c.new for length in (c.prompt, *c.prompts)))
    return designs.lineup(vocabulary, width or c.width, c.layers, c.experts, c.specialists, context)


def corpus_stage(profile: Profile) -> Stage:
    """All documents as tokens, and their tokenizer."""

    def make(stage: Stage, out: Path) -> None:
        pools = [read_pool(stage.inputs[name].folder) for name in ("task1", "task2")]
        frame = corpus.documents(*pools)
        tokens = corpus.tokenizer([*frame["prompt"], *frame["completion"]])
        tokens.save_pretrained(out / "tokenizer")
        made = corpus.Corpus.of(frame, tokens)
        numbers = {"ids": made.ids, "prompts": made.prompts, "lengths": made.lengths}
        np.savez_compressed(out / "tokens.npz", **{name: t.numpy().astype(np.int32) for name, t in numbers.items()})
        frame.to_parquet(out / "documents.parquet")

    pools = {"task1": task1.pool(profile), "task2": task2.pool(profile, STEPS)}
    config = {"programs": corpus.PROGRAMS, "versions": [transformers.__version__]}
    return Stage("sparse corpus", 1, config, make, pools, seconds=20, bytes=1 << 23)


@lru_cache(maxsize=1)
def read_corpus(folder: Path) -> tuple[corpus.Corpus, Any]:
    """The documents of a corpus stage and their tokenizer."""
    stored = np.load(folder / "tokens.npz")
    numbers = (torch.from_numpy(stored[name].astype(np.int64)) for name in ("ids", "prompts", "lengths"))
    made = corpus.Corpus(*numbers, pd.read_parquet(folder / "documents.parquet"))
    return made, transformers.AutoTokenizer.from_pretrained(folder / "tokenizer")


@lru_cache(maxsize=16)
def _split(pool: Path, seed: int) -> np.ndarray:
    return datasets.split(read_pool(pool), SPLIT, seed).to_numpy()


def parts(stage: Stage, seed: int) -> np.ndarray:
    """The part of every document of a corpus stage in the structure split of a seed, (N,)."""
    rows = read_corpus(stage.folder)[0].about
    split = {name: _split(pool.folder, seed) for name, pool in stage.inputs.items()}
    chains = rows["kind"] != "task1"
    found = np.empty(len(rows), dtype=object)
    found[~chains] = split["task1"][rows.loc[~chains, "row"]]
    found[chains] = split["task2"][rows.loc[chains, "row"]]
    return found


def held_out(stage: Stage, seed: int, rows: int) -> corpus.Corpus:
    """The first `rows` test documents of each kind."""
    whole = read_corpus(stage.folder)[0]
    test = whole.about[parts(stage, seed) == "test"]
    return whole.batch(test.groupby("kind", sort=False).head(rows).index.to_numpy())


def model_stage(profile: Profile, name: str) -> Stage:
    """One model trained with every seed: weights, history.parquet, scores.parquet (of held-out documents), loads.json.

    ValueError for a name that the profile does not have.
    """
    c = profile.sparse
    if name not in names(profile):
        raise ValueError(f"profile {profile.name!r} has no sparse model {name!r}; valid: {', '.join(names(profile))}")
    config = {
        "design": asdict(lineup(profile, vocabulary=1)[name]),
        "name": name,
        "training": {"lr": c.training.lr, "batch": c.training.batch, "steps": c.steps, "balance": c.balance},
        "seeds": c.seeds,
        "test_rows": c.test_rows,
    }

    def make(stage: Stage, out: Path) -> None:
        source = stage.inputs["corpus"]
        whole, tokens = read_corpus(source.folder)
        design = lineup(profile, len(tokens))[name]
        told = stage.config["training"]
        histories, scores, loads = [], [], {}
        for seed in range(c.seeds):
            model = models.build(design, seed)
            rows = whole.batch(np.flatnonzero(parts(source, seed) == "train"))
            every = max(1, c.steps // REPORTS)
            histories.append(training.train(model, rows, seed=seed, every=every, **told).assign(seed=seed))
            test = held_out(source, seed, c.test_rows)
            scores.append(training.score(model, test).assign(seed=seed))
            loads[seed] = training.loads(model, test).tolist()
            save_file(_distinct(model), out / f"{seed}.safetensors")
        pd.concat(histories, ignore_index=True).to_parquet(out / "history.parquet")
        pd.concat(scores, ignore_index=True).to_parquet(out / "scores.parquet")
        (out / "loads.json").write_text(json.dumps(loads))

    step = c.training.batch * (2e-4 + 4e-9 * designs.Design(**config["design"]).total)
    return Stage(
        f"sparse model {name}", 1, config, make, {"corpus": corpus_stage(profile)}, c.seeds * (2 + c.steps * step)
    )


def quantised_stage(profile: Profile) -> Stage:
    """The larger dense model with weights of fewer bits, scored as it was: <name>.parquet of held-out documents."""
    c = profile.sparse
    config = {"bits": quantised.OF_DENSE, "seeds": c.seeds, "test_rows": c.test_rows}

    def make(stage: Stage, out: Path) -> None:
        dense = stage.inputs["dense_b"]
        tests = [held_out(dense.inputs["corpus"], seed, c.test_rows) for seed in range(c.seeds)]
        for name, bits in quantised.OF_DENSE.items():
            small = (quantised.quantised(load(dense, profile, seed), bits) for seed in range(c.seeds))
            scores = [training.score(model, tests[seed]).assign(seed=seed) for seed, model in enumerate(small)]
            pd.concat(scores, ignore_index=True).to_parquet(out / f"{name}.parquet")

    return Stage("sparse quantised models", 1, config, make, {"dense_b": model_stage(profile, "dense_b")}, 2 * c.seeds)


def at_hand(profile: Profile) -> list[str]:
    """The pretrained models that are measured: those that need no download, and the profile's own backbone."""
    asked = profile.sparse.pretrained
    return [name for name in asked if name == profile.backbone.name or backbone.present(name)]


def open_pretrained(profile: Profile, name: str) -> backbone.Backbone:
    """A pretrained model of the profile by its name, in the numbers that the profile asks for."""
    return open_backbone(profile.backbone.model_copy(update={"name": name}))


def zero_shot_stage(profile: Profile, name: str) -> Stage:
    """What a pretrained model answers to held-out questions: scores.parquet of documents of task1 and task2."""
    count = min(profile.sparse.test_rows, ASKED)
    weights = open_pretrained(profile, name).weights_id
    config = {"weights_id": weights, "wording": pretrained.WORDING, "new": pretrained.NEW, "rows": count}

    def make(stage: Stage, out: Path) -> None:
        about = held_out(stage.inputs["corpus"], 0, count).about
        about = about[about["kind"] != "program"]
        made = open_pretrained(profile, name)
        questions, values = about["prompt"].str.removesuffix(" ="), about["completion"].astype(int)
        found = pretrained.right(models.pretrained(made), made.tokenizer, questions.tolist(), values.tolist())
        about.assign(exact=found, seed=0)[["kind", "structure", "seed", "exact"]].to_parquet(out / "scores.parquet")

    return Stage(f"sparse zero shot {name}", 1, config, make, {"corpus": corpus_stage(profile)}, 0.2 * count)


def load(stage: Stage, profile: Profile, seed: int = 0, backend: str = "eager") -> nn.Module:
    """The trained model of a model stage."""
    tokens = read_corpus(stage.inputs["corpus"].folder)[1]
    model = models.build(lineup(profile, len(tokens))[stage.config["name"]], seed, backend)
    stored = load_file(stage.folder / f"{seed}.safetensors")
    missing, unknown = model.load_state_dict(stored, strict=False)
    if unknown or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"the weights in {stage.folder.name} are not those of {stage.config['name']}")
    return model


def _distinct(model: nn.Module) -> dict[str, torch.Tensor]:
    """Every weight once: a tied head is the embedding."""
    return {name: t for name, t in model.state_dict().items() if name != "lm_head.weight"}


def texts(stage: Stage) -> list[str]:
    """Held-out documents of seed 0 as they are written: what timed prompts are made of."""
    about = held_out(stage, 0, 200).about.sample(frac=1, random_state=0)
    return (about["prompt"] + about["completion"]).tolist()
