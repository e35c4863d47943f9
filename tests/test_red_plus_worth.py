"""What the parts of `red_plus` are worth, what it does beyond its training domain, and what it has learned."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import config, evaluation, figures, models, modules, results
from redlib.expressions import Expression, LabelSpace
from redlib.models import DigitBank, FourierBank, LightBase, MLPBank, ResidualExperts
from redlib.study import red_plus, table
from redlib.study.grouped import lined_up, shares
from redlib.study.red_plus import beyond as red_plus_beyond
from redlib.study.red_plus import factors as red_plus_factors
from redlib.study.red_plus import inside as red_plus_inside
from redlib.study.red_plus import parts as red_plus_parts
from redlib.study.red_plus.partitions import partitions

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 1},
    "task1.source_seeds": {},
    "task2.definitions.operations.rows": 250,
    "task2.definitions.operations.seeds": {"structure": 1},
    "task2.definitions.operations.source_seeds": {},
    "red_plus.task1.seeds": {"structure": 1},
    "red_plus.task2.seeds": {"structure": 1},
    "red_plus.parts.rows": {"task1": 250, "task2": 250},
    "red_plus.parts.data": [100],
}
quick = settings(deadline=None, max_examples=25)
LABELS = LabelSpace()


@pytest.fixture
def profile(cache):
    return config.load("smoke", SMALL)


def made(profile, name):
    found = table(profile, name, say=lambda line: None)
    results.validate(found)
    return found


# ---- readouts ----------------------------------------------------------------------------------------------------


@quick
@given(lo=st.integers(0, 30), span=st.integers(1, 120), seed=st.integers(0, 99))
def test_a_logit_of_digits_is_that_of_the_tens_and_that_of_the_units(lo, span, seed):
    bank, x = DigitBank([seed], 4, 0, LabelSpace(lo, lo + span, ())), torch.randn(1, 3, 4)
    said, logits = bank.net(x)[0], bank(x)[0]
    tens = (lo + span) // 10 + 1
    for value in (lo, lo + span):
        wanted = said[:, value // 10] + said[:, tens + value % 10]
        torch.testing.assert_close(logits[:, value - lo], wanted)


@quick
@given(hi=st.integers(101, 201), seed=st.integers(0, 99))
def test_asked_for_more_values_a_readout_says_the_same_of_those_it_knew(hi, seed):
    bank, x = FourierBank([seed], 4, 0, LABELS), torch.randn(1, 3, 4)
    wider = models.with_labels(bank, LabelSpace(LABELS.lo, hi, ()))
    torch.testing.assert_close(wider(x)[..., : LABELS.C], bank(x))
    assert wider(x).shape[-1] == hi - LABELS.lo + 1


def test_values_further_apart_than_the_longest_period_are_refused_with_the_pair():
    with pytest.raises(ValueError, match="give the values 2 and 202 the same code"):
        models.with_labels(FourierBank([1], 4, 0, LABELS), LabelSpace(2, 202, ()))


def test_periods_that_cannot_separate_the_values_of_a_task_are_refused_before_anything_is_made(profile):
    with pytest.raises(ValueError, match="give the values 2 and 12 the same code"):
        red_plus.setting(profile, "task1", "structure", periods=(5, 10))


@pytest.mark.parametrize("ending", models.ENDINGS)
def test_the_streams_of_light_layers_end_in_h(ending):
    base = LightBase([3], 12, 8, 2, 2, 16, ending).eval()
    states, mask = torch.randn(4, 7, 12), torch.arange(7) < torch.tensor([7, 2, 3, 5])[:, None]
    streams = base.each(states, mask)
    assert len(streams) == 1 + 2 + 1
    assert torch.equal(streams[-1], base(states, mask))
    assert all(stream.shape == (1, 4, 8) for stream in streams)


# ---- the router's target -----------------------------------------------------------------------------------------


def test_a_router_on_the_answer_is_red_and_on_both_says_its_expert_beside_it():
    experts, classifier, h = ResidualExperts([1, 2, 3], 8, 2), FourierBank([5], 8, 0, LABELS), torch.randn(1, 6, 8)
    experts.up.weight.data.normal_()
    router = MLPBank([7], 8, 4, 3)
    parts = {"base": torch.nn.Identity(), "classifier": classifier, "experts": experts, "router": router}
    whole = models.assemble("red_plus", LABELS, parts, K=3)(h[0])
    answer = red_plus_parts.RoutedAnswer(router, experts, classifier, both=False)(h)
    torch.testing.assert_close(answer[0], whole.logits)
    both = red_plus_parts.RoutedAnswer(router, experts, classifier, both=True)(h)
    torch.testing.assert_close(both[:, :, 0], answer)
    torch.testing.assert_close(torch.softmax(both[0, :, 1], -1)[:, :3], whole.alpha)


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


# ---- what is inside ----------------------------------------------------------------------------------------------


def test_errors_by_kind_add_up_to_all_rows(profile):
    found = results.select(made(profile, "red_plus_errors"), seed="all", metric="value_accuracy", method="red_plus")
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


def test_lengths_beyond_training_are_drawn_beside_those_in_it(profile):
    fig = figures.draw_plus_lengths(made(profile, "red_plus"), made(profile, "red_plus_beyond"), profile="smoke")
    assert [label.get_text() for label in fig.axes[0].get_xticklabels()] == ["2", "3", "4", "5", "6"]
