"""Benchmarks at toy size write the columns they promise, and count FLOPs by the layer's real products."""

import importlib
import inspect
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from redlib import backbone, bench, config, cost, paths
from redlib.bench import data, decode, experts, features, gpu, growth, layers, measuring, memory, peers, query, train
from redlib.bench.measuring import COLUMNS
from redlib.models import TokenBase, mix
from redlib.study import methods, task1

HALVES = ("float32", "bfloat16")
TEXTS = [f"What is {a} plus {b}?" for a in range(10, 18) for b in range(20, 28)]


def test_features_bench_reports_every_case_and_writes_only_when_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(features, "SECONDS", 0.01)
    monkeypatch.setattr(paths, "results", lambda profile: tmp_path / profile)
    frame = features.run(backbone="tiny", sample=64, rounds=1, texts=TEXTS)
    assert not list(tmp_path.iterdir())
    assert list(frame.columns) == COLUMNS
    assert (frame["value"] > 0).all()
    ratios = set(frame.loc[frame["unit"] == "ratio", ["case", "metric"]].itertuples(index=False, name=None))
    wanted = {("plain", "effective_over_matmul"), ("packed", "effective_over_matmul")}
    wanted |= {("packed", "over_padded_transformers"), ("packed", "over_pipeline"), ("packed", "over_pipeline_cpu")}
    assert {(f"task1, {len(TEXTS)} texts/{case}", metric) for case, metric in wanted} <= ratios
    assert "effective_over_matmul" in capsys.readouterr().out
    written = features.run(backbone="tiny", sample=64, rounds=1, texts=TEXTS, write=True)
    stored = pd.read_csv(tmp_path / "bench" / "features.csv")
    pd.testing.assert_frame_equal(stored, written, rtol=1e-5)
    fewer = features.run(backbone="tiny", sample=64, rounds=1, texts=TEXTS[:32], write=True)
    features.run(backbone="tiny", sample=64, rounds=1, texts=TEXTS, write=True)
    stored = pd.read_csv(tmp_path / "bench" / "features.csv")
    assert len(stored) == len(written) + len(fewer), "another size stands beside it, the same one is replaced"
    assert not stored.duplicated(["case", "metric"]).any()


def test_flops_of_a_text_are_those_of_its_products():
    """torch's own counter on eager attention, which counts the full square of scores, not its causal half."""
    tiny = backbone.load("tiny")
    tiny.model.set_attn_implementation("eager")
    ids = tiny.encode(TEXTS[:1])
    tokens, heads = len(ids[0]), 4 * 8
    with FlopCounterMode(display=False) as counter:
        tiny.run(torch.tensor(ids), torch.ones(1, tokens, tokens).tril().bool())
    above = 4 * 4 * heads * (tokens**2 - tokens * (tokens + 1) // 2)
    assert features.flops(tiny, ids) == counter.get_total_flops() - above


# ---- every benchmark at toy size ---------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Where benchmarks write, instead of into the record; the folder is there when something was written."""
    monkeypatch.setattr(paths, "results", lambda profile: tmp_path / profile)
    return tmp_path / "bench"


def cells(frame):
    return set(frame[["case", "metric"]].itertuples(index=False, name=None))


def test_data_bench_times_everything_beside_a_tenth_of_it(results):
    frame = data.run(rows=1_000, rounds=1, write=True)
    assert list(pd.read_csv(results / "data.csv").columns) == COLUMNS
    named = {f"{task} {what}" for task in ("task1", "task2") for what in ("pool", "structure split", "parsed")}
    named |= {"task2 executed"}
    assert cells(frame) == {(f"1,000 rows/{what}", metric) for what in named for metric in ("seconds", "over_a_tenth")}
    assert (frame["value"] > 0).all()


def test_experts_bench_compares_batched_loop_and_folded(results, monkeypatch):
    monkeypatch.setattr(experts, "SECONDS", 0.001)
    frame = experts.run(rounds=1, counts=(2, 3), batches=(1, 4), write=True)
    assert list(pd.read_csv(results / "experts.csv").columns) == COLUMNS
    for K in (2, 3):
        for B in (1, 4):
            assert {(f"K={K}, B={B}/{what}", "over_loop") for what in ("mixed", "step")} <= cells(frame)
            assert (f"K={K}, B={B}/mixed", "folded_over_loop") in cells(frame)
    assert (frame["value"] > 0).all()


def test_an_experts_case_that_would_not_fit_is_left_out(monkeypatch):
    monkeypatch.setattr(experts, "SECONDS", 0.001)
    monkeypatch.setattr(experts, "LARGEST", 3 * 4 * 576)
    frame = experts.run(rounds=1, counts=(3,), batches=(4, 8))
    assert {case.partition("/")[0] for case, _ in cells(frame)} == {"K=3, B=4"}


@settings(max_examples=20)
@given(K=st.integers(1, 7), B=st.integers(1, 9), d=st.integers(8, 40))
def test_experts_side_by_side_one_by_one_and_folded_are_the_same_sum(K, B, d):
    bank, h = experts.drawn(K, d), torch.randn(B, d)
    alpha = torch.softmax(torch.randn(B, K), -1)
    with torch.no_grad():
        batched = mix(alpha, bank(h))
        one_by_one = experts.loop(list(zip(bank.down.weight, bank.up.weight, strict=True)), h, alpha)
        folded = experts.folded(experts.fold(bank), h, alpha)
    torch.testing.assert_close(one_by_one, batched, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(folded, batched, rtol=1e-5, atol=1e-5)


def test_layers_bench_compares_padded_end_to_end_and_narrow_steps(results, monkeypatch):
    monkeypatch.setattr(layers, "SECONDS", 0.001)
    frame = layers.run(rounds=1, backbone="tiny", steps=("single_heavy",), write=True)
    top, light = (f"single_heavy, {kind}" for kind in ("64 texts/top layers", "128 texts/light layers"))
    assert {(top, "over_padded"), (top, "seconds_padded"), (light, "seconds_float32")} <= cells(frame)
    assert {(case, "bfloat16_over_float32") for case in (top, light)} <= cells(frame)
    assert (pd.read_csv(results / "layers.csv")["value"] > 0).all()


def test_padded_and_end_to_end_tokens_are_the_same_base():
    model = backbone.load("tiny")
    top, mask = model.top(2), torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    states = torch.randn(3, 6, model.hidden_size) * mask[..., None]
    torch.testing.assert_close(layers.Padded(top)(states, mask), TokenBase(top)(states, mask), rtol=1e-4, atol=1e-5)


def test_growth_bench_fits_an_exponent_to_every_axis(results, monkeypatch):
    monkeypatch.setattr(growth, "SECONDS", 0.001)
    small = {"rows, feature pass": (50, 100, 150), "rows, one epoch of the router": (8, 16, 32)}
    small |= {"experts K": (1, 2, 3), "rank r": (1, 2, 4), "tokens T": (1, 2, 4)}
    assert set(small) == set(growth.SIZES)
    frame = growth.run(rounds=1, backbone="tiny", layer=2, sizes=small, write=True)
    assert list(pd.read_csv(results / "growth.csv").columns) == COLUMNS
    for axis, sizes in small.items():
        assert {(axis, f"exponent{end}") for end in ("", "_low", "_high")} <= cells(frame)
        assert {(f"{axis}={size}", "seconds") for size in sizes} <= cells(frame)


@given(power=st.floats(0.01, 3), factor=st.floats(1e-3, 1e3))
def test_a_power_law_has_its_own_exponent(power, factor):
    sizes = np.array([1.0, 2, 4, 9])
    found = {metric: value for metric, value, _ in growth.exponent(sizes, factor * sizes**power)}
    assert found["exponent"] == pytest.approx(power, abs=1e-6)
    assert found["exponent_low"] - 1e-6 <= power <= found["exponent_high"] + 1e-6


def test_two_sizes_are_no_growth():
    with pytest.raises(ValueError, match="at least three sizes"):
        growth.exponent([1, 2], [1.0, 2.0])


def test_query_bench_says_what_red_adds(results, monkeypatch):
    monkeypatch.delenv("REDLIB_CACHE", raising=False)  # the backbone itself
    monkeypatch.setattr(query, "SECONDS", 0.01)
    frame = query.run(rounds=1, write=True)
    assert list(pd.read_csv(results / "query.csv").columns) == COLUMNS
    seconds = frame[frame["metric"] == "seconds"].set_index("case")["value"]
    assert set(seconds.index) == {
        f"task1/{case}" for case in ("explain", "backbone, as read", query.ALL, query.RED, query.MOVE)
    }
    shares = frame[frame["unit"] == "ratio"].set_index("metric")["value"]
    assert 0 < shares["share_all_layers"] < shares["share"] < 1


def test_decode_bench_gives_generate_as_many_tokens_as_ours_wrote(results):
    frame = decode.run("tiny", rounds=1, batches=(1, 2), write=True)
    assert list(pd.read_csv(results / "decode.csv").columns) == COLUMNS
    values = frame.set_index(["case", "metric"])["value"]
    for count in (1, 2):
        assert values[f"{count} texts/ours", "over_generate"] > 0
        tokens = (
            values[f"{count} texts/ours", "tokens_per_query"],
            values[f"{count} texts/generate", "tokens_per_query"],
        )
        assert 0 < tokens[0] <= tokens[1]


def test_the_shipped_planner_is_timed_on_its_own_backbone_alone():
    planner = decode.trained(backbone.load("smollm2-135m"))
    assert planner.passport["split"] == "structure"
    assert decode.trained(backbone.load("tiny")) is None


def test_generate_continues_every_text_as_it_does_alone():
    model = backbone.load("tiny")
    peer, texts = decode.causal(model), ["Add 2 and 3", "What is 41 plus 7 minus 5?"]
    together = decode.generate(peer, model, texts, 4)
    for text, row in zip(texts, together, strict=True):
        assert torch.equal(decode.generate(peer, model, [text], 4)[0, -4:], row[-4:])


def test_memory_bench_sets_counted_beside_measured_peaks(results, monkeypatch):
    monkeypatch.setattr(cost, "measured_peak", lambda *given: {"before": 1e8, "peak": 5e8})
    frame = memory.run("smollm2-135m", batch=1, tokens=2, write=True)
    assert list(pd.read_csv(results / "memory.csv").columns) == COLUMNS
    for step in ("training", "inference"):
        rows = frame[frame["case"] == f"smollm2-135m, batch 1, 2 tokens/{step}"].set_index("metric")["value"]
        assert rows["measured_peak"] == 4e8
        assert rows["process_before"] == 1e8
        assert rows["counted_weights"] <= rows["counted_peak"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="would run at the shapes of a real backbone")
def test_gpu_bench_runs_its_code_on_a_cpu_and_says_what_that_is_worth(results, monkeypatch, capsys):
    frame = gpu.run(rounds=1, write=True)
    assert list(pd.read_csv(results / "gpu.csv").columns) == COLUMNS
    cases = {f"tiny on cpu, {what}/{how}" for what in ("feature pass", "padded transformers") for how in HALVES}
    trained = ("base stage", "decomposer training")
    cases |= {f"tiny on cpu, {what}/{how}" for what in trained for how in ("float32", "autocast")}
    assert cases == set(frame["case"])
    assert "not yet measured" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")  # peft asks for it
def test_train_bench_extrapolates_the_peers_steps(results, cache, monkeypatch):
    pytest.importorskip("peft")
    monkeypatch.setattr(train, "WARM_UP", 1)
    frame = train.run("smoke", rows=200, steps=2, write=True)
    assert list(pd.read_csv(results / "train.csv").columns) == COLUMNS
    values = frame.set_index(["case", "metric"])["value"]
    ours = values["200 texts/ours"]
    assert {"over_trainer", "over_peft", "over_trainer_cpu", "over_peft_with_features"} <= set(ours.index)
    for way in ("trainer", "peft"):
        own = values[f"200 texts/{way}"]
        steps = sum(ours[f"{part}_steps"] * own[f"{part}_seconds_a_step"] for part in train.PARTS)
        assert own["seconds"] == pytest.approx(steps)
        assert ours[f"over_{way}"] == pytest.approx(own["seconds"] / ours["seconds"])


def test_steps_are_epochs_times_batches_of_every_model(cache):
    s = task1.setting(config.load("smoke", {"task1.rows": 200}), "chosen", "structure", seeds=1, methods=("red",))
    history = methods.history(s)
    epochs = history.groupby(["stage", "member"])["epoch"].max()
    steps = train.steps_taken(s)
    assert steps["base"] == epochs["base", 0], "16 rows are one batch"
    assert steps["routers"] == epochs["routers", 0], "160 rows are one batch of 256"
    assert steps["experts"] == sum(epochs["experts"]), "32 rows of a range are one batch"


def test_the_record_names_what_is_not_measured_yet(results):
    assert set(bench.recorded()["metric"]) == {bench.MISSING}
    line = {"bench": "gpu", "case": "tiny on cpu, feature pass/float32", "metric": "tokens_per_second", "value": 1.0}
    results.mkdir()
    pd.DataFrame([line | {"bench": "query", "case": "task1/red"}]).to_csv(results / "query.csv", index=False)
    pd.DataFrame([line]).to_csv(results / "gpu.csv", index=False)
    missing = bench.recorded().query("metric == @bench.MISSING")
    assert set(missing["bench"]) == set(bench.BENCHES) - {"query"}, "a CPU says nothing of a GPU"
    pd.DataFrame([line | {"case": "qwen3-0.6b on cuda, feature pass/float32"}]).to_csv(results / "gpu.csv", index=False)
    assert "gpu" not in set(bench.recorded().query("metric == @bench.MISSING")["bench"])


def test_a_peer_refuses_a_pooling_that_it_does_not_have():
    with pytest.raises(ValueError, match="peers pool by mean or mean_skip_first; got pooling 'mean_two_depths'"):
        peers.Online(torch.nn.Identity(), torch.nn.Identity(), "mean_two_depths")


def test_a_missing_peer_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(RuntimeError, match=r"benchmark train.*peft.*extra `bench`.*\[bench\]"):
        bench.run("train", {})


def test_a_benchmark_refuses_what_it_does_not_take():
    with pytest.raises(ValueError, match="--rounds must be at least 1, got 0"):
        bench.run("experts", {"rounds": 0})
    with pytest.raises(ValueError, match=r"gpu takes no --task; its options: --rounds, --write"):
        bench.run("gpu", {"task": "task1"})
    with pytest.raises(ValueError, match="valid benchmarks: data, features, train"):
        bench.run("speed", {})


def test_every_benchmark_is_there_and_takes_the_options_of_the_command():
    for name in bench.BENCHES:
        run = importlib.import_module(f"redlib.bench.{name}").run
        assert "write" in inspect.signature(run).parameters


def test_a_ratio_is_that_of_the_rounds_not_of_the_medians():
    ours = [measuring.Taken(1, wall, 1.0) for wall in (1.0, 2.0, 8.0)]
    theirs = [measuring.Taken(1, wall, 3.0) for wall in (2.0, 8.0, 8.0)]
    assert measuring.ratio(ours, theirs) == 2
    assert measuring.ratio(ours, theirs, "cpu") == 3
