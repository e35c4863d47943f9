"""The step decomposer: its grammar, its layers, decoding, scoring, errors by kind, and what it refuses."""

import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from redlib import backbone, config, decomposer, modules, phrasing, training
from redlib.backbone.layers import Tokens, room, run
from redlib.datasets import decomposer as data
from redlib.decomposer import Grammar, Sequences, Symbolic, Writer, Written, errors, greedy
from redlib.decomposer.grammar import REFUSED, START, WHOLE
from redlib.expressions import Expression, LabelSpace
from redlib.features import token_states
from redlib.models import LinearBank
from redlib.programs import Program, Step, check
from redlib.study.planner import written

MOST, LARGEST = 4, 100
GREEDILY = ("grounded", "grammatical", "unrestricted")


@pytest.fixture(scope="module")
def tiny():
    return backbone.load("tiny")


@pytest.fixture(scope="module")
def grammar(tiny):
    return Grammar.of(tiny, MOST, LARGEST)


@pytest.fixture(scope="module")
def records():
    return data.records(data.build(1_000, seed=3))


def passport(bone, **changes):
    return {
        "weights_id": bone.weights_id,
        "backbone": bone.name,
        "top_layers": bone.layers - bone.boundary,
        "max_operations": MOST,
        "largest": LARGEST,
        "split": "text",
        "seed": 0,
        "recipe": "planner",
        "layer": bone.boundary,
        "pooling": "none",
        "labels": LabelSpace(),
        "tokenizer": modules.tokenizer_id(bone),
        "dtype": "float32",
        "data": {},
        "training": {},
        "metrics": {},
        "versions": {},
        "licence": "MIT",
    } | changes


@pytest.fixture(scope="module")
def random_planner(tiny):
    """Nothing is trained; a large random readout makes it choose differently everywhere."""
    planner = decomposer.new(tiny, passport(tiny))
    generator = torch.Generator().manual_seed(1)
    planner.writer.readout.weight.data.normal_(0, 0.5, generator=generator)
    return planner


def sequences_of(planner, texts, programs):
    bone = planner.backbone
    states = token_states(bone, decomposer.spelled(bone, texts, programs), bone.boundary)
    return Sequences.of(bone, planner.grammar, texts, programs, states)


@pytest.fixture(scope="module")
def trained(tiny, records):
    """Trained on few short programs until it knows most of them: greedy decoding has right and wrong rows."""
    few = records[records["num_steps"] == 2].iloc[:40]
    texts, programs = few["expr"].tolist(), few["program"].tolist()
    planner = decomposer.new(tiny, passport(tiny))
    sequences = sequences_of(planner, texts, programs)
    rows = np.arange(len(few))
    loop = config.PlannerTraining(lr=1e-2, max_epochs=25, patience=25, batch=8, monitor="accuracy")
    whole = training.Rows(
        lambda i, _: sequences.batch(i[0], torch.device("cpu")), sequences.targets, [rows], [rows], "planner"
    )
    history = training.fit(planner.writer, whole, loop, lambda done: training.half_cosine(done, 0.1))
    return planner, texts, programs, sequences, history


# ---- the grammar -------------------------------------------------------------------------------------------------


def programs_of(draw):
    """A valid program with any operands, a chain or not."""
    steps = []
    for k in range(draw(st.integers(1, MOST))):
        operand = st.integers(0, LARGEST)
        operand = operand | st.sampled_from([f"x{j + 1}" for j in range(k)]) if k else operand
        steps.append(Step(draw(operand), draw(st.sampled_from("+-")), draw(operand)))
    return Program(tuple(steps), f"x{draw(st.integers(1, len(steps)))}")


def spell(bone, grammar, program):
    return [*grammar.places(bone.encode([program.text])[0]), grammar.end]


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_every_valid_program_is_in_the_grammar_and_reads_back(tiny, grammar, data):
    program = programs_of(data.draw)
    tokens = spell(tiny, grammar, program)
    states = grammar.walk(tokens)
    assert states[0] == START
    assert grammar.follows[states[-1], tokens[-1]] == WHOLE
    assert len(tokens) <= grammar.longest
    assert Program.read(grammar.text(tiny, tokens)) == program


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False))
def test_every_way_through_the_grammar_is_a_valid_program(tiny, grammar, random):
    state, tokens = START, []
    while state != WHOLE:
        tokens.append(random.choice(np.flatnonzero(grammar.allowed[state]).tolist()))
        state = grammar.follows[state, tokens[-1]]
    program = Program.read(grammar.text(tiny, tokens))
    check(program, MOST, LARGEST)
    assert spell(tiny, grammar, program) == tokens


def test_the_longest_program_is_as_long_as_the_grammar_says(tiny, grammar):
    steps = [Step(100, "+", 100)] * MOST
    assert len(spell(tiny, grammar, Program(tuple(steps), f"x{MOST}"))) == grammar.longest


def test_forced_tokens_are_all_that_may_follow_up_to_the_next_choice(grammar):
    for state, forced in enumerate(grammar.forced):
        for token in forced:
            assert np.flatnonzero(grammar.allowed[state]).tolist() == [token]
            state = grammar.follows[state, token]
        assert state == WHOLE or grammar.allowed[state].sum() > 1
    assert sum(map(len, grammar.forced)) > 0


@pytest.mark.parametrize(
    "text",
    [
        "Step 1: 33 + x1 = x1\nAnswer: x1",
        "Step 1: 101 + 2 = x1\nAnswer: x1",
        "Step 1: 02 + 2 = x1\nAnswer: x1",
        "Step 1: 3 + 2 = x2\nAnswer: x2",
        "Step 1: 3 + 2 = x1\nAnswer: x2",
        "Step 2: 3 + 2 = x1\nAnswer: x1",
        "Step 1: 3 + 2 = x1\nStep 2: x1 - 2",
        "Answer: x1",
    ],
)
def test_texts_that_are_no_program_are_not_in_the_grammar(tiny, grammar, text):
    with pytest.raises(ValueError, match="of the program is not allowed by the grammar"):
        grammar.walk([*grammar.places(tiny.encode([text])[0]), grammar.end])


def test_more_steps_than_the_grammar_has_are_refused(tiny, grammar):
    program = Program((Step(2, "+", 3), *[Step("x1", "+", 3)] * MOST), "x2")
    with pytest.raises(ValueError, match=r"is none of the|is not allowed"):
        grammar.walk(spell(tiny, grammar, program))
    with pytest.raises(ValueError, match=r"token \d+ of the program is none of the \d+ program tokens"):
        grammar.places(tiny.encode(["Step 1: 3 * 4 = x1"])[0])


def test_programs_of_more_than_nine_steps_have_a_grammar_too(tiny):
    grammar = Grammar.of(tiny, 11, 5)
    steps = [Step(2, "+", 3), *(Step(f"x{k}", "-", 1) for k in range(1, 11))]
    tokens = spell(tiny, grammar, Program(tuple(steps), "x11"))
    assert grammar.follows[grammar.walk(tokens)[-1], tokens[-1]] == WHOLE
    assert REFUSED not in grammar.follows[grammar.allowed]


# ---- layers ------------------------------------------------------------------------------------------------------


def padded(bone, texts):
    ids = bone.encode(texts)
    mask = torch.arange(max(map(len, ids))) < torch.tensor([len(i) for i in ids])[:, None]
    table = torch.zeros(mask.shape, dtype=torch.int64)
    table[mask] = torch.tensor(list(itertools.chain(*ids)))
    return table, mask


def test_layers_on_tokens_end_to_end_are_the_decoders_own(tiny, records):
    table, mask = padded(tiny, records["expr"].iloc[:9].tolist())
    own = tiny.run(table, mask, keep=[2, -1])
    row, position = mask.nonzero(as_tuple=True)
    top = tiny.top(2)
    with torch.no_grad():
        states = run(top.layers, top.rotary, own[2][mask], Tokens(row, position, len(mask)))
    torch.testing.assert_close(top.norm(states), own[-1][mask], rtol=1e-4, atol=1e-4)


def test_only_what_is_asked_is_computed_and_it_is_the_same(tiny, records):
    table, mask = padded(tiny, records["expr"].iloc[:5].tolist())
    row, position = mask.nonzero(as_tuple=True)
    tokens, top = Tokens(row, position, len(mask)), tiny.top(2)
    states = tiny.run(table, mask, keep=[2])[2][mask]
    asked = torch.tensor([0, 3, 4, len(row) - 1])
    with torch.no_grad():
        whole, some = (run(top.layers, top.rotary, states, tokens, asked=a) for a in (None, asked))
    torch.testing.assert_close(some, whole[asked], rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.integers(0, 99))
def test_kept_keys_and_values_stand_for_the_tokens_before(tiny, records, cuts, seed):
    texts = records["expr"].iloc[seed * 3 : seed * 3 + len(cuts)].tolist()
    table, mask = padded(tiny, texts)
    lengths, layers, rotary = mask.sum(1).tolist(), tiny.model.layers, tiny.model.rotary_emb
    row, position = mask.nonzero(as_tuple=True)
    with torch.no_grad():
        whole = run(layers, rotary, tiny.model.embed_tokens(table[mask]), Tokens(row, position, len(texts)))
        kept = room(layers, len(texts), max(lengths) + 3, whole)
        before = [min(n - 1, cut) for n, cut in zip(lengths, cuts, strict=True)]
        filled, said = [0] * len(texts), []
        for counts in (before, [n - b for n, b in zip(lengths, before, strict=True)]):
            if sum(counts):
                ids = [t for b, n in enumerate(counts) for t in table[b, filled[b] : filled[b] + n].tolist()]
                tokens = Tokens.following(counts, filled)
                said.append((tokens, run(layers, rotary, tiny.model.embed_tokens(torch.tensor(ids)), tokens, kept)))
                filled = [f + n for f, n in zip(filled, counts, strict=True)]
    found = torch.full((*mask.shape, whole.shape[-1]), torch.nan)
    for tokens, states in said:
        found[tokens.row, tokens.position] = states
    torch.testing.assert_close(found[mask], whole, rtol=1e-4, atol=1e-4)


def test_only_the_copied_layers_norm_and_readout_are_trained(tiny, grammar):
    before = {name: p.clone() for name, p in tiny.model.named_parameters()}
    writer = Writer.of(tiny, grammar)
    names = {name.partition(".")[0] for name, p in writer.named_parameters() if p.requires_grad}
    assert names == {"top", "readout"}
    assert writer.readout.weight.shape == (len(grammar.tokens), tiny.hidden_size)
    assert torch.equal(writer.readout.weight, tiny.model.embed_tokens.weight[grammar.tokens])
    ids = tiny.encode(["What is 2 plus 3"])[0]
    states, mask = torch.randn(1, len(ids), tiny.hidden_size), torch.ones(1, len(ids), dtype=torch.bool)
    writer(states, mask, torch.tensor([2])).sum().backward()
    assert all(p.grad is not None for p in writer.parameters())
    assert all(p.grad is None and torch.equal(p, before[name]) for name, p in tiny.model.named_parameters())
    with pytest.raises(ValueError, match="top_layers is 0 for tiny"):
        Writer.of(backbone.load("tiny", top_layers=0), grammar)


# ---- decoding ----------------------------------------------------------------------------------------------------


def test_grammatical_decoding_writes_valid_programs_only(random_planner, records):
    plans = random_planner.decompose_all(records["expr"].tolist(), "grammatical")
    assert len(plans) == 1_000
    for plan in plans:
        check(Program.read(plan.written), MOST, LARGEST)
        assert len(plan.probabilities) == len(plan.program.steps) + 1
        assert 0 < plan.probability <= min(plan.probabilities) <= 1
    assert len({plan.written for plan in plans}) > 20, "the readout chooses differently"


def test_grounded_decoding_reads_every_number_once_and_every_result_but_the_last_once(random_planner, records):
    plans = random_planner.decompose_all(records["expr"].tolist(), "grounded")
    assert len(plans) == 1_000
    for text, plan in zip(records["expr"], plans, strict=True):
        program = plan.program
        check(program, MOST, LARGEST)
        read = [operand for step in program.steps for operand in step.operands]
        numbers = [operand for operand in read if isinstance(operand, int)]
        assert sorted(numbers) == sorted(map(int, re.findall(r"[0-9]+", text)))
        assert sorted(set(read) - set(numbers)) == [f"x{k}" for k in range(1, len(program.steps))]
        assert len(read) == 2 * len(program.steps)
        assert program.answer == f"x{len(program.steps)}"


def test_an_unknown_way_of_decoding_is_refused(random_planner):
    with pytest.raises(ValueError, match="no decoding 'freely'; valid ways: searched, grounded, grammatical, "):
        random_planner.decompose("2 plus 3", "freely")


def one_by_one(planner, prompt, kept):
    """Greedy decoding without keys and values that are kept: the decoder's own layers over everything, every time."""
    bone, grammar, tokens, logs, state = planner.backbone, planner.grammar, [], [], START
    while len(tokens) < grammar.longest:
        ids = torch.tensor([[*prompt, *grammar.tokens[tokens].tolist()]])
        states = bone.run(ids, keep=[bone.boundary])[bone.boundary]
        top = planner.writer.top
        rotary = top.rotary(states, torch.arange(states.shape[1])[None])
        for layer in top.layers:
            states = layer(states, attention_mask=None, position_embeddings=rotary)
        said = planner.writer.readout(top.norm(states))[0, -1].log_softmax(-1)
        if kept:
            said = said.masked_fill(~torch.from_numpy(kept.allowed[state]), -torch.inf)
        log, token = said.max(-1)
        tokens.append(int(token))
        logs.append(float(log))
        if kept:
            state = kept.follows[state, tokens[-1]]
        if tokens[-1] == grammar.end:
            break
    return tokens, logs


@pytest.mark.parametrize("decoding", GREEDILY)
@pytest.mark.parametrize("which", ["random", "trained"])
def test_batches_with_kept_keys_equal_one_text_at_a_time_without(which, decoding, random_planner, trained, records):
    planner = random_planner if which == "random" else trained[0]
    texts = records["expr"].iloc[:4].tolist()
    prompts = planner.backbone.encode(decomposer.prompts(planner.backbone, texts))
    kept = planner.kept(texts, decoding)
    together = greedy(planner.backbone, planner.writer, planner.grammar, prompts, kept, batch=3)
    with torch.no_grad():
        for prompt, own, written in zip(prompts, kept or [None] * len(texts), together, strict=True):
            tokens, logs = one_by_one(planner, prompt, own)
            assert written.tokens == tokens
            np.testing.assert_allclose(written.logs, logs, atol=2e-3)


def test_a_program_that_has_begun_is_written_to_its_end(random_planner, records):
    bone, writer, grammar = random_planner.backbone, random_planner.writer, random_planner.grammar
    texts = records["expr"].iloc[:6].tolist()
    prompts, kept = bone.encode(decomposer.prompts(bone, texts)), random_planner.kept(texts, "grounded")
    whole = greedy(bone, writer, grammar, prompts, kept)
    begun = [one.tokens[: 5 * n] for n, one in enumerate(whole)]
    for one, again in zip(whole, greedy(bone, writer, grammar, prompts, kept, begun, batch=4), strict=True):
        assert again.tokens == one.tokens
        np.testing.assert_allclose(again.logs, one.logs, atol=2e-3)
    begun = [one.tokens for one in whole]
    assert [one.tokens for one in greedy(bone, writer, grammar, prompts, kept, begun)] == begun


def every_program(grammar):
    """All that a grammar allows."""
    found, open_ = [], [([], START)]
    while open_:
        tokens, state = open_.pop()
        if state == WHOLE:
            found.append(tokens)
        else:
            ways = np.flatnonzero(grammar.allowed[state]).tolist()
            open_ += [([*tokens, token], grammar.follows[state, token]) for token in ways]
    return found


@pytest.mark.parametrize("which", ["random", "trained"])
@pytest.mark.parametrize(
    ("text", "programs"), [("What is 12 plus 9?", 4), ("Take 7 from 31, then add 7.", 24), ("40 - 8 + 23", 48)]
)
def test_a_search_finds_the_most_probable_of_all_programs_about_the_numbers(
    which, text, programs, random_planner, trained
):
    planner = random_planner if which == "random" else trained[0]
    (grammar,) = planner.kept([text], "searched")
    every = every_program(grammar)
    assert len(every) == programs
    said = [planner.grammar.text(planner.backbone, tokens) for tokens in every]
    sequences = sequences_of(planner, [text] * len(every), said)
    _, logs = decomposer.margins(planner.writer, sequences, np.arange(len(every)), [None])
    best = int(logs.sum(1).argmax())
    plan = planner.decompose(text)
    assert plan.written == said[best]
    assert np.log(plan.probability) == pytest.approx(logs[best].sum(), abs=0.02)


def test_a_search_that_may_follow_no_other_beginning_is_greedy(random_planner, records, monkeypatch):
    from redlib.decomposer import decoding

    texts = records["expr"].iloc[:40].tolist()
    searched, greedily = (random_planner.decompose_all(texts, way) for way in ("searched", "grounded"))
    assert sum(a.written != b.written for a, b in zip(searched, greedily, strict=True)) > 5
    assert all(a.probability > b.probability * 0.99 for a, b in zip(searched, greedily, strict=True))
    monkeypatch.setattr(decoding, "BEGINNINGS", 0)
    assert random_planner.decompose_all(texts, "searched") == greedily


def test_a_forced_token_needs_no_pass_of_its_own_and_has_its_probability_all_the_same(
    random_planner, records, monkeypatch
):
    from redlib.decomposer import decoding

    passes = []
    own = decoding._Decoding._logs
    monkeypatch.setattr(decoding._Decoding, "_logs", lambda self, rows: passes.append(1) or own(self, rows))
    prompt = random_planner.backbone.encode(decomposer.prompts(random_planner.backbone, records["expr"].iloc[:1]))
    kept = random_planner.kept(records["expr"].iloc[:1], "grammatical")
    (written,) = greedy(random_planner.backbone, random_planner.writer, random_planner.grammar, prompt, kept)
    choices = int((random_planner.grammar.allowed[random_planner.grammar.walk(written.tokens)].sum(1) > 1).sum())
    assert len(passes) <= choices + 2, "the first and the last tokens of a program"
    assert len(passes) < len(written.tokens) / 2
    assert len(written.logs) == len(written.tokens)
    assert [place for place, _ in written.choices] == sorted({place for place, _ in written.choices})


def scored(planner, texts, sequences, batch=32):
    """Leads of all gold programs by every greedy way of decoding, and their log-probabilities."""
    modes = [planner.kept(texts, way) for way in GREEDILY]
    return decomposer.margins(planner.writer, sequences, np.arange(len(texts)), modes, batch)


@pytest.mark.parametrize("mode", range(len(GREEDILY)))
def test_scoring_with_the_gold_tokens_given_says_what_decoding_writes(trained, mode):
    planner, texts, programs, sequences, _ = trained
    ahead, logs = scored(planner, texts, sequences, batch=7)
    plans = planner.decompose_all(texts, GREEDILY[mode])
    right = np.array([plan.written == program for plan, program in zip(plans, programs, strict=True)])
    assert 0 < right.sum() < len(right), "both cases occur"
    clear = np.abs(ahead[:, mode]) > 0.02
    assert clear.mean() > 0.9
    assert ((ahead[:, mode] > 0) == right)[clear].all()
    for n in np.flatnonzero(right):
        target = [token for token in sequences.targets[n].tolist() if token != training.NO_TARGET]
        said = planner.plan(texts[n], Written(target, logs[n, : len(target)].tolist()))
        np.testing.assert_allclose(said.probabilities, plans[n].probabilities, rtol=0.02)


def test_rows_that_scoring_settles_and_rows_that_are_decoded_make_the_same_plans(trained):
    planner, texts, _, sequences, _ = trained
    rows = np.arange(0, len(texts), 2)
    asked = [texts[n] for n in rows]
    made = written(planner, pd.Series(texts), sequences, rows)
    for way, plans in zip(decomposer.DECODINGS, made, strict=True):
        decoded = planner.decompose_all(asked, way)
        assert [plan.written for plan in plans] == [plan.written for plan in decoded]
        for plan, one in zip(plans, decoded, strict=True):
            np.testing.assert_allclose(plan.probabilities, one.probabilities, rtol=0.02, atol=1e-4)


def test_restricting_never_turns_a_right_program_wrong(trained):
    planner, texts, _, sequences, _ = trained
    ahead, _ = scored(planner, texts, sequences)
    assert (np.diff(ahead, axis=1) <= 0).all(), "from grounded to unrestricted, ever more is allowed"
    assert (ahead[:, 0] > 0).sum() > (ahead[:, 1] > 0).sum()


def test_training_lowers_the_loss_and_counts_exact_programs(trained):
    planner, texts, _, sequences, history = trained
    assert history["train_loss"].iloc[-1] < history["train_loss"].iloc[0] / 5
    ahead, _ = scored(planner, texts, sequences)
    assert history["valid_accuracy"].max() == pytest.approx((ahead[:, -1] > 0).mean())


def test_the_loss_is_on_the_program_alone(random_planner, records):
    texts, programs = records["expr"].iloc[:4].tolist(), records["program"].iloc[:4].tolist()
    sequences = sequences_of(random_planner, texts, programs)
    for row, program in enumerate(programs):
        said = [token for token in sequences.targets[row].tolist() if token != training.NO_TARGET]
        assert random_planner.grammar.text(random_planner.backbone, said) == program
        assert said[-1] == random_planner.grammar.end
        assert sequences.starts[row] == len(random_planner.backbone.encode(texts)[row])
    logits = random_planner.writer(*sequences.batch(np.arange(4), torch.device("cpu")))
    assert logits.shape == (1, 4, random_planner.grammar.longest, len(random_planner.grammar.tokens))
    assert (logits[0].abs().sum(-1) > 0).equal(sequences.targets != training.NO_TARGET)


def test_narrow_products_round_what_is_said_and_leave_weights_and_gradients_wide(tiny, records):
    texts, programs = records["expr"].iloc[:4].tolist(), records["program"].iloc[:4].tolist()
    planner = decomposer.new(tiny, passport(tiny))
    batch = sequences_of(planner, texts, programs).batch(np.arange(4), torch.device("cpu"))
    wide = planner.writer(*batch)
    with torch.autocast("cpu", torch.bfloat16):
        narrow = planner.writer(*batch)
    assert narrow.dtype == torch.float32
    assert 0 < (narrow - wide).abs().max() < 0.03 * wide.abs().max()
    narrow.square().mean().backward()
    assert {p.grad.dtype for p in planner.writer.parameters() if p.requires_grad} == {torch.float32}
    assert {p.dtype for p in planner.writer.parameters()} == {torch.float32}


# ---- planners ----------------------------------------------------------------------------------------------------


def test_the_probabilities_of_lines_multiply_to_that_of_the_program(random_planner, records):
    texts = records["expr"].iloc[:20].tolist()
    prompts = random_planner.backbone.encode(decomposer.prompts(random_planner.backbone, texts))
    kept = random_planner.kept(texts, "grounded")
    for one in greedy(random_planner.backbone, random_planner.writer, random_planner.grammar, prompts, kept):
        plan = random_planner.plan("", one)
        assert plan.probability == pytest.approx(np.exp(sum(one.logs)))
        assert len(plan.probabilities) == plan.written.count("\n") + 1


def probed(planner, texts):
    """Texts with the programs that the planner writes for them."""
    return decomposer.spelled(planner.backbone, texts, [plan.written for plan in planner.decompose_all(texts)])


def test_a_saved_planner_is_a_module_that_writes_the_same_programs(tmp_path, tiny, trained):
    planner, texts = trained[:2]
    file = tmp_path / "planner.safetensors"
    planner.save(file, probed(planner, texts[:5]))
    again = decomposer.load(file, tiny)
    assert again.decompose_all(texts) == planner.decompose_all(texts)
    assert again.passport["split"] == "text"
    assert not any(p.requires_grad for p in again.writer.parameters())
    record = modules.read_passport(file)
    assert (record["kind"], record["parts"][decomposer.PART]["kind"]) == (decomposer.PART, "State")
    assert len(record["probe"]["texts"]) == 5
    assert "a step decomposer" in str(modules.model_card(record))


def test_a_planner_in_half_the_bits_notes_how_far_its_answers_moved(tmp_path, tiny, trained):
    planner, texts = trained[:2]
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    planner.save(whole)
    planner.save(half, half=True)
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    planner.save(half, probed(planner, texts[:5]), half=True)
    assert 0 < modules.read_passport(half)["rounding"]["logits"] < 0.1
    weight = decomposer.load(half, tiny).writer.readout.weight
    assert torch.equal(weight, planner.writer.readout.weight.bfloat16().float())


def test_a_planner_that_answers_its_probe_texts_otherwise_is_refused(tmp_path, tiny, random_planner, monkeypatch):
    file = tmp_path / "planner.safetensors"
    random_planner.save(file, probed(random_planner, ["12 plus 7", "9 minus 3"]))
    say = Writer.say
    monkeypatch.setattr(Writer, "say", lambda *a, **k: say(*a, **k) * 1.001)
    with pytest.raises(ValueError, match=r"part 'logits' does not answer the probe texts as it did"):
        decomposer.load(file, tiny)


def test_a_planner_file_from_before_planners_were_modules_is_read(tmp_path, tiny, random_planner):
    file, weights = tmp_path / "planner.safetensors", random_planner.writer.state_dict()
    about = {k: v for k, v in passport(tiny).items() if k not in ("recipe", "labels")} | {"format": "redlib-planner/1"}
    save_file({k: v.contiguous() for k, v in weights.items()}, file, metadata={"passport": json.dumps(about)})
    again = decomposer.load(file, tiny)
    assert all(torch.equal(value, weights[name]) for name, value in again.writer.state_dict().items())


def test_what_is_no_planner_for_this_backbone_is_refused(tmp_path, tiny, random_planner):
    file = tmp_path / "planner.safetensors"
    random_planner.save(file)
    with pytest.raises(ValueError, match=r"trained on tiny .*top 2 layers.* given is tiny .*top 1 layers"):
        decomposer.load(file, backbone.load("tiny", top_layers=1))
    with pytest.raises(FileNotFoundError, match=r"no planner 'other.safetensors'"):
        decomposer.load(tmp_path / "other.safetensors", tiny)
    (tmp_path / "bad.safetensors").write_bytes(file.read_bytes()[:-500])
    with pytest.raises(ValueError, match="is not a module of this study"):
        decomposer.load(tmp_path / "bad.safetensors", tiny)
    about = {name: value for name, value in passport(tiny).items() if name != "top_layers"}
    modules.save(tmp_path / "head.safetensors", {"classifier": LinearBank([0], 4, 3)}, about)
    with pytest.raises(ValueError, match=r"'head.safetensors' holds no planner but classifier"):
        decomposer.load(tmp_path / "head.safetensors", tiny)
    lacking = {name: value for name, value in passport(tiny).items() if name not in ("split", "seed")}
    with pytest.raises(ValueError, match=r"passport needs .* missing: split, seed"):
        decomposer.new(tiny, lacking)


def test_the_symbolic_planner_is_right_on_every_record(records):
    plans = Symbolic(MOST, LARGEST).decompose_all(records["expr"].tolist())
    assert [plan.written for plan in plans] == records["program"].tolist()
    assert {p for plan in plans for p in plan.probabilities} == {1.0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (7, "must be a string, got int"),
        ("What is the sum?", "has no numbers"),
        ("What is 7?", r"has only one number \(7\)"),
        ("What is 7 times 8?", "unknown operator 'times'"),
        ("7 * 8 + 2", r"unknown operator '\*'"),
        ("7 / 8", "unknown operator '/'"),
        ("What is half of 12 plus 3?", "unknown operator 'half'"),
        ("3 plus 4<|pad|>", "unknown operator '<'"),
        ("What about 7 and 8?", "names no operator"),
        ("1 + 2 + 3 + 4 + 5 + 6", "has 5 operations; the planner writes at most 4"),
        ("101 plus 2", "has the number 101; the planner writes numbers from 0 to 100"),
        ("2.5 plus 3", "'2.5' is not a whole number"),
        ("-4 plus 3", "'-4' is not a whole number"),
    ],
)
def test_a_query_that_no_program_answers_is_refused_in_one_sentence(random_planner, text, message):
    for planner in (random_planner, Symbolic(MOST, LARGEST)):
        with pytest.raises(ValueError, match=message) as caught:
            planner.decompose(text)
        assert "\n" not in str(caught.value)


def test_no_rendered_text_is_refused(random_planner, records):
    for text in records["expr"]:
        decomposer.check(text, MOST, LARGEST)
        assert phrasing.numbers(text)
    decomposer.check("3+4-5", MOST, LARGEST)
    assert random_planner.decompose("Take 3 and throw in plus 4").program is not None, "unknown words are tried"


# ---- errors ------------------------------------------------------------------------------------------------------


def chain(text):
    return Program.from_expression(Expression.read(text))


@pytest.mark.parametrize(
    ("predicted", "kind"),
    [
        (chain("12 + 5 - 9"), errors.RIGHT),
        (chain("12 + 6 - 9"), "operand"),
        (chain("12 - 5 - 9"), "operator"),
        (chain("12 - 5 + 9"), "operator"),
        (chain("5 + 12 - 9"), "order"),
        (chain("12 - 9 + 5"), "order"),
        (chain("9 + 5 - 12"), "order"),
        (Program((Step(12, "+", 5), Step("x1", "-", 9)), "x1"), "order"),
        (chain("12 + 5"), "length"),
        (chain("12 + 5 - 9 - 9"), "length"),
        (chain("12 - 6 - 9"), "several"),
        (chain("9 - 5 - 12"), "several"),
        (None, "no_program"),
    ],
)
def test_every_error_has_one_kind(predicted, kind):
    assert errors.kind(predicted, chain("12 + 5 - 9")) == kind


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_kinds_cover_all_pairs_of_programs_and_only_equals_are_right(data):
    gold, predicted = programs_of(data.draw), programs_of(data.draw)
    kind = errors.kind(predicted, gold)
    assert (kind == errors.RIGHT) == (predicted == gold)
    assert kind in (errors.RIGHT, *errors.KINDS)
    assert (kind == "length") == (len(predicted.steps) != len(gold.steps))
    assert errors.read(predicted.text) == predicted
    assert errors.read(f"{predicted.text}\n") is None
