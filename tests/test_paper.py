"""Profile `paper`: planned without its backbone and without a network, and run small on the tiny one of the same
architecture."""

import re
import shlex
import socket

import pytest
from torch import nn

from redlib import backbone, config, models, paths, results
from redlib.__main__ import main
from redlib.cost import shapes
from redlib.study import methods, table, task1
from redlib.study.data import open_backbone

README = (paths.root() / "README.md").read_text(encoding="utf-8")
DRY_RUNS = re.findall(r"^python -m (redlib run --profile paper .*)", README, re.MULTILINE)
RECIPES = ("chosen", "source")
STEPS = ("base", "experts", "routers", "controls")
SMALL = {
    "backbone.name": "tiny",
    "task1.rows": 400,
    "task1.seeds": {"structure": 1},
    "task1.source_seeds": {"structure": 1},
    "bootstrap": 20,
} | {f"{recipe}.{step}.max_epochs": 2 for recipe in RECIPES for step in STEPS}


@pytest.fixture
def offline(monkeypatch):
    """Nothing was downloaded before, and nothing can be."""

    def refuse(*args, **kwargs):
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr("redlib.backbone.hub.cached", lambda repository: False)


def test_the_tiny_backbone_is_built_of_the_parts_of_papers(cache):
    def parts(module: nn.Module) -> set[tuple[str, type]]:
        return {(re.sub(r"\d+", "0", name), type(part)) for name, part in module.named_modules()}

    name = config.load("paper").backbone.name
    assert parts(backbone.load("tiny").model) == parts(shapes.skeleton(shapes.configuration(name)).model)


def test_the_readmes_dry_runs_plan_the_same_on_both_backbones_and_ask_no_network(own_cache, offline, capsys):
    plans = []
    for command in DRY_RUNS:
        assert main(shlex.split(command, comments=True)[1:]) == 0
        plans.append(re.sub(r" of [\d.]+ \w+ free", "", capsys.readouterr().out).splitlines())
    assert [("backbone.name=tiny" in command) for command in DRY_RUNS] == [False, True]
    assert config.load("paper").backbone.name == "qwen3-0.6b"
    assert plans[0] == plans[1]
    assert any(line.startswith("stage     experts (chosen, structure)") for line in plans[0])
    assert "notebook  08_task1_results" in plans[0]
    assert not paths.runs("paper").exists()


def test_task_1_of_paper_runs_on_the_tiny_backbone_with_both_recipes_and_papers_ranks(cache):
    profile = config.load("paper", SMALL)
    found = table(profile, "task1", say=lambda line: None)
    results.validate(found)
    assert set(RECIPES) <= set(found["variant"])
    test = results.select(found, variant=list(RECIPES), part="test", group="all", metric="value_accuracy", seed="all")
    assert (test["n"] == 40).all()
    for recipe in RECIPES:
        assert set(test.loc[test["variant"] == recipe, "method"]) == set(models.METHODS)
        parts = methods.load_parts(task1.setting(profile, recipe, "structure"), 0)
        trunk = open_backbone(profile.backbone)
        assert parts["experts"].down.weight.shape == (task1.labels(profile).K, trunk.hidden_size, 512)
