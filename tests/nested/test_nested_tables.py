"""Nested experts from pictures to tables at smoke size, then figures, verdicts and the widget on those tables."""

import threading

import numpy as np
import pandas as pd
import pytest

from redlib import claims, config, figures, results, study
from redlib.nested import flops
from redlib.study import nested as chapter
from redlib.study.nested import routing as nested_routing
from redlib.study.nested import tables as nested_tables
from redlib.widgets import NestedMap, token_map

LESS = {"nested.seeds": 1, "bootstrap": 30}
DRAWN = {"profile": "smoke", "note": figures.NO_EVIDENCE}
NAMES = ("nested", "nested_curves", "nested_routing", "nested_maps", "nested_speed", "nested_clock")


@pytest.fixture(scope="module")
def profile():
    return config.load("smoke", LESS)


@pytest.fixture(scope="module")
def tables(cache, profile):
    return {name: study.table(profile, name, say=lambda line: None) for name in NAMES}


def test_a_second_time_nothing_is_made(tables, profile):
    assert list(nested_tables.nested_tables(profile).missing()) == []


def test_another_seed_or_arm_makes_only_what_is_new(tables, profile):
    more = config.load("smoke", LESS | {"nested.seeds": 2})
    new = {stage.name for stage in nested_tables.nested_tables(more).missing()}
    assert "nested tables" in new
    assert all("seed 1" in name for name in new - {"nested tables"})
    other = config.load("smoke", LESS | {"nested.gain": 0.5})
    arms = {f"nested {arm}, seed 0" for arm in profile.nested.arms}
    made = {stage.name for stage in nested_tables.nested_tables(other).missing()}
    assert made == arms | {"nested answers, seed 0", "nested tables"}


def test_accuracy_has_every_method_and_budget_with_its_interval_and_its_cost(tables, profile):
    n, frame = profile.nested, tables["nested"]
    right = results.select(frame, metric="accuracy", seed="all")
    assert (right["low"] <= right["value"]).all()
    assert (right["value"] <= right["high"]).all()
    asked = set(nested_tables.names(n))
    assert set(zip(right["method"], right["x"], strict=True)) == {(m, round(x, 6)) for m, x in asked}
    ratio = results.select(frame, metric="flops_ratio")
    for _, row in ratio[ratio["method"] == "nested"].iterrows():
        assert row["value"] == pytest.approx(flops.ratio(chapter.shape(n), "nested", row["x"]), rel=1e-5)


def test_differences_are_between_the_rows_that_they_name(tables, profile):
    frame = results.select(tables["nested"], seed="all")
    value = {(r.method, r.x): r.value for r in frame[frame["metric"] == "accuracy"].itertuples()}
    for r in frame[frame["metric"].str.startswith("accuracy_minus_")].itertuples():
        other = r.metric.removeprefix("accuracy_minus_")
        if other == "plain":
            assert r.value == pytest.approx(value[r.method, r.x] - value["plain", 1.0], abs=2e-6)
        elif other != "same_flops":
            assert r.value == pytest.approx(value[r.method, r.x] - value[other, r.x], abs=2e-6)
    cheap = nested_tables._against(profile.nested, "nested", "0.15")["same_flops"]
    dear = nested_tables._against(profile.nested, "nested", "0.95")["same_flops"]
    assert dear == "plain@1"
    costs = {name: nested_tables.image_flops(profile.nested, name.split("@")[0], 1) for name in (cheap, dear)}
    assert costs[cheap] >= nested_tables.image_flops(profile.nested, "nested", 0.15)


def test_pictures_of_the_parts_share_no_digit(tables, profile):
    parts = [chapter.clutter_stage(profile.nested, 0, part) for part in ("train", "validation", "test")]
    for stage in parts:
        stage.run(lambda line: None)
    rows = [set(chapter.read(stage, "clutter.npz")["rows"]) for stage in parts]
    assert sum(map(len, rows)) == len(set.union(*rows))
    test = chapter.read(parts[2], "clutter.npz")
    assert test["images"].dtype == np.uint8
    assert test["images"].shape[:2] == (profile.nested.test_views, len(rows[2]))
    assert not np.array_equal(test["images"][0], test["images"][1]), "another placement"
    shown = chapter.pictures(profile)
    assert np.array_equal(shown["images"], test["images"][0, : profile.nested.shown])


def test_maps_place_every_token_once_and_all_pictures_alike(tables, profile):
    widths = results.select(tables["nested_maps"], metric="width")
    model = chapter.shape(profile.nested)
    each = widths.groupby(["group", "x"])["token"].agg(["size", "nunique"])
    assert (each == model.tokens).all().all()
    for budget, rows in widths.groupby("x"):
        count = rows.groupby("group")["value"].value_counts().unstack(fill_value=0)
        assert (count == count.iloc[0]).all().all()
        assert rows["value"].sum() / rows["group"].nunique() / model.tokens <= budget + 1e-6


def test_routing_has_the_baselines_and_loads_that_sum_to_one(tables, profile):
    frame = results.select(tables["nested_routing"], seed="all")
    for name in ("brightness", "contrast", "supervised_pixels", "supervised_tokens"):
        assert results.pick(frame, method=name, metric="mask_auc")["x"] == 0
    load = results.select(frame, metric="load").groupby(["method", "x"])["value"].sum()
    assert np.allclose(load, 1, atol=1e-5)
    assert results.select(frame, metric="load")["low"].isna().all(), "fixed by the budget, not estimated"


def test_speed_is_about_every_width_and_budget(tables, profile):
    frame, n = tables["nested_speed"], profile.nested
    assert set(frame["variant"]) == {f"D={dim}" for dim in n.speed_dims}
    rows = results.select(frame, metric=["speedup", "train_speedup"])
    assert (rows["low"] <= rows["high"]).all()
    assert (results.select(frame, metric="activation_bytes")["value"] > 0).all()


def test_every_row_of_the_accuracy_has_its_time_on_the_clock(tables):
    right = results.select(tables["nested"], metric="accuracy", seed="all")
    clock = results.select(tables["nested_clock"], metric="clock_ratio")
    assert set(zip(clock["method"], clock["x"], strict=True)) == set(zip(right["method"], right["x"], strict=True))
    taken = results.select(tables["nested_clock"], metric="milliseconds")
    assert (taken["low"] > 0).all()
    assert (taken["low"] <= taken["value"]).all()
    assert results.pick(clock, method="plain")[["value", "low", "high"]].tolist() == [1, 1, 1]


def test_every_figure_is_drawn_from_the_tables(tables, profile, tmp_path):
    shown = chapter.pictures(profile)
    made = {
        "capacities": figures.draw_capacities(tables["nested_curves"]),
        "block": figures.draw_nested_block(chapter.shape(profile.nested).shares),
        "clutter": figures.draw_clutter(shown["images"], shown["mask"], shown["labels"], **DRAWN),
        "accuracy": figures.draw_accuracy_flops(tables["nested"], **DRAWN),
        "clock": figures.draw_accuracy_clock(tables["nested"], tables["nested_clock"], **DRAWN),
        "maps": figures.draw_token_maps(tables["nested_maps"], shown["images"], (0.15, 0.3), **DRAWN, count=2),
        "mask": figures.draw_mask_agreement(tables["nested_routing"], **DRAWN),
        "speed": figures.draw_nested_speed(tables["nested_speed"], **DRAWN),
    }
    for name, fig in made.items():
        assert all(path.stat().st_size > 3000 for path in figures.save(fig, tmp_path, name))
    for name in ("accuracy", "clock"):
        labels = [text.get_text() for text in made[name].legends[0].get_texts()]
        assert {"nested experts", "plain, fewer features", "grouped (the nested document)"} <= set(labels)


# ---- verdicts ----------------------------------------------------------------------------------------------------


def changed(frame, value, low=None, high=None, **keys):
    """The frame with another number in the rows of these keys."""
    frame = frame.copy()
    rows = np.logical_and.reduce([np.isclose(frame[k], v) if k == "x" else frame[k] == v for k, v in keys.items()])
    assert rows.any()
    frame.loc[rows, ["value", "low", "high"]] = [value, low, high]
    return frame


def verdict(found, claim):
    return found[found["claim"].str.startswith(claim)]["verdict"].iloc[0]


def test_every_advantage_of_the_document_has_a_verdict_that_follows_the_numbers(tables):
    scores, routes, speeds = (tables[name] for name in ("nested", "nested_routing", "nested_speed"))
    found = claims.nested_verdicts(scores, routes, speeds, 0.3)
    for name, words in claims.ADVANTAGES.items():
        assert f"{name}: {words}" in set(found["claim"])
    assert verdict(found, "Conditional Computation") == claims.FAILS
    of = {"method": "nested", "seed": "all", "x": 0.3}
    better = changed(scores, 0.1, 0.05, 0.15, metric="accuracy_minus_same_flops", **of)
    worse = changed(scores, -0.1, -0.15, -0.05, metric="accuracy_minus_same_flops", **of)
    quick = changed(speeds, 2.0, 1.9, 2.1, method="nested", metric="speedup")
    heavy = changed(speeds, 1.2, 1.2, 1.2, method="nested", metric="activation_ratio")
    seen = changed(routes, 1.0, 0.999, 1.0, metric="mask_auc_width", group="all", **of)
    one, two = claims.nested_verdicts(better, seen, quick, 0.3), claims.nested_verdicts(worse, routes, heavy, 0.3)
    assert verdict(one, "Increased Capacity") == verdict(one, "Improved Throughput") == claims.HOLDS
    assert verdict(one, "Dynamic Adaptation") == claims.HOLDS
    assert verdict(two, "Increased Capacity") == verdict(two, "Memory Efficiency") == claims.FAILS
    close = changed(scores, 0.0, -0.005, 0.005, metric="accuracy_minus_plain", **{**of, "x": 0.5})
    far = changed(scores, -0.2, -0.25, -0.15, metric="accuracy_minus_plain", **{**of, "x": 0.5})
    for frame, said in ((close, claims.HOLDS), (far, claims.FAILS)):
        assert verdict(claims.nested_verdicts(frame, routes, speeds, 0.3), "preserved") == said


@pytest.mark.parametrize(
    ("brightness", "contrast", "expected", "words"),
    [
        (0.6, 0.65, claims.HOLDS, ("better than the brightness of its patch (0.6", "better than its contrast (0.6")),
        (0.6, 0.85, claims.FAILS, ("better than the brightness of its patch (0.6", "worse than its contrast (0.8")),
        (0.7, 0.65, claims.OPEN, ("neither measurably better nor worse than the brightness", "better than its ")),
    ],
)
def test_a_router_has_to_tell_more_of_the_digit_than_its_patch_does(tables, brightness, contrast, expected, words):
    scores, routes, speeds = (tables[name] for name in ("nested", "nested_routing", "nested_speed"))
    at = {"method": "nested", "seed": "all", "group": "all", "metric": "mask_auc_width"}
    routes = changed(routes, 0.7, 0.68, 0.72, x=0.3, **at)
    for name, auc in {"brightness": brightness, "contrast": contrast}.items():
        routes = changed(routes, auc, auc, auc, method=name, metric="mask_auc", seed="all")
    found = claims.nested_verdicts(scores, routes, speeds, 0.3)
    assert verdict(found, "Dynamic Adaptation") == expected
    said = claims.beside_patch(routes, results.pick(routes, x=0.3, **at))
    assert all(clause.startswith(start) for clause, start in zip(said.split(" and "), words, strict=True))


def test_verdicts_without_the_variant_are_open_and_without_the_budget_refused(tables):
    scores, routes, speeds = (tables[name] for name in ("nested", "nested_routing", "nested_speed"))
    found = claims.nested_verdicts(scores[scores["method"] != "grouped"], routes, speeds, 0.3)
    assert verdict(found, "merging") == claims.OPEN
    with pytest.raises(LookupError, match=r"no row at budget 0\.31"):
        claims.nested_verdicts(scores, routes, speeds, 0.31)


def test_red_stands_beside_nested_experts_by_the_same_measures(tables):
    about = {"task": "task1", "variant": "chosen", "split": "structure", "part": "test", "method": "red", "seed": "all"}
    numbers = {("all", m): v for m, v in {"load_cv": 0.2, "router_entropy": 0.3, "router_accuracy": 0.9}.items()}
    numbers |= {(f"R{k}", "load"): 0.2 for k in range(1, 6)}
    rows = [
        {"group": g, "metric": m, "value": v, "low": np.nan, "high": np.nan, "n": 9} for (g, m), v in numbers.items()
    ]
    found = nested_routing.beside_red(pd.DataFrame(rows).assign(**about), tables["nested_routing"], 0.3)
    one = found.set_index("measure")
    assert one.loc["experts", "RED"] == "5"
    assert one.loc["agreement with the truth", "RED"] == "0.900"
    assert one.loc["experts", "nested experts"] == "4 nested widths"


# ---- the widget --------------------------------------------------------------------------------------------------


@pytest.fixture
def widget(tables, profile):
    return NestedMap(tables["nested_maps"], chapter.pictures(profile)["images"])


def test_dragging_the_budget_moves_tokens_answer_and_cost(widget, tables):
    maps = tables["nested_maps"]
    seen = set()
    for _, budget in widget.budget.options:
        widget.budget.value = budget
        rows = maps[(maps["group"] == "picture=0") & np.isclose(maps["x"], budget)].set_index("metric")
        shown = widget.pieces["said"].value
        assert f'data-predicted="{rows.loc["predicted", "value"]:.0f}"' in shown
        assert f"{rows.loc['flops_ratio', 'value']:.0%} of the plain model's FLOPs" in shown
        largest = int((rows.loc["width", "value"] == 1).sum())
        assert f"tokens by width: {largest} at D," in widget.pieces["map"].value
        seen.add(largest)
    assert len(seen) > 2
    assert seen >= {0, 16} or max(seen) == 16


def test_another_picture_is_another_map_and_any_thread_may_choose_it(widget):
    first = widget.pieces["map"].value
    other = threading.Thread(target=lambda: setattr(widget.picture, "value", 1))
    other.start()
    other.join()
    assert widget.pieces["map"].value != first
    assert widget.status.value == ""


def test_a_map_says_whether_the_answer_is_right_and_marks_the_largest_width(tables, profile):
    images = chapter.pictures(profile)["images"]
    found = token_map.read_maps(tables["nested_maps"], images)
    one = found[0, 1.0]
    assert (one.width == 1).all()
    drawn = token_map.draw_tokens(one, (0.125, 0.25, 0.5, 1.0))
    assert drawn.count("<circle") == one.width.size
    assert drawn.count("data:image/png;base64,") == 2
    said = token_map.say(one)
    assert ("(right)" in said) == (one.predicted == one.label)
    with pytest.raises(ValueError, match="the table is about 2 pictures, and 1 are given"):
        token_map.read_maps(tables["nested_maps"], images[:1])


def test_widths_have_their_own_colours_and_three_experts_the_strongest_three():
    four, three = (0.125, 0.25, 0.5, 1.0), (0.25, 0.5, 1.0)
    assert len({token_map.shade(share, four) for share in four}) == 4
    assert [token_map.shade(share, three) for share in three] == list(token_map.SHADES[1:])
