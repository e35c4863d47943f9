"""Ablations: one description of a run, the questions of the profiles, and what a run takes over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redlib import config
from redlib.models import LabelSpace
from redlib.study import ablations
from redlib.study.ablations import Run
from redlib.study.ablations.run import reused

LABELS = LabelSpace(2, 13, (5, 9))  # K = 3, C = 12


def test_a_run_is_named_by_what_it_does_otherwise():
    assert Run().changed == "nothing"
    assert Run(seeds=5, split="text").variant == "chosen"
    assert Run(task="task2", rank=4, order="joint").variant == "operations/chosen/rank=4,order=joint"
    assert Run(rank=4) == Run(task="task1", rank=4)
    assert hash(Run(rank=4)) == hash(Run(task="task1", rank=4))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arm": "blue"}, "unknown arm 'blue'; valid arms: red, base_dropped"),
        ({"tuned_layers": 2}, "tuned_layers needs recipe 'source'"),
        ({"recipe": "source", "layer": 3}, "layer and pooling cannot be changed under tuned layers"),
        ({"order": "joint", "expert_share": 0.5}, "order 'joint' trains experts and router together, expert_share"),
        ({"arm": "softmax_moe", "mixing": "logits"}, "arm 'softmax_moe' mixes logits anyway"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        Run(**fields)


def test_a_final_state_that_no_layer_is_tuned_for_may_be_pooled_otherwise():
    assert Run(recipe="source", tuned_layers=0, layer=3, pooling="last").changes["pooling"] == "last"


@given(st.integers(1, 6), st.integers(0, 1_000))
def test_ranges_of_experts_hold_as_many_texts_as_equal_values_allow(K, seed):
    values = np.concatenate([LABELS.values, np.random.default_rng(seed).choice(LABELS.values, 600)])
    made = ablations.groups(LABELS, values, K)
    counts = np.bincount([made.range_of(value) for value in values], minlength=K)
    assert (made.K, made.lo, made.hi, counts.sum()) == (K, LABELS.lo, LABELS.hi, len(values))
    assert abs(counts - len(values) / K).max() <= np.bincount(values).max()


def test_values_that_are_all_alike_cannot_be_shared_out():
    with pytest.raises(ValueError, match="edges"):
        ablations.groups(LABELS, np.full(20, 7), 3)


def test_every_question_of_the_profiles_has_red_first_and_changes_only_what_it_is_about():
    for name in ("smoke", "laptop", "full", "paper"):
        profile = config.load(name)
        assert not set(ablations.TUNED) & {q for asked in profile.ablations.questions.values() for q in asked}
        for entry in ablations.entries(profile):
            if entry.run == entry.reference:
                assert entry.run.changes == {}
            different = dict(entry.run.changes.items() ^ entry.reference.changes.items())
            assert entry.question in ("rank", "depth") or len(different) <= 1 or "readout_hidden" in different


def test_the_questions_that_tune_layers_have_one_seed_but_for_red():
    profile = config.load("full", {"ablations.questions": {"structure": list(ablations.TUNED)}})
    found = ablations.entries(profile)
    assert {entry.run.seeds for entry in found if entry.run == entry.reference} == {3}
    assert {entry.run.seeds for entry in found if entry.run != entry.reference} == {1}
    assert {entry.run.recipe for entry in found} == {"source"}
    assert {e.run.tuned_layers for e in found if e.question == "tuned_layers"} == {None, 0, 1, 3}


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ("base", "experts", "routers")),
        ({"top": 1}, ("base", "experts", "routers")),
        ({"arm": "base_never"}, ("base", "experts", "routers")),
        ({"experts": 2}, ("base",)),
        ({"expert_share": 0.5}, ("base", "routers")),
        ({"readout_hidden": 8}, ("base", "routers")),
        ({"balance": 0.1}, ("base", "experts")),
        ({"order": "joint"}, ("base",)),
        ({"order": "joint_after"}, ("base", "experts", "routers")),
    ],
)
def test_a_run_takes_over_every_part_that_it_does_not_change(fields, parts):
    assert reused(Run(**fields)) == parts
