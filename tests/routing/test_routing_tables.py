"""The tables of routing and their figures."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from redlib import config, figures, results, routing, study

SMALL = {"task1.rows": 250, "task1.seeds": {"text": 1, "structure": 2}, "task1.source_seeds": {}, "bootstrap": 20}
SMALL |= {"task2.definitions.operations.seeds": {"text": 1, "structure": 1}}
SMALL |= {"task2.definitions.operations.source_seeds": {}}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", SMALL)
        names = ("routing", "routing_curves", "robustness", "routing_definitions")
        yield {name: study.table(profile, name, say=lambda line: None) for name in names}


def test_the_tables_hold_both_tasks_and_splits_and_validate(tables):
    results.validate(tables["routing_definitions"])
    for frame in (tables[name] for name in ("routing", "routing_curves", "robustness")):
        results.validate(frame)
        there = set(frame[["task", "variant", "split"]].itertuples(index=False, name=None))
        wanted = set(product(("task1",), ("chosen",), ("text", "structure")))
        wanted |= set(product(("task2",), ("operations/chosen",), ("text", "structure")))
        assert wanted <= there


def test_every_definition_of_the_steps_has_its_routing_and_operations_the_same_as_beside_task_1(tables):
    rows = tables["routing_definitions"]
    assert set(rows["variant"]) == {"operations/chosen", "single_heavy/chosen"}
    keys = ["split", "method", "seed", "group", "metric"]
    mine, theirs = (
        results.select(frame, variant="operations/chosen").set_index(keys)[["value", "low", "high"]].sort_index()
        for frame in (rows, tables["routing"])
    )
    pd.testing.assert_frame_equal(mine, theirs)


def test_no_corruption_and_full_coverage_are_the_accuracy_of_the_summary(tables):
    keys = ["task", "variant", "split", "method"]
    plain = results.select(tables["routing"], metric="value_accuracy", group="all", seed="all").set_index(keys)["value"]
    starts = tables["robustness"].query("metric == 'value_accuracy'")
    starts = starts[starts["strength"] == starts["corruption"].map(routing.NEUTRAL)]
    starts = starts[starts["method"].isin(["red", "softmax_moe"])].set_index(keys)["value"]
    np.testing.assert_allclose(starts, plain.loc[starts.index], atol=1e-6)
    full = results.select(tables["routing_curves"], metric="value_accuracy", x=1.0, curve="selective_confidence")
    np.testing.assert_allclose(full.set_index(keys)["value"], plain.loc[full.set_index(keys).index], atol=1e-6)


def test_red_and_the_mixture_of_its_experts_never_part_under_corruption(tables):
    rows = tables["robustness"]
    apart = rows[(rows["method"] == "moe_same_experts") & rows["metric"].str.endswith("_accuracy_below_red")]
    assert len(apart)
    assert (apart["value"] * apart["n"].astype(float)).abs().max() < 1.5, "a tie may fall the other way by rounding"


@pytest.mark.parametrize(
    ("draw", "table", "rows"),
    [
        (figures.draw_expert_load, "routing", 2),
        (figures.draw_reliability, "routing_curves", 3),
        (figures.draw_selective_accuracy, "routing_curves", 2),
        (figures.draw_boundary_distance, "routing_curves", 4),
        (figures.draw_robustness, "robustness", 4),
        (figures.draw_regret, "routing_curves", 2),
    ],
)
def test_a_figure_has_a_column_for_each_task_and_split_and_names_what_it_lacks(tables, draw, table, rows):
    fig = draw(tables[table], "smoke", note=figures.NO_EVIDENCE)
    titles = [ax.get_title() for ax in fig.axes if ax.get_title()]
    assert titles == [f"Task {task}, {split} split" for task in (1, 2) for split in ("text", "structure")]
    assert len(fig.axes) == 4 * rows
    with pytest.raises(LookupError, match="variant=source"):
        draw(tables[table], "smoke", recipe="source")
