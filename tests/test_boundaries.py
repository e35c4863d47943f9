"""Sweeps along the value axis and operand maps: known curves of hand-made routers, whole populations, honest marks."""

import functools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import config, datasets, figures, models, results
from redlib.evaluation import Sweep, held_back, pair_maps, predict
from redlib.evaluation.sweeps import backtrack, entropy, flips, largest_step, variation
from redlib.expressions import Expression, LabelSpace
from redlib.phrasing import parse
from redlib.statistics import CurveResampler, interval
from redlib.study import boundary_tables, table, task1, task2
from redlib.study.data import read_pool
from redlib.study.population import population_stage, read_population, seen_pairs

SPACE = LabelSpace()
TWO = LabelSpace(2, 40, (20,))


@functools.cache
def whole(task="task1", operands=(2, 50), space=SPACE, wordings=1, operator="addition"):
    rows = datasets.with_operands(datasets.population(task, operands, space, wordings))
    return rows[rows["operator"] == operator].reset_index(drop=True)


def answers(population, ranges, values=None, space=SPACE, routed=True):
    """Answers that put all weight and all probability on `ranges` (N,)."""
    shares = np.eye(space.K)[np.asarray(ranges)]
    said = pd.DataFrame({"predicted_value": population["value"] if values is None else values})
    said["predicted_range"] = ranges
    for k in range(space.K):
        said[f"alpha_{k + 1}"] = shares[:, k] if routed else np.nan
        said[f"probability_{k + 1}"] = shares[:, k]
    return said


# ---- numbers for the shape of a curve ----------------------------------------------------------------------------


@given(st.integers(2, 7), st.lists(st.floats(0, 1), min_size=2, max_size=40))
@settings(deadline=None)
def test_a_handing_over_that_never_turns_has_the_variation_of_the_ideal_step_however_gradual(K, places):
    at = np.sort([0.0, 1.0, *places]) * (K - 1)  # a position between range 0 and range K-1 that only moves up
    for position in range(K):  # passes through every range on its way
        at = np.sort(np.append(at, position))
    curve = np.clip(1 - np.abs(at[:, None] - np.arange(K)), 0, None)
    assert variation(curve) == pytest.approx(K - 1)
    assert backtrack(curve) == pytest.approx(0, abs=1e-9)
    assert flips(curve) == K - 1
    assert backtrack(curve[::-1]) == pytest.approx(K - 1)


@given(st.integers(2, 5), st.integers(2, 30), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_no_curve_varies_less_than_its_ends_are_apart(K, V, seed):
    curve = np.random.default_rng(seed).dirichlet(np.ones(K), V)
    assert variation(curve) >= np.abs(curve[-1] - curve[0]).sum() / 2 - 1e-9
    assert 0 <= largest_step(curve) <= min(1, variation(curve)) + 1e-9
    assert backtrack(curve) >= 0
    assert flips(curve) <= V - 1


def test_entropy_of_one_expert_is_zero_and_of_equal_weights_the_logarithm_of_their_number():
    np.testing.assert_allclose(entropy(np.array([[1.0, 0, 0, 0], [0.25] * 4])), [0, np.log(4)], atol=1e-12)


# ---- sweeps ------------------------------------------------------------------------------------------------------


def test_the_sweep_of_a_hand_made_router_is_its_known_curve():
    """Two experts whose weights cross at 20.5: alpha_2 = sigmoid(value - 20.5); the feature is the value."""
    rows = whole(operands=(2, 20), space=TWO, wordings=2)
    parts = {
        "base": torch.nn.Identity(),
        "classifier": models.LinearBank([0], 2, TWO.C),
        "experts": models.ResidualExperts(range(2), 2, 1),
        "router": models.LinearBank([0], 2, 2),
    }
    parts["router"].weight.data = torch.tensor([[[0.0, 1.0], [0.0, -20.5]]])
    parts["router"].bias.data.zero_()
    x = torch.tensor(np.stack([rows["value"], np.ones(len(rows))], 1), dtype=torch.float32)
    said = predict(models.assemble("red", TWO, parts), x, TWO, probabilities=True)
    sweep = Sweep(rows, TWO, resamples=20)
    curves = sweep.curves([said])
    value = np.arange(4, 41)
    np.testing.assert_array_equal(curves.places, value)
    above = 1 / (1 + np.exp(20.5 - value))
    np.testing.assert_allclose(curves.value[0][:, sweep.names.index("weight_R2")], above, atol=1e-5)
    shapes = sweep.shapes([said])
    assert shapes["weight_extra_variation"].value[0] == pytest.approx(above[-1] - above[0] - 1, abs=1e-5)
    assert shapes["weight_backtrack"].value[0] == pytest.approx(0, abs=1e-6)
    assert shapes["weight_largest_step"].value[0] == pytest.approx(np.diff(above).max(), abs=1e-5)
    z = sweep.names.index("probability_R1")
    np.testing.assert_allclose(curves.value[0][:, z : z + 2].sum(1), 1, atol=1e-5)


@pytest.mark.parametrize(("task", "operator"), [("task1", "addition"), ("task2", "addition"), ("task2", "subtraction")])
def test_the_ideal_step_has_nothing_beyond_the_ideal(task, operator):
    rows = whole(task, operator=operator, wordings=2)
    shapes = Sweep(rows, SPACE, seeds=2, resamples=20).shapes([answers(rows, rows["range"])] * 2)
    wanted = dict.fromkeys(shapes, 0.0) | dict.fromkeys(("value_accuracy", "range_accuracy"), 1.0)
    wanted |= dict.fromkeys(("largest_step", "weight_largest_step"), 1.0)
    for name, shape in shapes.items():
        found = interval(shape)
        assert (found.value, found.low, found.high) == pytest.approx((wanted[name],) * 3), name


def test_two_values_that_jump_to_the_last_range_are_counted_by_hand():
    """30 (R2) and 50 (R3) are taken for R5: two flips more at each, three and two boundaries crossed backwards."""
    rows = whole()
    ranges = np.where(rows["value"].isin([30, 50]), 4, rows["range"])
    sweep = Sweep(rows, SPACE, resamples=20)
    shapes = {name: shape.value[0] for name, shape in sweep.shapes([answers(rows, ranges)]).items()}
    assert shapes["extra_flips"] == shapes["extra_variation"] == shapes["weight_extra_variation"] == 4
    assert shapes["backtrack"] == shapes["weight_backtrack"] == 5
    assert shapes["range_accuracy"] == pytest.approx(95 / 97)
    held = [(first, value) for first in range(2, 51) for value in (30, 50) if first + 2 <= value <= first + 50]
    ends = [(first, value) for first, value in held if value in (first + 2, first + 50)]  # at a row's end: one flip
    assert shapes["row_extra_flips"] == pytest.approx((2 * len(held) - len(ends)) / 49)


def test_a_method_without_a_router_has_no_weights():
    rows = whole()
    shapes = Sweep(rows, SPACE, resamples=20).shapes([answers(rows, rows["range"], routed=False)])
    assert not [name for name in shapes if "weight" in name]


def test_a_method_stuck_in_one_range_lacks_all_steps_and_never_turns_back():
    rows = whole()
    shapes = Sweep(rows, SPACE, resamples=20).shapes([answers(rows, np.zeros(len(rows), int))])
    assert shapes["extra_variation"].value[0] == shapes["extra_flips"].value[0] == -(SPACE.K - 1)
    assert shapes["backtrack"].value[0] == 0


def test_masked_texts_count_for_nothing_and_a_value_without_texts_is_left_out():
    rows = whole()
    mask = (rows["value"] != 30) & (rows["first"] != 7)
    wrong = np.where(rows["first"] == 7, 4, rows["range"])
    sweep = Sweep(rows, SPACE, [mask.to_numpy(), (rows["first"] != 7).to_numpy()], resamples=20)
    curves = sweep.curves([answers(rows, wrong)] * 2)
    z = sweep.names.index("range_accuracy")
    thirty = list(curves.places).index(30)
    assert np.isnan(curves.value[0, thirty, z])
    assert curves.rows[0, thirty] == 0
    assert np.nanmin(curves.value[:, :, z]) == 1
    mean, low, high = curves.band()
    assert mean[thirty, z] == low[thirty, z] == high[thirty, z] == 1
    assert sweep.shapes([answers(rows, wrong)] * 2)["extra_flips"].value.tolist() == [0, 0]


def test_differences_of_a_method_with_itself_are_exactly_zero_and_with_another_paired():
    rows = whole()
    rng = np.random.default_rng(0)
    sweep = Sweep(rows, SPACE, seeds=2, resamples=200)
    noisy = [answers(rows, np.where(rng.random(len(rows)) < 0.1, 4, rows["range"])) for _ in range(2)]
    a, again, ideal = sweep.shapes(noisy), sweep.shapes(noisy), sweep.shapes([answers(rows, rows["range"])] * 2)
    zero = interval(a["backtrack"] - again["backtrack"])
    assert (zero.value, zero.low, zero.high) == (0, 0, 0)
    more = interval(a["backtrack"] - ideal["backtrack"])
    assert 0 < more.low < more.value < more.high
    assert more.n == 2 * len(rows)


def test_curves_are_plain_means_and_each_cluster_has_one_place():
    rng = np.random.default_rng(1)
    places = np.repeat(np.arange(6), 12)
    clusters = [f"{place}/{turn}" for place in range(6) for turn in range(4) for _ in range(3)]
    values = rng.normal(size=(len(places), 2))
    made = CurveResampler(places, clusters, [np.ones(len(places), bool)], 300).means([values])
    expected = pd.DataFrame(values).groupby(places).mean().to_numpy()
    np.testing.assert_allclose(made.value[0], expected)
    np.testing.assert_allclose(made.draws[0].mean(0), expected, atol=0.15)
    mean, low, high = made.band()
    assert ((low < mean) & (mean < high)).all()
    with pytest.raises(ValueError, match="cluster '0/0' lies at more than one place"):
        CurveResampler([0, 1], ["0/0", "0/0"], [np.ones(2, bool)])


def test_what_a_sweep_cannot_read_is_said_in_a_sentence():
    rows = whole()
    with pytest.raises(ValueError, match="a label space of one range has no boundary"):
        Sweep(rows, LabelSpace(2, 100, ()))
    with pytest.raises(ValueError, match="a population lacks the columns first, second"):
        Sweep(rows.drop(columns=["first", "second"]), SPACE)
    with pytest.raises(ValueError, match=r"each of the 2401 texts whether it counts, got \(7,\)"):
        Sweep(rows, SPACE, [np.ones(7, bool)])
    with pytest.raises(ValueError, match="a sweep is of one operator, got addition, subtraction"):
        Sweep(datasets.with_operands(datasets.population("task2", wordings=1)), SPACE)
    sweep = Sweep(rows, SPACE, resamples=5)
    said = answers(rows, rows["range"])
    with pytest.raises(ValueError, match="answers to 10 texts do not fit a population of 2401"):
        sweep.curves([said[:10]])
    with pytest.raises(ValueError, match="for K=5 ranges; they have 4 weights and lack alpha_5"):
        sweep.curves([said.drop(columns=["alpha_5"])])
    with pytest.raises(ValueError, match="for K=5 ranges; they have 6 weights"):
        sweep.curves([said.assign(alpha_6=0.0)])


# ---- populations and maps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "pairs"), [("task1", 2401), ("task2", 2401 + 1128)])
def test_a_population_has_every_ordered_pair_exactly_once_in_every_wording(task, pairs):
    rows = datasets.with_operands(datasets.population(task, wordings=3))
    assert rows["template"].nunique() == 3
    assert rows["template"].iloc[0] == datasets.CANONICAL[task]
    assert rows["group"].groupby(rows["template"]).first().nunique() == 3
    assert rows["text"].is_unique
    for _, said in rows.groupby("template"):
        assert len(said) == pairs
        assert not said.duplicated(["operator", "first", "second"]).any()
    for row in rows.iloc[::101].itertuples():
        assert parse(row.text).text == row.expression


@given(
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 8),
    st.integers(2, 20),
)
@settings(deadline=None, max_examples=40)
def test_pairs_are_all_those_whose_result_is_a_label(first, width, lo, span):
    space, operands = LabelSpace(lo, lo + span, (lo + 1,)), (first, first + width)
    terms = range(first, first + width + 1)
    wanted = {f"{a} {sign} {b}" for a in terms for b in terms for sign in "+-"}
    wanted = {text for text in wanted if lo <= Expression.read(text).value <= lo + span}
    if not wanted:
        with pytest.raises(ValueError, match="no pair of operands"):
            datasets.pairs("task2", operands, space)
        return
    found = [pair.text for pair in datasets.pairs("task2", operands, space)]
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_a_population_that_cannot_be_is_refused_by_name():
    with pytest.raises(ValueError, match="unknown task 'task9'; valid tasks: task1, task2"):
        datasets.population("task9")
    with pytest.raises(ValueError, match="1 to 10 wordings, one a wording group, got 11"):
        datasets.population("task1", wordings=11)
    with pytest.raises(ValueError, match="a pair has two operands, got '1 \\+ 2 - 3'"):
        datasets.with_operands(pd.DataFrame({"expression": ["1 + 2 - 3"]}))


def test_a_map_has_errors_by_hand_once_a_pair_and_means_over_the_wordings():
    rows = whole("task2", wordings=2, operator="subtraction")
    first = np.arange(len(rows)) < len(rows) // 2  # texts of the canonical wording
    values = rows["value"] + np.where(first, 3, 0)
    frame = pair_maps(rows, answers(rows, rows["range"], values), SPACE, rows["first"] == 9)
    for metric, value in (("value_error", 3), ("value_error_wordings", 1.5), ("weight_entropy", 0), ("range_error", 0)):
        cells = frame[frame["metric"] == metric]
        assert len(cells) == 1128
        assert not cells.duplicated(["first", "second"]).any()
        assert cells["value"].to_numpy() == pytest.approx(value)
        assert (cells["in_training"] == (cells["first"] == 9)).all()
        assert (
            (cells["first"] - cells["second"])
            .map(SPACE.range_of)
            .map(lambda k: SPACE.names[k])
            .eq(cells["group"])
            .all()
        )
    assert set(frame[frame["metric"].str.endswith("_wordings")]["n"]) == {2}
    unrouted = pair_maps(rows, answers(rows, rows["range"], routed=False), SPACE, np.zeros(len(rows), bool))
    assert not unrouted["metric"].str.startswith("weight").any()


def test_maps_of_incomplete_populations_are_refused():
    rows = whole(wordings=2)
    said, seen = answers(rows, rows["range"]), np.zeros(len(rows), bool)
    with pytest.raises(ValueError, match="texts, 3 answers and"):
        pair_maps(rows, said[:3], SPACE, seen)
    with pytest.raises(ValueError, match="must have the same pairs, once each"):
        pair_maps(rows[:-1], said[:-1], SPACE, seen[:-1])
    twice = pd.concat([rows[:-1], rows[-2:-1]])
    with pytest.raises(ValueError, match="pair 50, 49 stands twice in wording"):
        pair_maps(twice, said, SPACE, seen)
    with pytest.raises(ValueError, match="lacks the columns operator"):
        pair_maps(rows.drop(columns="operator"), said, SPACE, seen)


# ---- the study's tables ------------------------------------------------------------------------------------------

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"text": 1, "structure": 2},
    "task2.definitions": {"operations": {"rows": 500, "seeds": {"structure": 1}}},
    "population.wordings": 2,
    "bootstrap": 20,
}


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield config.load("smoke", SMALL)


def test_pairs_are_marked_as_seen_exactly_where_the_split_trains_on_them(profile):
    s = task1.setting(profile, "chosen", "structure")
    stage = population_stage("task1", profile.task1, s.labels, 1)
    stage.run()
    rows = datasets.with_operands(datasets.load(stage.folder / "pool.parquet"))
    pool = datasets.load(s.pool.run() / "pool.parquet")
    for seed, marks in enumerate(seen_pairs(s, rows, 2)):
        trained = set(pool["structure"][datasets.split(pool, "structure", seed) == "train"])
        assert list(marks) == [structure in trained for structure in rows["structure"]]
        assert 0 < marks.sum() < len(marks)


def test_the_tables_agree_with_the_population_and_the_split(profile):
    made = {name: table(profile, name, say=lambda line: None) for name in boundary_tables.TABLES}
    for name, frame in made.items():
        results.validate(frame)
        assert len(frame), name
    stage = boundary_tables.boundary_tables(profile)
    rows = read_population(stage.inputs["task1 read"])
    marks = seen_pairs(task1.setting(profile, "chosen", "structure"), rows, 1)[0]
    seen = set(rows["structure"][marks])
    for name, metrics in boundary_tables.MAPS.items():
        for (operator, method, metric), cells in made[name].groupby(["operator", "method", "metric"]):
            assert metric in metrics
            assert method in boundary_tables.MAPPED
            assert len(cells) == {"addition": 2401, "subtraction": 1128}[operator]
            assert not cells.duplicated(["first", "second"]).any()
            sign = "+" if operator == "addition" else "-"
            keys = [
                Expression((a, b), (sign,)).structure_key for a, b in cells[["first", "second"]].to_numpy().tolist()
            ]
            known = seen if operator == "addition" else set()
            assert list(cells["in_training"]) == [int(key in known) for key in keys]
    sweep = made["boundary_sweep"]
    share = sweep[sweep["metric"].str.startswith("probability_")]
    sums = share.groupby(["split", "group", "method", "true_value"])["value"].sum()
    np.testing.assert_allclose(sums, 1, atol=1e-4)
    assert set(held_back(sweep).groupby("split")["group"].first().items()) == {("text", "all"), ("structure", "unseen")}
    smooth = made["boundary_smoothness"]
    assert set(smooth["method"]) == set(models.METHODS)
    same = smooth[(smooth["method"] == "moe_same_experts") & smooth["metric"].str.startswith("backtrack_below")]
    np.testing.assert_allclose(same["value"], 0, atol=0.02)
    assert set(smooth[smooth["task"] == "task2"]["operator"]) == {"addition", "subtraction"}


def test_figures_have_a_panel_for_each_thing_they_compare(profile):
    space = task1.labels(profile)
    sweep, smooth = table(profile, "boundary_sweep"), table(profile, "boundary_smoothness")
    assert len(figures.draw_curves_by_value(sweep, space, "smoke", curve="weight").axes) == 4
    assert len(figures.draw_accuracy_by_value(sweep, space, "smoke", methods=["red"]).axes) == 2
    zoom = figures.draw_boundary_zoom(sweep, space, "smoke")
    assert [ax.get_title() for ax in zoom.axes[: space.K - 1]] == ["20 / 21", "40 / 41", "60 / 61", "80 / 81"]
    assert len(figures.draw_smoothness(smooth, "smoke").axes) == 4
    below = figures.draw_smoothness(smooth, "smoke", below="red", metrics=["backtrack"])
    assert len(below.axes[0].get_yticks()) == len(models.METHODS) - 1
    spaces = {"task1": space, "task2": task2.labels(profile)}
    maps = figures.draw_pair_maps(table(profile, "operand_maps"), spaces, "smoke", methods=["red", "global_head"])
    assert len(maps.axes) == 2 * 2 + 1  # and the colour bar
    with pytest.raises(LookupError, match="no row with method=planner"):
        figures.draw_pair_maps(table(profile, "operand_maps"), spaces, "smoke", methods=["planner"])


def test_two_ranges_instead_of_five_have_one_boundary(profile):
    two = config.load("smoke", SMALL | {"task1.edges": [50], "task1.rows": 260, "task2.definitions": {}})
    s = task1.setting(two, "chosen", "structure")
    stage = population_stage("task1", two.task1, s.labels, 1)
    rows = datasets.with_operands(read_pool(stage.run()))
    assert set(rows["range"]) == {0, 1}
    assert seen_pairs(s, rows, 1)[0].any()
    shapes = Sweep(rows, s.labels, resamples=5).shapes([answers(rows, rows["range"], space=s.labels)])
    assert shapes["extra_flips"].value[0] == shapes["extra_variation"].value[0] == 0


def test_a_recipe_with_tuned_layers_is_refused(profile):
    tuned = config.load("smoke", SMALL | {"chosen.tuned_layers": 2})
    with pytest.raises(ValueError, match="recipe chosen tunes 2 layers; a population is read by frozen features only"):
        boundary_tables.boundary_tables(tuned)
