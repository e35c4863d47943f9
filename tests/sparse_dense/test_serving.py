"""Serving measured: times on a known clock, memory and its parts; what makes no sense is refused."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lineups import LINEUP, by_name, ids_of, lively

from redlib import config
from redlib.bench import sparse as bench_sparse
from redlib.sparse import designs, models, quantised, serving, spent


def ticks(step=1.0):
    """A clock that moves on by `step` seconds whenever it is read."""
    return map(float, itertools.count(0, step)).__next__


# ---- the measurement ---------------------------------------------------------------------------------------------


def test_metrics_on_a_clock_with_known_times():
    model = models.build(LINEUP["dense_a"])
    found = serving.answer(model, ids_of(4, 10), 5, clock=ticks(0.25))
    assert found.times == (0.25, 0.5, 0.75, 1.0, 1.25)
    assert found.metrics() == {
        "ttft_ms": 250.0,
        "itl_ms": 250.0,
        "e2e_ms": 1250.0,
        "user_tokens_per_second": 4.0,
        "system_tokens_per_second": 16.0,
        "prefill_tokens_per_second": 160.0,
    }
    assert set(found.metrics()) == set(serving.MEASURED)


@given(st.lists(st.floats(0.001, 10), min_size=2, max_size=20), st.integers(1, 64))
def test_first_token_and_steps_add_up_to_the_whole(gaps, batch):
    times = tuple(np.cumsum(gaps).tolist())
    found = serving.Answered(batch, 8, times).metrics()
    assert found["ttft_ms"] + found["itl_ms"] * (len(times) - 1) == pytest.approx(found["e2e_ms"])
    assert found["system_tokens_per_second"] * times[-1] == pytest.approx(batch * len(times))


def test_one_new_token_has_no_time_between_tokens():
    assert "itl_ms" not in serving.Answered(1, 4, (0.5,)).metrics()


@by_name
def test_an_answer_is_the_same_with_and_without_a_cache(name):
    model, asked = lively(LINEUP[name]), []
    for cache in (True, False):
        with torch.no_grad():
            asked.append(serving.answer(model, ids_of(2, 5), 2, cache=cache).times)
    assert [len(times) for times in asked] == [2, 2]


def test_the_sources_protocol_counts_prompt_tokens_and_runs_every_specialist():
    model = lively(LINEUP["alchemist_sparse_3"])
    with models.counted_runs(model) as runs:
        found = serving.run(model, ids_of(12, 20), 4, "source", ticks(0.5))
    assert runs == [10, 10, 10]
    assert found["tokens_per_second"] == 16 / 0.5
    assert found["first_token_ms"] == 500
    assert found["memory_bytes"] == models.stored_bytes(model)
    assert model.threshold == designs.ONLY_LARGEST
    with models.counted_runs(model) as runs:
        serving.run(model, ids_of(1, 20), 4)
    assert sum(runs) == 4, "one specialist a pass"


def test_turns_are_medians_with_the_smallest_and_the_largest_and_ratios_are_taken_turn_by_turn():
    values = {"a": iter([9.0, 1.0, 2.0, 4.0]), "b": iter([9.0, 2.0, 2.0, 2.0])}
    cases = {name: lambda v=v: {"rate": next(v)} for name, v in values.items()}
    turns = serving.in_turns(cases, 3)
    row = serving.spread(turns).set_index("case").loc["a"]
    assert row[["value", "low", "high", "n"]].tolist() == [2.0, 1.0, 4.0, 3]
    over = serving.ratios(turns, "rate", "b").iloc[0]
    assert over[["case", "metric", "value", "low", "high"]].tolist() == ["a", "rate_over_b", 1.0, 0.5, 2.0]


@by_name
def test_memory_is_weights_cache_and_what_a_pass_needs(name):
    design = LINEUP[name]
    parts = serving.memory(lively(design), ids_of(2, 9), 4)
    running = 4 * design.width if design.kind == "specialists" else 0
    assert parts["weights"] == 4 * design.total + running
    assert parts["cache"] == pytest.approx(design.cache_bytes(2, 12))
    assert parts["activations"] > 0
    assert sum(parts.values()) < 2 * design.needed_bytes(2, 13)


@by_name
def test_the_parts_of_the_time_are_there_and_none_is_negative(name):
    parts = spent.time_parts(lively(LINEUP[name]), ids_of(2, 6), 3)
    assert set(parts) == set(spent.PARTS)
    assert min(parts.values()) >= 0
    assert parts["attention"] > 0
    assert (parts["router"] > 0) == (not name.startswith("dense"))
    assert not name.startswith("dense") or parts["dispatch"] == 0


# ---- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: serving.cost_per_million(10, 0), "a price per hour must be positive, got 0"),
        (lambda: serving.cost_per_million(10, -2.5), "a price per hour must be positive, got -2.5"),
        (lambda: serving.cost_per_million(0, 1), "tokens per second must be positive, got 0"),
        (lambda: designs.Design("experts", 9, 8, 1, 8, 4, 5), "active experts must be between 1 and 4, .* got 5"),
        (lambda: designs.Design("moe", 9, 8, 1, 8), "unknown kind of model 'moe'; valid kinds: dense, experts"),
        (lambda: designs.Design("dense", 9, 10, 1, 8), "width must be a multiple of 8, got 10"),
        (lambda: designs.Design("specialists", 9, 8, 1, 8, 3, 3, 1.5), "threshold must be a weight between 0 and 1"),
        (lambda: models.build(LINEUP["moe_top1"], backend="fast"), "unknown back end 'fast' for experts; valid"),
        (lambda: quantised.quantised(models.build(LINEUP["dense_b"]), 2), "weights can have 8 or 4 bits, got 2"),
        (lambda: serving.in_turns({}, 0), "repeats must be at least 1, got 0"),
        (lambda: bench_sparse.run(price=0.0), "a price per hour must be positive, got 0.0"),
        (lambda: bench_sparse.run(protocol="both"), "unknown protocol 'both'; valid protocols: serving, source"),
        (lambda: config.load("smoke", {"sparse.price": -1.0}), "invalid value -1.0 for field 'sparse.price'"),
        (lambda: config.load("smoke", {"sparse.batches": [1, 0]}), "invalid value 0 for field 'sparse.batches"),
        (lambda: config.load("smoke", {"sparse.batches": []}), "invalid value .* for field 'sparse.batches'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_lengths_beyond_the_context_and_no_new_tokens_are_refused():
    model = models.build(LINEUP["dense_a"])
    with pytest.raises(ValueError, match="60 tokens and 5 new ones do not fit a context of 64"):
        serving.answer(model, ids_of(1, 60), 5)
    with pytest.raises(ValueError, match="new tokens must be at least 1, got 0"):
        serving.answer(model, ids_of(1, 6), 0)
    with pytest.raises(ValueError, match="unknown protocol 'fast'"):
        serving.run(model, ids_of(1, 6), 1, "fast")


def test_a_batch_that_does_not_fit_is_refused_before_anything_is_allocated():
    huge = designs.lineup(50_000, 8192, 80)["dense_b"]
    with pytest.raises(ValueError, match=r"dense_b with a batch of 64 and 4096 tokens needs about .* GB .* are free"):
        serving.check_fits("dense_b", huge, 64, 4096)
    design = LINEUP["dense_a"]
    serving.check_fits("dense_a", design, 1, 32, available=design.needed_bytes(1, 32))
    with pytest.raises(ValueError, match="take a smaller batch or shorter texts"):
        serving.check_fits("dense_a", design, 2, 32, available=design.needed_bytes(1, 32))
