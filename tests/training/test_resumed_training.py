"""A training that was cut off goes on bit for bit, and from no other training's state."""

import pandas as pd
import pytest
import torch
from toy_problem import C, D, Named, rows_of

from redlib import config, training
from redlib.models import LinearBank, MLPBank


class Cut(Exception):
    pass


def cut_off(rows, most):
    """The same rows, from which no more than so many batches can be had."""
    given = rows.only(range(len(rows.train)))
    plain, left = given.inputs, [most]

    def inputs(index, members):
        left[0] -= 1
        if left[0] < 0:
            raise Cut
        return plain(index, members)

    given.inputs = inputs
    return given


def noisy(seeds):
    """Frozen, trained and random parts: all that a training's state is made of."""
    frozen = LinearBank([seed + 10 for seed in seeds], D, D).requires_grad_(False)
    return Named(frozen, torch.nn.Dropout(0.2), MLPBank(seeds, D, 5, C))


@pytest.mark.parametrize(("members", "optimiser"), [(1, "adamw"), (4, "adamw"), (1, "muon"), (4, "muon")])
def test_a_training_that_was_cut_off_goes_on_bit_for_bit(problem, tmp_path, monkeypatch, members, optimiser, caplog):
    monkeypatch.setattr("redlib.training.loop.KEPT", 0.0)
    x, y = problem
    plan = config.LongTraining(lr=0.3, batch=16, max_epochs=25, patience=2, optimiser=optimiser)
    rows, keep = rows_of(x, y, members=members, seeds=[5, 6, 7, 8][:members]), tmp_path / "state"
    torch.manual_seed(1)
    whole = noisy(rows.seeds)
    history = training.fit(whole, rows, plan)

    torch.manual_seed(1)
    with pytest.raises(Cut):
        training.fit(noisy(rows.seeds), cut_off(rows, 18), plan, keep=keep)  # an epoch has 4 batches and a validation
    with caplog.at_level("INFO", training.LOG.name):
        torch.manual_seed(2)
        resumed = noisy(rows.seeds)
        again = training.fit(resumed, rows, plan, keep=keep)
    assert "toy: epoch 3 of 25" in caplog.records[0].getMessage()
    for a, b in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(a, b)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), history.drop(columns="seconds"), check_exact=True)
    finished = noisy(rows.seeds)
    training.fit(finished, cut_off(rows, 1), plan, keep=keep)  # nothing is left to train
    assert torch.equal(finished[2].first.weight, whole[2].first.weight)


def test_a_state_of_another_training_or_a_damaged_one_is_not_used(problem, tmp_path, caplog):
    rows, keep, plan = rows_of(*problem), tmp_path / "state", config.Training(lr=0.01, batch=16, max_epochs=2)
    training.fit(LinearBank([0], D, C), rows, plan, keep=keep)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    faster = plan.model_copy(update={"lr": 0.02})
    fresh, resumed = LinearBank([0], D, C), LinearBank([0], D, C)
    training.fit(fresh, rows, faster)
    training.fit(resumed, rows, faster, keep=keep)
    assert torch.equal(resumed.weight, fresh.weight)
    assert "state is of another training, begun again" in caplog.text
    keep.write_bytes(keep.read_bytes()[:500])
    resumed = LinearBank([0], D, C)
    training.fit(resumed, rows, faster, keep=keep)
    assert torch.equal(resumed.weight, fresh.weight)
    assert "state cannot be read (RuntimeError), begun again" in caplog.text
