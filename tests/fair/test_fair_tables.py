"""The trained arms at smoke size: their table and figures, and what the study trained is left alone."""

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from test_statistics import paired

from redlib import claims, config, figures, paths, results
from redlib.models.arms import ARMS, PATH, PUBLIC_PATH, ArmModel, crossed
from redlib.statistics import Statistic
from redlib.study import fair, fair_tables, methods, table, task1
from redlib.study.settings import Data

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
    data, arm = Data(s), ARMS["scale_learned"]
    parts = fair.parts_of(fair._reused(s, [0]), arm, 0)
    model = ArmModel(s.labels, parts, arm, fair.fit_scale(data, parts, arm, 0)).eval()
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
        expected = paired(
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
