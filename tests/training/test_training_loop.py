"""The training loop: exactness, members, early stopping, failures."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from toy_problem import C, D, N, rows_of

from redlib import config, training
from redlib.models import LinearBank, MLPBank


def test_one_member_is_plain_adamw(problem):
    x, y = problem
    x, loop = x.double(), config.Training(lr=0.01, batch=16, max_epochs=3, patience=3)
    rows, bank = rows_of(x, y), LinearBank([3], D, C).double()
    weight, bias = (p.detach().clone().requires_grad_() for p in bank.parameters())
    training.fit(bank, rows, loop)

    optimiser = torch.optim.AdamW([weight, bias], lr=0.01, weight_decay=loop.weight_decay)
    shuffle, losses, kept = np.random.default_rng([7, 0]), [], []
    for _ in range(3):
        for batch in shuffle.permutation(rows.train[0]).reshape(-1, 16):
            optimiser.zero_grad()
            F.cross_entropy(x[batch] @ weight[0] + bias[0], y[batch]).backward()
            optimiser.step()
        losses.append(F.cross_entropy(x[rows.validation[0]] @ weight[0] + bias[0], y[rows.validation[0]]).item())
        kept.append(weight.detach().clone())
    torch.testing.assert_close(bank.weight.data, kept[int(np.argmin(losses))], rtol=1e-10, atol=1e-12)


def test_members_trained_together_equal_members_trained_apart(problem):
    x, y = problem
    x, loop = x.double(), config.Training(lr=0.3, batch=16, max_epochs=25, patience=2)
    rows = rows_of(x, y, members=4, seeds=[5, 6, 7, 8])
    together = MLPBank(rows.seeds, D, 5, C).double()
    history = training.fit(together, rows, loop)
    assert history.groupby("member")["epoch"].max().nunique() > 1  # they stop at different epochs
    for member in range(4):
        alone = MLPBank([rows.seeds[member]], D, 5, C).double()
        training.fit(alone, rows.only([member]), loop)
        for a, b in zip(alone.parameters(), together.parameters(), strict=True):
            torch.testing.assert_close(a[0], b[member], rtol=1e-9, atol=1e-11)


def test_members_of_unequal_size_are_trained_in_groups(problem):
    x, y = problem
    rows = rows_of(x, y, members=3)
    rows.train[1] = rows.train[1][:40]
    loop = config.Training(lr=0.02, batch=16, max_epochs=4)
    with pytest.raises(ValueError, match="toy: members trained together need equally many rows"):
        training.fit(LinearBank([0, 1, 2], D, C), rows, loop)
    bank, history = training.fit_members(lambda members: LinearBank(members, D, C), rows, loop)
    assert sorted(history["member"].unique()) == [0, 1, 2]
    alone = LinearBank([1], D, C)
    training.fit(alone, rows.only([1]), loop)
    assert torch.equal(alone.weight[0], bank.weight[1])


def test_micro_batches_give_the_gradient_of_the_whole_batch(problem):
    x, y = problem
    x = x.double()
    banks = [LinearBank([1], D, C).double() for _ in range(2)]
    for bank, micro in zip(banks, (None, 5), strict=True):
        training.fit(bank, rows_of(x, y), config.Training(lr=0.01, batch=16, micro_batch=micro, max_epochs=4))
    torch.testing.assert_close(banks[0].weight, banks[1].weight, rtol=1e-10, atol=1e-12)


def test_the_same_seed_repeats_every_bit_and_another_does_not(problem):
    x, y = problem
    loop = config.Training(lr=0.01, batch=16, max_epochs=5)
    weights = []
    for seed in (1, 1, 2):
        bank = MLPBank([seed], D, 5, C)
        training.fit(bank, rows_of(x, y, seeds=[seed]), loop)
        weights.append(bank.first.weight.data)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("monitor", ["loss", "accuracy"])
def test_it_stops_after_patience_and_restores_the_best_epoch(problem, monitor):
    x, _ = problem
    y = torch.randint(0, C, (N,), generator=torch.Generator().manual_seed(4))  # nothing to learn: validation gets worse
    loop = config.Training(lr=0.05, batch=16, max_epochs=60, patience=3, monitor=monitor)
    bank, rows = MLPBank([0], D, 32, C), rows_of(x, y)
    history = training.fit(bank, rows, loop)
    best = history[history["best"]].iloc[-1]
    assert len(history) == best["epoch"] + 3 < 60
    column, better = ("valid_accuracy", max) if monitor == "accuracy" else ("valid_loss", min)
    assert best[column] == better(history[column])
    index = torch.from_numpy(rows.validation[0])
    loss = F.cross_entropy(bank(x[index])[0], y[index]).item()
    assert loss == pytest.approx(best["valid_loss"], rel=1e-5)


def test_frozen_parameters_come_back_bit_for_bit(problem):
    x, y = problem
    first, last = LinearBank([0, 1, 2], D, D).requires_grad_(False), LinearBank([3, 4, 5], D, C)
    before = first.weight.data.clone()
    module = torch.nn.Sequential(first, last)
    start = last.weight.data.clone()
    loop = config.Training(lr=0.05, batch=16, max_epochs=40, patience=1)
    training.fit(module, rows_of(x, y, members=3), loop)
    assert torch.equal(first.weight.data, before)
    assert not torch.equal(last.weight.data, start)


def test_nan_in_the_features_is_one_clear_error(problem):
    x, y = problem
    x[3] = float("nan")
    with pytest.raises(
        FloatingPointError, match="toy: the loss of member 0 is not finite in epoch 1; check the features"
    ):
        training.fit(LinearBank([0], D, C), rows_of(x, y), config.Training())


def test_empty_and_one_class_parts_are_refused(problem):
    x, y = problem
    with pytest.raises(ValueError, match="toy: the train part of member 0 is empty"):
        rows_of(x, y, train=0)
    with pytest.raises(ValueError, match="toy: the validation part of member 0 is empty"):
        rows_of(x, y, validation=0)
    with pytest.raises(ValueError, match="holds one class only"):
        rows_of(x, torch.zeros_like(y))


def test_a_long_run_says_where_it_stands_after_an_epoch(problem, monkeypatch, caplog):
    monkeypatch.setattr("redlib.training.loop.EVERY", 0.0)
    rows, loop = rows_of(*problem, members=2), config.Training(lr=0.01, batch=16, max_epochs=3, patience=3)
    with caplog.at_level("INFO", training.LOG.name):
        training.fit_members(lambda members: LinearBank([rows.seeds[m] for m in members], D, C), rows, loop)
    lines = [record.getMessage() for record in caplog.records]
    assert all(line.startswith("toy: epoch ") and " of 3, best validation loss " in line for line in lines)
    assert any("epoch 2 of 3" in line and "still training, " in line for line in lines)


def test_a_sequence_is_right_as_a_whole_and_its_loss_is_the_mean_over_its_targets(problem):
    x, y = problem
    targets = torch.stack([y, (y + 1) % C, y], 1)
    targets[::3, 2] = training.NO_TARGET
    rows = rows_of(x, targets)

    class Three(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList(LinearBank([seed], D, C) for seed in range(3))

        def forward(self, inputs):
            return torch.stack([head(inputs) for head in self.heads], 2)

    bank = Three()
    history = training.fit(bank, rows, config.Training(lr=0.1, batch=16, max_epochs=30, patience=30))
    restored = history[history["best"]].iloc[-1]
    validation = rows.validation[0]
    with torch.no_grad():
        logits, wanted = bank(x[validation][None])[0], targets[validation]
        each = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none").view(wanted.shape)
    there = wanted != training.NO_TARGET
    right = ((logits.argmax(-1) == wanted) | ~there).all(1).float().mean().item()
    assert 0.3 < right < 1
    assert restored["valid_accuracy"] == pytest.approx(right)
    assert restored["valid_loss"] == pytest.approx((each.sum(1) / there.sum(1)).mean().item(), rel=1e-5)


def test_the_rate_scales_every_step(problem):
    x, y = problem
    loop, seen = config.Training(lr=0.1, weight_decay=0, batch=16, max_epochs=2, patience=5), []
    still, start = LinearBank([0], D, C), LinearBank([0], D, C)
    training.fit(still, rows_of(x, y), loop, lambda done: seen.append(done) or 0.0)
    assert torch.equal(still.weight, start.weight)
    assert seen == [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875]
    once, plain = LinearBank([0], D, C), LinearBank([0], D, C)
    training.fit(once, rows_of(x, y), loop, lambda done: 1.0)
    training.fit(plain, rows_of(x, y), loop)
    assert torch.equal(once.weight, plain.weight)


def test_narrow_products_round_the_way_and_leave_weights_and_the_optimiser_wide(problem):
    x, y = problem
    banks, losses = [], []
    for products in ("float32", "bfloat16"):
        loop = config.LongTraining(lr=0.01, batch=16, max_epochs=4, patience=4, products=products)
        bank = MLPBank([3], D, 16, C)
        losses.append(training.fit(bank, rows_of(x, y), loop)["train_loss"].to_numpy())
        banks.append(bank)
    assert {p.dtype for p in banks[1].parameters()} == {torch.float32}
    assert (losses[0] != losses[1]).all()
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert not any(loop.narrow for loop in (config.Training(), config.PlannerTraining()))
