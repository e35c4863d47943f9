"""Sparse mixtures against dense transformers: counts, routing, what rests, the measurement, and what follows."""

import copy
import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import bench, claims, config, cost, datasets, figures, study
from redlib.bench import sparse as bench_sparse
from redlib.claims import sparse as source
from redlib.sparse import corpus, designs, models, pretrained, quantised, recommend, serving, spent, training
from redlib.study import sparse as sparse_study
from redlib.widgets import RecommendationWidget

LINEUP = designs.lineup(300, 16, 2, specialists=(3,), context=64)
SPARSE = {"sparse.seeds": 1, "sparse.specialists": [3], "sparse.pretrained": ["tiny"]}
by_name = pytest.mark.parametrize("name", LINEUP)


@pytest.fixture(scope="module")
def documents():
    pools = [datasets.build(task, 100, 0) for task in ("task1", "task2")]
    frame = corpus.documents(*pools)
    tokens = corpus.tokenizer([*frame["prompt"], *frame["completion"]])
    return corpus.Corpus.of(frame.sample(frac=1, random_state=0), tokens), tokens


def ids_of(batch=2, length=7, seed=0):
    return torch.randint(0, 300, (batch, length), generator=torch.Generator().manual_seed(seed))


def lively(design, seed=0):
    """A model whose routers tell texts apart."""
    model = models.build(design, seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "router" in name or "gate.weight" in name or "embed" in name:
                weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(seed)))
    return model


def ticks(step=1.0):
    """A clock that moves on by `step` seconds whenever it is read."""
    return map(float, itertools.count(0, step)).__next__


# ---- counts ------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=12)
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


# ---- corpus and training -----------------------------------------------------------------------------------------


def test_documents_are_questions_with_answers_and_programs(documents):
    made, tokens = documents
    assert set(made.about["kind"]) == set(corpus.KINDS)
    row = made.about[made.about["kind"] == "program"].iloc[0]
    assert row["completion"].startswith("Step 1: ")
    for i in range(5):
        text = made.about["prompt"].iloc[i] + made.about["completion"].iloc[i]
        assert tokens.decode(made.ids[i, : made.lengths[i] - 1]) == text
    assert len(tokens("2048")["input_ids"]) == 4


def test_the_loss_is_on_completions_only(documents):
    some = documents[0].batch(np.arange(4))
    assert some.ids.shape[1] == some.lengths.max()
    for i in range(4):
        wanted = some.ids[i, 1:][some.targets[i]]
        assert torch.equal(wanted, some.ids[i, some.prompts[i] : some.lengths[i]])


def test_training_lowers_the_loss_on_the_same_tokens_for_every_model(documents):
    seen = []
    for name in ("dense_a", "moe_top1", "alchemist_sparse_3"):
        design = designs.lineup(len(documents[1]), 16, 1)[name]
        history = training.train(models.build(design), documents[0], 24, 16, 1e-2, 0.02, seed=0, every=6)
        assert history["loss"].iloc[-1] < history["loss"].iloc[0]
        assert history["balance"].notna().all() == (name != "dense_a")
        seen.append(history["tokens"].tolist())
    assert seen[0] == seen[1] == seen[2]


def test_a_batch_beyond_the_corpus_is_refused(documents):
    model = models.build(designs.lineup(len(documents[1]), 16, 1)["dense_a"])
    with pytest.raises(ValueError, match="a batch of 1000 documents was asked for, and the corpus has"):
        training.train(model, documents[0], 1, 1000, 1e-3, 0.0, seed=0)


def test_exact_means_that_greedy_decoding_writes_the_completion(documents):
    made = documents[0].batch(np.flatnonzero(documents[0].about["kind"] == "task1")[:8])
    model = models.build(designs.lineup(len(documents[1]), 16, 1)["dense_a"])
    training.train(model, made, 60, 8, 2e-2, 0.0, seed=0)
    found, wrote = training.score(model, made), []
    with torch.no_grad():
        for i in range(len(made)):
            ids = made.ids[i : i + 1, : made.prompts[i]]
            while ids.shape[1] < made.lengths[i]:
                ids = torch.cat([ids, models.advance(model, ids, cache=False)[0].argmax(-1, keepdim=True)], 1)
            wrote.append(int(torch.equal(ids[0], made.ids[i, : made.lengths[i]])))
    assert found["exact"].tolist() == wrote
    assert found["tokens"].tolist() == (made.lengths - made.prompts).tolist()


class Scripted(torch.nn.Module):
    """Writes after each of some texts (token ids) the next token of its script, then END."""

    def __init__(self, scripts, words, end):
        super().__init__()
        self.words, self.end = words, end
        self.after = {tuple(s[:place]): s[place] for s in scripts for place in range(1, len(s))}

    def forward(self, ids, use_cache, logits_to_keep, **state):
        (before,) = state.values()
        whole = ids if before is None else torch.cat([before, ids], 1)
        following = torch.tensor([self.after.get(tuple(row), self.end) for row in whole.tolist()])
        logits = F.one_hot(following, self.words).float()[:, None]
        return SimpleNamespace(logits=logits, **dict.fromkeys(state, whole))


def test_an_answer_without_training_is_the_first_number_that_is_written(documents):
    tokens = documents[1]
    questions = ["What is 4 plus 5?", "What is 14 plus 3?", "What is 2 plus 2?", "What is 4 plus 4?"]
    wrote = [" 9.", "\n17 or", "four, 4", " 88"]
    texts = [pretrained.WORDING.format(q) + w for q, w in zip(questions, wrote, strict=True)]
    scripts = [[*tokens(text, add_special_tokens=False)["input_ids"], tokens.eos_token_id] for text in texts]
    model = Scripted(scripts, len(tokens), tokens.eos_token_id)
    assert pretrained.right(model, tokens, questions, [9, 17, 4, 8]).tolist() == [True, True, False, False]


def test_the_load_balance_term_is_one_at_equal_use_and_larger_otherwise():
    scores = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
    assert training.balance_of(scores, torch.eye(3)).item() == pytest.approx(1.0)
    leaning = torch.tensor([[0.8, 0.1, 0.1]])
    assert training.balance_of(leaning, torch.tensor([[1.0, 0, 0]])).item() == pytest.approx(2.4)


def test_short_and_long_documents_apart_have_the_gradient_of_the_batch(documents):
    model = models.build(designs.lineup(len(documents[1]), 16, 1)["dense_a"])
    some = documents[0].batch(np.arange(20))
    found, _ = training._backward(model, some, 0.0)
    grads = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    loss = training.losses(model, some)[0] / some.targets.sum()
    loss.backward()
    assert found == pytest.approx(loss.item(), rel=1e-5)
    for grad, p in zip(grads, model.parameters(), strict=True):
        torch.testing.assert_close(grad, p.grad, rtol=1e-3, atol=1e-6)


@by_name
def test_shares_of_the_choices_sum_to_one(name, documents):
    design = designs.lineup(len(documents[1]), 16, 2, specialists=(3,))[name]
    shares = training.loads(models.build(design), documents[0])
    rows = {"dense_a": 0, "dense_b": 0, "moe_top1": 2, "moe_top2": 2}.get(name, 1)
    assert len(shares) == rows
    np.testing.assert_allclose(shares.sum(1), 1.0)


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


@settings(deadline=None)
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


# ---- the source's table ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "reported"), [(2308, 0.063), (5827, 0.025), (1798, 0.081)])
def test_one_price_gives_the_three_costs_of_the_source(rate, reported):
    assert round(serving.cost_per_million(rate, serving.PRICE), 3) == reported


def test_the_fifteen_numbers_and_the_percentages_are_claims():
    rows = claims.load()
    assert (rows["section"] == source.TABLE).sum() == 15
    table = source.source_table()
    assert table.loc["alchemist_moe", ["tokens_per_second", "vram_gb"]].tolist() == [1798, 0.095]
    price = source.implied_price(table)
    assert price["low"].max() < serving.PRICE < price["high"].min()
    shares = source.percentages(table)
    assert shares["reported"].tolist() == [22, 69, 82, 28, 3, 5]
    assert ((shares["computed"] - shares["reported"]).abs() < 1).all()
    assert len(source.corrections(table)) == 6


# ---- the recommendation ------------------------------------------------------------------------------------------

OPTIONS = pd.DataFrame(
    {
        "model": ["small", "large", "thin", "given"],
        "batch": 8,
        "memory_bytes": [1e9, 4e9, 4e9, 1e9],
        "tokens_per_second": [400.0, 100.0, 200.0, 900.0],
        "loss": [2.0, 1.0, 1.02, np.nan],
        "loss_low": [1.9, 0.95, 0.99, np.nan],
    }
)


def test_the_cheapest_that_fits_and_is_good_is_recommended():
    table = recommend.recommend(OPTIONS, 8, 5.0, 3.6).set_index("model")
    assert table.index[table["choice"]].tolist() == ["thin"]
    assert table.loc["thin", "cost_per_million"] == pytest.approx(5.0)
    tight = recommend.recommend(OPTIONS, 8, 2.0, 3.6)
    assert tight.loc[tight["choice"], "model"].tolist() == ["small"]
    nothing = recommend.recommend(OPTIONS, 8, 0.5, 3.6)
    assert not nothing["choice"].any()
    assert "no model with a measured loss fits" in recommend.said(nothing, 8, 0.5, 3.6)


@settings(deadline=None)
@given(st.floats(0.01, 100), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_price_never_changes_the_choice_and_what_is_chosen_fits(limit, price, other):
    table, again = (recommend.recommend(OPTIONS, 8, limit, given) for given in (price, other))
    assert table.loc[table["choice"], "model"].tolist() == again.loc[again["choice"], "model"].tolist()
    assert (table.loc[table["choice"], "memory_gb"] <= limit).all()


def test_limits_and_batches_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="a memory limit must be positive, got 0"):
        recommend.recommend(OPTIONS, 8, 0.0, 1.0)
    with pytest.raises(ValueError, match="no model was measured at a batch of 3; measured: 8"):
        recommend.recommend(OPTIONS, 3, 1.0, 1.0)


def test_the_widget_redraws_the_recommendation_and_says_what_is_not_possible():
    widget = RecommendationWidget(OPTIONS, 3.6)
    assert "thin, at 5 per million tokens" in widget.table.value
    widget.sliders["limit"].value = 2_000
    assert "small, at 2.5 per million tokens" in widget.table.value
    widget.sliders["price"].value = 0.0
    assert "a price per hour must be positive, got 0.0" in widget.table.value
    assert "<table" not in widget.table.value
    widget.sliders["price"].value = 7.2
    assert "small, at 5 per million tokens" in widget.table.value


# ---- the chapter's tables, figures and benchmark -----------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(cache):
    profile = config.load("smoke", SPARSE)
    names = ("models", "quality", "training", "serving", "growth", "time")
    return profile, {name: study.table(profile, f"sparse_{name}", say=lambda line: None) for name in names}


def test_the_tables_are_whole_and_their_counts_agree(tables):
    _, made = tables
    sizes = made["models"].pivot(index="method", columns="metric", values="value")
    small = sizes.loc[list(quantised.OF_DENSE)]
    assert (small["stored_bytes"] < sizes.loc["dense_b", "stored_bytes"]).all()
    assert (small["total"] == sizes.loc["dense_b", "total"]).all()
    sizes = sizes.drop(index=list(quantised.OF_DENSE))
    assert (sizes["total"] == sizes["total_counted"]).all()
    assert (sizes["flops"] == sizes["flops_counted"]).all()
    rows = made["quality"]
    gap = rows[(rows["metric"] == "loss_minus_dense_a") & (rows["group"] == "all")].set_index("method")["value"]
    loss = rows[(rows["metric"] == "loss") & (rows["group"] == "all") & (rows["seed"] == "all")]
    loss = loss.set_index("method")["value"]
    np.testing.assert_allclose(gap, (loss - loss["dense_a"])[gap.index], atol=1e-4)
    shares = made["time"][made["time"]["metric"] == "share"].groupby(["method", "batch"])["value"].sum()
    np.testing.assert_allclose(shares, 1.0, atol=1e-4)
    assert set(made["serving"]["variant"]) == {*serving.PROTOCOLS, "no cache"}


def test_every_root_cause_and_recommendation_gets_a_verdict(tables):
    profile, made = tables
    causes = source.root_causes(made["serving"], made["time"])
    assert causes["claim"].str[0].unique().tolist() == ["1", "2", "3", "4"]
    assert set(causes["verdict"]) <= {claims.HOLDS, claims.FAILS, claims.OPEN}
    decided = source.decisions(made["quality"], made["serving"], made["growth"], profile.sparse.price)
    assert set(decided["verdict"]) <= {source.KEPT, source.CHANGED, source.UNKNOWN}
    assert len(decided) == 10
    options = source.options(made["quality"], made["serving"])
    assert set(options["batch"]) == set(profile.sparse.batches)
    assert options.loc[options["loss"].isna(), "model"].unique().tolist() == ["tiny"], "the one that was not trained"


def test_a_pretrained_model_is_measured_where_it_is_at_hand_and_the_profiles_own_always(monkeypatch):
    monkeypatch.setattr(sparse_study.backbone, "present", lambda name: False)
    asked = {**SPARSE, "sparse.pretrained": ["tiny", "qwen3-0.6b"]}
    assert sparse_study.at_hand(config.load("smoke", asked)) == ["tiny"]


def test_the_default_price_is_the_sources():
    assert config.load("full").sparse.price == serving.PRICE


def test_advice_about_memory_follows_losses_and_bytes(tables):
    profile, made = tables
    rows = made["quality"]

    def verdict(claim, method, other, low, high, bytes_=None):
        frame, served = rows.copy(), made["serving"].copy()
        here = (frame["method"] == method) & (frame["metric"] == f"loss_minus_{other}") & (frame["group"] == "all")
        frame.loc[here, ["value", "low", "high"]] = [(low + high) / 2, low, high]
        if bytes_:
            whole = (served["method"] == method) & (served["metric"] == "bytes") & (served["group"] == "all")
            served.loc[whole, "value"] = bytes_
        found = source.decisions(frame, served, made["growth"], profile.sparse.price).set_index("recommendation")
        return found.loc[claim, "verdict"]

    spare, four = "optimise memory rather than use sparsity", "dense_b_int4"
    assert verdict(spare, four, "moe_top1", -0.1, 0.1, 1.0) == source.KEPT
    assert verdict(spare, four, "moe_top1", 0.1, 0.2, 1.0) == source.CHANGED
    assert verdict(spare, four, "moe_top1", -0.1, 0.1, 1e12) == source.CHANGED
    benefit = "the router adds overhead without benefits"
    limits = {(-0.2, -0.1): source.CHANGED, (0.1, 0.2): source.KEPT, (-0.1, 0.1): source.UNKNOWN}
    assert {limit: verdict(benefit, "moe_top1", "dense_a", *limit) for limit in limits} == limits


def test_figures_draw_every_model(tables):
    _, made = tables
    fig = figures.draw_quality_speed(made["quality"], made["serving"], 2, "smoke")
    assert len(fig.axes[0].containers) == len(LINEUP) + len(quantised.OF_DENSE)
    fig = figures.draw_time_parts(made["time"], "smoke")
    assert len(fig.axes[0].patches) == len(LINEUP) * len(spent.PARTS)
    fig = figures.draw_growth(made["growth"], "smoke")
    assert [len(ax.containers) for ax in fig.axes] == [3, 2, len(models.BACKENDS)]
    assert len(figures.draw_protocols(made["serving"], "smoke").axes[0].get_yticks()) == len(LINEUP)


@pytest.mark.parametrize("protocol", serving.PROTOCOLS)
def test_the_benchmark_writes_csv_and_json_only_when_asked(protocol, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench_sparse, "SIZES", {True: (8, 2, (1,), 1)})
    monkeypatch.setattr(bench_sparse, "ROWS", 100)
    monkeypatch.setattr(bench_sparse.paths, "results", lambda profile: tmp_path / profile)
    frame = bench.run("sparse", {"quick": True, "price": 3.6, "protocol": protocol, "write": protocol == "serving"})
    rate = "system_tokens_per_second" if protocol == "serving" else "tokens_per_second"
    rows = frame.pivot(index="case", columns="metric", values="value")[[rate, "cost_per_million"]].dropna()
    assert len(rows) == 8 + len(quantised.OF_DENSE)
    np.testing.assert_allclose(rows["cost_per_million"] * rows[rate], 1000)
    there = {path.name for path in tmp_path.rglob("*.*")}
    assert there == ({"sparse.csv", "sparse.json"} if protocol == "serving" else set())
