"""Ablations: one description of a run, what it reuses and trains, paired tables, claims and figures."""

import json
import zlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import claims, config, figures, results, training
from redlib.bench import seeds
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts, take
from redlib.models.ablated import Ablated, Balanced, JointRED, imbalance, keep_top
from redlib.models.arms import ARMS
from redlib.statistics import paired_difference
from redlib.study import ablations, available, fair, methods, table
from redlib.study.ablations import Run
from redlib.study.ablations import tables as ablation_tables
from redlib.study.ablations.run import reused, run_stage
from redlib.study.notebooks import NOTEBOOKS
from redlib.study.parts import Frozen, ResidualHead
from redlib.study.runner import Runner

LABELS = LabelSpace(2, 13, (5, 9))  # K = 3, C = 12
D = 6
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


# ---- descriptions ------------------------------------------------------------------------------------------------


def test_a_run_is_named_by_what_it_does_otherwise():
    assert Run().changed == "nothing"
    assert Run(seeds=5, split="text").variant == "chosen"
    assert Run(task="task2", rank=4, order="joint").variant == "operations/chosen/rank=4,order=joint"
    assert Run(rank=4) == Run(task="task1", rank=4)
    assert hash(Run(rank=4)) == hash(Run(task="task1", rank=4))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arm": "blue"}, "unknown arm 'blue'; valid arms: red, base_dropped"),
        ({"tuned_layers": 2}, "tuned_layers needs recipe 'source'"),
        ({"recipe": "source", "layer": 3}, "layer and pooling cannot be changed under tuned layers"),
        ({"order": "joint", "expert_share": 0.5}, "order 'joint' trains experts and router together, expert_share"),
        ({"arm": "softmax_moe", "mixing": "logits"}, "arm 'softmax_moe' mixes logits anyway"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(fields, said):
    with pytest.raises(ValueError, match=said):
        Run(**fields)


def test_a_final_state_that_no_layer_is_tuned_for_may_be_pooled_otherwise():
    assert Run(recipe="source", tuned_layers=0, layer=3, pooling="last").changes["pooling"] == "last"


@given(st.integers(1, 6), st.integers(0, 1_000))
def test_ranges_of_experts_hold_as_many_texts_as_equal_values_allow(K, seed):
    values = np.concatenate([LABELS.values, np.random.default_rng(seed).choice(LABELS.values, 600)])
    made = ablations.groups(LABELS, values, K)
    counts = np.bincount([made.range_of(value) for value in values], minlength=K)
    assert (made.K, made.lo, made.hi, counts.sum()) == (K, LABELS.lo, LABELS.hi, len(values))
    assert abs(counts - len(values) / K).max() <= np.bincount(values).max()


def test_values_that_are_all_alike_cannot_be_shared_out():
    with pytest.raises(ValueError, match="edges"):
        ablations.groups(LABELS, np.full(20, 7), 3)


def test_every_question_of_the_profiles_has_red_first_and_changes_only_what_it_is_about():
    for name in ("smoke", "laptop", "full", "paper"):
        profile = config.load(name)
        assert not set(ablations.TUNED) & {q for asked in profile.ablations.questions.values() for q in asked}
        for entry in ablations.entries(profile):
            if entry.run == entry.reference:
                assert entry.run.changes == {}
            different = dict(entry.run.changes.items() ^ entry.reference.changes.items())
            assert entry.question in ("rank", "depth") or len(different) <= 1 or "readout_hidden" in different


def test_the_questions_that_tune_layers_have_one_seed_but_for_red():
    profile = config.load("full", {"ablations.questions": {"structure": list(ablations.TUNED)}})
    found = ablations.entries(profile)
    assert {entry.run.seeds for entry in found if entry.run == entry.reference} == {3}
    assert {entry.run.seeds for entry in found if entry.run != entry.reference} == {1}
    assert {entry.run.recipe for entry in found} == {"source"}
    assert {e.run.tuned_layers for e in found if e.question == "tuned_layers"} == {None, 0, 1, 3}


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({}, ("base", "experts", "routers")),
        ({"top": 1}, ("base", "experts", "routers")),
        ({"arm": "base_never"}, ("base", "experts", "routers")),
        ({"experts": 2}, ("base",)),
        ({"expert_share": 0.5}, ("base", "routers")),
        ({"readout_hidden": 8}, ("base", "routers")),
        ({"balance": 0.1}, ("base", "experts")),
        ({"order": "joint"}, ("base",)),
        ({"order": "joint_after"}, ("base", "experts", "routers")),
    ],
)
def test_a_run_takes_over_every_part_that_it_does_not_change(fields, parts):
    assert reused(Run(**fields)) == parts


# ---- models ------------------------------------------------------------------------------------------------------


def parts(seed=0, K=3, hidden=0, dtype=torch.float32):
    """Random parts of RED over LABELS; `hidden`: of the readout."""
    draw = torch.Generator().manual_seed(seed)
    made = {
        "base": torch.nn.Identity(),
        "classifier": MLPBank([seed], D, hidden, LABELS.C) if hidden else LinearBank([seed], D, LABELS.C),
        "experts": ResidualExperts(range(K), D, 4),
        "router": MLPBank([seed], D, 7, K),
    }
    for p in made["experts"].parameters():
        p.data.normal_(generator=draw)
    return {name: part.to(dtype) for name, part in made.items()}


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 3))
@torch.no_grad()
def test_the_largest_weights_are_kept_in_proportion(seed, k):
    alpha = torch.rand(5, 3, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    kept = keep_top(alpha, k)
    torch.testing.assert_close(kept.sum(-1), torch.ones(5))
    assert ((kept > 0).sum(-1) == k).all()
    there = kept > 0
    largest = alpha.sort(-1, descending=True).values[:, :k]
    torch.testing.assert_close(alpha[there].view(5, k).sort(-1, descending=True).values, largest)
    ratio = (kept / alpha)[there].view(5, k)
    torch.testing.assert_close(ratio, ratio[:, :1].expand(5, k))


@torch.no_grad()
def test_mixing_states_and_logits_agree_for_a_linear_readout_and_not_for_another():
    x = 3 * torch.randn(9, D, generator=torch.Generator().manual_seed(3))
    for hidden, alike in ((0, True), (5, False)):
        both = [Ablated(LABELS, parts(1, hidden=hidden), ARMS["red"], mixing=m)(x).logits for m in ("states", "logits")]
        assert torch.allclose(*both, atol=1e-4) is alike


@torch.no_grad()
def test_top_one_of_an_ablated_red_is_the_arm_with_top_one_weights_and_more_experts_than_ranges_are_possible():
    x = torch.randn(9, D, generator=torch.Generator().manual_seed(5))
    one = Ablated(LABELS, parts(2), ARMS["red"], top=1)(x)
    torch.testing.assert_close(one.logits, Ablated(LABELS, parts(2), ARMS["weights_top1"])(x).logits)
    assert Ablated(LABELS, parts(2, K=5), ARMS["red"], K=5)(x).alpha.shape == (9, 5)
    with pytest.raises(ValueError, match="experts holds 5 members"):
        Ablated(LABELS, parts(2, K=5), ARMS["red"])


def test_a_balanced_router_says_the_same_and_is_pulled_towards_equal_loads():
    torch.manual_seed(0)
    h, router = torch.randn(2, 64, D) + 1, MLPBank([0, 1], D, 0, 3)
    plain = router(h)
    assert torch.equal(Balanced(router, 0.7)(h), plain)
    expected = torch.autograd.grad((plain.sum() + 0.7 * imbalance(router(h)).sum()), [*router.parameters()])
    got = torch.autograd.grad(Balanced(router, 0.7)(h).sum(), [*router.parameters()])
    for mine, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
    equal = torch.eye(3).repeat(2, 4, 1) * 50
    torch.testing.assert_close(imbalance(equal), torch.ones(2))
    assert (imbalance(torch.tensor([9.0, 0, 0]).expand(2, 8, 3)) > 2.9).all()


@torch.no_grad()
def test_joint_training_starts_from_red_and_its_parts_are_red_again():
    S, K = 2, 3
    experts, router = ResidualExperts(range(S * K), D, 4), MLPBank(range(S), D, 7, K)
    for p in experts.parameters():
        p.data.normal_()
    classifier = LinearBank(range(S), D, LABELS.C)
    joint = JointRED(range(S), D, K, 4, 7, classifier).start_from(experts, router)
    x = torch.randn(9, D)
    for seed in range(S):
        own = {"base": torch.nn.Identity(), "classifier": take(classifier, [seed]), "router": take(router, [seed])}
        for bank in (experts, joint.experts()):
            red = Ablated(LABELS, {**own, "experts": take(bank, range(seed * K, seed * K + K))}, ARMS["red"])
            torch.testing.assert_close(joint(x.expand(S, 9, D))[seed], red(x).logits, rtol=1e-4, atol=1e-5)


# ---- batched training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["experts", "joint"])
def test_members_trained_together_are_those_trained_alone_over_fifty_steps(kind):
    S, steps, n = 4, 50, 160
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(400, D, generator=draw, dtype=torch.float64)
    y = torch.randint(LABELS.C, (400,), generator=draw)
    order = [np.random.default_rng(member).permutation(400) for member in range(S)]
    rows = training.Rows(
        training.pooled_inputs(x), y, [o[:n] for o in order], [o[n : n + 60] for o in order], kind, range(S)
    )
    classifier = LinearBank(range(S), D, LABELS.C)

    def make(members):
        own = take(classifier, members)
        if kind == "experts":
            head = ResidualHead(ResidualExperts(members, D, 3), own)
        else:
            head = JointRED(members, D, 3, 2, 5, own)
        return Frozen(torch.nn.Identity(), head).double()

    loop = config.Training(lr=1e-2, batch=n // 10, max_epochs=steps // 10, patience=steps)
    whole = make(list(range(S)))
    training.fit(whole, rows, loop)
    untrained = make(list(range(S)))
    for member in range(S):
        alone = make([member])
        training.fit(alone, rows.only([member]), loop)
        for together, one in zip(whole.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(together[member], one[0], rtol=1e-9, atol=1e-10)
    assert any(not torch.equal(a, b) for a, b in zip(whole.parameters(), untrained.parameters(), strict=True))


def test_the_bench_trains_the_same_members_both_ways():
    x = torch.randn(200, 8, generator=torch.Generator().manual_seed(0))
    loop = config.Training(batch=16, max_epochs=2, patience=2)
    for part in ("experts", "router"):
        whole, alone = (way(x, part, 2, 3, loop) for way in (seeds.together, seeds.one_by_one))
        for member, one in enumerate(alone):
            for together, single in zip(whole.parameters(), one.parameters(), strict=True):
                torch.testing.assert_close(together[member], single[0], rtol=1e-3, atol=1e-4)


def test_the_bench_reports_a_ratio_for_experts_and_router(capsys):
    frame = seeds.run(rounds=1, rows=200, seeds=2, rank=2, epochs=1)
    ratio = frame[frame["metric"] == "over_one_by_one"].set_index("case")["value"]
    assert set(ratio.index) == {"2 seeds, 200 texts/experts", "2 seeds, 200 texts/router"}
    assert (ratio > 0).all()


# ---- the tables at smoke size ------------------------------------------------------------------------------------


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
        expected = paired_difference(
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
    with pytest.raises(LookupError, match="question=depth"):
        figures.tell_ablation(frame, "depth")
