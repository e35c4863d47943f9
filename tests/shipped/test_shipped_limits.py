"""What may be shipped, what this checkout ships, and what is said where nothing is shipped or trained."""

import json

import pytest
import torch
from shipped_models import QUERIES, SMALL

from redlib import config, cost, models, modules, paths
from redlib.__main__ import main
from redlib.expressions import LabelSpace
from redlib.study import shipped, shipping
from redlib.study.explaining import explainer


def test_the_modules_of_this_checkout_obey_the_limits_and_load(monkeypatch):
    there = paths.modules()
    if not there.is_dir():
        pytest.skip("no modules have been shipped yet")
    assert list(shipped.problems(there)) == []
    index = shipped.read_index(there)
    planned = {item.name for item in shipped.PLAN}
    first = {
        item.name for item in shipped.PLAN if item.recipe in ("chosen", "source") and item.task in ("task1", "task2")
    }
    assert len(first) == 5
    assert first <= set(index["modules"]) <= planned, (
        "every model of chapters 07 to 15 is shipped, and nothing unplanned"
    )
    for name, entry in index["modules"].items():
        passport = modules.read_passport(there / name / shipped.MODULES)
        if (there / name / shipping.STRUCTURES).is_file():
            assert len(set(shipping.structures(there / name))) == entry["structures"]
        if any(part["kind"] == "PooledBase" for part in passport["parts"].values()):
            parts, _ = modules.load(there / name / shipped.MODULES)
            K = len(parts["experts"].down.weight)
            red = models.assemble("red", models.LabelSpace(**passport["labels"]), parts, K)
            assert torch.isfinite(red(torch.zeros(1, parts["base"].mean.shape[-1])).logits).all()


def test_git_takes_modules_as_binary_files():
    lines = (paths.root() / ".gitattributes").read_text().splitlines()
    assert {"*.safetensors binary", "*.xz binary"} <= set(lines)


def test_the_plan_fits_into_the_limits_at_full_size():
    total = 0
    for item in shipped.PLAN:
        sizes = {name: 4 * n for name, n in parts_at_full_size(item).items()}
        size = sum(n if name in item.exact else n // 2 for name, n in sizes.items())
        size += 4 * 576 * probe_tokens(item) + 80_000  # passport and answers
        assert size < 0.95 * shipped.MOST_A_FILE, item.name
        total += size + (110_000 if item.task == "task2" else 5_000)  # structures
    assert total < 0.99 * shipped.MOST_IN_ALL


def probe_tokens(item):
    """How many states a probe batch holds, where a text has thirty tokens and a program behind it as many again."""
    if item.task == "planner" or item.recipe == "source" or (item.task, item.recipe) == ("task2", "red_plus"):
        return modules.ROWS_OF_STATES * (100 if item.task == "planner" else 50)
    return modules.probe.ROWS


def parts_at_full_size(item, d=576, layer=3_540_000):
    """Parameters of every part of an item of profile `full`, untrained; two tuned layers have `layer` each."""
    full = config.load("full")
    if item.task == "planner":
        return {"decomposer": 2 * layer + 40 * d}
    domain, r = (full.task1, full.chosen if item.recipe == "chosen" else full.source)
    labels = LabelSpace(domain.lo, domain.hi, domain.edges)
    K = 2 if item.task == "steps" else labels.K
    if item.recipe == "red_plus":
        form = getattr(full.red_plus, item.task)
        shape = form.width, form.layers, form.heads, form.positions, form.ending
        light = models.LightBase([0], d, *shape) if form.layers else None
        read = 2 * d if form.pooling == "mean_two_depths" else d
        made = {"base": light or models.NetworkBase([0], read, form.width)}
        made |= {"classifier": models.FourierBank([0], form.width, 0, labels)}
        made |= {"experts": models.ResidualExperts(range(K), form.width, form.rank)}
        made |= {"router": models.MLPBank([0], form.width, form.router_hidden, K)}
    else:
        rank = full.operations.rank if item.task == "steps" else r.rank
        width = cost.control_widths(cost.Sizes(d, labels.C, K, rank, r.router_hidden))[1]
        made = {"classifier": models.LinearBank([0], d, labels.C), "experts": models.ResidualExperts(range(K), d, rank)}
        made |= {name: models.MLPBank([0], d, r.router_hidden, K) for name in ("router", "gate")}
        made |= {"heads": models.LinearBank(range(K), d, labels.C)}
        if item.task != "steps":
            made |= {"linear_full": models.LinearBank([0], d, labels.C)}
            made |= {"fourier_full": models.FourierBank([0], d, width, labels)}
    sizes = {name: models.count(part) for name, part in made.items() if f"{name}_data" not in item.without}
    return sizes | ({"base": 2 * layer} if item.recipe == "source" else {})


def test_no_modules_is_a_sentence_that_says_what_writes_them(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match="no modules are shipped in data/modules; `python -m redlib ship"):
        explainer(config.load("record"))


@pytest.mark.parametrize(
    "index",
    [
        *({"format": "other"}, [], "text", {"format": shipped.FORMAT}, {"format": shipped.FORMAT, "modules": []}),
        {"format": shipped.FORMAT, "modules": {"task1": {"task": "task1"}}},
    ],
)
def test_an_index_of_another_kind_is_refused(tmp_path, index):
    paths.write_text(tmp_path / shipped.INDEX, json.dumps(index))
    with pytest.raises(ValueError, match="no index of shipped modules"):
        shipped.read_index(tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("smoke", "on backbone tiny only proves the machinery"), ("record", "cannot be shipped: it never trains")],
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


def test_json_is_alone_on_standard_output_while_stages_are_made(own_cache, capsys, monkeypatch):
    small = config.load("smoke", SMALL)
    monkeypatch.setattr(config, "load", lambda *_: small)
    assert main(["explain", QUERIES[0], "--json", "--profile", "smoke"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["text"] == QUERIES[0]
    assert "stage base" in captured.err


def test_a_model_that_reads_another_state_than_the_profile_is_refused(record):
    plus = record.red_plus.model_copy(update={"task1": record.red_plus.task1.model_copy(update={"layer": 1})})
    with pytest.raises(ValueError, match="the parts were trained for layer 2, and layer 1 is wanted"):
        explainer(record.model_copy(update={"red_plus": plus})).explain(QUERIES[0], "red_plus")
    chosen = record.chosen.model_copy(update={"pooling": "last"})
    with pytest.raises(ValueError, match="the parts were trained for pooling 'mean', and pooling 'last' is wanted"):
        explainer(record.model_copy(update={"chosen": chosen})).explain(QUERIES[0])
