"""Planners: saved and read, refused, symbolic; the queries that none of them answers."""

import json

import numpy as np
import pytest
import torch
from planners import LARGEST, MOST, passport
from safetensors.torch import save_file

from redlib import backbone, decomposer, modules, phrasing
from redlib.decomposer import Symbolic, Writer, greedy
from redlib.models import LinearBank


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
    assert len(record["probe"]["texts"]) == modules.ROWS_OF_STATES
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
        ("7 x 8 plus 2", "unknown operator 'x'"),
        ("12 mod 5 plus 3", "unknown operator 'mod'"),
        ("7 over 2 plus 1", "unknown operator 'over'"),
        ("multiplying 3 by 4 plus 2", "unknown operator 'multiplying'"),
        ("dividing 8 by 2, add 1", "unknown operator 'dividing'"),
        ("halve 12 plus 3", "unknown operator 'halve'"),
        ("5² plus 3", "unknown operator '²'"),
        ("5! plus 3", "unknown operator '!'"),
        ("12 - (5 + 9)", r"has the parenthesis '\(5 \+ 9\)'"),
        ("12 plus 7 8", "has no operator between the numbers of '7 8'"),
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
    for text in ("3+4-5", "(3 + 4) - 5", "What is 3 plus 4!", "Take 12, then minus 5"):
        decomposer.check(text, MOST, LARGEST)
    assert random_planner.decompose("Take 3 and throw in plus 4").program is not None, "unknown words are tried"
