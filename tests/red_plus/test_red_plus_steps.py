"""`red_plus` for single steps, and programs that its executors do."""

import numpy as np
import pandas as pd
import pytest
import torch
from small_plus import LABELS, USES, WIDTH, made, plus_parts

from redlib import backbone, config, evaluation, features, results
from redlib.expressions import OPERATORS
from redlib.features import Point
from redlib.models import NetworkBase
from redlib.models.executors import PLUS_EXECUTORS, executor
from redlib.study import execution, operations, red_plus
from redlib.study.red_plus import parts as red_plus_parts
from redlib.study.red_plus import steps as red_plus_steps


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", USES)


def quiet(line):
    pass


def test_experts_of_operations_see_their_own_operation_and_the_asked_share_of_the_other(profile):
    s = red_plus_steps.setting(profile, "closed", "structure")
    assert (s.K, s.labels) == (len(OPERATORS), operations.labels(profile))
    data = red_plus_parts.HiddenData(s, red_plus.base_stage(s, 0).run(quiet))
    train = data.rows["train"][0]
    for k, operator in enumerate(OPERATORS):
        rows = red_plus_parts.rows_of_expert(data, train, k, 0)
        own = data.pool["expression"].iloc[rows].str.contains(operator, regex=False)
        assert (~own).mean() == pytest.approx(s.recipe.foreign_share, abs=0.02)
        assert own.sum() == data.pool["expression"].iloc[train].str.contains(operator, regex=False).sum()


def test_experts_of_ranges_and_of_operations_do_not_share_a_key(profile):
    s = red_plus_steps.setting(profile, "closed", "structure")
    wide = red_plus.setting(profile, "task1", "structure")
    assert red_plus.experts_stage(s, 0).config["experts_by"] == "operation"
    assert "experts_by" not in red_plus.experts_stage(wide, 0).config


@pytest.mark.parametrize("name", PLUS_EXECUTORS)
def test_zero_experts_of_operations_are_the_base_bit_for_bit(name):
    parts, x = plus_parts(NetworkBase([3], 12, WIDTH), K=2, trained=False), torch.randn(5, 12)
    alone = executor("red_plus_base", LABELS, parts, 2)(x).logits
    assert torch.equal(executor(name, LABELS, parts, 2)(x).logits, alone)


def test_light_layers_are_refused_for_single_steps():
    with pytest.raises(ValueError, match="red_plus of steps reads pooled features; layers must be 0, got 1"):
        red_plus_steps.setting(config.load("smoke", {"red_plus.steps.layers": 1}), "closed", "structure")


def test_both_kinds_of_executors_do_the_same_programs_and_their_differences_add_up(profile):
    found = made(profile, "red_plus_execution")
    here = results.select(found, variant="closed/gold", seed="all", group="all", split="structure")
    value = results.select(here, metric="value_accuracy").set_index("method")
    assert set(value.index) == {*PLUS_EXECUTORS, *red_plus_steps.BESIDE}
    assert value["n"].nunique() == 1
    assert value.loc["symbolic", "value"] == 1
    below = results.select(here, metric="value_accuracy_below_red_plus").set_index("method")["value"]
    apart = value.loc["red_plus", "value"] - value["value"]
    np.testing.assert_allclose(below, apart[below.index], atol=1e-5)
    assert set(found["group"]) >= {"unseen=some", "ops=2"}


def test_single_steps_are_those_of_the_saved_parts(profile):
    s = red_plus_steps.setting(profile, "closed", "structure")
    said = pd.read_parquet(red_plus_steps.executors_stage(profile, "closed", "structure").run(quiet) / "steps.parquet")
    steps = said[said["method"] == "red_plus"].iloc[::97]
    texts = [f"{r.first} {r.operator} {r.second}" for r in steps.itertuples()]
    point = Point(s.recipe.layer, s.recipe.pooling)
    x = features.compute(backbone.load("tiny"), texts, [point])[point]
    method = executor("red_plus", s.labels, red_plus.load_parts(s, 0), s.K)
    now = evaluation.predict(method, torch.from_numpy(x), s.labels)
    np.testing.assert_allclose(now["confidence"], steps["confidence"], rtol=1e-3)
    np.testing.assert_array_equal(now["router_range"], steps["route"])
    exact = made(profile, "red_plus_steps")
    assert set(exact["method"]) == set(PLUS_EXECUTORS)
    assert results.select(exact, metric="router_accuracy", group="all")["value"].between(0, 1).all()


def test_an_arm_has_the_executors_of_every_stage_and_the_seeds_that_all_have(profile):
    arm = execution.Arm("closed", "closed", "structure")
    stage = red_plus_steps.main_tables(profile)
    made(profile, "red_plus_execution")
    (looks,) = execution.looks(profile, arm, stage)
    assert {*PLUS_EXECUTORS, *execution.METHODS} == set(looks)
