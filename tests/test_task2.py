"""The stages of Task 2 at smoke size: rows in their proportions, groups that add up, and parts of Task 1 at work on
Task 2."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import f1_score

from redlib import config, datasets, evaluation, models, modules, results, study
from redlib.features import Point
from redlib.study import methods, table, task1, task2, task2_tables
from redlib.study.data import feature_set, read_pool
from redlib.study.settings import Data

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"text": 1, "structure": 1},
    "task1.source_seeds": {},
    "task2.definitions.operations.seeds": {"text": 2, "structure": 1},
    "task2.definitions.operations.source_seeds": {},
}


@pytest.fixture
def profile(cache):
    return config.load("smoke", SMALL)


def of_seeds(frame: pd.DataFrame, **keys) -> pd.DataFrame:
    """Test rows of single seeds, without the row over all of them."""
    rows = results.select(frame, part="test", **keys)
    return rows[(rows["seed"] != "all") & rows["split"].isin(["text", "structure"])]


def test_every_table_is_made_and_validates(profile):
    for name in task2_tables.TABLES:
        frame = table(profile, name, say=lambda line: None)
        results.validate(frame)
        assert "task2" in set(frame["task"])
        assert set(frame["run"]) == set(results.known_runs(task2_tables.TABLES[name](profile).folder))


@pytest.mark.parametrize("steps", ["operations", "single_heavy"])
def test_the_pool_has_its_lengths_in_every_range_and_operators_in_balance(profile, steps):
    pool = read_pool(task2.pool(profile, steps).run())
    of_range = len(pool) // task2.labels(profile).K
    for operations, percent in datasets.STEPS[steps].percent.items():
        counts = pool[pool["operations"] == operations].groupby("range").size()
        assert (counts * 100 == percent * of_range).all()
    signs = "".join(pool["expression"])
    plus, minus = signs.count("+"), signs.count("-")
    if datasets.STEPS[steps].even_signs:
        assert abs(plus - minus) <= 1
    else:
        forced = results.select(table(profile, "task2_checks"), variant=f"{steps}/confounds", metric="plus_share")
        assert results.pick(forced, group="all")["value"] == pytest.approx(plus / (plus + minus), rel=1e-5)


def test_the_checks_state_what_the_domain_forces(profile):
    forced = results.select(table(profile, "task2_checks"), variant="single_heavy/confounds", split="pool", part="all")
    possible = results.select(forced, metric="possible_subtraction_only").set_index("group")["value"]
    assert possible[["R4/ops=1", "R5/ops=1"]].tolist() == [0, 0], "a - b over 2..50 is 48 at most"
    assert possible["R3/ops=1"] == 36
    assert possible[[f"R{k}/ops=1" for k in range(1, 6)]].sum() == possible["ops=1"]
    plus = results.select(forced, metric="plus_share").set_index("group")["value"]
    assert plus["R5/ops=1"] == 1
    shares = results.select(forced, metric=["addition_only", "subtraction_only", "mixed"], group="all")
    assert shares["value"].sum() == pytest.approx(1, abs=1e-5)


def test_lengths_and_operators_each_divide_the_rows(profile):
    frame = of_seeds(table(profile, "task2"), metric="value_accuracy")
    frame = frame.assign(right=frame["value"] * frame["n"].astype(float))
    keys = ["variant", "split", "method", "seed"]
    whole = frame[frame["group"] == "all"].set_index(keys)[["n", "right"]].astype(float)
    operators = ("pattern=addition", "pattern=subtraction", "pattern=mixed")
    for part in (frame["group"].str.fullmatch(r"ops=\d"), frame["group"].isin(operators)):
        sums = frame[part].groupby(keys)[["n", "right"]].sum().astype(float)
        np.testing.assert_allclose(sums.loc[whole.index], whole, atol=0.01)
    several = frame[frame["group"] == "ops>1"]
    assert set(several["variant"]) == {"single_heavy/chosen", "single_heavy/chosen/gate=linear"}
    longer = frame[frame["group"].isin(["ops=2", "ops=3", "ops=4"])].groupby(keys)["n"].sum()
    assert (several.set_index(keys)["n"] == longer.loc[pd.MultiIndex.from_frame(several[keys])]).all()


def test_part_all_is_the_three_parts_together(profile):
    frame = table(profile, "task2")
    s = task2.setting(profile, "chosen", "text")
    predictions = pd.read_parquet(methods.predictions_stage(s).run() / "predictions.parquet")
    for method in methods.ROUTED:
        mine = predictions[(predictions["method"] == method) & (predictions["recipe"] == "chosen")]
        rows = results.select(frame, variant="operations/chosen", split="text", method=method, group="all")
        for seed, own in mine.groupby("seed"):
            assert sorted(own["row"]) == list(range(len(Data(s).pool)))
            accuracy = results.select(rows, metric="router_accuracy", seed=seed).set_index("part")
            parts = accuracy.loc[list(config.PARTS)]
            combined = (parts["value"] * parts["n"].astype(float)).sum() / parts["n"].sum()
            assert accuracy.loc["all", "n"] == len(own)
            assert accuracy.loc["all", "value"] == pytest.approx(combined, abs=1e-5)
            assert accuracy.loc["all", "value"] == pytest.approx((own["router_range"] == own["range"]).mean(), abs=1e-5)
            f1 = results.pick(rows, metric="router_macro_f1", seed=seed, part="all")["value"]
            assert f1 == pytest.approx(f1_score(own["range"], own["router_range"], average="macro"), abs=1e-5)


def test_part_all_says_nothing_of_answers(profile):
    frame = results.select(table(profile, "task2"), part="all")
    assert set(frame["metric"]) == {"router_accuracy", "router_macro_f1"}
    assert set(frame["method"]) == set(methods.ROUTED)


def test_red_of_task1_on_task2_is_its_parts_put_together_by_hand(profile):
    frame = of_seeds(table(profile, "task2_transfer"), split="text", method="red", seed=0, metric="value_accuracy")
    pair = next(p for p in task2_tables.transfers(profile) if p.chains.split == "text")
    first = methods.load_parts(task1.setting(profile, "chosen", "text"), 0)
    data = Data(task2.setting(profile, "chosen", "text"))
    rows = data.rows["test"][0]
    x = feature_set(data.setting.features).pooled(Point(profile.chosen.layer, profile.chosen.pooling))
    router = modules.load(pair.router.run() / "routers-0.safetensors")[0]["router"]
    arms = {task2_tables.FROM_TASK1: first["router"], task2_tables.NEW_ROUTER: router}
    with torch.no_grad():
        h = first["base"](torch.from_numpy(np.array(x[rows])))[0]
        for arm, route in arms.items():
            alpha = torch.softmax(route(h)[0], -1)
            delta = torch.einsum("bk,kbd->bd", alpha, first["experts"](h))
            guess = first["classifier"](h + delta)[0].argmax(-1)
            right = (guess == data.value[rows]).float().mean().item()
            row = results.pick(frame, variant=f"operations/chosen/{arm}", group="all")
            assert row["value"] == pytest.approx(right, abs=1e-5)
            assert row["n"] == len(rows)


def test_only_the_router_is_new_where_it_learned_on_task2(profile):
    pair = task2_tables.transfers(profile)[0]
    old = methods.load_parts(pair.additions, 0)["router"]
    new = modules.load(pair.router.run() / "routers-0.safetensors")[0]
    assert set(new) == {"router"}
    assert not all(torch.equal(a, b) for a, b in zip(old.parameters(), new["router"].parameters(), strict=True))
    assert pair.router.inputs["base"].key == methods.base_stage(pair.additions).key


def test_transfer_differences_are_paired_with_red_of_task2(profile):
    frame = results.select(table(profile, "task2_transfer"), seed="all", group="all", split="text", method="red")
    own = results.pick(frame, variant="operations/chosen", metric="range_accuracy")
    for arm in (task2_tables.FROM_TASK1, task2_tables.NEW_ROUTER):
        moved = results.pick(frame, variant=f"operations/chosen/{arm}", metric="range_accuracy")
        gap = results.pick(frame, variant=f"operations/chosen/{arm}", metric="range_accuracy_below_red")
        assert gap["value"] == pytest.approx(own["value"] - moved["value"], abs=1e-5)
        assert gap["low"] <= gap["value"] <= gap["high"]
    own = results.pick(table(profile, "task2"), variant="operations/chosen", split="text", part="test", method="red",
                       seed=0, group="all", metric="range_accuracy")  # fmt: skip
    again = of_seeds(table(profile, "task2_transfer"), variant="operations/chosen", split="text", seed=0, group="all")
    assert results.pick(again, method="red", metric="range_accuracy")["value"] == own["value"]


def test_transfer_trains_nothing_again_but_the_router(profile):
    stages = {stage.key for pair in task2_tables.transfers(profile) for stage in pair.inputs.values()}
    known = [
        *task1.settings(profile),
        *(s for name in profile.task2.definitions for s in task2.settings(profile, name)),
    ]
    trained = {stage.key for s in known for stage in methods.part_stages(s).values()}
    routers = {pair.router.key for pair in task2_tables.transfers(profile)}
    assert stages - trained == routers
    assert len(routers) == 3


def test_transfer_between_unlike_label_spaces_or_without_a_common_split_is_refused(cache):
    with pytest.raises(ValueError, match=r"label spaces differ .*; give both tasks the same lo, hi and edges"):
        task2_tables.transfers(config.load("smoke", {"task1.edges": [50]}))
    with pytest.raises(ValueError, match="no definition of task 2 trains a split that task 1 trains"):
        task2_tables.transfers(config.load("smoke", {"task1.seeds": {"phrasing": 1}}))


def test_unknown_steps_are_named(profile):
    with pytest.raises(ValueError, match="no steps 'moves' in task 2; valid steps: operations, single_heavy"):
        task2.setting(profile, "chosen", "text", "moves")


def test_about_names_texts_and_seeds_of_every_definition(profile):
    facts = study.about(profile, "task2").iloc[:, 0]
    assert facts["texts"] == "operations: 500; single_heavy: 500"
    assert facts["seeds, recipe chosen"] == "operations: text 2, structure 1; single_heavy: text 1"
    assert facts["seeds, recipe source"] == "none"


def test_several_operations_are_a_group_only_beside_single_ones():
    labels = models.LabelSpace(2, 10, (4, 7))
    rows = np.arange(90)
    frame = pd.DataFrame({"row": rows, "value": rows % 9 + 2, "structure": rows.astype(str), "pattern": "mixed"})
    frame["range"] = [labels.range_of(value) for value in frame["value"]]
    frame = frame.assign(split="text", part="test", recipe="chosen", method="red", seed=0, confidence=0.5)
    frame = frame.assign(predicted_value=frame["value"], predicted_range=frame["range"], router_range=frame["range"])
    for lengths, expected in (
        ((1, 2, 3), {"ops=1", "ops=2", "ops=3", "ops>1"}),
        ((2, 3, 4), {"ops=2", "ops=3", "ops=4"}),
    ):
        operations = np.array(lengths)[rows // 9 % 3]
        tidy = evaluation.evaluate(frame.assign(operations=operations), labels, "task2", resamples=20)
        assert {group for group in tidy["group"] if group.startswith("ops")} == expected
