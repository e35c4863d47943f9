"""What all benchmarks share: cases that take turns, ratios of the rounds, and the table that is printed and written.

Cases take turns, round after round, so that a machine that slows down slows all of them; a ratio is the median of the
ratios of the rounds. Seconds are counted twice, on the wall and of this process on its cores (`_cpu`): the second is
what counts while somebody else uses the machine.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import pandas as pd
import torch

from redlib import paths

COLUMNS = ["bench", "case", "metric", "value", "unit", "machine"]
Line = tuple[str, str, float, str]  # case, metric, value, unit


@dataclass(frozen=True)
class Taken:
    """One turn of a case: work done (in whatever unit the case counts), seconds on the wall and of this process."""

    work: float
    wall: float
    cpu: float

    def rate(self, clock: str = "wall") -> float:
        """Work a second, on the `wall` or of the process (`cpu`)."""
        return self.work / getattr(self, clock)


def taken(work: float | Callable[[], Any], call: Callable[[], Any] | None = None) -> Taken:
    """Time `call()`, which does `work`; without a call, `work()` says itself how much it has done."""
    wall, cpu = perf_counter(), process_time()
    done = (call or work)()
    _wait()
    spent = perf_counter() - wall, process_time() - cpu
    return Taken(done if call is None else work, *spent)


def repeated(work: float, call: Callable[[], Any], least: float) -> Taken:
    """Time enough calls, each of which does `work`, to fill `least` seconds."""
    begin, calls = perf_counter(), 0

    def calling() -> float:
        nonlocal calls
        while calls == 0 or perf_counter() - begin < least:
            call()
            calls += 1
        return calls * work

    return taken(calling)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def in_turns(
    cases: Mapping[str, Callable[[], Taken]], count: int, unit: str = "", scale: float = 1
) -> dict[str, list[Taken]]:
    """Every case once to warm up, then `count` times in turn; with a unit a line says how each went (rate / scale)."""
    turns: dict[str, list[Taken]] = {name: [] for name in cases}
    for turn in range(count + 1):
        for name, case in cases.items():
            done = case()
            if unit:
                said = f"round {turn} of {count}" if turn else "warm-up"
                print(f"{said}, {name}: {done.rate() / scale:,.4g} {unit}", flush=True)
            if turn:
                turns[name].append(done)
    return turns


def rate(turns: Sequence[Taken], clock: str = "wall") -> float:
    """The median over rounds of a case's rate."""
    return median(turn.rate(clock) for turn in turns)


def ratio(turns: Sequence[Taken], others: Sequence[Taken], clock: str = "wall") -> float:
    """The median over rounds of one case's rate over another's."""
    return median(turn.rate(clock) / other.rate(clock) for turn, other in zip(turns, others, strict=True))


def ratios(case: str, metric: str, turns: Sequence[Taken], others: Sequence[Taken]) -> list[Line]:
    """The ratio on the wall and, as `<metric>_cpu`, in seconds of this process."""
    return [
        (case, metric, ratio(turns, others), "ratio"),
        (case, f"{metric}_cpu", ratio(turns, others, "cpu"), "ratio"),
    ]


def report(bench: str, lines: Sequence[Line], write: bool) -> pd.DataFrame:
    """The lines as a frame, printed; `write` puts them beside what other cases have in data/results/bench."""
    frame = pd.DataFrame([(bench, *line, machine()) for line in lines], columns=COLUMNS)
    print(frame.drop(columns=["bench", "machine"]).to_string(index=False, float_format="%.4g"))
    print(machine())
    if write:
        file = paths.results("bench") / f"{bench}.csv"
        others = pd.read_csv(file) if file.is_file() else frame[:0]
        kept = pd.concat([others[~others["case"].isin(frame["case"])], frame], ignore_index=True)
        paths.write_text(file, kept.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    return frame


def machine() -> str:
    """CPU (and GPU) model, threads and torch version, in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    parts = [names[0] if names else platform.processor() or platform.machine()]
    parts += [torch.cuda.get_device_name()] if torch.cuda.is_available() else []
    return ", ".join([*parts, f"{torch.get_num_threads()} threads", f"torch {torch.__version__}"])
