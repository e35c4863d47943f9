"""The tables of what nested experts save on a clock and in memory, on this machine."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from redlib import nested
from redlib.config import Nested, Profile
from redlib.nested import flops, speed
from redlib.study import nested as chapter
from redlib.study.nested import answers as nested_answers
from redlib.study.stage import Stage


def speed_tables(profile: Profile) -> Stage:
    """nested_speed.csv, untrained models on this machine; variant: D=<features>; x: budget (1: plain).

    seconds (of a batch, the faster of one batch and chunks), speedup (over the faster plain model, by round),
    train_seconds, train_speedup (one forward and backward pass), activation_bytes and activation_ratio (of a training
    step, counted). Intervals: resampled rounds. It runs apart from everything else, so that nothing disturbs it.
    """
    n = profile.nested
    config = n.model_dump(include={"speed_dims", "speed_budgets", "speed_batch", "repeats", "canvas", "patch"})
    config |= n.model_dump(include={"layers", "heads", "divisors"}) | {"threads": torch.get_num_threads()}

    def make(stage: Stage, out: Path) -> None:
        frames = [_speed(chapter.shape(n, dim), n).assign(variant=f"D={dim}") for dim in n.speed_dims]
        about = {"task": "nested", "split": "none", "part": "none"}
        chapter.save(profile, stage, out, {"nested_speed": pd.concat(frames).assign(**about)})

    cost = sum(flops.image(chapter.shape(n, dim), "plain") for dim in n.speed_dims) * n.speed_batch * n.repeats
    return Stage("nested speed", 1, config, make, {}, 5 + cost * 6 / chapter.SPEED)


def _speed(model: nested.Shape, n: Nested) -> pd.DataFrame:
    seconds = speed.inference(model, n.speed_budgets, n.speed_batch, n.repeats)
    steps = speed.training(model, n.speed_budgets, n.speed_batch, max(2, n.repeats // 5))
    held = speed.activations(model, n.speed_budgets, n.speed_batch)
    plain = speed.faster(seconds, "plain", "plain_torch")
    lines = [_line("plain", 1.0, "seconds", float(np.median(plain)), len(plain))]
    lines += [_line("plain", 1.0, "train_seconds", float(np.median(steps["plain"])), len(steps["plain"]))]
    lines += [_line("plain", 1.0, "activation_bytes", held["plain"])]
    for method in ("nested", "grouped"):
        for e in n.speed_budgets:
            name = f"{method}/{e:g}"
            mine = speed.faster(seconds, name)
            lines += [_line(method, e, "seconds", float(np.median(mine)), len(mine))]
            lines += [_line(method, e, "speedup", *_first(speed.ratio(plain, mine), len(mine)))]
            lines += [_line(method, e, "train_seconds", float(np.median(steps[name])), len(steps[name]))]
            quicker = speed.ratio(steps["plain"], steps[name])
            lines += [_line(method, e, "train_speedup", *_first(quicker, len(steps[name])))]
            lines += [_line(method, e, "activation_bytes", held[name])]
            lines += [_line(method, e, "activation_ratio", held[name] / held["plain"])]
    return pd.DataFrame(lines)


def _first(ratio: tuple[float, float, float], rounds: int) -> tuple:
    value, low, high = ratio
    return value, rounds, low, high


def _line(method: str, x: float, metric: str, value: float, n=pd.NA, low=np.nan, high=np.nan) -> dict:
    return {"method": method, "x": x, "metric": metric, "value": float(value), "n": n, "low": low, "high": high}


def clock_tables(profile: Profile) -> Stage:
    """nested_clock.csv: what every row of the table nested takes on a clock, by method and x as there.

    milliseconds (of a picture, in one batch, the trained models of seed 0 in turn) and clock_ratio (by the plain
    model's, round by round); intervals: resampled rounds.
    """
    n = profile.nested
    config = n.model_dump(include={"budgets", "speed_batch", "repeats"}) | {"threads": torch.get_num_threads()}

    def make(stage: Stage, out: Path) -> None:
        images = chapter.read(stage.inputs["clutter"], "clutter.npz")["images"][0, : n.speed_batch]
        batch = torch.from_numpy(images).float() / 255
        calls = nested_answers.calls(stage, n, 0)
        with torch.inference_mode():
            seconds = speed.in_turn({name: lambda call=call: call(batch) for name, call in calls.items()}, n.repeats)
        rounds, each, lines = n.repeats, np.full(n.repeats, len(batch) / 1e3), []
        for name, mine in seconds.items():
            method, x = name.split("@")
            lines += [_line(method, float(x), "milliseconds", *_first(speed.ratio(mine, each), rounds))]
            lines += [_line(method, float(x), "clock_ratio", *_first(speed.ratio(mine, seconds["plain@1"]), rounds))]
        about = {"task": "nested", "variant": f"{n.digits}/D={n.dim}", "split": "none", "part": "none"}
        chapter.save(profile, stage, out, {"nested_clock": pd.DataFrame(lines).assign(**about)})

    answers = nested_answers.answers_stage(n, 0)
    return Stage("nested clock", 1, config, make, answers.inputs, 2 + 0.05 * n.repeats * 6 * len(n.budgets))


TABLES: dict[str, Callable[[Profile], Stage]] = {"nested_speed": speed_tables, "nested_clock": clock_tables}
