"""The stages of `red_plus` at smoke size, their tables and figures."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from small_plus import made
from torch import nn

from redlib import config, figures, models, modules, results, study
from redlib.expressions import LabelSpace
from redlib.models import LinearBank
from redlib.study import methods, red_plus
from redlib.study.data import open_backbone
from redlib.study.red_plus import parts as red_plus_parts

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 2},
    "task1.source_seeds": {},
    "task2.definitions.operations.rows": 250,
    "task2.definitions.operations.seeds": {"structure": 1},
    "task2.definitions.operations.source_seeds": {},
    "red_plus.task1.seeds": {"structure": 2},
    "red_plus.task2.seeds": {"structure": 1, "phrasing": 1},
}


@pytest.fixture
def profile(cache):
    return config.load("smoke", SMALL)


@pytest.fixture
def setting(profile, request):
    return red_plus.setting(profile, getattr(request, "param", "task1"), "structure")


both = pytest.mark.parametrize("setting", red_plus.TASKS, indirect=True)


def tensors(part):
    return {name: value.clone() for name, value in part.state_dict().items()}


def equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@both
def test_experts_trained_alone_and_in_any_order_are_those_of_the_stage_and_leave_the_base_as_it_is(setting):
    stages = red_plus.part_stages(setting, 0)
    together = modules.load(stages["experts"].run(lambda line: None) / "experts.safetensors")[0]["experts"]
    base = modules.load(stages["base"].folder / "base.safetensors")[0]
    before = {name: tensors(part) for name, part in base.items()}
    data = red_plus_parts.HiddenData(setting, stages["base"].folder)
    for k in (4, 1):
        alone, _ = red_plus_parts.train_expert(data, base["classifier"], 0, k)
        assert equal(tensors(models.take(together, [k])), tensors(alone))
        assert alone.up.weight.abs().max() > 0
    assert all(equal(before[name], tensors(part)) for name, part in base.items())


TRAINED_ELSEWHERE = """
import json, sys
from pathlib import Path
import torch
given, task, k, threads, out = json.loads(sys.argv[1])
torch.set_num_threads(threads)
from redlib import config, modules
from redlib.study import red_plus
from redlib.study.red_plus import parts
s = red_plus.setting(config.load("smoke", given), task, "structure")
base = red_plus.base_stage(s, 0)
assert base.done, "the base is the one of the other process"
classifier = modules.load(base.folder / "base.safetensors")[0]["classifier"]
expert, _ = parts.train_expert(parts.HiddenData(s, base.folder), classifier, 0, k)
modules.save(Path(out), {"expert": expert}, s.passport(0))
"""


@both
def test_an_expert_trained_in_another_process_is_that_of_the_stage_bit_for_bit(setting, tmp_path):
    stages, k, file = red_plus.part_stages(setting, 0), 3, tmp_path / "expert.safetensors"
    together = modules.load(stages["experts"].run(lambda line: None) / "experts.safetensors")[0]["experts"]
    asked = json.dumps([SMALL, setting.task, k, torch.get_num_threads(), str(file)])
    done = subprocess.run([sys.executable, "-c", TRAINED_ELSEWHERE, asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    elsewhere = tensors(modules.load(file)[0]["expert"])
    assert equal(tensors(models.take(together, [k])), elsewhere)
    assert not equal(tensors(models.take(together, [k - 1])), elsewhere)


def test_a_base_made_again_is_the_same_bit_for_bit(setting):
    stage = red_plus.base_stage(setting, 0)
    first = modules.load(stage.run(lambda line: None) / "base.safetensors")[0]
    again = modules.load(stage.run(lambda line: None, force=True) / "base.safetensors")[0]
    assert all(equal(tensors(first[name]), tensors(again[name])) for name in first)


@pytest.mark.parametrize("task", red_plus.TASKS)
def test_trunk_and_base_are_bit_for_bit_what_they_were_when_every_part_is_trained(own_cache, task):
    profile = config.load("smoke", SMALL)
    trunk, s = open_backbone(profile.backbone), red_plus.setting(profile, task, "structure")
    before = tensors(trunk.model)
    stages = red_plus.part_stages(s, 0)
    base = stages["base"].run(lambda line: None)
    files = {name: (base / name).read_bytes() for name in ("base.safetensors", "h.npy")}
    assert equal(before, tensors(trunk.model)), "after the base"
    for name in ("experts", "router"):
        stages[name].run(lambda line: None)
    assert equal(before, tensors(trunk.model))
    assert files == {name: (base / name).read_bytes() for name in files}


@both
def test_an_expert_sees_its_own_rows_and_the_asked_share_of_others(setting):
    data = red_plus_parts.Data(setting)
    train = data.rows["train"][0]
    for k in range(setting.K):
        rows = red_plus_parts.rows_of_expert(data, train, k, 0)
        own = data.range.numpy()[rows] == k
        assert len(np.unique(rows)) == len(rows)
        assert set(data.of_range(train, k)) <= set(rows) <= set(train)
        assert (~own).mean() == pytest.approx(setting.recipe.foreign_share, abs=0.02)


@both
def test_stored_h_is_what_the_saved_base_says_of_the_texts(profile, setting):
    method = red_plus.trained(profile, setting.task)
    h = np.load(red_plus.base_stage(setting, 0).folder / "h.npy")
    data = red_plus_parts.Data(setting)
    if setting.task == "task1":
        x = data.x[:20]
    else:
        x = red_plus_parts.feature_set(setting.features).states().batch(range(20))
    torch.testing.assert_close(method.hidden(x), torch.from_numpy(h[:20]), atol=1e-5, rtol=1e-4)


def test_a_classifier_of_another_label_space_and_a_boundary_outside_the_trunk_are_refused(profile, setting, tmp_path):
    file = red_plus.base_stage(setting, 0).run(lambda line: None) / "base.safetensors"
    with pytest.raises(ValueError, match="labels"):
        modules.load(file, labels=LabelSpace(2, 200, (50, 100)))
    parts, passport = modules.load(file)
    wider = {"classifier": models.FourierBank([0], parts["classifier"].shape["d"], 8, LabelSpace(2, 200, (50, 100)))}
    with pytest.raises(ValueError, match="classifier says values 2 to 200, but the label space has 2 to 100"):
        modules.save(tmp_path / "wider.safetensors", parts | wider, passport)
    whole = red_plus.trained(profile, setting.task)
    with pytest.raises(ValueError, match="classifier says values 2 to 200, but the label space has 2 to 100"):
        models.assemble("red_plus", setting.labels, {**whole.parts, **wider})
    with pytest.raises(ValueError, match="has no hidden state 9; valid layers: 0 to 4"):
        red_plus.base_stage(red_plus.setting(profile, "task1", "structure", layer=9), 0).run(lambda line: None)


@pytest.mark.parametrize(
    ("task", "overrides", "said"),
    [
        ("task3", {}, "there is no red_plus of 'task3'; valid tasks: task1, task2"),
        ("task1", {"red_plus.task1.tuned_layers": 2}, "keeps its trunk frozen; tuned_layers must be 0, got 2"),
        ("task2", {"red_plus.task2.pooling": "last"}, "pooling must be mean, got last"),
        ("task2", {"red_plus.task2.noise": 0.5}, "has light layers, which read no noise; noise must be 0"),
        ("task1", {"red_plus.task1.ending": "turns"}, "without light layers red_plus of task1 has nothing for `turns`"),
        ("task1", {"red_plus.task1.base.optimiser": "muon"}, "has nothing for `turns` or Muon; set layers"),
        ("task1", {"red_plus.task1.groups": 10}, "groups 10 and readout fourier are tried by the table red_plus_parts"),
        ("task2", {"red_plus.task2.readout": "digits"}, "groups None and readout digits are tried by the table"),
    ],
)
def test_a_form_that_cannot_be_is_refused(task, overrides, said):
    with pytest.raises(ValueError, match=said):
        red_plus.form(config.load("smoke", overrides), task)


def test_a_seed_that_a_split_does_not_have_is_refused(profile):
    with pytest.raises(ValueError, match="has 2 seeds on the structure split, numbered from 0; got 2"):
        red_plus.trained(profile, "task1", seed=2)


def test_other_settings_of_the_experts_leave_the_key_of_the_base_as_it_is(profile):
    own, other = (red_plus.setting(profile, "task1", "structure", **c) for c in ({}, {"rank": 3}))
    assert red_plus.base_stage(own, 0).key == red_plus.base_stage(other, 0).key
    assert red_plus.experts_stage(own, 0).key != red_plus.experts_stage(other, 0).key
    moved = red_plus.setting(profile, "task1", "structure", periods=(2, 5, 10, 50, 100))
    assert red_plus.base_stage(own, 0).key != red_plus.base_stage(moved, 0).key


def test_the_learning_rate_rises_to_its_whole_and_falls_to_nothing():
    done = np.linspace(0, 1, 101)
    rate = np.array([red_plus_parts.one_cycle(d) for d in done])
    assert rate[0] == pytest.approx(0.04)
    assert rate.max() == rate[30] == pytest.approx(1)
    assert rate[-1] < 1e-6
    assert (np.diff(rate[:31]) > 0).all()
    assert (np.diff(rate[30:]) < 0).all()


# ---- tables ------------------------------------------------------------------------------------------------------


def test_the_tables_hold_base_whole_and_controls_of_the_same_rows_and_add_up(profile):
    found = made(profile, "red_plus")
    for task, splits in (("task1", {"structure"}), ("task2", {"structure", "phrasing"})):
        mine = found[found["task"] == task]
        assert set(mine["split"]) == splits
        here = mine[(mine["split"] == "structure") & (mine["group"] == "all") & (mine["seed"] == "all")]
        value = here[here["metric"] == "value_accuracy"].set_index("method")
        assert set(value.index) == {*models.PLUS, "red", "softmax_moe"} | {
            "global_head_full_data",
            "mlp_full_data",
            "fourier_full_data",
        }
        assert value["n"].nunique() == 1
        added = here[here["metric"] == "value_accuracy_below_red_plus"].set_index("method")["value"]
        torch.testing.assert_close(
            torch.tensor(added["red_plus_base"]),
            torch.tensor(value.loc["red_plus", "value"] - value.loc["red_plus_base", "value"]),
            atol=1e-5,
            rtol=0,
        )
    assert set(found[(found["task"] == "task2") & (found["split"] == "phrasing")]["method"]) == set(models.PLUS)


def test_accuracies_of_the_table_are_those_of_the_predictions(profile):
    s = red_plus.setting(profile, "task1", "structure")
    said = pd.read_parquet(red_plus.predictions_stage(s).run(lambda line: None) / "predictions.parquet")
    said = said[(said["part"] == "test") & (said["method"] == "red_plus") & (said["seed"] == 1)]
    found = made(profile, "red_plus")
    row = results.select(found, task="task1", method="red_plus", seed="1", group="all", metric="range_accuracy")
    assert row["value"].item() == pytest.approx((said["range"] == said["predicted_range"]).mean(), abs=1e-5)


def test_the_curves_have_every_part_and_epoch(profile):
    curves = made(profile, "red_plus_curves")
    assert set(curves["method"]) == {"red_plus base", "red_plus expert", "red_plus router"}
    experts = curves[(curves["method"] == "red_plus expert") & (curves["task"] == "task1")]
    assert set(experts["epoch"]) == {1, 2}
    assert set(experts["n"]) == {2 * 5}


def test_other_chapters_do_not_know_of_these_methods(profile):
    assert not set(models.PLUS) & set(models.METHODS)
    assert set(methods.predictions_stage(study.task1.setting(profile, "chosen", "structure")).config["methods"]) == set(
        models.METHODS
    )


def test_a_readout_of_other_periods_is_another_part_on_disk(setting):
    part = modules.load(red_plus.base_stage(setting, 0).run(lambda line: None) / "base.safetensors")[0]["classifier"]
    assert isinstance(part, nn.Module)
    assert part.shape["periods"] == list(setting.recipe.periods)
    assert isinstance(part.net.last, LinearBank)
    assert part.net.first is None


# ---- figures -----------------------------------------------------------------------------------------------------


def test_a_line_a_method_and_a_mark_a_split_are_drawn_with_names(profile):
    found = made(profile, "red_plus")
    fig = figures.draw_red_plus(found, profile="smoke", note=figures.NO_EVIDENCE)
    (first, *_), panels = fig.axes, fig.axes
    assert len(panels) == 4
    assert {label.get_text() for label in first.get_yticklabels()} == {
        figures.style.look(name).label for name in found["method"]
    }
    assert {text.get_text() for text in fig.legends[0].get_texts()} == {
        figures.style.SPLITS[split].label for split in ("structure", "phrasing")
    }


def test_the_onset_has_a_line_a_split_through_every_epoch(profile):
    curves = made(profile, "red_plus_curves")
    first, second = figures.draw_onset(curves, profile="smoke").axes
    assert (len(first.lines), len(second.lines)) == (1, 2)
    assert list(first.lines[0].get_xdata()) == [1, 2]
