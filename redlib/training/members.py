"""Members of any size, trained in groups of equal size that are dealt to the threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import torch
from torch import nn

from redlib import config
from redlib.training.loop import Rate, fit
from redlib.training.rows import Rows, device


def fit_members(
    make: Callable[[list[int]], nn.Module], rows: Rows, loop: config.Training, rate: Rate | None = None
) -> tuple[nn.Module, pd.DataFrame]:
    """`fit` for any number of members of any size, gathered in one module; `make(members)` builds an untrained one.

    Members with equally many rows are trained together. On a CPU they are dealt to as many groups as there are
    threads, each trained by one thread: small products that share nothing need no thread to wait for another.
    """
    everyone = list(range(len(rows.train)))
    sizes = [(len(t), len(v)) for t, v in zip(rows.train, rows.validation, strict=True)]
    alike = [[m for m in everyone if sizes[m] == size] for size in sorted(set(sizes))]
    threads = torch.get_num_threads() if device().type == "cpu" else 1
    groups = [group for members in alike for group in (members[i::threads] for i in range(threads)) if group]
    parts = [make(members) for members in groups]
    histories = _side_by_side(
        [
            lambda part=part, members=members: fit(part, rows.only(members), loop, rate)
            for part, members in zip(parts, groups, strict=True)
        ]
    )
    whole = make(everyone)
    for part, members in zip(parts, groups, strict=True):
        for full, trained in zip(whole.parameters(), part.parameters(), strict=True):
            full.data[members] = trained.data
    named = [h.assign(member=[members[m] for m in h["member"]]) for h, members in zip(histories, groups, strict=True)]
    history = pd.concat(named, ignore_index=True)
    return whole.eval(), history.sort_values(["member", "epoch"], ignore_index=True)


def _side_by_side(jobs: list[Callable[[], pd.DataFrame]]) -> list[pd.DataFrame]:
    """Results of the jobs, in order; several at a time have one thread each."""
    threads = torch.get_num_threads()
    if len(jobs) == 1 or threads == 1 or device().type != "cpu":
        return [job() for job in jobs]
    torch.set_num_threads(1)  # also for MKL, whose setting is shared by all threads
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(lambda job: job(), jobs))
    finally:
        torch.set_num_threads(threads)
