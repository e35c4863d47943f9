"""Decoding in every way, scoring, and what the loss is on."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from planners import GREEDILY, LARGEST, MOST, passport, sequences_of

from redlib import decomposer, training
from redlib.decomposer import Written, decoding, greedy
from redlib.decomposer.grammar import START, WHOLE
from redlib.programs import Program, check
from redlib.study.planner import written


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
    which, text, programs, random_planner, trained, monkeypatch
):
    monkeypatch.setattr(decoding, "BEGINNINGS", 64)
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
    texts = records["expr"].iloc[:40].tolist()
    searched, greedily = (random_planner.decompose_all(texts, way) for way in ("searched", "grounded"))
    assert sum(a.written != b.written for a, b in zip(searched, greedily, strict=True)) > 5
    assert all(a.probability > b.probability * 0.99 for a, b in zip(searched, greedily, strict=True))
    monkeypatch.setattr(decoding, "BEGINNINGS", 0)
    assert random_planner.decompose_all(texts, "searched") == greedily


def test_a_forced_token_needs_no_pass_of_its_own_and_has_its_probability_all_the_same(
    random_planner, records, monkeypatch
):
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
