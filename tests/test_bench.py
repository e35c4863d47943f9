"""Benchmarks at toy size write the columns they promise, and count FLOPs by the layer's real products."""

import pandas as pd
import torch
from torch.utils.flop_counter import FlopCounterMode

from redlib import backbone, bench, paths

TEXTS = [f"What is {a} plus {b}?" for a in range(10, 18) for b in range(20, 28)]


def test_features_bench_reports_every_case_and_writes_only_when_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "SECONDS", 0.01)
    monkeypatch.setattr(paths, "results", lambda profile: tmp_path / profile)
    frame = bench.features(backbone="tiny", sample=64, rounds=1, texts=TEXTS)
    assert not list(tmp_path.iterdir())
    assert list(frame.columns) == ["bench", "case", "metric", "value", "unit", "machine"]
    assert (frame["value"] > 0).all()
    ratios = set(frame.loc[frame["unit"] == "ratio", ["case", "metric"]].itertuples(index=False, name=None))
    wanted = {("plain", "effective_over_matmul"), ("packed", "effective_over_matmul")}
    wanted |= {("packed", "over_padded_transformers")}
    assert {(f"task1, {len(TEXTS)} texts/{case}", metric) for case, metric in wanted} <= ratios
    assert "effective_over_matmul" in capsys.readouterr().out
    written = bench.features(backbone="tiny", sample=64, rounds=1, texts=TEXTS, write=True)
    stored = pd.read_csv(tmp_path / "bench" / "features.csv")
    pd.testing.assert_frame_equal(stored, written, rtol=1e-5)
    fewer = bench.features(backbone="tiny", sample=64, rounds=1, texts=TEXTS[:32], write=True)
    bench.features(backbone="tiny", sample=64, rounds=1, texts=TEXTS, write=True)
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
    assert bench._flops(tiny, ids) == counter.get_total_flops() - above
