"""The study's tables of boundaries and their figures: they agree with the population and the split."""

import numpy as np
import pytest
from known_answers import answers

from redlib import config, datasets, figures, models, results
from redlib.evaluation import Sweep, held_back
from redlib.expressions import Expression
from redlib.study import boundary_tables, table, task1, task2
from redlib.study.data import read_pool
from redlib.study.population import population_stage, read_population, seen_pairs

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
    shapes = figures.draw_smoothness(smooth, "smoke").axes
    assert len(shapes) == 4
    assert {ax.get_xscale() for ax in shapes} == {"symlog"}
    below = figures.draw_smoothness(smooth, "smoke", below="red", metrics=["backtrack"])
    assert len(below.axes[0].get_yticks()) == len(models.METHODS) - 1
    spaces = {"task1": space, "task2": task2.labels(profile)}
    maps = figures.draw_pair_maps(table(profile, "operand_maps"), spaces, "smoke", methods=["red", "global_head"])
    assert len(maps.axes) == 2 * 2 + 1  # and the colour bar
    routes = figures.draw_pair_maps(
        table(profile, "operand_maps_entropy"), spaces, "smoke", methods=["red"], metric="weight_entropy"
    )
    assert routes.axes[-1].get_ylim() == (0, 1), "a share of the largest"
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
