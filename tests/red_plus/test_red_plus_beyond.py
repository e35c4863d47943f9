"""What `red_plus` does beyond its training domain, and what it has learned."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_plus import WORTH, made

from redlib import config, evaluation, figures, models, results
from redlib.expressions import Expression, LabelSpace
from redlib.study import red_plus
from redlib.study.red_plus import beyond as red_plus_beyond
from redlib.study.red_plus import inside as red_plus_inside
from redlib.study.red_plus.partitions import partitions
from redlib.study.settings import Data

quick = settings(max_examples=25)
LABELS = LabelSpace()


@pytest.fixture
def profile(cache):
    return config.load("smoke", WORTH)


# ---- beyond the training domain ----------------------------------------------------------------------------------


@quick
@given(width=st.integers(2, 60), shifts=st.integers(1, 5), seed=st.integers(0, 99))
def test_the_probability_of_any_range_is_the_sum_over_its_values(width, shifts, seed):
    logits = torch.randn(4, LABELS.C, generator=torch.Generator().manual_seed(seed))
    p = torch.softmax(logits, -1)
    for (wide, first), space in partitions(LABELS, (width,), shifts).items():
        assert (wide, space.edges[0]) == (width, first)
        assert {last - start + 1 for start, last in space.bounds[1:-1]} <= {width}
        wanted = torch.stack([p[:, a - LABELS.lo : b - LABELS.lo + 1].sum(1) for a, b in space.bounds], 1)
        torch.testing.assert_close(models.range_probabilities(logits, space), wanted)


def test_the_own_ranges_among_the_partitions_have_the_accuracy_of_the_main_table(profile):
    found, main = made(profile, "red_plus_partitions"), made(profile, "red_plus")
    for task in red_plus.TASKS:
        for method in red_plus_beyond.METHODS:
            keys = {"task": task, "method": method, "metric": "range_accuracy", "seed": "0"}
            own = results.pick(found, **keys, group="first=20", x=20.0)
            assert own["value"] == results.pick(main, **keys, group="all", split="structure")["value"]


def test_beyond_the_domain_every_question_is_asked_of_both_and_counted_once(profile):
    found = made(profile, "red_plus_beyond")
    longer = results.select(found, task="task2", seed="all", metric="value_accuracy", method="red_plus")
    assert {"all", "ops=5", "ops=6"} <= set(longer["group"])
    n = longer.set_index("group")["n"]
    assert n["ops=5"] + n["ops=6"] == n["all"] == profile.red_plus.beyond.longer_rows
    wide = results.select(found, task="task1", seed="all", metric="value_accuracy")
    assert set(wide["variant"]) == {"wide/trained=narrow", "wide/rows=100"}
    counts = wide.groupby(["variant", "method"])["n"].sum()
    assert counts.nunique() == 1
    assert set(wide["group"]) == {"larger=none", "larger=operand", "larger=value"}


def test_no_pair_among_larger_numbers_was_in_the_narrow_training(profile):
    own = red_plus.setting(profile, "task1", "structure")
    data = Data(own)
    known = set(data.pool["structure"].iloc[data.rows["train"][0]])
    stage = red_plus_beyond.narrow_stage(profile)
    asked = pd.read_parquet(stage.run(lambda line: None) / "predictions.parquet").query("method == 'red_plus'")
    small = np.array([max(map(int, pair.split("+")[1:])) for pair in asked["structure"]]) <= profile.task1.operands[1]
    seen = asked["structure"].isin(known).to_numpy()
    assert not seen[~small].any()
    assert seen[small].any(), "some would have been counted"
    keys = {"variant": "wide/trained=narrow", "seed": "all", "method": "red_plus", "metric": "value_accuracy"}
    found = results.pick(made(profile, "red_plus_beyond"), **keys, group="larger=none")
    assert found["n"] == (small & ~seen).sum()


def test_a_text_longer_than_the_positions_is_not_answered_and_counts_as_wrong(profile):
    stage = red_plus_beyond.longer_stage(profile)
    said = pd.read_parquet(stage.run(lambda line: None) / "predictions.parquet").query("method == 'red_plus'")
    lengths = red_plus_inside.feature_set(stage.inputs["features"]).states().lengths
    too_long = lengths > profile.red_plus.task2.positions
    assert too_long.any()
    assert ((said["predicted_value"] == evaluation.NO_ANSWER).to_numpy() == too_long).all()
    share = results.pick(made(profile, "red_plus_beyond"), metric="too_long")["value"]
    assert share == pytest.approx(too_long.mean())


def test_a_text_is_answered_the_same_in_whatever_batch_it_is_asked(profile):
    s = red_plus.setting(profile, "task2", "structure")
    method = red_plus.trained(profile, "task2")
    rows = np.array([7, 3, 11, 5])
    together = red_plus_beyond.ask(method, s.recipe, s.features, s.labels, rows)
    for place, row in enumerate(rows):
        alone = red_plus_beyond.ask(method, s.recipe, s.features, s.labels, np.array([row]))
        assert alone["confidence"].item() == pytest.approx(together["confidence"][place], abs=1e-5)


def test_lengths_beyond_training_are_drawn_beside_those_in_it(profile):
    fig = figures.draw_plus_lengths(made(profile, "red_plus"), made(profile, "red_plus_beyond"), profile="smoke")
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()] == ["2", "3", "4", "5", "6"]


# ---- what is inside ----------------------------------------------------------------------------------------------


@quick
@given(
    terms=st.lists(st.integers(0, 60), min_size=2, max_size=6),
    signs=st.lists(st.sampled_from("+-"), min_size=5, max_size=5),
)
def test_an_operation_carries_where_the_tens_change_by_other_than_its_own(terms, signs):
    e = Expression(tuple(terms), tuple(signs[: len(terms) - 1]))
    tens = [at // 10 for at in (e.terms[0], *e.partials)]
    own = [term // 10 if term >= 0 else -(-term // 10) for term in e.signed[1:]]
    assert e.carries == sum(after - before != step for (before, after), step in zip(pairwise(tens), own, strict=True))


def test_errors_by_kind_add_up_to_all_rows(cache):
    asked = config.load("smoke", WORTH | {"red_plus.task1.seeds": {"structure": 1, "phrasing": 1}})
    found = results.select(made(asked, "red_plus_errors"), seed="all", metric="value_accuracy", method="red_plus")
    words, found = (results.select(found, split=split) for split in ("phrasing", "structure"))
    assert set(words["task"]) == {"task1"}
    assert words.set_index("group").loc["all", "n"] == found.set_index(["task", "group"]).loc[("task1", "all"), "n"]
    for task, kinds in (("task1", ("carry",)), ("task2", ("carry", "ops", "pattern"))):
        mine = found[found["task"] == task].set_index("group")
        for kind in kinds:
            of_kind = mine[mine.index.str.startswith(f"{kind}=")]
            assert of_kind["n"].sum() == mine.loc["all", "n"]
            right = (of_kind["value"] * of_kind["n"]).sum()
            assert right == pytest.approx(mine.loc["all", "value"] * mine.loc["all", "n"], abs=1e-3)


def test_the_sites_of_a_text_end_in_what_the_classifier_reads(profile):
    for task in red_plus.TASKS:
        s, rows = red_plus.setting(profile, task, "structure"), np.arange(12)
        found = red_plus_inside.sites(s, 0, rows)
        assert next(iter(found)) == "trunk"
        assert [*found][-2:] == ["h", "h and experts"]
        h = np.load(red_plus.base_stage(s, 0).folder / "h.npy")[rows]
        np.testing.assert_allclose(found["h"], h, atol=1e-5, rtol=1e-4)
        parts = red_plus.load_parts(s, 0)
        x = torch.from_numpy(found["trunk"]) if task == "task1" else None
        if x is not None:
            logits = models.assemble("red_plus", s.labels, parts)(x).logits
            read = parts["classifier"](torch.from_numpy(found["h and experts"]))[0]
            torch.testing.assert_close(logits, read, atol=1e-4, rtol=1e-4)


def test_components_have_a_number_for_every_site_and_period(profile):
    found = made(profile, "red_plus_fourier")
    for task in red_plus.TASKS:
        mine = found[found["task"] == task]
        assert len(mine) == mine["site"].nunique() * len(profile.red_plus.task1.periods)
        assert mine.groupby("site")["x"].nunique().eq(1).all()
    assert found["value"].max() <= 1
