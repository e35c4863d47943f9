"""The planner's part in an assembled system (the source, 4.5.5): questions planned and executed, with the planner as it
was trained and cast to bfloat16."""

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from redlib.config import Profile
from redlib.decomposer import Planner, Sequences
from redlib.execution import Look, encode, outcomes, run
from redlib.modules.probe import drift
from redlib.programs import Program
from redlib.study import execution, operations, planner, separate
from redlib.study.stage import Stage
from redlib.training import NO_TARGET

REDUCED = torch.bfloat16  # what the source trains routers and decomposer in (4.5.1)
WAYS = ("single", "separate", "separate/router=bfloat16", "separate/router=bfloat16,planner=bfloat16")
ASKED = 200  # test questions, at most: in bfloat16 each is decoded, since rounding decides what scoring leaves open
Line = tuple[str, str, str, float, int]  # way, group, metric, value, n


def lines(profile: Profile, stage: Stage, looks: Mapping[str, Look]) -> Iterator[Line]:
    """Rows of execution_assembly for executors by way, the last of WAYS with the planner in REDUCED; the stage's inputs
    are those of the table."""
    said = pd.read_parquet(stage.inputs["planned"].folder / "predictions.parquet")
    said = said[(said["method"] == execution.PLANNER) & (said["seed"] == 0) & (said["part"] == "test")]
    said = said.iloc[:: -(-len(said) // ASKED)]
    gold, own = ([Program.read(t) for t in said["program"]], [execution.readable(t) for t in said["predicted_program"]])
    exact = separate.loaded(profile, stage.inputs["planner"])
    cast = separate.cast(exact, REDUCED)
    other = [plan.program for plan in cast.decompose_all(said["text"].tolist())]
    within, space = operations.domain(profile, profile.operations.domains[0]), operations.labels(profile)
    for way, look in looks.items():
        given = other if way == WAYS[-1] else own
        found = outcomes(gold, given, run(encode(given), look, within), space)
        yield way, "questions", "value_accuracy", (found["predicted_value"] == found["value"]).mean(), len(found)
        yield way, "planner", "program_exact", found["exact_program"].mean(), len(found)
    yield WAYS[-1], "planner", "changed", float(np.mean([a != b for a, b in zip(own, other, strict=True)])), len(own)
    records = planner.records_of(stage)
    rows = np.flatnonzero(records["row"].isin(said["row"]))
    sequences = planner.sequences_of(exact, records, stage.inputs["states"])
    before, after = (_logits(one, sequences, rows) for one in (exact, cast))
    yield WAYS[-1], "planner", "logit_difference", float((after - before).abs().max()), len(before)
    yield WAYS[-1], "planner", "logit_drift", drift(after, before), len(before)
    both = [{"planner": separate.loaded(profile, stage.inputs[f"{way} planner"]).writer} for way in WAYS[:2]]
    yield WAYS[1], "planner", "equal", float(separate.equal(*both)), separate.RECORDS


@torch.no_grad()
def _logits(of: Planner, sequences: Sequences, rows: np.ndarray, batch: int = 32) -> Tensor:
    """Logits (n, V) of every token of the gold programs of some rows, the tokens before it given."""
    device, found = of.writer.readout.weight.device, []
    for first in range(0, len(rows), batch):
        chosen = rows[first : first + batch]
        there = sequences.targets[torch.from_numpy(chosen)] != NO_TARGET
        found.append(of.writer(*sequences.batch(chosen, device))[0].cpu()[there])
    return torch.cat(found)
