"""The tables of ablations at smoke size: paired with RED, judged as claims, and drawn."""

import json
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_statistics import paired

from redlib import claims, config, figures, results
from redlib.study import ablations, available, fair, methods, table
from redlib.study.ablations import Run
from redlib.study.ablations import tables as ablation_tables
from redlib.study.ablations.run import run_stage
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.runner import Runner

SMALL = {
    "ablations.rows": 250,
    "ablations.seeds": 1,
    "ablations.questions": {
        "structure": ["residual", "experts", "rank", "expert_share", "readout", "weights", "balance", "order"],
        "text": ["rank"],
    },
    "ablations.experts": [1, 2],
    "ablations.ranks": [16, 4],
    "ablations.expert_shares": [0.5],
    "ablations.balance": [0.5],
}


@pytest.fixture(scope="module")
def made(cache):
    profile = config.load("smoke", SMALL)
    return profile, table(profile, "ablations", say=lambda line: None), table(profile, "ablations_cost")


def predictions(profile, run):
    frame = pd.read_parquet(run_stage(profile, run).folder / "predictions.parquet")
    return frame.sort_values(["seed", "row"], ignore_index=True)


def test_the_tuned_questions_have_a_table_that_is_served_only_when_their_runs_are_there(made):
    profile, frame, _ = made
    stage = ablation_tables.tuned_tables(profile)
    assert set(stage.inputs) == {run.name for run in ablations.runs(profile, tuned=True)}
    assert not available(profile, "ablations_tuned")
    assert available(profile, "ablations")
    notebook = next(one for one in NOTEBOOKS if one.name == "19_ablations")
    assert set(Runner("smoke", SMALL).stages(notebook)) == set(notebook.tables)
    assert not available(config.load("record"), "no such table")
    assert set(frame["question"]).isdisjoint(ablations.TUNED)


def test_a_run_without_changes_is_the_red_of_the_study_to_the_last_prediction(made):
    profile, _, _ = made
    for task in ablations.TASKS:
        run = Run(task=task)
        s = replace(ablations.setting(profile, run), methods=fair.BUILT_FROM)
        known = pd.read_parquet(methods.predictions_stage(s).run(lambda line: None) / "predictions.parquet")
        known = known[(known["method"] == "red") & (known["part"] == "test")].sort_values(["seed", "row"])
        mine = predictions(profile, run)
        for column in ("row", "predicted_value", "predicted_range", "router_range"):
            assert mine[column].tolist() == known[column].tolist()
        moe = predictions(profile, Run(task=task, arm="softmax_moe"))
        other = pd.read_parquet(methods.predictions_stage(s).folder / "predictions.parquet")
        other = other[(other["method"] == "softmax_moe") & (other["part"] == "test") & (other["recipe"] == "chosen")]
        assert moe["predicted_value"].tolist() == other.sort_values(["seed", "row"])["predicted_value"].tolist()


def test_every_run_has_its_rows_and_a_change_is_paired(made):
    profile, frame, _ = made
    over = results.select(frame, seed="all")
    for entry in ablations.entries(profile):
        keys = {"task": entry.run.task, "split": entry.run.split, "question": entry.question}
        mine = results.select(over, **keys, variant=entry.run.variant)
        assert {"value_accuracy", "range_accuracy", "effective_experts"} <= set(mine["metric"])
        assert ("router_accuracy" in set(mine["metric"])) == (
            entry.run.experts != 1 and entry.run.arm != "weights_uniform"
        )
    for fields in ({"rank": 4}, {"experts": 2}, {"order": "joint"}, {"arm": "softmax_moe"}):
        run, own = Run(**fields), Run()
        row = results.pick(
            over,
            task="task1",
            split="structure",
            variant=run.variant,
            metric="range_accuracy_change",
            reference="chosen",
        )
        pair = [predictions(profile, one) for one in (run, own)]
        hits = [one["predicted_range"].to_numpy() == one["range"].to_numpy() for one in pair]
        expected = paired(
            *hits,
            *(pair[0][name] for name in ("structure", "seed", "range")),
            profile.bootstrap,
            seed=zlib.crc32(b"structure/chosen/test"),
        )
        assert row["value"] == pytest.approx(hits[0].mean() - hits[1].mean(), abs=1e-6)
        np.testing.assert_allclose(row[["low", "high"]].astype(float), [expected.low, expected.high], atol=1e-6)


def test_the_identity_holds_for_a_linear_classifier_alone(made):
    _, frame, _ = made
    apart = results.select(frame, metric="logit_difference", seed="all")
    bent = apart["changed"].str.contains("readout_hidden")
    assert apart.loc[~bent & ~apart["changed"].str.contains("arm"), "value"].max() < 1e-5
    assert apart.loc[bent, "value"].min() > 1e-6
    same = results.select(frame, question="residual", changed="mixing=logits", metric="value_accuracy_change")
    assert (same["value"] == 0).all()


def test_one_expert_has_no_router_and_more_answer_for_their_own_ranges(made):
    profile, frame, costs = made
    one = results.select(costs, variant="chosen/experts=1").set_index("metric")["value"]
    two = results.select(costs, variant="chosen/experts=2").set_index("metric")["value"]
    d, rank, hidden = 32, profile.chosen.rank, profile.chosen.router_hidden
    assert one["parameters_experts"] * 2 == two["parameters_experts"] == 2 * 2 * d * rank
    assert (one["parameters_router"], two["parameters_router"]) == (0, d * hidden + hidden + hidden * 2 + 2)
    effective = results.select(frame, question="experts", metric="effective_experts", seed="all").set_index("changed")
    assert effective.loc["experts=1", "value"].eq(1).all()
    assert effective.loc["experts=2", "value"].le(2 + 1e-6).all()


def test_costs_say_everything_that_a_run_was_made_with(made):
    profile, frame, costs = made
    assert set(costs["variant"]) == set(frame["variant"])
    first = results.select(costs, metric="parameters", task="task1", split="structure", variant="chosen/rank=4")
    full = json.loads(first["configuration"].iloc[0])
    assert full["run"]["rank"] == full["recipe"]["rank"] == 4
    assert full["rows"] == profile.ablations.rows
    assert full["recipe"]["experts"]["lr"] == profile.chosen.experts.lr
    sums = costs[costs["task"] == "task1"].pivot(index=["split", "variant"], columns="metric", values="value")
    listed = [f"parameters_{part}" for part in ("classifier", "experts", "router")]
    assert (sums["parameters"] == sums[listed].sum(axis=1)).all()


def test_fewer_rows_reach_the_experts_alone(made):
    profile, _, _ = made
    whole, half = (run_stage(profile, Run(**fields)) for fields in ({}, {"expert_share": 0.5}))
    assert half.inputs["base"].key == whole.inputs["base"].key
    assert half.inputs["routers"].key == whole.inputs["routers"].key
    assert "experts" not in half.inputs
    history = pd.read_csv(half.folder / "history.csv")
    assert set(history["name"]) == {"residual"}


def test_layers_can_be_tuned_or_left_as_they_are(made):
    profile, _, _ = made
    counted = {}
    for layers in (0, 1):
        run = Run(recipe="source", tuned_layers=layers, split="text")
        folder = run_stage(profile, run).run(lambda line: None)
        counted[layers] = pd.read_csv(folder / "measured.csv").set_index("metric")["value"]
        assert len(predictions(profile, run)) == profile.ablations.rows // 10
    assert counted[0]["parameters_tuned"] == 0
    assert counted[1]["parameters_tuned"] > 1_000
    assert counted[0]["parameters"] == counted[1]["parameters"]


def test_runs_that_answer_other_rows_cannot_be_paired(made):
    profile, _, _ = made
    frame = predictions(profile, Run())
    frames = {Run(): frame, Run(rank=4): frame.iloc[:-1]}
    with pytest.raises(ValueError, match="answers other rows than"):
        ablation_tables._statistics(frames, 10, 0)


# ---- claims and figures ------------------------------------------------------------------------------------------


def test_the_source_s_numbers_stand_beside_ours(made):
    profile, frame, _ = made
    beside = claims.ablations_beside(frame, 32, profile.chosen.rank)
    assert set(beside["claim_id"]) == {f"4.9.1-0{n}" for n in range(1, 5)} | {f"4.9.3-0{n}" for n in range(1, 7)}
    quarter = beside[(beside["claim_id"] == "4.9.3-03") & (beside["split"] == "structure")].set_index("metric")
    own = results.pick(
        frame, task="task1", split="structure", seed="all", question="rank", changed="nothing", metric="value_accuracy"
    )
    assert quarter.loc["value_accuracy", "measured"] == own["value"]  # rank 8 of 32 is RED's own


def test_conclusions_are_judged_by_the_rows(made):
    profile, frame, _ = made
    found = claims.ablation_verdicts(frame, 32, profile.chosen.rank, 5).set_index("claim")
    assert found.loc["keeping all experts identical, the residual path is what matters", "verdict"] == "does not hold"
    better = frame.copy()
    gone = (better["changed"] == "arm=base_never") & (better["metric"] == "value_accuracy_change")
    better.loc[gone, ["value", "low", "high"]] = [-0.5, -0.6, -0.4]
    found = claims.ablation_verdicts(better, 32, profile.chosen.rank, 5).set_index("claim")
    assert found.loc["the residual path is essential", "verdict"] == "holds"
    alone = claims.ablation_verdicts(frame, 32, profile.chosen.rank, 5, split="text")
    assert set(alone["section"]) == {"4.9.3", "4.9.5"}


def test_a_figure_names_every_run_with_its_parameters(made):
    _, frame, costs = made
    for question in set(frame["question"]):
        fig = figures.draw_ablation(frame, question, "smoke", "a backbone", figures.NO_EVIDENCE, "as it is", costs)
        ticks = [tick.get_text() for tick in fig.axes[0].get_yticklabels()]
        assert ticks[0].startswith("RED as it is (as it is)")
        assert len(ticks) == results.select(frame, question=question)["x"].nunique()
        assert all("parameters" in tick for tick in ticks)
        assert len(fig.axes) == 4
    assert figures.setting_name("arm=router_answer,balance=0.5") == "router trained on the answer, load loss x 0.5"
    assert figures.setting_name("arm=softmax_moe") == "softmax mixture"
    assert figures.setting_name("layer=4,pooling=last") == "hidden state 4, last token"
    with pytest.raises(LookupError, match="question=depth"):
        figures.draw_ablation(frame, "depth", "smoke")


def test_a_question_is_told_run_by_run_and_change_by_change(made):
    _, frame, _ = made
    for question in set(frame["question"]):
        rows = results.select(frame, question=question, seed="all")
        cells, said = figures.tell_ablation(frame, question, "as it is")
        assert set(cells.index) == {figures.setting_name(changed, "as it is") for changed in rows["changed"]}
        red = results.select(rows[rows["x"] == 0], metric="value_accuracy", split="structure").iloc[0]
        own = (red["task"], "structure", "value_accuracy")
        assert cells.loc["RED as it is (as it is)"][own] == results.cell(red)
        changes = results.select(rows, metric="value_accuracy_change", split="structure")
        assert said.count("\n- ") == len(changes)
        assert all(figures.setting_name(changed) in said for changed in changes["changed"])
        assert "Seeds" not in said
    with pytest.raises(LookupError, match="question=depth"):
        figures.tell_ablation(frame, "depth")


def test_runs_of_unequal_numbers_of_seeds_are_said_to_be_so(made):
    _, frame, _ = made
    question, more = frame["question"].iloc[0], frame[(frame["x"] == 0) & (frame["seed"] != "all")]
    cells, said = figures.tell_ablation(pd.concat([frame, more.assign(seed="7")]), question)
    assert "\n\nSeeds: " in said
    assert "of RED as it is; " in said
    assert cells.map(lambda cell: "(n = " in cell).all(axis=None)
