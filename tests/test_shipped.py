"""Shipped modules: written from trained stages, checked before they replace anything, opened without training."""

import json
import lzma

import numpy as np
import pytest
import torch

from redlib import backbone, config, models, modules, paths
from redlib.__main__ import main
from redlib.study import explaining, methods, shipped, stage
from redlib.study.explaining import explainer

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"text": 1, "structure": 1},
    "task1.source_seeds": {"structure": 1},
    "task2.definitions": {"operations": {"rows": 500, "seeds": {"structure": 1}}},
}
QUERIES = ["What is 47 plus 38?", "What is 40 plus 1?", "What is 18 plus 7 minus 3?"]


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", SMALL)


@pytest.fixture(scope="module")
def folder(profile, tmp_path_factory):
    """Modules of a tiny training, written once."""
    for item in shipped.PLAN:
        s = item.setting(profile)
        for made in methods.part_stages(s).values() if s.seeds else ():
            made.run(lambda line: None)
    folder = tmp_path_factory.mktemp("project") / "data" / "modules"
    said = []
    shipped.write(profile, folder, said.append)
    assert said[0] == "task2-chosen-text: profile smoke does not train it"
    assert said[-1].startswith("4 models, ")
    return folder


@pytest.fixture
def record(folder, monkeypatch):
    """The profile of record on the tiny backbone, reading these modules."""
    monkeypatch.setattr(paths, "ROOT", folder.parents[1])
    return config.load("smoke", SMALL).model_copy(update={"name": "record", "reads": "full"})


def copied(folder, tmp_path):
    """A copy to damage."""
    for file in folder.rglob("*"):
        if file.is_file():
            paths.write_bytes(tmp_path / "modules" / file.relative_to(folder), file.read_bytes())
    return tmp_path / "modules"


def test_the_modules_of_this_checkout_obey_the_limits_and_load(monkeypatch):
    there = paths.modules()
    if not there.is_dir():
        pytest.skip("no modules have been shipped yet")
    assert list(shipped.problems(there)) == []
    index = shipped.read_index(there)
    assert {item.name for item in shipped.PLAN} <= set(index["modules"]), "every planned model is shipped"
    for name, entry in index["modules"].items():
        seen = lzma.decompress((there / name / shipped.STRUCTURES).read_bytes()).decode().split("\n")
        assert len(set(seen)) == entry["structures"]
        if not any(
            part["kind"] == "TokenBase"
            for part in modules.read_passport(there / name / shipped.MODULES)["parts"].values()
        ):
            parts, passport = modules.load(there / name / shipped.MODULES)
            red = models.assemble("red", models.LabelSpace(**passport["labels"]), parts)
            assert torch.isfinite(red(torch.zeros(1, parts["base"].mean.shape[-1])).logits).all()


def test_git_takes_modules_as_binary_files():
    lines = (paths.root() / ".gitattributes").read_text().splitlines()
    assert {"*.safetensors binary", "*.xz binary"} <= set(lines)


def test_what_is_written_is_whole_and_only_what_methods_need(folder):
    assert list(shipped.problems(folder)) == []
    index = shipped.read_index(folder)
    assert set(index["modules"]) == {item.name for item in shipped.PLAN} - {"task2-chosen-text"}
    for name, entry in index["modules"].items():
        parts = modules.read_passport(folder / name / shipped.MODULES)["parts"]
        assert set(parts) == {"base"} | models.needs(entry["methods"])
        assert "gate_linear" not in parts
        assert set(models.METHODS) - set(entry["methods"]) == set(shipped.LARGE_CONTROLS)
        assert entry["bytes"] == (folder / name / shipped.MODULES).stat().st_size


def test_chosen_parts_come_back_bit_for_bit_and_tuned_layers_rounded(folder, profile):
    bone = backbone.load("tiny")
    for item in shipped.PLAN:
        s = item.setting(profile)
        if not s.seeds:
            continue
        before, (after, passport) = (
            methods.load_parts(s, 0, bone),
            modules.load(folder / item.name / shipped.MODULES, bone),
        )
        for name, part in after.items():
            half = passport["dtypes"][name] == "bfloat16"
            assert half == (item.recipe == "source" and name == "base")
            for a, b in zip(part.state_dict().values(), before[name].state_dict().values(), strict=True):
                assert torch.equal(a, b.bfloat16().float() if half else b)


@pytest.mark.parametrize(("task", "recipe"), [("task1", "chosen"), ("task1", "source"), ("task2", "chosen")])
def test_the_record_explains_as_the_trained_stages_do(record, profile, task, recipe):
    trained, reads = explainer(profile, task, recipe=recipe), explainer(record, task, recipe=recipe)
    close = {"atol": 1e-5} if recipe == "chosen" else {"atol": 0.1}
    for text in QUERIES:
        a, b = trained.explain(text), reads.explain(text)
        np.testing.assert_allclose(b.logits, a.logits, rtol=1e-4, **close)
        assert (b.seen, b.nearest) == (a.seen, a.nearest)
        assert b.model.endswith("(shipped)")
        assert {answer.method for answer in a.methods} - {answer.method for answer in b.methods} <= set(
            shipped.LARGE_CONTROLS
        )


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
    name = next(iter(index["modules"]))
    bone = backbone.load("tiny")
    bone.weights_id = "0" * 64
    with pytest.raises(ValueError, match="the parts were trained on tiny"):
        shipped.open_model(paths.modules(), name, bone)


def test_no_modules_is_a_sentence_that_says_what_writes_them(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="no modules are shipped in data/modules; `python -m redlib ship"):
        explainer(config.load("record"))


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


def test_an_index_of_another_kind_is_refused(tmp_path):
    paths.write_text(tmp_path / shipped.INDEX, json.dumps({"format": "other"}))
    with pytest.raises(ValueError, match="no index of shipped modules"):
        shipped.read_index(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"), [("smoke", "only proves the machinery"), ("record", "cannot be shipped: it never trains")]
)
def test_ship_refuses_profiles_that_are_no_evidence(name, said, capsys):
    assert main(["ship", "--profile", name]) == 2
    assert said in capsys.readouterr().err


def test_ship_does_not_train(own_cache, tmp_path):
    with pytest.raises(
        ValueError, match="stages are not trained yet, 'pool' first; `python -m redlib run --profile smoke"
    ):
        shipped.write(config.load("smoke", SMALL), tmp_path / "modules", lambda line: None)
    assert not (tmp_path / "modules").exists()


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


def test_json_is_alone_on_standard_output_while_stages_are_made(own_cache, capsys, monkeypatch):
    small = config.load("smoke", SMALL)
    monkeypatch.setattr(config, "load", lambda *_: small)
    assert main(["explain", QUERIES[0], "--json", "--profile", "smoke"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["text"] == QUERIES[0]
    assert "stage base" in captured.err


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
