"""The fair comparison: one change an arm, arms compute what they say, and what the study trained is left alone."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from redlib import claims, config, figures, models, paths, results
from redlib.models import LabelSpace, LinearBank, MLPBank, ResidualExperts
from redlib.models.arms import (
    ARMS,
    CHOICES,
    CROSSED,
    PATH,
    PUBLIC_PATH,
    TRAINED,
    Arm,
    ArmModel,
    MixedLogits,
    SoloExperts,
    crossed,
)
from redlib.statistics import Statistic, paired_difference
from redlib.study import fair, fair_tables, methods, table, task1
from redlib.study.settings import Data

LABELS = LabelSpace(2, 13, (5, 9))  # K = 3, C = 12
D = 6


def toy(arm: Arm, seed: int = 0) -> dict:
    """Random parts for an arm over LABELS; no expert says nothing, as an untrained residual one would."""
    draw = torch.Generator().manual_seed(seed)
    K, C = LABELS.K, LABELS.C
    kinds = {"residual": lambda: ResidualExperts(range(K), D, 4), "mlp": lambda: MLPBank(range(K), D, 5, C)}
    kinds["linear"] = lambda: LinearBank(range(K), D, C)
    experts = kinds[arm.experts.split("_")[0]]()
    for p in experts.parameters():
        p.data.normal_(generator=draw)
    hidden = 7 if arm.router == "two_layer" else 0
    router = MLPBank([seed], D, hidden, K)
    return {
        "base": torch.nn.Identity(),
        "classifier": LinearBank([seed + 1], D, C),
        "experts": experts,
        "router": router,
    }


def inputs(seed: int, rows: int = 9) -> torch.Tensor:
    return 3 * torch.randn(rows, D, generator=torch.Generator().manual_seed(seed))


# ---- the arms as data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ARMS if name != "red"])
def test_an_arm_differs_from_its_reference_in_exactly_one_setting(name):
    arm = ARMS[name]
    assert arm.name == name
    assert len(arm.changes(ARMS[arm.reference])) == 1


def test_no_two_arms_are_the_same_system():
    systems = {tuple(getattr(arm, field) for field in CHOICES) for arm in ARMS.values()}
    assert len(systems) == len(ARMS)


def test_every_setting_of_red_is_changed_alone_to_every_value_that_makes_sense_with_the_rest():
    changes = [arm.changes(ARMS["red"]) for arm in ARMS.values() if arm.name != "red"]
    alone = {item for change in changes if len(change) == 1 for item in change.items()}
    wanted = {(field, value) for field, values in CHOICES.items() for value in values[1:]}
    assert wanted - alone == {("experts", "residual_alone"), ("experts", "mlp_on_base"), ("weights", "all")}
    assert {item for change in changes for item in change.items()} == wanted


@pytest.mark.parametrize("path", [PATH, PUBLIC_PATH])
def test_a_path_goes_from_arm_to_arm_by_single_changes(path):
    for before, after in pairwise(path):
        assert ARMS[after].reference == before
    assert PATH[0] == "red"
    assert "softmax_moe" in PATH


@pytest.mark.parametrize("field", CHOICES)
def test_an_unknown_setting_is_refused_with_the_valid_ones(field):
    with pytest.raises(ValueError, match=f"arm 'odd': unknown {field} 'other'; valid: .*{CHOICES[field][-1]}"):
        Arm("odd", **{field: "other"})


def test_every_kind_of_expert_says_how_it_is_trained():
    assert set(TRAINED) == set(CHOICES["experts"])
    assert set(fair.EXPERTS) < set(TRAINED)


@given(st.integers(8, 600), st.integers(1, 300), st.integers(2, 120))
def test_a_head_with_a_hidden_layer_has_the_parameters_of_a_residual_expert(d, rank, C):
    width = fair.hidden_width(d, rank, C)
    own, other = models.count(MLPBank([0], d, width, C)), models.count(ResidualExperts([0], d, rank))
    assert width == 1 or abs(own - other) <= (d + 1 + C) / 2


# ---- what an arm computes ----------------------------------------------------------------------------------------


def directly(arm: Arm, parts: dict, x: torch.Tensor, scale: float) -> torch.Tensor:
    """The arm's logits, row by row and expert by expert."""
    W, b = parts["classifier"].weight[0], parts["classifier"].bias[0, 0]
    experts, router = parts["experts"], parts["router"]
    rows = []
    for h in x:
        scores = h if router.first is None else F.gelu(h @ router.first.weight[0] + router.first.bias[0, 0])
        scores = scores @ router.last.weight[0] + router.last.bias[0, 0]
        alpha = {
            "soft": scores.softmax(0),
            "top1": F.one_hot(scores.argmax(), LABELS.K).float(),
            "uniform": torch.full((LABELS.K,), 1 / LABELS.K),
            "all": torch.ones(LABELS.K),
        }[arm.weights]
        said = sum(alpha[k] * experts(h[None])[k, 0] for k in range(LABELS.K)) * scale
        if arm.experts.startswith("residual"):
            rows.append((h + said if arm.base_term == "kept" else said) @ W + b)
        else:
            rows.append(h @ W + b + said if arm.base_term == "kept" else said)
    return torch.stack(rows)


@pytest.mark.parametrize("name", ARMS)
@torch.no_grad()
def test_an_arm_answers_what_a_direct_computation_does(name):
    arm, x = ARMS[name], inputs(3)
    parts = toy(arm, seed=1)
    scale = 0.37 if arm.scale == "learned" else arm.scale
    model = ArmModel(LABELS, parts, arm, scale if arm.scale == "learned" else None)
    torch.testing.assert_close(model(x).logits, directly(arm, parts, x, scale), rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([name for name in ARMS if ARMS[name].weights != "all"]), st.integers(0, 10_000))
@torch.no_grad()
def test_with_weights_that_sum_to_one_an_arm_is_the_mixture_of_its_experts_logits(name, seed):
    arm = replace(ARMS[name], scale=1.0 if ARMS[name].scale == "learned" else ARMS[name].scale)
    parts, x = toy(arm, seed), inputs(seed)
    output = ArmModel(LABELS, parts, arm)(x)
    each = SoloExperts(arm, parts["experts"], parts["classifier"])(x)
    assert each.shape == (LABELS.K, len(x), LABELS.C)
    torch.testing.assert_close(output.alpha.sum(1), torch.ones(len(x)))
    torch.testing.assert_close(output.logits, models.mix(output.alpha, each), rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_with_every_expert_at_weight_one_it_is_no_mixture():
    arm, x = ARMS["public_all"], inputs(5)
    parts = toy(arm)
    output = ArmModel(LABELS, parts, arm)(x)
    assert torch.equal(output.alpha, torch.ones(len(x), LABELS.K))
    mixed = models.mix(output.alpha, SoloExperts(arm, parts["experts"], parts["classifier"])(x))
    assert not torch.allclose(output.logits, mixed, atol=0.1)


@torch.no_grad()
def test_the_gate_in_training_mixes_the_given_logits_as_the_arm_will():
    arm, x = ARMS["router_answer"], inputs(2)
    parts = toy(arm)
    each = SoloExperts(arm, parts["experts"], parts["classifier"])(x).transpose(0, 1)[None]
    mixed = MixedLogits(parts["base"], parts["router"])(x, each)[0]
    torch.testing.assert_close(mixed, ArmModel(LABELS, parts, arm)(x).logits, rtol=1e-4, atol=1e-4)


def test_a_router_for_another_number_of_experts_is_refused():
    parts = toy(ARMS["red"]) | {"router": MLPBank([0], D, 7, LABELS.K + 1)}
    with pytest.raises(ValueError, match="arm 'red': the router chooses among 4 experts, but there are 3"):
        ArmModel(LABELS, parts, ARMS["red"])


def test_too_few_experts_the_wrong_kind_and_a_missing_scale_are_refused():
    parts = toy(ARMS["red"])
    with pytest.raises(ValueError, match="experts holds 2 members, but the label space has K=3 ranges"):
        ArmModel(LABELS, parts | {"experts": models.take(parts["experts"], [0, 1])}, ARMS["red"])
    with pytest.raises(ValueError, match="arm 'experts_mlp' needs experts of kind 'mlp', got a ResidualExperts"):
        ArmModel(LABELS, parts, ARMS["experts_mlp"])
    with pytest.raises(ValueError, match="arm 'scale_learned' has a learned scale; pass its value as scale"):
        ArmModel(LABELS, parts, ARMS["scale_learned"])


# ---- the trained arms at smoke size ------------------------------------------------------------------------------

SMALL = {
    "task1.rows": 250,
    "task1.seeds": {"text": 2, "structure": 1},
    "task2.definitions.operations.rows": 250,
    "task2.definitions.operations.seeds": {"text": 1, "structure": 1},
}
UNTOUCHED = {  # arm -> method and recipe that the study has already
    "red": ("red", "chosen"),
    "softmax_moe": ("softmax_moe", "chosen"),
    "moe_linear_gate": ("softmax_moe", "chosen/gate=linear"),
    "red_logit_scale": ("red_logit_scale", "chosen"),
    "weights_uniform": ("red_uniform", "chosen"),
    "weights_top1": ("top1", "chosen"),
    "moe_same_experts": ("moe_same_experts", "chosen"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Profile, the setting of Task 1 on text, and the table, in a cache of the module's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(tmp_path_factory.mktemp("cache")))
        profile = config.load("smoke", SMALL)
        frame = table(profile, "fair", say=lambda line: None)
        yield profile, fair.settings(profile)[0], frame


def predictions(s) -> pd.DataFrame:
    return pd.read_parquet(fair.comparison_stage(s).run() / "predictions.parquet")


def test_an_untouched_arm_predicts_exactly_what_the_study_does(made):
    profile, s, _ = made
    same = task1.setting(profile, "chosen", "text", methods=tuple({method for method, _ in UNTOUCHED.values()}))
    study = pd.read_parquet(methods.predictions_stage(same).run() / "predictions.parquet")
    arms = predictions(s)
    for arm, (method, recipe) in UNTOUCHED.items():
        theirs = study[(study["method"] == method) & (study["recipe"] == recipe) & (study["part"] == "test")]
        ours = arms[arms["method"] == arm]
        columns = ["row", "seed", "predicted_value", "predicted_range", "router_range", "confidence", "alpha_1"]
        assert len(ours) == 50
        pd.testing.assert_frame_equal(
            ours[columns].reset_index(drop=True), theirs[columns].reset_index(drop=True), check_exact=True
        )


def test_what_the_study_trained_is_the_same_bits_after_routers_were_trained_through_it(made):
    _, s, _ = made
    seeds = range(2)
    data, bank = Data(s), fair._reused(s, seeds)
    before = {f"{name}.{key}": value.clone() for name, part in bank.items() for key, value in part.state_dict().items()}
    gate, _ = fair.train_router(data, bank, ARMS["router_answer"])
    after = {f"{name}.{key}": value for name, part in bank.items() for key, value in part.state_dict().items()}
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert not torch.equal(gate.last.weight, bank[ARMS["softmax_moe"].router_name].last.weight)


def test_a_saved_arm_answers_as_its_predictions_say(made):
    _, s, _ = made
    data, frame = Data(s), predictions(s)
    for name in ("scale_learned", "router_answer", "base_never", "public_moe"):
        said = methods.predict_part(data, fair.arm_model(s, name, 1), "test", name, 1)
        stored = frame[(frame["method"] == name) & (frame["seed"] == 1)].reset_index(drop=True)
        pd.testing.assert_frame_equal(said, stored, check_exact=True)
    with pytest.raises(ValueError, match=r"no arm 'blue' of seed 0; valid arms: red, .*; valid seeds: 0, 1"):
        fair.arm_model(s, "blue", 0)


def test_a_router_of_one_epoch_is_the_converged_one_after_its_first_epoch(made):
    _, s, _ = made
    history = pd.read_csv(fair.comparison_stage(s).run() / "history.csv").set_index(["name", "member", "epoch"])
    whole = methods.history(s).set_index(["name", "member", "epoch"])
    short = history.xs(ARMS["router_one_epoch"].router_name)
    assert set(short.index.get_level_values("epoch")) == {1}
    np.testing.assert_array_equal(short["train_loss"], whole.xs("router").xs(1, level="epoch")["train_loss"])


@torch.no_grad()
def test_a_learned_scale_is_no_worse_on_validation_than_any_other(made):
    _, s, _ = made
    data, model = Data(s), fair.arm_model(s, "scale_learned", 0)
    x, y = fair._rows_of(data, "validation", 0), data.value[data.rows["validation"][0]]
    losses = {}
    for scale in (model.scale, *np.logspace(-3, 3, 41)):
        model.scale = float(scale)
        losses[model.scale] = float(F.cross_entropy(model(x).logits, y))
    assert losses[next(iter(losses))] <= min(losses.values()) + 1e-4


def test_the_table_has_every_arm_with_differences_to_red_and_to_its_reference(made):
    _, _, frame = made
    results.validate(frame)
    for (_, _), rows in frame[frame["seed"] == "all"].groupby(["task", "split"]):
        values = rows[rows["metric"] == "value_accuracy"]
        assert set(values["method"]) == {*ARMS, fair.SAME}
        changes = rows[rows["metric"] == "range_accuracy_change"]
        assert set(changes.loc[changes["reference"] == "red", "method"]) == {*ARMS, fair.SAME} - {"red"}
        pairs = set(changes[["method", "reference"]].itertuples(index=False, name=None))
        assert {(arm.name, arm.reference) for arm in ARMS.values() if arm.name != "red"} <= pairs
    one = frame[frame["reference"].isin(["linear_mixture"])]
    assert set(one["changed"]) == {"target=answer"}
    assert "router_accuracy" not in set(frame.loc[frame["method"] == "weights_uniform", "metric"])


def test_a_change_is_the_difference_of_two_accuracies_with_a_paired_interval(made):
    profile, s, frame = made
    here = results.select(frame, task="task1", split="text", seed="all")
    for name in ("mlp_mixture", "public_moe"):
        change = results.pick(here, method=name, metric="range_accuracy_change", reference=ARMS[name].reference)
        pair = [predictions(s).query("method == @one").sort_values(["seed", "row"]) for one in (name, change.reference)]
        hits = [one["predicted_range"].to_numpy() == one["range"].to_numpy() for one in pair]
        about = pair[0]
        expected = paired_difference(
            *hits, about["structure"], about["seed"], about["range"], profile.bootstrap, seed=fair_tables.stream(s)
        )
        assert change["value"] == pytest.approx(hits[0].mean() - hits[1].mean(), abs=1e-6)
        np.testing.assert_allclose(change[["low", "high"]].astype(float), [expected.low, expected.high], atol=1e-6)


def test_red_and_the_mixture_of_its_experts_are_one_function_in_the_table(made):
    _, _, frame = made
    apart = results.select(frame, method=fair.SAME, metric="logit_difference")
    assert len(apart) == 2 + 1 + 1 + 1 + 1
    assert (apart["value"] < 1e-5).all()


def test_at_most_as_many_seeds_as_the_profile_says_are_compared(made):
    profile, _, _ = made
    many = task1.setting(profile, "chosen", "text", seeds=5, methods=fair.BUILT_FROM)
    assert fair.comparison_stage(many).config["seeds"] == profile.fair.seeds == fair.SEEDS == 3
    fewer = config.load("smoke", SMALL | {"fair.seeds": 1})
    assert all(stage.config["seeds"] == 1 for stage in fair_tables.fair_tables(fewer).inputs.values())


def test_the_crossing_has_an_arm_for_every_combination():
    cells = crossed()
    assert len(cells) == len(set(cells.values())) == 8
    assert cells["kept", 1.0, "range"] == "red"
    for levels, name in cells.items():
        assert tuple(getattr(ARMS[name], setting) for setting in CROSSED) == levels
        assert ARMS[name].changes(ARMS["red"]).keys() <= CROSSED.keys()


def test_effects_of_a_crossing_that_was_made_up_are_what_went_into_it():
    made = {}
    for (term, scale, target), name in crossed().items():
        off, tenth, answer = term == "dropped", scale == 0.1, target == "answer"
        value = (
            0.6 - 0.2 * off + 0.1 * tenth + 0.05 * answer - 0.3 * (off and tenth) + 0.08 * (off and tenth and answer)
        )
        made[name] = Statistic(
            np.array([value]), np.array([[value, value]]), *[np.array([9])] * 2, 9, 0, np.array([1.0]), False
        )
    found = {name: float(effect.value[0]) for name, effect in fair_tables.effects(made).items()}
    off, tenth, answer = "base_term=dropped", "scale=0.1", "target=answer"
    assert found[off] == pytest.approx(-0.2 - 0.3 / 2 + 0.08 / 4)
    assert found[answer] == pytest.approx(0.05 + 0.08 / 4)
    assert found[f"{off} x {tenth}"] == pytest.approx(-0.3 + 0.08 / 2)
    assert found[f"{off} x {tenth} x {answer}"] == pytest.approx(0.08)
    assert len(found) == 7


def test_an_effect_in_the_table_is_the_mean_of_the_changes_in_its_four_places(made):
    _, _, frame = made
    here = results.select(frame, variant="operations/chosen", split="text", seed="all")
    level = here[here["metric"] == "range_accuracy"].set_index("method")["value"]
    cells = crossed()
    changes = [
        level[cells[t, s, "answer"]] - level[cells[t, s, "range"]] for t in ("kept", "dropped") for s in (1.0, 0.1)
    ]
    effect = results.pick(here, method="crossing", metric="range_accuracy_effect", changed="target=answer")
    assert effect["value"] == pytest.approx(np.mean(changes), abs=1e-5)
    assert effect["low"] <= effect["value"] <= effect["high"]


@pytest.mark.skipif(not (paths.results("full") / "fair.csv").is_file(), reason="no record has been published yet")
def test_on_record_the_comparison_and_the_main_tables_say_the_same_of_the_same_models():
    """Where parts are reused this is one training; those of `single_heavy` were trained again from an empty cache."""
    compared = results.load(paths.results("full"), "fair")
    compared = compared[compared["seed"] != "all"]
    keys = ["task", "variant", "split", "method", "seed", "metric"]
    for task in ("task1", "task2"):
        main = results.load(paths.results("full"), task)
        main = main[(main["part"] == "test") & (main["group"] == "all")].set_index(keys)["value"]
        for metric in ("value_accuracy", "range_accuracy"):
            mine = results.select(compared, task=task, method=["red", "softmax_moe"], metric=metric)
            mine = mine.drop_duplicates(keys).set_index(keys)["value"]
            assert len(mine)
            pd.testing.assert_series_equal(mine, main.loc[mine.index], check_exact=True)


# ---- what the figures say of it ----------------------------------------------------------------------------------


def test_the_steps_of_a_path_add_up_to_its_last_arm(made):
    _, _, frame = made
    for path in (PATH, PUBLIC_PATH):
        steps = figures.path_steps(frame, "task2", "structure", path, "range_accuracy")
        assert steps["method"].tolist() == list(path)
        np.testing.assert_allclose(steps["before"] + steps["value"], steps["after"], atol=2e-6)
        last = results.pick(
            frame, task="task2", split="structure", seed="all", method=path[-1], metric="range_accuracy"
        )
        assert steps["after"].iloc[-1] == last["value"]
    with pytest.raises(LookupError, match="no row with metric=value_accuracy_change"):
        figures.path_steps(frame[frame["metric"] != "value_accuracy_change"], "task1", "text")


def test_steps_of_two_kinds_of_chains_are_not_mixed_up(made):
    _, _, frame = made
    kinds = {name: frame[frame["variant"] == name] for name in ("operations/chosen", "single_heavy/chosen")}
    paths = {name: figures.path_steps(rows, "task2", "text") for name, rows in kinds.items()}
    for name, steps in paths.items():
        at = {"variant": name, "split": "text", "seed": "all", "metric": "value_accuracy"}
        assert steps["after"].iloc[-1] == results.pick(frame, **at, method=PATH[-1])["value"]
    with pytest.raises(ValueError, match=r"2 rows match .* they differ in variant"):
        figures.path_steps(frame, "task2", "text")


def test_both_figures_name_every_arm_and_what_they_show(made):
    _, _, whole = made
    frame = whole[whole["variant"] != "single_heavy/chosen"]
    reported = results.select(claims.load(), section="4.9.1")
    arms = figures.draw_arms(frame, "laptop", "a backbone", figures.NO_EVIDENCE)
    path = figures.draw_path(frame, reported, "laptop", "a backbone", figures.NO_EVIDENCE, metric="range_accuracy")
    for fig, ticks, panels in ((arms, len(ARMS) + 1, 4), (path, len(PATH) + 2, 4)):
        said = "\n".join(text.get_text() for text in fig.texts)
        assert all(word in said for word in ("profile laptop", "a backbone", "split text, structure", "no evidence"))
        assert len(fig.axes) == panels
        assert len(fig.axes[0].get_yticklabels()) == ticks
    alone = whole[whole["variant"] == "single_heavy/chosen"]
    assert len(figures.draw_arms(alone, "laptop").axes) == 2
    assert len(figures.draw_path(alone, reported, "laptop").axes) == 1
    with pytest.raises(LookupError, match="no row with reference=red"):
        figures.draw_arms(frame[frame["reference"] != "red"], "laptop")
