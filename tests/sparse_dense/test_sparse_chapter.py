"""Sparse against dense: the document's table, the recommendation, the chapter's tables, figures and benchmark."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lineups import LINEUP

from redlib import bench, claims, config, figures, study
from redlib.bench import sparse as bench_sparse
from redlib.claims import sparse as source
from redlib.sparse import models, quantised, recommend, serving, spent
from redlib.study import sparse as sparse_study
from redlib.widgets import RecommendationWidget

SPARSE = {"sparse.seeds": 1, "sparse.specialists": [3], "sparse.pretrained": ["tiny"]}


# ---- the document's table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "reported"), [(2308, 0.063), (5827, 0.025), (1798, 0.081)])
def test_one_price_gives_the_three_costs_of_the_document(rate, reported):
    assert round(serving.cost_per_million(rate, serving.PRICE), 3) == reported


def test_the_fifteen_numbers_and_the_percentages_are_claims():
    rows = claims.load()
    assert (rows["section"] == source.TABLE).sum() == 15
    table = source.source_table()
    assert table.loc["alchemist_moe", ["tokens_per_second", "vram_gb"]].tolist() == [1798, 0.095]
    price = source.implied_price(table)
    assert price["low"].max() < serving.PRICE < price["high"].min()
    shares = source.percentages(table)
    assert shares["reported"].tolist() == [22, 69, 82, 28, 3, 5]
    assert ((shares["computed"] - shares["reported"]).abs() < 1).all()
    corrected = source.corrections(table).set_index("line")
    assert len(corrected) == 6
    assert corrected.loc["cost per million tokens ($)", "reported"] == "0.063, 0.025, 0.081"


# ---- the recommendation ------------------------------------------------------------------------------------------


OPTIONS = pd.DataFrame(
    {
        "model": ["small", "large", "thin", "given"],
        "batch": 8,
        "memory_bytes": [1e9, 4e9, 4e9, 1e9],
        "tokens_per_second": [400.0, 100.0, 200.0, 900.0],
        "loss": [2.0, 1.0, 1.02, np.nan],
        "loss_low": [1.9, 0.95, 0.99, np.nan],
        "loss_high": [2.1, 1.05, 1.05, np.nan],
    }
)


def test_the_cheapest_that_fits_and_is_good_is_recommended():
    table = recommend.recommend(OPTIONS, 8, 5.0, 3.6).set_index("model")
    assert table.index[table["choice"]].tolist() == ["thin"]
    assert table.loc["thin", "cost_per_million"] == pytest.approx(5.0)
    tight = recommend.recommend(OPTIONS, 8, 2.0, 3.6)
    assert tight.loc[tight["choice"], "model"].tolist() == ["small"]
    nothing = recommend.recommend(OPTIONS, 8, 0.5, 3.6)
    assert not nothing["choice"].any()
    assert "no model with a measured loss fits" in recommend.said(nothing, 8, 0.5, 3.6)


@pytest.mark.parametrize(
    ("gaps", "choice", "compared"),
    [
        ([0.9, np.nan, 0.001, np.nan], "large", "the best"),  # their intervals overlap, and yet they differ
        ([-0.1, np.nan, 0.001, np.nan], "small", "paired difference"),  # apart, and yet they do not
        ([np.nan] * 4, "thin", "intervals"),
    ],
)
def test_a_paired_difference_decides_where_there_is_one_and_overlap_where_there_is_none(gaps, choice, compared):
    table = recommend.recommend(OPTIONS.assign(above_large=gaps), 8, 5.0, 3.6)
    chosen = table[table["choice"]].iloc[0]
    assert (chosen["model"], chosen["compared"]) == (choice, compared)
    assert not table.loc[table["model"] == "given", "good"].any(), "nobody measured its loss"
    by = "" if choice == "large" else f" (by {compared})"
    assert recommend.said(table, 8, 5.0, 3.6).endswith(f"the best of those that fit{by}.")


@given(st.floats(0.01, 100), st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_price_never_changes_the_choice_and_what_is_chosen_fits(limit, price, other):
    table, again = (recommend.recommend(OPTIONS, 8, limit, given) for given in (price, other))
    assert table.loc[table["choice"], "model"].tolist() == again.loc[again["choice"], "model"].tolist()
    assert (table.loc[table["choice"], "memory_gb"] <= limit).all()


def test_limits_and_batches_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="a memory limit must be positive, got 0"):
        recommend.recommend(OPTIONS, 8, 0.0, 1.0)
    with pytest.raises(ValueError, match="no model was measured at a batch of 3; measured: 8"):
        recommend.recommend(OPTIONS, 3, 1.0, 1.0)


def test_the_widget_redraws_the_recommendation_and_says_what_is_not_possible():
    widget = RecommendationWidget(OPTIONS, 3.6)
    assert "thin, at $5 per million tokens" in widget.table.value
    widget.sliders["limit"].value = 2_000
    assert "small, at $2.5 per million tokens" in widget.table.value
    widget.sliders["price"].value = 0.0
    assert "a price per hour must be positive, got 0.0" in widget.table.value
    assert "<table" not in widget.table.value
    widget.sliders["price"].value = 7.2
    assert "small, at $5 per million tokens" in widget.table.value


# ---- the chapter's tables, figures and benchmark -----------------------------------------------------------------


@pytest.fixture(scope="module")
def tables(cache):
    profile = config.load("smoke", SPARSE)
    names = ("models", "quality", "training", "serving", "growth", "time")
    return profile, {name: study.table(profile, f"sparse_{name}", say=lambda line: None) for name in names}


def test_the_tables_are_whole_and_their_counts_agree(tables):
    _, made = tables
    sizes = made["models"].pivot(index="method", columns="metric", values="value")
    small = sizes.loc[list(quantised.OF_DENSE)]
    assert (small["stored_bytes"] < sizes.loc["dense_b", "stored_bytes"]).all()
    assert (small["total"] == sizes.loc["dense_b", "total"]).all()
    sizes = sizes.drop(index=list(quantised.OF_DENSE))
    assert (sizes["total"] == sizes["total_counted"]).all()
    assert (sizes["flops"] == sizes["flops_counted"]).all()
    rows = made["quality"]
    gap = rows[(rows["metric"] == "loss_minus_dense_a") & (rows["group"] == "all")].set_index("method")["value"]
    loss = rows[(rows["metric"] == "loss") & (rows["group"] == "all") & (rows["seed"] == "all")]
    loss = loss.set_index("method")["value"]
    np.testing.assert_allclose(gap, (loss - loss["dense_a"])[gap.index], atol=1e-4)
    shares = made["time"][made["time"]["metric"] == "share"].groupby(["method", "batch"])["value"].sum()
    np.testing.assert_allclose(shares, 1.0, atol=1e-4)
    assert set(made["serving"]["variant"]) == {*serving.PROTOCOLS, "no cache"}


def test_every_root_cause_and_recommendation_gets_a_verdict(tables):
    profile, made = tables
    causes = source.root_causes(made["serving"], made["time"])
    assert causes["claim"].str[0].unique().tolist() == ["1", "2", "3", "4"]
    assert set(causes["verdict"]) <= {claims.HOLDS, claims.FAILS, claims.OPEN}
    decided = source.decisions(made["quality"], made["serving"], made["growth"], profile.sparse.price)
    assert set(decided["verdict"]) <= {source.KEPT, source.CHANGED, source.UNKNOWN}
    assert len(decided) == 10
    options = source.options(made["quality"], made["serving"])
    assert set(options["batch"]) == set(profile.sparse.batches)
    assert options.loc[options["loss"].isna(), "model"].unique().tolist() == ["tiny"], "the one that was not trained"
    rows = made["quality"]
    gap = rows[(rows["metric"] == "loss_minus_dense_a") & (rows["group"] == "all")].set_index("method")
    here = options.drop_duplicates("model").set_index("model")
    assert here.loc["moe_top2", "above_dense_a"] == gap.loc["moe_top2", "low"]
    assert here.loc["dense_a", "above_moe_top2"] == -gap.loc["moe_top2", "high"], "the same difference turned round"
    assert np.isnan(here.loc["dense_a", "above_dense_a"])


def test_a_pretrained_model_is_measured_where_it_is_at_hand_and_the_profiles_own_always(monkeypatch):
    monkeypatch.setattr(sparse_study.backbone, "present", lambda name: False)
    asked = {**SPARSE, "sparse.pretrained": ["tiny", "qwen3-0.6b"]}
    assert sparse_study.at_hand(config.load("smoke", asked)) == ["tiny"]


def test_the_default_price_is_the_sources():
    assert config.load("full").sparse.price == serving.PRICE


def test_advice_about_memory_follows_losses_and_bytes(tables):
    profile, made = tables
    rows = made["quality"]

    def verdict(claim, method, other, low, high, bytes_=None):
        frame, served = rows.copy(), made["serving"].copy()
        here = (frame["method"] == method) & (frame["metric"] == f"loss_minus_{other}") & (frame["group"] == "all")
        frame.loc[here, ["value", "low", "high"]] = [(low + high) / 2, low, high]
        if bytes_:
            whole = (served["method"] == method) & (served["metric"] == "bytes") & (served["group"] == "all")
            served.loc[whole, "value"] = bytes_
        found = source.decisions(frame, served, made["growth"], profile.sparse.price).set_index("recommendation")
        return found.loc[claim, "verdict"]

    spare, four = "optimise memory rather than use sparsity", "dense_b_int4"
    assert verdict(spare, four, "moe_top1", -0.1, 0.1, 1.0) == source.KEPT
    assert verdict(spare, four, "moe_top1", 0.1, 0.2, 1.0) == source.CHANGED
    assert verdict(spare, four, "moe_top1", -0.1, 0.1, 1e12) == source.CHANGED
    benefit = "the router adds overhead without benefits"
    limits = {(-0.2, -0.1): source.CHANGED, (0.1, 0.2): source.KEPT, (-0.1, 0.1): source.UNKNOWN}
    assert {limit: verdict(benefit, "moe_top1", "dense_a", *limit) for limit in limits} == limits


def test_figures_draw_every_model(tables):
    _, made = tables
    fig = figures.draw_quality_speed(made["quality"], made["serving"], 2, "smoke")
    assert len(fig.axes[0].containers) == len(LINEUP) + len(quantised.OF_DENSE)
    fig = figures.draw_time_parts(made["time"], "smoke")
    assert len(fig.axes[0].patches) == len(LINEUP) * len(spent.PARTS)
    fig = figures.draw_growth(made["growth"], "smoke")
    assert [len(ax.containers) for ax in fig.axes] == [3, 2, len(models.BACKENDS)]
    assert len(figures.draw_protocols(made["serving"], "smoke").axes[0].get_yticks()) == len(LINEUP)


@pytest.mark.parametrize("protocol", serving.PROTOCOLS)
def test_the_benchmark_writes_csv_and_json_only_when_asked(protocol, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench_sparse, "SIZES", {True: (8, 2, (1,), 1)})
    monkeypatch.setattr(bench_sparse, "ROWS", 100)
    monkeypatch.setattr(bench_sparse.paths, "results", lambda profile: tmp_path / profile)
    frame = bench.run("sparse", {"quick": True, "price": 3.6, "protocol": protocol, "write": protocol == "serving"})
    rate = "system_tokens_per_second" if protocol == "serving" else "tokens_per_second"
    rows = frame.pivot(index="case", columns="metric", values="value")[[rate, "cost_per_million"]].dropna()
    assert len(rows) == 8 + len(quantised.OF_DENSE)
    np.testing.assert_allclose(rows["cost_per_million"] * rows[rate], 1000)
    there = {path.name for path in tmp_path.rglob("*.*")}
    assert there == ({"sparse.csv", "sparse.json"} if protocol == "serving" else set())
