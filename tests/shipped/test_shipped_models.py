"""Shipped modules: written from trained stages, checked before they replace anything, opened without training."""

import json
import lzma

import numpy as np
import pytest
import torch
from shipped_models import CHAIN, QUERIES, SMALL, copied

from redlib import backbone, config, models, modules, paths
from redlib.__main__ import main
from redlib.models.executors import PLUS_EXECUTORS
from redlib.study import explaining, methods, red_plus, shipped, shipping, solving, stage
from redlib.study.explaining import explainer


def test_what_is_written_is_whole_and_only_what_methods_need(folder):
    assert list(shipped.problems(folder)) == []
    index = shipped.read_index(folder)
    items = {item.name: item for item in shipped.PLAN}
    assert set(index["modules"]) == set(items) - {"task2-chosen-text"}
    for name, entry in index["modules"].items():
        passport = modules.read_passport(folder / name / shipped.MODULES)
        known = models.METHODS if items[name].recipe != "red_plus" else models.PLUS
        methods = [method for method in entry["methods"] if method in known]
        expected = {"decomposer"} if name == "planner-structure" else {"base"} | models.needs(methods)
        assert set(passport["parts"]) == expected
        assert "gate_linear" not in passport["parts"]
        if items[name].task.startswith("task"):
            assert set(known) - set(entry["methods"]) == set(items[name].without) & set(known)
        assert entry["bytes"] == (folder / name / shipped.MODULES).stat().st_size
        assert passport["probe"]["texts"]
        assert 0.5 < entry["agreement"] <= 1


def test_exact_parts_come_back_bit_for_bit_and_only_the_weights_of_the_others_are_rounded(folder, profile):
    bone = backbone.load("tiny")
    for item in shipped.PLAN:
        if item.task == "planner" or not item.seeds(profile):
            continue
        s = item.setting(profile)
        before = red_plus.load_parts(s, 0) if item.recipe == "red_plus" else methods.load_parts(s, 0, bone)
        after, passport = modules.load(folder / item.name / shipped.MODULES, bone)
        for name, part in after.items():
            weights, old = {key for key, _ in part.named_parameters()}, before[name].state_dict()
            half = name not in item.exact and bool(weights)
            assert (passport["dtypes"][name] == "bfloat16") == half, (item.name, name)
            for key, now in part.state_dict().items():
                assert torch.equal(now, old[key].bfloat16().float() if half and key in weights else old[key])


# ---- several profiles --------------------------------------------------------------------------------------------


def test_models_that_a_profile_has_not_trained_are_named_and_stay_as_they_were(folder, tmp_path):
    there, said = copied(folder, tmp_path), []
    (there / "task9-old").mkdir()
    index = json.loads((there / shipped.INDEX).read_text())
    index["modules"]["task9-old"] = index["modules"]["planner-structure"]
    paths.write_json(there / shipped.INDEX, index)
    only = {"task1.seeds": {"structure": 1}, "task1.source_seeds": {}, "task2.definitions": {}, "operations.rows": 320}
    less = config.load("smoke", SMALL | only | {"task2.definitions": {"operations": {"rows": 500}}})
    less = less.model_copy(update={"name": "other"})
    shipped.write(less, there, said.append)
    assert "task1-source-structure: profile other does not train it; the one of profile smoke stays" in said
    assert "task2-chosen-text: profile other does not train it; none is shipped" in said
    (line,) = [line for line in said if line.startswith("steps-closed-chosen-structure: profile other has not")]
    assert "stages are missing, 'pool of steps' first); the one of profile smoke stays" in line
    assert "task9-old: no longer among the models that are shipped, and left out" in said
    assert list(shipped.problems(there)) == []
    now, old = shipped.read_index(there)["modules"], shipped.read_index(folder)["modules"]
    assert now.keys() == old.keys()
    assert {name: entry["profile"] for name, entry in now.items() if entry["profile"] == "smoke"}.keys() == {
        *("task1-source-structure", "task1-chosen-text", "task2-chosen-structure"),
        *("steps-closed-chosen-structure", "steps-closed-red_plus-structure"),
    }
    for name in ("task1-source-structure", "steps-closed-red_plus-structure"):
        assert now[name] == old[name]
        assert (there / name / shipped.MODULES).read_bytes() == (folder / name / shipped.MODULES).read_bytes()


def test_an_index_of_one_profile_for_all_is_still_read(folder, tmp_path):
    there = copied(folder, tmp_path)
    index = json.loads((there / shipped.INDEX).read_text())
    entries = {name: {k: v for k, v in entry.items() if k != "profile"} for name, entry in index["modules"].items()}
    paths.write_json(
        there / shipped.INDEX, {"format": "redlib-shipped/1", "profile": "smoke", "seed": 0, "modules": entries}
    )
    assert list(shipped.problems(there)) == []
    assert shipped.read_index(there)["modules"] == index["modules"]


# ---- answering ---------------------------------------------------------------------------------------------------


def test_the_record_solves_with_what_is_shipped_and_trains_nothing(record, profile, monkeypatch):
    trained = solving.solver(profile, executors=("red", "red_plus", "oracle_operator"))
    monkeypatch.setattr(stage.Stage, "_make", lambda *_: pytest.fail("a stage was made"))
    assert solving.available(record)
    assert solving.planners(record) == ("trained", "symbolic")
    assert solving.missing(record) == []
    solver = solving.solver(record)
    assert {"red", "softmax_moe", "oracle_operator", "global_head", *PLUS_EXECUTORS, "symbolic"} <= set(
        solver.executors
    )
    assert solver.solve(CHAIN).model == "experts of closed steps, split structure, seed 0, profile record, shipped"
    for name, executor in trained.executors.items():
        for step in ((12, "+", 5), (90, "-", 45)):
            a, b = executor(*step), solver.executors[name](*step)
            assert b.probability == pytest.approx(a.probability, abs=0.01)
            np.testing.assert_allclose(list(b.weights.values()), list(a.weights.values()), atol=0.02)
    lines = [
        planner.decompose(CHAIN).probabilities[0]
        for planner in (trained.planners["trained"], solver.planners["trained"])
    ]
    assert lines[1] == pytest.approx(lines[0], rel=0.2)
    with pytest.raises(ValueError, match="method 'red_by_range' is not shipped for closed steps; valid methods: red"):
        solving.solver(record, executors=("red_by_range",))
    with pytest.raises(FileNotFoundError, match="no planner or operation experts are shipped for this"):
        solving.solver(record, split="text")


@pytest.mark.parametrize("task", ["task1", "task2"])
def test_the_record_explains_by_red_plus_which_is_opened_when_it_is_asked_for(record, profile, monkeypatch, task):
    trained, opened, open_model = explainer(profile, task), [], shipped.open_model
    monkeypatch.setattr(shipped, "open_model", lambda *a, **w: opened.append(a[1]) or open_model(*a, **w))
    e = explainer(record, task)
    assert {*models.PLUS} < {*e.methods}
    assert {*e.routed} == {*e.model().routed, *models.PLUS} - {"red_plus_base"}
    reading = e.read([QUERIES[0]])[0]
    e.explain(reading)
    assert opened == [f"{task}-chosen-structure"]
    for method in models.PLUS:
        a, b = trained.explain(QUERIES[0], method), e.explain(reading, method)
        np.testing.assert_allclose(b.logits, a.logits, atol=0.1)
        assert [answer.method for answer in b.methods][-len(models.PLUS) :] == list(models.PLUS)
        assert b.answer in b.methods
    assert opened == [f"{task}-chosen-structure", f"{task}-red_plus-structure"]
    assert b.model == f"{task}, red_plus, split structure, seed 0, profile smoke (shipped)"
    with pytest.raises(ValueError, match="no model of split 'text'; there are models of: structure"):
        e.explain(reading, "red_plus", explaining.explain.Intervention(split="text"))


@pytest.mark.parametrize(("task", "recipe"), [("task1", "chosen"), ("task1", "source"), ("task2", "chosen")])
def test_the_record_explains_as_the_trained_stages_do(record, profile, task, recipe):
    trained, reads = explainer(profile, task, recipe=recipe), explainer(record, task, recipe=recipe)
    close = {"atol": 1e-5} if recipe == "chosen" else {"atol": 0.1}  # of RED, exact or rounded
    for text in QUERIES:
        a, b = trained.explain(text), reads.explain(text)
        np.testing.assert_allclose(b.logits, a.logits, rtol=1e-4, **close)
        assert (b.seen, b.nearest) == (a.seen, a.nearest)
        assert b.model.endswith("(shipped)")
        left_out = {answer.method for answer in a.methods} - {answer.method for answer in b.methods}
        assert left_out <= {"mlp_full_data", "fourier_full_data"}


def test_the_record_never_trains(record, monkeypatch):
    monkeypatch.setattr(stage.Stage, "_make", lambda *_: pytest.fail("a stage was made"))
    e = explainer(record).explain(QUERIES[0], intervention=explaining.explain.Intervention(split="text"))
    assert "split text" in e.model


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"task": "task3"}, "unknown task 'task3'; valid tasks: task1, task2"),
        ({"recipe": "best"}, "unknown recipe 'best'; valid recipes: chosen, source"),
        ({"split": "phrasing"}, "split phrasing, seed 0; splits that it has: structure, text"),
        ({"seed": 3}, "no models of task1, recipe chosen, split structure, seed 3; splits that it has: none"),
        ({"task": "task2", "split": "text"}, "splits that it has: structure"),
        ({"task": "task2", "steps": "operands"}, "splits that it has: none"),
    ],
)
def test_what_was_not_shipped_is_named(record, asked, said):
    with pytest.raises(ValueError, match=said):
        explainer(record, **asked)


def test_another_backbone_is_refused(record):
    other = record.model_copy(update={"backbone": record.backbone.model_copy(update={"top_layers": 1})})
    assert explainer(other).explain(QUERIES[0])  # the same weights
    index = shipped.read_index(paths.modules())
    name = "task1-chosen-structure"
    assert name in index["modules"]
    bone = backbone.load("tiny")
    bone.weights_id = "0" * 64
    with pytest.raises(ValueError, match="the parts were trained on tiny"):
        shipped.open_model(paths.modules(), name, bone)


# ---- what does not belong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("large", "has 30,000,001 bytes, the most is 30,000,000"),
        ("extra", "the index names"),
        ("changed", "is not the file that the index is about"),
        ("mislabelled", "passport says split 'structure', and the index 'text'"),
        ("lacking", "lacks the parts mlp_full of its methods"),
    ],
)
def test_damage_is_found_and_named(folder, tmp_path, damage, said):
    there = copied(folder, tmp_path)
    file, index = there / "task1-chosen-structure" / shipped.MODULES, shipped.read_index(there)
    entry = index["modules"]["task1-chosen-structure"]
    if damage == "large":
        with (there / "big.bin").open("wb") as big:
            big.truncate(30_000_001)
    elif damage == "extra":
        (there / "task9").mkdir()
    elif damage == "changed":
        file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    elif damage == "mislabelled":
        entry["split"] = "text"
    else:
        entry["methods"].append("mlp_full_data")
    paths.write_json(there / shipped.INDEX, index)
    assert any(said in problem for problem in shipped.problems(there))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("swapped", "passport says task 'task2', and the index 'task1'"),
        ("other structures", "structures.txt.xz holds 1 structures, and the index says"),
        ("junk", "structures.txt.xz of task1-chosen-structure in .* is damaged"),
        ("cut", "structures.txt.xz of task1-chosen-structure in .* is damaged"),
        ("none", "task1-chosen-structure in .* has no structures.txt.xz"),
    ],
)
def test_a_model_that_is_not_the_one_of_the_index_is_not_opened(folder, tmp_path, damage, said):
    there, name = copied(folder, tmp_path), "task1-chosen-structure"
    model, seen = there / name / shipped.MODULES, there / name / shipping.STRUCTURES
    if damage == "swapped":
        model.write_bytes((there / "task2-chosen-structure" / shipped.MODULES).read_bytes())
    elif damage == "other structures":
        seen.write_bytes(lzma.compress(b"+1+1"))
    elif damage == "junk":
        seen.write_bytes(b"junk")
    elif damage == "cut":
        seen.write_bytes(seen.read_bytes()[:-9])
    else:
        seen.unlink()
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        shipped.open_model(there, name, backbone.load("tiny"))


def test_the_limit_on_all_files_is_the_plans(folder, tmp_path, monkeypatch):
    there = copied(folder, tmp_path)
    monkeypatch.setattr(shipped, "MOST_IN_ALL", paths.size(there) - 1)
    assert any("all files have" in problem for problem in shipped.problems(there))


def test_modules_over_the_limits_leave_the_old_ones_alone(folder, profile, tmp_path, monkeypatch):
    there = copied(folder, tmp_path)
    before = (there / shipped.INDEX).read_bytes()
    monkeypatch.setattr(shipped, "MOST_A_FILE", 1_000)
    with pytest.raises(ValueError, match=r"the modules cannot be shipped: .* the most is 1,000"):
        shipped.write(profile, there, lambda line: None)
    assert (there / shipped.INDEX).read_bytes() == before


# ---- the command that explains -----------------------------------------------------------------------------------


def test_explain_prints_a_card_or_json(record, monkeypatch, capsys):
    monkeypatch.setattr(config, "load", lambda *_: record)
    assert main(["explain", QUERIES[1]]) == 0
    out = capsys.readouterr().out
    assert "40 + 1 = 41" in out
    assert "note: operand 2 is outside 2..50" in out
    assert main(["explain", QUERIES[0], "--json", "--method", "softmax_moe", "--split", "text"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["text"], data["true_value"], data["method"]) == (QUERIES[0], 85, "softmax_moe")
    assert "split text" in data["model"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([""], "the question is empty"),
        (["7 " * 400], "may have at most 256 tokens"),
        ([QUERIES[0], "--method", "rad"], "unknown method 'rad'"),
        ([QUERIES[0], "--task", "task3"], "unknown task 'task3'"),
        ([QUERIES[0], "--split", "random"], "splits that it has: structure, text"),
    ],
)
def test_a_mistake_of_explain_is_one_sentence(record, monkeypatch, capsys, arguments, said):
    monkeypatch.setattr(config, "load", lambda *_: record)
    assert main(["explain", *arguments]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
