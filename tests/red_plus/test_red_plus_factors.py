"""What the parts of `red_plus` are worth: one thing changed at a time, shares and onsets."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_plus import WORTH, made

from redlib import config, evaluation, figures, modules, results
from redlib.study import red_plus
from redlib.study.grouped import lined_up, shares
from redlib.study.red_plus import factors as red_plus_factors
from redlib.study.red_plus import parts as red_plus_parts


@pytest.fixture
def profile(cache):
    return config.load("smoke", WORTH)


# ---- shares and onsets -------------------------------------------------------------------------------------------


def items(n=40):
    return pd.DataFrame({"seed": [0, 1] * (n // 2), "row": range(n), "structure": range(n), "range": 0})


def test_shares_by_group_and_their_paired_difference_are_means():
    rows, hit = items(), np.arange(40) % 4 == 0
    hits = {("a",): {"right": hit}, ("b",): {"right": np.ones(40, bool)}}
    early = np.arange(40) < 20
    apart = {(("b",), "more"): ((("b",), "right"), (("a",), "right"))}
    found = shares(rows, hits, ("method",), {"early": early, "none": ~early & early}, apart, 50)
    assert set(found["group"]) == {"early"}
    number = results.pick(found, method="b", metric="more", seed="all")
    assert number["value"] == pytest.approx(1 - hit[early].mean())
    assert number["low"] <= number["value"] <= number["high"]
    assert results.pick(found, method="a", metric="right", seed="1")["value"] == 0


def test_frames_of_other_rows_are_not_compared():
    with pytest.raises(ValueError, match="b answers other rows than a"):
        lined_up({("a",): items(), ("b",): items().assign(row=range(1, 41))})


@pytest.mark.parametrize(
    ("accuracies", "epoch"), [((0.0, 0.1, 0.4, 0.5, 0.8), 3), ((0.5, 0.1), 1), ((0.1, 0.8, 0.2), 2)]
)
def test_the_onset_is_the_first_epoch_at_half_of_the_best(accuracies, epoch):
    history = pd.DataFrame({"epoch": range(1, len(accuracies) + 1), "valid_accuracy": accuracies})
    assert evaluation.onset(history) == {"onset_epoch": epoch, "best_accuracy": max(accuracies)}


def test_a_base_that_was_never_right_has_no_onset():
    one = {"name": "red_plus base", "epoch": [1, 2] * 2, "member": [0, 0, 1, 1], "valid_accuracy": [0, 0, 0.2, 0.6]}
    found = red_plus_factors.onset(pd.DataFrame(one))
    assert set(results.select(found, metric="onset_epoch")["seed"]) == {"1", "all"}
    assert results.pick(found, metric="onset_epoch", seed="all")["value"] == 2
    assert results.pick(found, metric="best_accuracy", seed="all")["value"] == pytest.approx(0.3)


# ---- one thing changed at a time ---------------------------------------------------------------------------------


def test_every_setting_changes_one_thing_and_is_trained_from_the_same_rows(cache):
    full = config.load("full")
    asked = red_plus_factors.parts(full)
    assert {(p.task, p.question) for p in asked} == {
        (task, question) for task, questions in full.red_plus.parts.questions.items() for question in questions
    }
    for part in asked:
        s, own = (red_plus_factors.setting(full, p) for p in (part, replace(part, own=True)))
        fields = [name for name, value in s.recipe if value != getattr(own.recipe, name) and name != "base"]
        loop = [name for name, value in s.recipe.base if value != getattr(own.recipe.base, name)]
        if s.recipe.layers or own.recipe.layers == 0:
            fields += loop
        else:  # without layers Muon has no hidden matrix
            assert (loop, s.recipe.base.optimiser) == (["optimiser"], "adamw")
        changed = [*fields, *(["subset"] if s.subset != own.subset else [])]
        assert changed == ([] if part.own else [red_plus_factors.FIELDS[part.question]])
        assert s.pool.key == own.pool.key


def test_what_comes_before_a_change_is_not_made_again(cache):
    full = config.load("full")
    for part in (p for p in red_plus_factors.parts(full) if not p.own):
        s, own = (red_plus_factors.setting(full, p) for p in (part, replace(part, own=True)))
        late = part.question in ("foreign_share", "rank", "adapter", "router_target", "experts")
        assert (red_plus.base_stage(s, 0).key == red_plus.base_stage(own, 0).key) == late
        apart = red_plus.experts_stage(s, 0).key != red_plus.experts_stage(own, 0).key
        assert apart == (part.question != "router_target")


def test_a_change_is_the_difference_of_two_levels_of_the_parts_and_every_question_has_its_own(profile):
    found = made(profile, "red_plus_parts")
    assert set(found["question"]) == {"readout", "data", "adapter", "router_target", "experts"}
    levels = results.select(found, metric="value_accuracy", seed="all").set_index(["question", "own", "method"])
    for question in set(found["question"]):
        for method in red_plus_factors.METHODS:
            apart = levels.loc[question, 0, method]["value"].item() - levels.loc[question, 1, method]["value"].item()
            keys = {"question": question, "own": 0, "method": method, "metric": "value_accuracy_change"}
            assert results.pick(found, **keys)["value"] == pytest.approx(apart, abs=1e-5)
        added = results.pick(found, question=question, own=1, metric="value_accuracy_added")["value"]
        both = [levels.loc[question, 1, method]["value"].item() for method in red_plus_factors.METHODS]
        assert added == pytest.approx(both[0] - both[1], abs=1e-5)
    assert levels.loc[(slice(None), 1, "red_plus"), "value"].nunique() == 1


def test_other_groups_than_ranges_have_so_many_experts_and_router_targets(profile):
    part = next(p for p in red_plus_factors.parts(profile) if p.question == "experts" and not p.own)
    s = red_plus_factors.setting(profile, part)
    folders = {name: stage.run(lambda line: None) for name, stage in red_plus.part_stages(s, 0).items()}
    experts = modules.load(folders["experts"] / "experts.safetensors")[0]["experts"]
    assert experts.down.weight.shape[0] == s.K == 2
    data = red_plus_parts.HiddenData(s, folders["base"])
    counts = np.bincount(data.expert.numpy())
    assert len(counts) == 2
    assert abs(counts[0] - counts[1]) < 0.1 * counts.sum()


def test_periods_that_cannot_separate_the_values_of_a_task_are_refused_before_anything_is_made(profile):
    with pytest.raises(ValueError, match="give the values 2 and 12 the same code"):
        red_plus.setting(profile, "task1", "structure", periods=(5, 10))


# ---- figures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "own", "words"),
    [
        ("layer=0", False, "embeddings"),
        ("layer=12", False, "hidden state 12"),
        ("rows=3200", False, "3,200"),
        ("base_share=0.5", True, "50% (own)"),
        ("readout=digits", False, "tens and units"),
        ("rank=72", True, "72 (own)"),
    ],
)
def test_a_setting_is_named_in_words(changed, own, words):
    assert figures.part_name(changed, own) == words


def test_every_setting_has_its_line_in_the_figure(profile):
    found = made(profile, "red_plus_parts")
    fig = figures.draw_plus_parts(found, profile="smoke", note=figures.NO_EVIDENCE)
    named = [label.get_text() for label in fig.axes[0].get_yticklabels()]
    wanted = found.drop_duplicates(["question", "changed"])
    assert sorted(named) == sorted(figures.part_name(c, bool(o)) for c, o in wanted[["changed", "own"]].to_numpy())
