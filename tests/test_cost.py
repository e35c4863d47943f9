"""Costs: closed forms against real modules, FLOPs against counts by hand, memory against tensors that are known."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
import transformers
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from redlib import backbone, claims, config, cost, figures, models, results, study
from redlib.cost import Sizes
from redlib.cost.measured import run_step
from redlib.cost.memory import Ledger, measure
from redlib.study import cost_tables, task1

sizes = st.builds(
    Sizes,
    d=st.integers(1, 40),
    C=st.integers(1, 30),
    K=st.integers(1, 7),
    r=st.integers(1, 20),
    hidden=st.integers(0, 9),
)


def small(**changes):
    """A Qwen3 configuration of 4 layers."""
    shape = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "head_dim": 6}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.Qwen3Config(**shape | changes)


# ---- methods -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=15)
@given(sizes)
def test_closed_forms_are_what_the_real_modules_have_and_do(s):
    assume(s.C >= s.K)
    plain, fourier = cost.control_widths(s)
    assume(plain and fourier)
    made = cost.modules(s)
    for name in cost.NAMES:
        assert cost.method_cost(name, s) == cost.counted(name, s, made), name


@settings(deadline=None, max_examples=20)
@given(sizes)
def test_skipping_what_is_idle_never_costs_more_and_red_has_nothing_to_skip(s):
    for name in cost.NAMES:
        assert cost.skipping(name, s) <= cost.method_cost(name, s).flops, name
    assert cost.skipping("red", s) == cost.method_cost("red", s).flops


def test_the_cost_of_red_by_hand():
    s = Sizes(d=10, C=7, K=3, r=2, hidden=4)
    red = cost.method_cost("red", s)
    assert red.parameters == 3 * (10 * 2 + 2 * 10) + (10 * 7 + 7) + (10 * 4 + 4 + 4 * 3 + 3)
    assert red.flops == 2 * (3 * 40 + 70 + 40 + 12) + 2 * 3 * 10  # products, then the sum over experts


def test_the_controls_have_the_width_that_the_study_trains():
    s = Sizes(d=576, C=99, K=5, r=72)
    plain, fourier = cost.control_widths(s)
    red = cost.method_cost("red", s).parameters
    for name, width in {"mlp_full_data": plain + 0, "fourier_full_data": fourier}.items():
        assert width > 0
        assert abs(cost.method_cost(name, s).parameters - red) <= (s.d + 1 + s.C) / 2


@pytest.mark.parametrize("wrong", [{"d": 0}, {"C": 2.0}, {"K": True}, {"r": -1}, {"hidden": -1}])
def test_sizes_that_cannot_be_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"^{name} must be a whole number"):
        Sizes(**{"d": 4, "C": 4, "K": 2, "r": 1} | wrong)


def test_unknown_methods_formulas_and_backbones_are_refused_with_the_valid_names():
    with pytest.raises(ValueError, match="softmax_moe"):
        cost.method_cost("moe", Sizes(4, 4, 2, 1))
    with pytest.raises(ValueError, match=r"red/4\.10"):
        cost.leading("red", 4, 4, 2)
    with pytest.raises(ValueError, match=r"smollm2-135m, qwen3-0\.6b"):
        cost.configuration("gpt2")
    with pytest.raises(ValueError, match="3 classes cannot be divided among 5 experts"):
        cost.counted("red", Sizes(4, 3, 5, 1))


# ---- formulas ----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(1, 4096), st.integers(1, 5000), st.integers(1, 64))
def test_break_even_ranks_are_those_of_the_algebra(d, C, K):
    assert cost.break_even("red/4.10", d, C, K) == pytest.approx(d * C / (d + C))
    assert cost.break_even("red/4.4", d, C, K) == pytest.approx((K - 1) * C / (2 * K), abs=1e-9)
    assert cost.break_even("red/public", d, C, K) == pytest.approx((K - 1) * d * C / (K * (d + C)), abs=1e-9)


@settings(deadline=None)
@given(
    st.integers(2, 2048),
    st.integers(2, 500),
    st.integers(2, 16),
    st.sampled_from(["red/4.10", "red/4.4", "red/public"]),
)
def test_red_is_smaller_than_the_mixture_exactly_below_the_break_even_rank(d, C, K, form):
    edge = cost.break_even(form, d, C, K)
    mixture = cost.leading("softmax_moe", d, C, K)
    below, above = max(edge * 0.99, 0), edge * 1.01
    assert cost.leading(form, d, C, K, below) < mixture < cost.leading(form, d, C, K, above)


def test_the_break_even_ranks_at_the_shape_of_the_source():
    assert cost.break_even("red/4.10", 1024, 5, 5) == pytest.approx(5, abs=0.1)
    assert cost.break_even("red/4.10", 1024, 99, 5) == pytest.approx(90, abs=0.5)
    assert cost.rank_for("red/4.4", 10, 1024, 99, 5) < 0, "its classifier alone is more than a tenth of the mixture"


@settings(deadline=None)
@given(sizes)
def test_formulas_are_the_closed_forms_of_linear_routers_without_biases(s):
    linear = Sizes(s.d, s.C, s.K, s.r, hidden=0)
    biases = {"global_head": s.C, "uniform_average": s.K * s.C, "softmax_moe": s.K * s.C + s.K}
    for name, extra in biases.items():
        assert cost.method_cost(name, linear).parameters - extra == cost.leading(name, s.d, s.C, s.K)
    red = cost.method_cost("red", linear).parameters - s.C - s.K
    assert red == cost.leading("red/4.4", s.d, s.C, s.K, s.r)
    public = cost.method_cost("public_red", linear).parameters - s.C - s.K * (s.r + s.C) - s.K
    assert public == cost.leading("red/public", s.d, s.C, s.K, s.r)


# ---- FLOPs of the backbone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cost.SHAPES)
def test_the_shapes_of_both_backbones_are_theirs(name):
    shape, empty = cost.Shape.of(cost.configuration(name)), cost.skeleton(cost.configuration(name))
    assert sum(shape.parameters.values()) == sum(p.numel() for p in empty.model.parameters())
    assert (shape.layers, shape.d) == {"smollm2-135m": (30, 576), "qwen3-0.6b": (28, 1024)}[name]
    assert all(p.is_meta for p in empty.model.parameters())
    with torch.no_grad():
        assert cost.flops(empty.run, torch.zeros(2, 7, dtype=torch.long, device="meta")) == shape.flops(7, batch=2)


@pytest.mark.parametrize("kind", [transformers.LlamaConfig, transformers.Qwen2Config, transformers.Qwen3Config])
@pytest.mark.parametrize("biased", [{}, {"attention_bias": True, "mlp_bias": True}])
def test_the_closed_form_knows_norms_and_biases_of_the_family(kind, biased):
    biased = {} if kind is transformers.Qwen2Config else biased
    biased = {name: on for name, on in biased.items() if kind is transformers.LlamaConfig or name != "mlp_bias"}
    made = kind(
        vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, **biased
    )
    made.num_key_value_heads, made.head_dim = (4, 4) if kind is transformers.Qwen2Config else (2, 4)
    assert sum(cost.Shape.of(made).parameters.values()) == sum(
        p.numel() for p in cost.skeleton(made).model.parameters()
    )


def test_attention_of_one_layer_by_hand():
    shape = cost.Shape(layers=1, d=4, heads=2, kv_heads=1, head_dim=3, intermediate=5, vocabulary=7)
    tokens = 6
    products = 4 * 6 + 2 * (4 * 3) + 6 * 4 + 3 * (4 * 5)  # queries, keys and values, output, feed-forward
    scores = 2 * (tokens * tokens * 3) * 2  # two heads: query times key, then score times value
    assert shape.flops(tokens) == 2 * tokens * products + 2 * scores


@pytest.mark.parametrize("grouped", [False, True])
def test_the_cpu_kernel_of_attention_is_counted_forward_and_backward(grouped):
    B, H, T, w = 2, 4, 7, 8
    q = torch.randn(B, H, T, w, requires_grad=True)
    k = torch.randn(B, 2 if grouped else H, T, w, requires_grad=True)
    forward = cost.flops(lambda: F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=grouped))
    assert forward == 2 * (2 * B * H * T * T * w)
    if not grouped:
        both = cost.flops(lambda: F.scaled_dot_product_attention(q, k, k).sum().backward())
        assert both == forward + 5 * (2 * B * H * T * T * w)  # the scores once more, and four products of gradients


def test_the_kernel_and_attention_written_out_count_alike_in_a_backbone():
    tiny, ids = backbone.load("tiny"), torch.zeros(3, 5, dtype=torch.long)
    with torch.no_grad():
        kernel = cost.flops(tiny.run, ids)
        tiny.model.set_attn_implementation("eager")
        assert kernel == cost.flops(tiny.run, ids) == cost.Shape.of(tiny.model.config).flops(5, batch=3)


def test_layers_that_are_left_out_cost_nothing():
    shape = cost.Shape.of(small())
    assert shape.flops(9, layers=0) == 0
    assert 4 * shape.flops(9, layers=1) == shape.flops(9)


# ---- memory ------------------------------------------------------------------------------------------------------


def test_the_ledger_adds_what_lives_at_the_same_time_and_counts_views_once():
    with Ledger() as ledger:
        a = torch.empty(1000, device="meta")
        b = a + 1
        view = b.view(10, 100)
        del a
        c = view * 2
        del b, view
        assert ledger.peak() == 8000
        assert ledger.peak(without=[ledger.watch(c)]) == 8000
        del c
        torch.empty(2500, device="meta")
    assert ledger.peak() == 10_000


def test_memory_of_a_linear_map_by_hand():
    layer = nn.Linear(50, 20, bias=False, device="meta")
    x = torch.empty(8, 50, device="meta")
    optimiser = torch.optim.AdamW(layer.parameters(), foreach=False)
    memory = measure(list(layer.parameters()), lambda: layer(x).sum().backward(), optimiser)
    weights = 50 * 20 * 4
    assert (memory.weights, memory.gradients) == (weights, weights)
    assert memory.optimiser == 2 * weights + 4  # two moments, and the number of steps
    assert memory.peak <= memory.weights + memory.gradients + memory.optimiser + memory.working


@pytest.mark.parametrize("top_layers", [0, 2])
def test_leaving_out_frozen_layers_that_are_alike_changes_nothing(top_layers, monkeypatch):
    deep = small(num_hidden_layers=6)
    thin = cost.training_memory(deep, 3, 11, 5, top_layers)
    from redlib.cost import memory

    whole = cost.skeleton(deep, top_layers)
    monkeypatch.setattr(memory, "_thin", lambda *_: (whole, 0))
    assert thin == memory.training_memory(deep, 3, 11, 5, top_layers)


def test_memory_has_the_weights_gradients_and_moments_of_what_is_trained():
    made, classes = small(), 5
    shape = cost.Shape.of(made)
    trained = 2 * shape.layer_parameters + shape.d * classes + classes
    training, inference = cost.training_memory(made, 3, 11, classes), cost.inference_memory(made, 3, 11)
    assert training.gradients == 4 * trained
    assert training.optimiser == pytest.approx(8 * trained, rel=0.01)  # and a count of steps a tensor
    assert inference.weights == 4 * sum(shape.parameters.values())
    assert (inference.gradients, inference.optimiser) == (0, 0)
    assert training.working > inference.working
    assert cost.training_memory(made, 3, 11, classes, dtype=torch.bfloat16).weights * 2 == training.weights


def test_a_longer_text_takes_more_and_a_wider_batch_as_well():
    peaks = [cost.training_memory(small(), batch, tokens, 5).working for batch, tokens in ((2, 8), (2, 32), (8, 32))]
    assert peaks == sorted(set(peaks))


def test_a_real_step_runs_and_reports_the_peak_of_its_process():
    for step in ("training", "inference"):
        seen = run_step(small(), step, 2, 8, 5)
        assert 0 <= seen["before"] <= seen["peak"]
    with pytest.raises(ValueError, match="training, inference"):
        cost.measured_peak("qwen3-0.6b", "sleeping")
    with pytest.raises(ValueError, match="valid names"):
        cost.measured_peak("gpt2", "training")


# ---- the front ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_the_front_is_who_nobody_beats(points):
    frame = pd.DataFrame(points, columns=["parameters", "value"])
    for row, kept in zip(points, cost.front(frame, "parameters"), strict=True):
        beaten = any(other != row and other[0] <= row[0] and other[1] >= row[1] for other in points)
        assert kept == (not beaten)


# ---- tables, figures, verdicts -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile():
    return config.load("smoke")


@pytest.fixture(scope="module")
def tables(profile):
    return study.table(profile, "cost"), study.table(profile, "cost_curves")


@pytest.fixture(scope="module")
def scores():
    """Accuracies of Task 1: RED above all but one plain network."""
    lines = []
    for i, name in enumerate(models.METHODS):
        better = 0.1 if name == "fourier_full_data" else -0.01 * i
        gap = {"metric": "value_accuracy_below_red", "value": -better, "low": -better - 0.001, "high": -better + 0.001}
        level = {"metric": "value_accuracy", "value": 0.6 + better, "low": 0.5, "high": 0.8}
        lines += [{"method": name, **row} for row in (gap, level)]
    frame = pd.DataFrame(lines)
    about = {"task": "task1", "variant": "chosen", "part": "test", "seed": "all", "group": "all", "n": 100}
    return pd.concat([frame.assign(split=split, **about) for split in ("structure", "text")], ignore_index=True)


def test_the_tables_hold_closed_forms_that_the_counts_confirm(tables, profile):
    costs, _ = tables
    assert set(costs["variant"]) == {"tiny", *cost.SHAPES}
    for metric in ("parameters", "extra_flops"):
        keys = ["variant", "rank", "method"]
        both = results.select(costs, method=list(cost.NAMES), metric=[metric, f"{metric}_counted"])
        wide = both.pivot(index=keys, columns="metric", values="value")
        assert len(wide) >= 3 * 3 * len(cost.NAMES)
        assert (wide[metric] == wide[f"{metric}_counted"]).all()
    assert results.pick(costs, metric="tokens_min")["value"] >= 1
    assert profile.chosen.rank in set(results.select(costs, variant="tiny", method="red")["rank"])


def test_a_share_is_what_is_added_over_the_pass(tables, profile):
    _, curves = tables
    shape = cost.Shape.of(cost.configuration("qwen3-0.6b"))
    router = results.pick(curves, variant="qwen3-0.6b", method="router", curve="tokens", x=8.0, rank=128)
    s = Sizes(1024, task1.labels(profile).C, task1.labels(profile).K, 128, cost_tables.HIDDEN)
    assert router["value"] == pytest.approx(cost.router_cost(s).flops / shape.flops(8), rel=1e-4)


def test_accuracies_get_the_cost_of_their_own_rank(tables, scores):
    costs, _ = tables
    red = results.select(scores, method="red", split="structure", metric="value_accuracy")
    by_rank = cost.with_cost(pd.concat([red.assign(rank=4), red.assign(rank=8)]), costs)
    assert list(by_rank["parameters"]) == [cost.method_cost("red", Sizes(32, 99, 5, r, 16)).parameters for r in (4, 8)]
    with pytest.raises(LookupError, match="red of rank 5 on tiny"):
        cost.with_cost(red, costs, 5)


def test_every_section_of_the_claims_gets_a_verdict(tables, scores, profile):
    labels = task1.labels(profile)
    found = claims.cost_verdicts(*tables, scores, labels, profile.chosen.rank)
    assert set(results.select(claims.load(), task="cost")["section"]) <= set(found["section"])
    verdict = found.groupby("claim")["verdict"].first()
    assert verdict["parameters of red: K(dr + rC) + Kd"] == claims.FAILS
    assert verdict["parameters of softmax_moe: KdC + Kd"] == claims.HOLDS
    assert verdict["RED is the most parameter-efficient multi-expert design"] == claims.FAILS
    assert verdict["the router costs next to nothing"] == claims.HOLDS
    assert verdict["training fits"] == claims.HOLDS
    assert verdict["and none of the plain networks on the same features has a better one"] == claims.FAILS
    best = "RED has the best balance of accuracy and cost of all multi-expert models"
    assert verdict[best] == claims.HOLDS
    equal = (scores["method"] == "red_uniform") & (scores["metric"] == "value_accuracy_below_red")
    level = scores.assign(low=scores["low"].mask(equal, -0.2))
    again = claims.cost_verdicts(*tables, level, labels, profile.chosen.rank).groupby("claim")["verdict"].first()
    assert again[best] == claims.OPEN


def test_the_figures_draw_what_the_tables_hold(tables, scores, profile):
    costs, curves = tables
    names = list(cost.SHAPES)
    ranks = {name: [cost.Shape.of(cost.configuration(name)).d // part for part in (8, 4, 2)] for name in names}
    even = figures.draw_break_even(curves, names, ranks)
    line = even.axes[1].lines[-1]
    assert np.allclose(
        line.get_ydata(), [cost.break_even("red/public", 1024, int(C), 5) for C in line.get_xdata()], 1e-4
    )
    figures.draw_parameters_by_rank(curves, names[1], ranks[names[1]])
    figures.draw_shares(curves, names, {name: ranks[name][1] for name in names}, 0.005, (8, 20))
    figures.draw_memory(costs, curves, names[1], 6.5)
    pareto = figures.draw_pareto(scores, costs, profile.chosen.rank, "smoke", note=figures.NO_EVIDENCE)
    labels = {text.get_text() for text in pareto.legends[0].get_texts()}
    assert {"RED", "softmax mixture", "Fourier network, all rows"} <= labels


def test_measuring_is_a_command_of_its_own(capsys, monkeypatch):
    from redlib.cost import __main__ as command

    asked = []
    monkeypatch.setattr("sys.argv", ["cost", "--backbone", "smollm2-135m", "--batch", "1", "--tokens", "2"])
    monkeypatch.setattr(
        command, "measured_peak", lambda *given: asked.append(json.dumps(given)) or {"before": 1e9, "peak": 2e9}
    )
    command.main()
    assert asked == [json.dumps(["smollm2-135m", step, 1, 2, 99]) for step in ("training", "inference")]
    assert capsys.readouterr().out.count("counted peak") == 2
    monkeypatch.setattr("sys.argv", ["cost", "--tokens", "0"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert capsys.readouterr().err == "python -m redlib.cost: --tokens must be at least 1, got 0\n"


def test_a_step_that_the_machine_cannot_hold_is_one_sentence_with_its_count(capsys, monkeypatch):
    from redlib.cost import __main__ as command

    monkeypatch.setattr("sys.argv", ["cost", "--backbone", "smollm2-135m", "--batch", str(10**13), "--tokens", "2"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "measuring training of smollm2-135m failed" in said
    assert float(said.split("counted are ")[1].split(" GB")[0]) > 1e6
