"""Sparse and dense models: parameters and FLOPs in closed form, routing, what rests, and weights of few bits."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from lineups import LINEUP, by_name, ids_of, lively

from redlib import cost
from redlib.sparse import designs, models, quantised

# ---- counts ------------------------------------------------------------------------------------------------------


@settings(max_examples=12)
@given(st.sampled_from(designs.KINDS), st.integers(1, 3), st.integers(1, 2), st.integers(1, 4), st.data())
def test_parameters_and_flops_in_closed_form_are_those_of_the_modules(kind, eights, layers, experts, data):
    experts = 1 if kind == "dense" else experts
    active = data.draw(st.integers(1, experts)) if kind == "experts" else experts
    design = designs.Design(kind, 50, 8 * eights, layers, 12, experts, active, context=32)
    model = models.build(design)
    assert sum(p.numel() for p in model.parameters()) == design.total
    ids = ids_of(1, 6).repeat(2, 1) % 50
    with torch.no_grad():
        state = models.advance(model, ids)[1]
        prefill = cost.flops(torch.no_grad()(models.advance), model, ids) / 2
        step = cost.flops(torch.no_grad()(models.advance), model, ids[:, :1], state) / 2
    assert prefill == design.flops(6)
    assert step == design.flops(1, 6)


def test_the_line_up_is_equal_where_it_says_so():
    wide = designs.lineup(400, 128, 2)
    assert wide["dense_a"].active_parameters == wide["dense_a"].total
    for name in ("moe_top1", "moe_top2", "alchemist_sparse_3"):
        assert abs(wide[name].active_parameters / wide["dense_a"].total - 1) < 0.02
        assert abs(wide[name].total / wide["dense_b"].total - 1) < 0.02
    assert wide["alchemist_soft_3"].active_parameters == wide["alchemist_soft_3"].total


# ---- the modules -------------------------------------------------------------------------------------------------


def test_one_expert_is_the_dense_model():
    dense = models.build(LINEUP["dense_a"])
    one = models.build(designs.Design("experts", 300, 16, 2, LINEUP["dense_a"].inner, context=64), seed=5)
    stored = dense.state_dict()
    renamed = {name: value for name, value in stored.items() if ".mlp." not in name}
    for i, layer in enumerate(dense.model.layers):
        at = f"model.layers.{i}.mlp."
        renamed[at + "gate.weight"] = one.state_dict()[at + "gate.weight"]
        both = torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight])
        renamed[at + "experts.gate_up_proj"] = both[None]
        renamed[at + "experts.down_proj"] = layer.mlp.down_proj.weight[None]
    one.load_state_dict(renamed)
    torch.testing.assert_close(models.advance(one, ids_of())[0], models.advance(dense, ids_of())[0])


def test_one_specialist_is_the_dense_model():
    dense = models.build(LINEUP["dense_a"])
    one = models.build(designs.Design("specialists", 300, 16, 2, LINEUP["dense_a"].inner, context=64), seed=5)
    one.embed.weight.data = dense.model.embed_tokens.weight.data
    stored = {name: value for name, value in dense.model.state_dict().items() if "embed" not in name}
    one.specialists[0].load_state_dict(stored)
    torch.testing.assert_close(models.advance(one, ids_of())[0], models.advance(dense, ids_of())[0])


@pytest.mark.parametrize("backend", models.BACKENDS)
@pytest.mark.parametrize("name", ["moe_top1", "moe_top2"])
def test_routing_is_that_of_a_loop_over_tokens_and_experts(name, backend):
    model = models.build(LINEUP[name], backend=backend)
    block = model.model.layers[0].mlp
    block.gate.weight.data.normal_()
    states = torch.randn(2, 5, 16)
    k, expected = LINEUP[name].active, torch.zeros(2, 5, 16)
    for b, t in itertools.product(range(2), range(5)):
        x = states[b, t]
        weights = (block.gate.weight @ x).softmax(-1)
        chosen = weights.argsort(descending=True)[:k]
        total = weights[chosen].sum() if k > 1 else 1.0
        for e in chosen:
            gate, up = (block.experts.gate_up_proj[e] @ x).chunk(2)
            expected[b, t] += weights[e] / total * (block.experts.down_proj[e] @ (F.silu(gate) * up))
    with torch.no_grad():
        torch.testing.assert_close(block(states), expected, rtol=1e-4, atol=1e-6)


def test_specialists_that_rest_get_no_call_and_no_gradient():
    model = lively(LINEUP["alchemist_sparse_3"]).train()
    ids = ids_of(4, 9, seed=3)
    with models.counted_runs(model) as runs:
        states, chosen = model(ids)
        model.logits(states).square().mean().backward()
    assert runs == (chosen.weights > 0).sum(0).tolist()
    assert sum(runs) == 4
    assert 0 in runs
    for specialist, ran in zip(model.specialists, runs, strict=True):
        grads = [p.grad for p in specialist.parameters()]
        assert all(g is None for g in grads) if not ran else all(g.abs().sum() > 0 for g in grads)
    assert model.router.weight.grad.abs().sum() > 0


def test_experts_that_no_token_chose_get_no_gradient():
    model = lively(LINEUP["moe_top1"]).train()
    done = model(ids_of(1, 3), use_cache=False, output_router_logits=True)
    done.logits.square().mean().backward()
    for layer, logits in zip(model.model.layers, done.router_logits, strict=True):
        used = set(logits.argmax(-1).tolist())
        sums = layer.mlp.experts.down_proj.grad.abs().sum((1, 2))
        assert {e for e in range(4) if sums[e] > 0} == used
        assert len(used) < 4


def test_the_largest_weight_never_rests_and_a_threshold_of_zero_lets_none_rest():
    model = lively(LINEUP["alchemist_sparse_3"])
    scores = torch.tensor([[0.4, 0.35, 0.25], [0.2, 0.7, 0.1]])
    assert model.resting(scores).tolist() == [[scores[0, 0].item(), 0, 0], [0, scores[1, 1].item(), 0]]
    model.threshold = 0.3
    assert (model.resting(scores) > 0).tolist() == [[True, True, False], [False, True, False]]
    model.threshold = 0.0
    assert torch.equal(model.resting(scores), scores)


def test_the_router_of_specialists_reads_the_prompt_only():
    model = lively(LINEUP["alchemist_soft_3"])
    ids = ids_of(2, 9)
    other = ids.clone()
    other[:, 5:] = 7
    prompts = torch.tensor([5, 4])
    assert torch.equal(model.scores(ids, prompts), model.scores(other, prompts))
    torch.testing.assert_close(model.scores(ids, torch.tensor([9, 9])), model.scores(ids))


@by_name
@torch.no_grad()
def test_a_step_with_a_cache_is_the_pass_over_the_whole_text(name):
    model = lively(LINEUP[name])
    ids = ids_of(3, 8)
    state = models.advance(model, ids[:, :6])[1]
    after = models.advance(model, ids[:, 6:], state)[0]
    if isinstance(model, models.Alchemist):
        whole = model.logits(model(ids, torch.tensor([6, 6, 6]))[0][:, -1])
    else:
        whole = models.advance(model, ids, cache=False)[0]
    torch.testing.assert_close(after, whole, rtol=1e-3, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize(("bits", "error", "size"), [(8, 0.01, 4), (4, 0.12, 6)])
@pytest.mark.parametrize("shape", [(32, 64), (40, 24)], ids=["whole groups", "padded"])
def test_weights_of_few_bits_are_close_and_small_and_the_model_that_they_come_from_stays(bits, error, size, shape):
    torch.manual_seed(0)
    linear, x = torch.nn.Linear(*shape, bias=False), torch.randn(3, 5, shape[0])
    small = quantised.KINDS[bits](linear)
    assert small(x).dtype == torch.float32
    assert (small(x) - linear(x)).norm() < error * linear(x).norm()
    assert (small(x) - linear(x)).norm() > 0
    if shape == (32, 64):
        assert linear.weight.nbytes / sum(t.nbytes for t in small.buffers()) > size - 0.5
    dense = models.build(LINEUP["dense_b"])
    before = copy.deepcopy(dense.state_dict())
    made = quantised.quantised(dense, bits)
    replaced = sum(m.weight.nbytes for m in dense.model.layers.modules() if isinstance(m, torch.nn.Linear))
    packed = sum(t.nbytes for m in made.modules() if isinstance(m, quantised.Quantised) for t in m.buffers())
    assert models.stored_bytes(made) == models.stored_bytes(dense) - replaced + packed
    assert packed < 0.6 * replaced, "scales and padding of layers this narrow included"
    assert all(torch.equal(before[name], value) for name, value in dense.state_dict().items())


@torch.no_grad()
def test_four_bits_are_the_sixteen_evenly_spaced_values_of_a_group():
    linear = torch.nn.Linear(quantised.GROUP, quantised.ROWS, bias=False)
    values = torch.linspace(-1, 1, 16).repeat(2).expand(quantised.ROWS, -1)
    linear.weight.copy_(values[:, torch.randperm(32)])
    read = quantised.Int4Linear(linear)(torch.eye(quantised.GROUP)).T
    torch.testing.assert_close(read, linear.weight.detach(), atol=0.01, rtol=0)
