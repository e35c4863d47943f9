"""The robustness experiments: each change is what it says, nothing else is touched, and tables say what they show."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from redlib import claims, config, figures, models, modules, results
from redlib.claims.modularity import LOSS
from redlib.config import Training
from redlib.expressions import LabelSpace
from redlib.models import LinearBank, PooledBase, stack
from redlib.modules import Library
from redlib.study import modularity, table
from redlib.study.modularity import parts as modularity_parts
from redlib.study.modularity import ranges as modularity_ranges
from redlib.study.modularity.parts import Grown, Questions, wider
from redlib.study.settings import Data

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"structure": 2},
    "task2.definitions": {"operations": {"rows": 500, "seeds": {"structure": 2}}},
    "modularity.ranges": [1, 2],
    "chosen.experts.lr": 0.05,
    "bootstrap": 40,
}
LABELS = LabelSpace()


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", SMALL)


@pytest.fixture(scope="module")
def s(profile):
    (found,) = modularity.settings(profile)
    return found


@pytest.fixture(scope="module")
def made(profile, s):
    """The stage's folder, made once."""
    return modularity.modularity_stage(profile, s).run(lambda line: None)


@pytest.fixture(scope="module")
def predictions(made):
    return pd.read_parquet(made / "predictions.parquet")


@pytest.fixture(scope="module")
def frame(profile, made):
    return table(profile, "modularity", lambda line: None)


# ---- what is asked -----------------------------------------------------------------------------------------------


def test_the_range_beyond_is_as_wide_as_the_last_one_and_follows_it():
    wide, beyond = wider(LABELS)
    assert (wide.lo, wide.hi, wide.edges) == (2, 120, (20, 40, 60, 80, 100))
    assert (beyond.lo, beyond.hi) == (101, 120)
    pairs = [sum(1 for a in range(2, 61) for b in range(2, 61) if lo <= a + b <= hi) for lo, hi in beyond.bounds]
    assert max(pairs) < 1.2 * min(pairs), "both halves have about as many pairs"
    with pytest.raises(ValueError, match=r"the last range 99..100 is too narrow"):
        wider(LabelSpace(2, 100, (98,)))


def test_questions_from_elsewhere_are_what_they_are_called(profile, s, made):
    others = modularity_parts.elsewhere(profile, s.split, 2)
    asked = {name: Questions.of(Data(o), s.labels) for name, o in others.items()}
    assert asked["beyond"].values.min() > s.labels.hi
    assert set(asked["beyond"].y.tolist()) <= set(range(s.labels.C, wider(s.labels)[0].C))
    assert asked["minus"].data.pool["expression"].str.fullmatch(r"\d+ - \d+").all()
    assert set(asked["minus"].data.pool["range"]) == set(range(s.labels.K))
    assert (asked["minus"].y.numpy() == asked["minus"].values - s.labels.lo).all()
    name, (lo, hi), halves = modularity.middle(s)
    assert (name, halves) == ("R3", [(41, 50), (51, 60)])
    of_range = asked["task2"].rows("train", 0, (lo, hi))
    assert set(asked["task2"].data.pool["range"].iloc[of_range]) == {2}


@pytest.mark.parametrize("K", range(1, 11))
def test_equal_ranges_cover_the_values_and_differ_in_width_by_at_most_one(K):
    space = modularity_ranges.equal(LABELS, K)
    widths = [hi - lo + 1 for lo, hi in space.bounds]
    assert space.K == K
    assert sum(widths) == LABELS.C
    assert max(widths) - min(widths) <= 1


def test_no_more_ranges_than_values(s):
    with pytest.raises(ValueError, match="99 values can be cut into 1 to 99 ranges, not 100"):
        modularity_ranges.equal(LABELS, 100)
    assert modularity_ranges.rank_for(s, 1, "parameters") == s.labels.K * s.recipe.rank
    assert modularity_ranges.rank_for(s, 10, "rank") == s.recipe.rank


# ---- what is trained ---------------------------------------------------------------------------------------------


def test_a_grown_classifier_keeps_its_old_columns_bit_for_bit():
    old, new = LinearBank([0, 1], 6, 4), LinearBank([2, 3], 6, 2)
    grown, h = Grown(old, new), torch.randn(2, 5, 6)
    whole = grown.whole()
    assert torch.equal(whole.weight[..., :4], old.weight)
    assert torch.equal(whole.bias[..., 4:], new.bias)
    assert torch.allclose(whole(h), grown(h))
    assert whole.shape["d_out"] == 6


def test_an_expert_learns_its_rows_behind_its_seeds_own_classifier(s):
    """Two seeds whose classifiers tell classes by different numbers of h: an expert works with its own."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(120, 6, generator=draw)
    classifiers = []
    for seed in range(2):
        one = LinearBank([seed], 6, 2)
        one.weight.data[0] = 0
        one.weight.data[0, seed, 1] = 3.0
        classifiers.append(one)
    base = PooledBase(torch.zeros(2, 1, 6), torch.ones(2, 1, 6))
    bank = {"base": base, "classifier": stack(classifiers)}
    y = (x[:, 2] > 0).long()
    questions = Questions(None, x, y, y.numpy())
    rows = [(np.arange(90), np.arange(90, 120))] * 2
    loop = Training(lr=0.02, batch=30, max_epochs=40, patience=40)
    recipe = s.recipe.model_copy(update={"experts": loop, "rank": 4})
    experts = modularity_parts.experts(replace(s, recipe=recipe), bank, "experts", questions, rows, [0, 1])
    with torch.no_grad():
        for seed in range(2):
            own = models.take(experts, [seed])
            right = [(classifiers[k](x + own(x)[0])[0].argmax(-1) == y)[90:].float().mean() for k in range(2)]
            assert right[seed] > 0.85
            assert right[seed] > right[1 - seed] + 0.1, "an expert speaks through the classifier that it learned with"


# ---- what is measured --------------------------------------------------------------------------------------------


def test_every_change_answers_the_same_questions(predictions):
    for _, own in predictions.groupby("questions"):
        counted = own.groupby("method")[["seed", "row"]].apply(lambda rows: tuple(map(tuple, rows.to_numpy())))
        assert counted.nunique() == 1
    assert set(predictions["questions"]) == set(modularity.SETS)


def test_the_untouched_red_is_the_studys_and_all_disabled_is_its_base(s, made, predictions):
    bank = modularity_parts.reused(modularity.modularity_stage(config.load("smoke", SMALL), s), 2)
    data = Data(s)
    for seed in range(2):
        parts = modularity_parts.own(bank, seed)
        x = data.x[data.rows["test"][seed]]
        for name, method in (("red", "red"), ("base", "global_head")):
            with torch.no_grad():
                said = models.assemble(method, s.labels, parts)(x).logits.argmax(-1).numpy() + s.labels.lo
            mine = predictions[(predictions["method"] == name) & (predictions["seed"] == seed)]
            mine = mine[mine["questions"] == "task1"]
            assert (mine["predicted_value"].to_numpy() == said).all()


def test_red_cannot_say_values_that_its_classifier_has_no_column_for(predictions):
    beyond = predictions[predictions["questions"] == "beyond"]
    cannot = beyond[beyond["method"].isin(["red", "base"])]
    assert (cannot["predicted_value"] <= LABELS.hi).all()
    assert set(beyond["range"]) == {LABELS.K}


def test_what_is_added_leaves_every_other_part_bit_for_bit(made, s):
    red = Library.load(made / "red-0.safetensors")
    new, passport = modules.load(made / "experts-0.safetensors")
    assert set(new) == {"start", "rows", "task2", "half_1", "half_2", "minus", "beyond", "classifier"}
    assert passport["weights_id"] == red.passport["weights_id"]
    wide = wider(s.labels)[0]
    grown = red.copy()
    grown.widen(wide, new["classifier"])
    grown.add("R6", new["beyond"], passport)
    before, after = red.state_dict(), grown.state_dict()
    changed = {name for name, value in before.items() if not torch.equal(after[name], value)}
    assert changed == {"classifier.weight", "classifier.bias"}
    assert set(after) - set(before) >= {"experts.expert R6.down.weight", "columns.expert R6.weight"}


def test_reading_red_back_changes_no_bit_and_rounding_drifts_a_little(frame):
    assert (results.select(frame, metric="differing_logits")["value"] == 0).all()
    drift = results.select(frame, metric="logit_drift", method="all_bf16")["value"]
    assert ((drift > 1e-4) & (drift < 0.1)).all()


def test_the_table_holds_paired_changes_of_every_range(frame, s):
    levels = results.select(frame, seed="all", variant="chosen", metric="value_accuracy")
    assert set(levels["group"]) == {"all", *s.labels.names}
    for name in ("remove_R1", "replace_start", "base"):
        here = results.select(levels, method=[name, "red"], group="all").set_index("method")["value"]
        change = results.pick(frame, method=name, group="all", variant="chosen", metric="value_accuracy_change")
        assert change["value"] == pytest.approx(here[name] - here["red"], abs=1e-6)
        assert change["low"] <= change["value"] <= change["high"]
    above = results.pick(frame, method="red", group="all", variant="chosen", metric="value_accuracy_above_base")
    change = results.pick(frame, method="base", group="all", variant="chosen", metric="value_accuracy_change")
    assert above["value"] == pytest.approx(-change["value"], abs=1e-6)


def test_numbers_of_ranges_are_compared_at_equal_rank_and_at_equal_size(profile, s, made):
    found = table(profile, "modularity_ranges", lambda line: None)
    sizes = results.select(found, metric="parameters").set_index(["variant", "method"])["value"]
    assert sizes["chosen/same=parameters", "K=1"] == sizes["chosen/same=parameters", "red"]
    assert sizes["chosen/same=rank", "K=2"] == 2 * sizes["chosen/same=rank", "K=1"]
    one = results.select(found, method="K=1", metric="router_accuracy")
    assert (one["value"] == 1).all()
    assert set(found["method"]) == {"K=1", "K=2", "red"}
    figures.draw_numbers_of_ranges(found, "smoke")


def test_another_number_of_ranges_is_a_stage_of_its_own(profile, s):
    wider = profile.model_copy(update={"modularity": profile.modularity.model_copy(update={"ranges": (1, 2, 3)})})
    few, more = ({K: st.key for K, st in modularity_ranges.ranges_stages(p, s).items()} for p in (profile, wider))
    assert list(more) == ["K=1", "K=2", "K=3", "red"]
    assert few == {K: key for K, key in more.items() if K != "K=3"}
    assert len(set(more.values())) == 4


# ---- what is said ------------------------------------------------------------------------------------------------


def made_up(frame, **changes):
    """The table with every change certain: value, low and high of rows (method, group, variant) as given, else zero."""
    sure = frame.copy()
    moved = sure["metric"].str.endswith(("_change", "_above_base"))
    sure.loc[moved, ["value", "low", "high"]] = 0.0, -0.001, 0.001
    for method, value in changes.items():
        here = (sure["method"] == method) & (sure["metric"] == "value_accuracy_change") & (sure["variant"] == "chosen")
        sure.loc[here, ["value", "low", "high"]] = value, value - 0.01, value + 0.01
    return sure


def test_verdicts_follow_from_the_numbers(frame):
    fine = claims.modularity_verdicts(made_up(frame))
    assert set(fine["section"]) == {"4.4.4", "4.5.5"}
    judged = fine[~fine["claim"].str.contains("is of use")]
    assert set(judged["verdict"]) == {claims.HOLDS}
    bad = claims.modularity_verdicts(made_up(frame, replace_start=-0.3, all_bf16=-0.3, remove_R2=-0.3))
    fails = set(bad.loc[bad["verdict"] == claims.FAILS, "claim"]) - set(
        fine.loc[fine["verdict"] == claims.FAILS, "claim"]
    )
    assert fails == {
        "(1) experts do not interfere with one another",
        "(3) an expert trained in isolation can replace another",
        "so do parts that all have another precision",
    }
    border = claims.modularity_verdicts(made_up(frame, replace_rows=-LOSS)).set_index("claim")["verdict"]
    assert border["(3) also one trained on a tenth of the questions"] == claims.OPEN


def test_every_change_has_a_place_in_the_figure_and_a_name(frame):
    figures.draw_modularity(frame, "smoke")
    names = {figures.change_name(method) for method in frame["method"].unique()}
    assert len(names) == frame["method"].nunique()
    assert figures.change_name("remove_R2") == "R2 removed"
    odd = pd.concat([frame, frame[frame["method"] == "split"].assign(method="melted")])
    with pytest.raises(LookupError, match="no place for melted"):
        figures.draw_modularity(odd, "smoke")
