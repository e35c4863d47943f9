"""The front of cost and accuracy, and the tables, verdicts and figures of costs."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redlib import claims, config, cost, figures, models, results, study
from redlib.cost import Sizes
from redlib.study import cost_tables, task1


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_the_front_is_who_nobody_beats(points):
    frame = pd.DataFrame(points, columns=["parameters", "value"])
    for row, kept in zip(points, cost.front(frame, "parameters"), strict=True):
        beaten = any(other != row and other[0] <= row[0] and other[1] >= row[1] for other in points)
        assert kept == (not beaten)


# ---- tables, figures, verdicts -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def profile():
    return config.load("smoke")


@pytest.fixture(scope="module")
def tables(profile):
    return study.table(profile, "cost"), study.table(profile, "cost_curves")


@pytest.fixture(scope="module")
def scores():
    """Accuracies of Task 1: RED above all but one plain network."""
    lines = []
    for i, name in enumerate(models.METHODS):
        better = 0.1 if name == "fourier_full_data" else -0.01 * i
        gap = {"metric": "value_accuracy_below_red", "value": -better, "low": -better - 0.001, "high": -better + 0.001}
        level = {"metric": "value_accuracy", "value": 0.6 + better, "low": 0.5, "high": 0.8}
        lines += [{"method": name, **row} for row in (gap, level)]
    frame = pd.DataFrame(lines)
    about = {"task": "task1", "variant": "chosen", "part": "test", "seed": "all", "group": "all", "n": 100}
    return pd.concat([frame.assign(split=split, **about) for split in ("structure", "text")], ignore_index=True)


def test_the_tables_hold_closed_forms_that_the_counts_confirm(tables, profile):
    costs, _ = tables
    assert set(costs["variant"]) == {"tiny", *cost.SHAPES}
    for metric in ("parameters", "extra_flops"):
        keys = ["variant", "rank", "method"]
        both = results.select(costs, method=list(cost.NAMES), metric=[metric, f"{metric}_counted"])
        wide = both.pivot(index=keys, columns="metric", values="value")
        assert len(wide) >= 3 * 3 * len(cost.NAMES)
        assert (wide[metric] == wide[f"{metric}_counted"]).all()
    assert results.pick(costs, metric="tokens_min")["value"] >= 1
    assert profile.chosen.rank in set(results.select(costs, variant="tiny", method="red")["rank"])


def test_a_share_is_what_is_added_over_the_pass(tables, profile):
    _, curves = tables
    shape = cost.Shape.of(cost.configuration("qwen3-0.6b"))
    router = results.pick(curves, variant="qwen3-0.6b", method="router", curve="tokens", x=8.0, rank=128)
    s = Sizes(1024, task1.labels(profile).C, task1.labels(profile).K, 128, cost_tables.HIDDEN)
    assert router["value"] == pytest.approx(cost.router_cost(s).flops / shape.flops(8), rel=1e-4)


def test_accuracies_get_the_cost_of_their_own_rank(tables, scores):
    costs, _ = tables
    red = results.select(scores, method="red", split="structure", metric="value_accuracy")
    by_rank = cost.with_cost(pd.concat([red.assign(rank=4), red.assign(rank=8)]), costs)
    assert list(by_rank["parameters"]) == [cost.method_cost("red", Sizes(32, 99, 5, r, 16)).parameters for r in (4, 8)]
    with pytest.raises(LookupError, match="red of rank 5 on tiny"):
        cost.with_cost(red, costs, 5)


def test_every_section_of_the_claims_gets_a_verdict(tables, scores, profile):
    labels = task1.labels(profile)
    found = claims.cost_verdicts(*tables, scores, labels, profile.chosen.rank)
    assert set(results.select(claims.load(), task="cost")["section"]) <= set(found["section"])
    verdict = found.groupby("claim")["verdict"].first()
    assert verdict["parameters of red: K(dr + rC) + Kd"] == claims.FAILS
    assert verdict["parameters of softmax_moe: KdC + Kd"] == claims.HOLDS
    assert verdict["RED is the most parameter-efficient multi-expert design"] == claims.FAILS
    assert verdict["the router costs next to nothing"] == claims.HOLDS
    assert verdict["training fits"] == claims.HOLDS
    assert verdict["and none of the plain networks on the same features has a better one"] == claims.FAILS
    best = "RED has the best balance of accuracy and cost of all multi-expert models"
    assert verdict[best] == claims.HOLDS
    equal = (scores["method"] == "red_uniform") & (scores["metric"] == "value_accuracy_below_red")
    level = scores.assign(low=scores["low"].mask(equal, -0.2))
    again = claims.cost_verdicts(*tables, level, labels, profile.chosen.rank).groupby("claim")["verdict"].first()
    assert again[best] == claims.OPEN


def test_the_figures_draw_what_the_tables_hold(tables, scores, profile):
    costs, curves = tables
    names = list(cost.SHAPES)
    ranks = {name: [cost.Shape.of(cost.configuration(name)).d // part for part in (8, 4, 2)] for name in names}
    even = figures.draw_break_even(curves, names, ranks)
    line = even.axes[1].lines[-1]
    assert np.allclose(
        line.get_ydata(), [cost.break_even("red/public", 1024, int(C), 5) for C in line.get_xdata()], 1e-4
    )
    figures.draw_parameters_by_rank(curves, names[1], ranks[names[1]])
    figures.draw_shares(curves, names, {name: ranks[name][1] for name in names}, 0.005, (8, 20))
    figures.draw_memory(costs, curves, names[1], 6.5)
    pareto = figures.draw_pareto(scores, costs, profile.chosen.rank, "smoke", note=figures.NO_EVIDENCE)
    labels = {text.get_text() for text in pareto.legends[0].get_texts()}
    assert {"RED", "softmax mixture", "Fourier network, all rows"} <= labels
