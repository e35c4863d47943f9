"""A tiny backbone, its grammar, some records, and planners: a random one and one that knows a little."""

import numpy as np
import pytest
import torch
from planners import LARGEST, MOST, passport, sequences_of

from redlib import backbone, config, decomposer, training
from redlib.datasets import decomposer as data
from redlib.decomposer import Grammar


@pytest.fixture(scope="module")
def tiny():
    return backbone.load("tiny")


@pytest.fixture(scope="module")
def grammar(tiny):
    return Grammar.of(tiny, MOST, LARGEST)


@pytest.fixture(scope="module")
def records():
    return data.records(data.build(1_000, seed=3))


@pytest.fixture(scope="module")
def random_planner(tiny):
    """Nothing is trained; a large random readout makes it choose differently everywhere."""
    planner = decomposer.new(tiny, passport(tiny))
    generator = torch.Generator().manual_seed(1)
    planner.writer.readout.weight.data.normal_(0, 0.5, generator=generator)
    return planner


@pytest.fixture(scope="module")
def trained(tiny, records):
    """Trained on few short programs until it knows most of them: greedy decoding has right and wrong rows."""
    few = records[records["num_steps"] == 2].iloc[:40]
    texts, programs = few["expr"].tolist(), few["program"].tolist()
    planner = decomposer.new(tiny, passport(tiny))
    sequences = sequences_of(planner, texts, programs)
    rows = np.arange(len(few))
    loop = config.PlannerTraining(lr=1e-2, max_epochs=25, patience=25, batch=8, monitor="accuracy")
    whole = training.Rows(
        lambda i, _: sequences.batch(i[0], torch.device("cpu")), sequences.targets, [rows], [rows], "planner"
    )
    history = training.fit(planner.writer, whole, loop, lambda done: training.half_cosine(done, 0.1))
    return planner, texts, programs, sequences, history
