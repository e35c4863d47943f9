"""FLOPs of the backbone against counts by hand, memory against tensors that are known."""

import json

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import nn

from redlib import backbone, cost
from redlib.cost.measured import run_step
from redlib.cost.memory import Ledger, measure


def small(**changes):
    """A Qwen3 configuration of 4 layers."""
    shape = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "head_dim": 6}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    return transformers.Qwen3Config(**shape | changes)


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
