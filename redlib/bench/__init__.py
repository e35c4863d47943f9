"""Benchmarks side by side in one run: rates of this machine, of our way and of the usual way, and their ratios.

One file a benchmark, each with a function `run` that returns the frame (bench, case, metric, value, unit, machine) and
with `write` puts it into data/results/bench/<name>.csv.
"""

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

BENCHES = {
    "data": "pools, splits, parsing and programs executed by look-ups, beside a tenth of them",
    "features": "the pass through the backbone against transformers",
    "train": "base, experts and router from cached features against the Hugging Face Trainer and peft",
    "experts": "all experts in one batched product against a loop",
    "seeds": "all seeds and experts of a setting trained together against one after another",
    "layers": "a training step of layers over tokens: end to end against padded, bfloat16 against float32",
    "query": "an explained question, what RED adds to the backbone's pass, and a move in the what-if panel",
    "decode": "decomposer queries against plain generate of transformers",
    "growth": "cost against rows, experts, rank and tokens, with fitted exponents",
    "memory": "counted beside measured peak memory at the shapes of a real backbone",
    "gpu": "throughput and peak memory at the shapes of Qwen3-0.6B",
    "sparse": "sparse mixtures against dense transformers: trained, then served",
}
OPTIONS: dict[str, tuple[type, str]] = {  # each benchmark takes some of them and refuses the others
    "rows": (int, "texts that it is about"),
    "task": (str, "whose texts: task1 or task2"),
    "rounds": (int, "turns of every case"),
    "sample": (int, "texts timed a round (features)"),
    "steps": (int, "steps timed after warm-up (train)"),
    "backbone": (str, "a backbone's name, or the folder of one"),
    "profile": (str, "whose trained methods answer (query), or are trained (train)"),
    "quick": (bool, "smaller models and fewer steps: minutes (sparse)"),
    "price": (float, "of an hour of the machine (sparse)"),
    "protocol": (str, "serving, or source for the source's flawed way (sparse)"),
}


MISSING = "not yet measured"


def recorded() -> Any:
    """The lines of data/results/bench; a benchmark without any has one whose metric is MISSING. Of `gpu`, lines from a
    GPU alone count."""
    import pandas as pd  # not needed to say what the command takes

    from redlib import paths

    frames = []
    for name in BENCHES:
        file = paths.results("bench") / f"{name}.csv"
        lines = pd.read_csv(file) if file.is_file() else pd.DataFrame({"case": pd.Series(dtype=str)})
        if name == "gpu":
            lines = lines[lines["case"].str.contains(" on cuda, ", regex=False)]
        frames.append(lines if len(lines) else pd.DataFrame([{"bench": name, "case": "", "metric": MISSING}]))
    return pd.concat(frames, ignore_index=True)


def run(name: str, options: Mapping[str, Any]) -> Any:
    """The frame of the benchmark called `name`; ValueError for an unknown one, an option that it does not take and a
    count below 1."""
    if name not in BENCHES:
        raise ValueError(f"unknown benchmark {name!r}; valid benchmarks: {', '.join(BENCHES)}")
    made = importlib.import_module(f"redlib.bench.{name}").run
    known = [option for option in inspect.signature(made).parameters if option in (*OPTIONS, "write")]
    for option in options:
        if option not in known:
            valid = ", ".join(f"--{own}" for own in known)
            raise ValueError(f"benchmark {name} takes no --{option}; its options: {valid}")
        if option in OPTIONS and OPTIONS[option][0] is int and options[option] < 1:
            raise ValueError(f"--{option} must be at least 1, got {options[option]}")
    return made(**options)
