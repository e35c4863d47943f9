"""The training loop: exactness, members, early stopping, failures."""

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from redlib import config, training
from redlib.models import LinearBank, MLPBank
from redlib.training.optimiser import Muon, Optimiser

N, D, C = 120, 6, 4


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, D, generator=generator)
    y = (x @ torch.randn(D, C, generator=generator)).argmax(-1)
    return x, y


def rows_of(x, y, members=1, train=64, validation=32, seeds=None):
    order = np.arange(len(y))
    parts = [np.roll(order, 7 * m) for m in range(members)]
    inputs = training.pooled_inputs(x)
    cut = train + validation
    return training.Rows(inputs, y, [p[:train] for p in parts], [p[train:cut] for p in parts], "toy", seeds or [])


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


class Named(torch.nn.Sequential):
    """Modules of which the last is a network with a hidden matrix."""

    def matrices(self):
        return [self[-1].first.weight]


def noisy(seeds):
    """Frozen, trained and random parts: all that a training's state is made of."""
    frozen = LinearBank([seed + 10 for seed in seeds], D, D).requires_grad_(False)
    return Named(frozen, torch.nn.Dropout(0.2), MLPBank(seeds, D, 5, C))


def test_muon_turns_a_matrix_evenly_in_all_directions_of_its_gradient_and_adamw_has_the_rest():
    plan = config.LongTraining(lr=0.5, weight_decay=0.0, optimiser="muon")
    module, plain = Named(MLPBank([3], 8, 6, C)), MLPBank([3], 8, 6, C)
    before = module[0].first.weight.detach()[0].clone()
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(p.shape, generator=generator) for p in plain.parameters()]
    optimiser = Optimiser(module, list(module.parameters()), plan)
    optimiser.scale(0.1)
    for p, q, gradient in zip(module.parameters(), plain.parameters(), gradients, strict=True):
        p.grad, q.grad = gradient.clone(), gradient.clone()
    optimiser.step()
    torch.optim.AdamW(plain.parameters(), lr=0.05, weight_decay=0.0, fused=True).step()
    step = before - module[0].first.weight.detach()[0]
    along = step.T @ gradients[0][0]
    torch.testing.assert_close(along, along.T, atol=0.02 * along.abs().max().item(), rtol=0)  # their polar factor
    assert torch.linalg.eigvalsh((along + along.T) / 2).min() > 0
    sizes = torch.linalg.svdvals(step)
    assert sizes.max() < 2 * sizes.min()
    assert step.square().mean().sqrt().item() == pytest.approx(0.2 * 0.05, rel=0.2)  # as large as AdamW's usually are
    for p, q in list(zip(module.parameters(), plain.parameters(), strict=True))[1:]:
        assert torch.equal(p, q)


def test_muon_makes_the_steps_of_torchs_own_on_every_member_of_a_stack():
    torch.manual_seed(0)
    stack = torch.nn.Parameter(torch.randn(2, 12, 7))
    alone = [torch.nn.Parameter(member.clone()) for member in stack.detach()]
    own = Muon([stack], lr=0.01, weight_decay=0.1)
    theirs = torch.optim.Muon(alone, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    before = stack.detach().clone()
    for _ in range(5):
        stack.grad = torch.randn_like(stack)
        for p, gradient in zip(alone, stack.grad, strict=True):
            p.grad = gradient.clone()
        own.step()
        theirs.step()
    moved = (stack - before).square().mean().sqrt()
    assert (stack - torch.stack(list(alone))).square().mean().sqrt() < 0.02 * moved, "theirs rounds to bfloat16"
    assert moved > 0.005


def test_muon_is_refused_where_no_matrix_is_named(problem):
    plan = config.LongTraining(optimiser="muon")
    with pytest.raises(ValueError, match="MLPBank names none; use adamw"):
        training.fit(MLPBank([1], D, 5, C), rows_of(*problem), plan)


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
