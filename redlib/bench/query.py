"""One question at a time: how long an explanation takes, and what RED adds to the backbone's pass."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
import torch

from redlib import config, datasets, features
from redlib.bench.measuring import Line, Taken, in_turns, rate, repeated, report
from redlib.explain import Explainer
from redlib.study.explaining import explainer
from redlib.widgets import WhatIfPanel

QUESTIONS = 20
SECONDS = 0.2  # of questions, a turn
RED, ALL, MOVE = "red", "backbone, all layers", "what-if move"


def run(profile: str = "record", task: str = "task1", rounds: int = 7, write: bool = False) -> pd.DataFrame:
    """Latency by a profile's trained methods (those that are shipped, for `record`), recipe `chosen`.

    Cases `<task>/<what>`: `explain` (everything that an explanation holds), `backbone, as read` (the pass to the layer
    of the recipe, pooled), `backbone, all layers`, `red` (base, router, experts, classifier on what was read), and
    `what-if move` (a slider of the panel, and everything drawn anew).
    Metrics: `seconds`, and for `red` `share` and `share_all_layers`: its part of backbone and RED together.
    """
    p = config.load(profile)
    opened = explainer(p, task)
    pool = datasets.build(task, 40 * QUESTIONS, 1)["text"].tolist()
    texts = [pool[i] for i in np.random.default_rng(0).choice(len(pool), QUESTIONS, replace=False)]
    calls = _calls(opened, texts)
    turns = in_turns({name: lambda call=call: repeated(1, call, SECONDS) for name, call in calls.items()}, rounds, "/s")
    lines: list[Line] = [(name, "seconds", 1 / rate(done), "s") for name, done in turns.items()]
    lines += [
        (RED, metric, _share(turns[RED], turns[whole]), "ratio")
        for metric, whole in {"share": "backbone, as read", "share_all_layers": ALL}.items()
    ]
    return report("query", [(f"{task}/{case}", *rest) for case, *rest in lines], write)


def _calls(opened: Explainer, texts: list[str]) -> dict[str, Callable[[], Any]]:
    model, point = opened.model(), opened.point
    base, method = model.parts["base"], model.methods[RED]
    read = torch.from_numpy(features.compute(opened.backbone, texts, [point])[point])
    rows, words, scales = cycle(read[:, None]), cycle(texts), cycle((0.5, 1.5))
    slider = WhatIfPanel(opened, texts[0]).scale[0]

    @torch.inference_mode()
    def red() -> None:
        h = base(next(rows))
        method(h[0] if h.dim() == 3 else h)

    return {
        "explain": lambda: opened.explain(next(words)),
        "backbone, as read": lambda: features.compute(opened.backbone, [next(words)], [point]),
        ALL: lambda: features.compute(opened.backbone, [next(words)], [features.Point(-1)]),
        RED: red,
        MOVE: lambda: setattr(slider, "value", next(scales)),
    }


def _share(added: list[Taken], whole: list[Taken]) -> float:
    """Median over rounds of what is added, over everything."""
    seconds = [(1 / a.rate(), 1 / w.rate()) for a, w in zip(added, whole, strict=True)]
    return float(np.median([a / (a + w) for a, w in seconds]))
