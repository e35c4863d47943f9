"""Tables of predictions: accuracies, F1, gaps, bias, confusions and maps against direct counts, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.metrics import f1_score

from redlib import evaluation
from redlib.expressions import Expression, LabelSpace

SPACE = LabelSpace(2, 10, (4, 7))  # R1 2-4, R2 5-7, R3 8-10


def pool() -> pd.DataFrame:
    """Every pair of operands 1..5, three times, with its structure; sums 2..10."""
    pairs = [(a, b) for a in range(1, 6) for b in range(1, 6)] * 3
    expressions = [Expression((a, b), ("+",)) for a, b in pairs]
    frame = pd.DataFrame({"expression": [e.text for e in expressions], "value": [e.value for e in expressions]})
    frame["structure"] = [e.structure_key for e in expressions]
    frame["range"] = [SPACE.range_of(value) for value in frame["value"]]
    return frame.rename_axis("row").reset_index()


def predict(method: str, seed: int, guess, route=None, split="structure", part="test") -> pd.DataFrame:
    """Rows of the long frame: `guess(values)` are the predicted values, `route(ranges)` the router's choices."""
    items = pool()[["row", "structure", "value", "range"]]
    predicted = np.asarray(guess(items["value"].to_numpy()))
    routes = -1 if route is None else np.asarray(route(items["range"].to_numpy()))
    return items.assign(
        split=split,
        part=part,
        recipe="chosen",
        method=method,
        seed=seed,
        predicted_value=predicted,
        predicted_range=[SPACE.range_of(int(value)) for value in predicted],
        confidence=0.5,
        router_range=routes,
    )


def noisy(share: float, seed: int):
    rng = np.random.default_rng(seed)
    return lambda values: np.where(rng.random(len(values)) < share, values, rng.integers(2, 11, len(values)))


@pytest.fixture(scope="module")
def predictions() -> pd.DataFrame:
    def wrong_at_the_top(ranges):
        return np.where(ranges == 2, 1, ranges)

    frames = []
    for split, lift in (("structure", 0.0), ("text", 0.3)):
        for seed in (0, 1):
            frames.append(predict("red", seed, noisy(0.6 + lift, seed), wrong_at_the_top, split))
            frames.append(predict("global_head", seed, noisy(0.3 + lift, 10 + seed), None, split))
            frames.append(predict("symbolic", seed, lambda values: values, None, split))
    frames.append(predict("red", 0, noisy(0.9, 5), lambda ranges: ranges, part="train"))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture(scope="module")
def tidy(predictions) -> pd.DataFrame:
    return evaluation.evaluate(predictions, SPACE, resamples=200, run="r1")


def number(tidy, **keys) -> pd.Series:
    keys = {"split": "structure", "part": "test", "seed": "all", "group": "all"} | keys
    rows = tidy
    for name, value in keys.items():
        rows = rows[rows[name] == value]
    assert len(rows) == 1, f"{len(rows)} rows for {keys}"
    return rows.iloc[0]


def test_tidy_columns_and_identity_of_rows(tidy):
    assert tuple(tidy.columns) == evaluation.COLUMNS
    assert not tidy.duplicated(["variant", "split", "part", "method", "seed", "group", "metric"]).any()
    assert set(tidy["task"]) == {"task1"}
    assert set(tidy["run"]) == {"r1"}


@pytest.mark.parametrize("group", ["all", "R1", "R3"])
def test_accuracies_are_the_share_of_right_rows(predictions, tidy, group):
    for seed in (0, 1):
        rows = predictions.query("method == 'red' and split == 'structure' and part == 'test' and seed == @seed")
        rows = rows if group == "all" else rows[rows["range"] == int(group[1]) - 1]
        value = number(tidy, method="red", metric="value_accuracy", seed=str(seed), group=group)
        assert value["value"] == pytest.approx((rows["predicted_value"] == rows["value"]).mean())
        assert value["n"] == len(rows)
        ranges = number(tidy, method="red", metric="range_accuracy", seed=str(seed), group=group)
        assert ranges["value"] == pytest.approx((rows["predicted_range"] == rows["range"]).mean())


def test_the_row_over_seeds_is_their_mean_with_an_interval(tidy):
    seeds = [number(tidy, method="red", metric="value_accuracy", seed=s)["value"] for s in ("0", "1")]
    whole = number(tidy, method="red", metric="value_accuracy")
    assert whole["value"] == pytest.approx(np.mean(seeds))
    assert whole["low"] < whole["value"] < whole["high"]
    assert whole["n"] == 150


def test_macro_f1_is_scikit_learns_and_its_ceiling_is_reached_by_a_perfect_method(predictions, tidy):
    rows = predictions.query("method == 'red' and split == 'structure' and part == 'test' and seed == 0")
    rows = rows[rows["range"] == 0]
    expected = f1_score(rows["value"], rows["predicted_value"], labels=[2, 3, 4], average="macro")
    of_seed = {"method": "red", "seed": "0", "group": "R1"}
    assert number(tidy, metric="macro_f1", **of_seed)["value"] == pytest.approx(expected)
    over_all = f1_score(
        rows["value"], rows["predicted_value"], labels=list(SPACE.values), average="macro", zero_division=0
    )
    assert number(tidy, metric="macro_f1_9", **of_seed)["value"] == pytest.approx(over_all)
    ceiling = number(tidy, metric="macro_f1_9_ceiling", method="symbolic", group="R1")
    assert ceiling["value"] == pytest.approx(3 / 9)
    assert number(tidy, metric="macro_f1_9", method="symbolic", group="R1")["value"] == pytest.approx(3 / 9)
    assert np.isnan(ceiling["low"])


def test_a_perfect_method_has_an_interval(tidy):
    perfect = number(tidy, method="symbolic", metric="value_accuracy")
    assert perfect["high"] == 1.0
    assert 0.5 < perfect["low"] < 1.0


def test_router_accuracy_on_every_part_and_accuracy_by_route(predictions, tidy):
    assert number(tidy, method="red", metric="router_accuracy", part="train")["value"] == 1.0
    share = (pool()["range"] != 2).mean()
    assert number(tidy, method="red", metric="router_accuracy")["value"] == pytest.approx(share)
    assert number(tidy, method="red", metric="router_accuracy", group="R3")["value"] == 0.0
    wrong = number(tidy, method="red", metric="value_accuracy", group="route=wrong")
    third = number(tidy, method="red", metric="value_accuracy", group="R3")
    assert (wrong["value"], wrong["n"]) == (third["value"], third["n"])
    assert tidy.query("method == 'global_head' and metric == 'router_accuracy'").empty
    assert tidy.query("part == 'train' and group == 'route=wrong'").empty


def test_difference_to_the_reference_is_paired(tidy):
    below = number(tidy, method="global_head", metric="value_accuracy_below_red")
    red, head = (number(tidy, method=name, metric="value_accuracy") for name in ("red", "global_head"))
    assert below["value"] == pytest.approx(red["value"] - head["value"])
    assert below["low"] <= below["value"] <= below["high"]
    assert tidy.query("method == 'red' and metric.str.contains('_below_')").empty


def test_a_method_equal_to_the_reference_differs_by_nothing_within_what_the_structures_allow():
    frames = [predict(name, 0, noisy(0.5, 3)) for name in ("red", "moe_same_experts")]
    tidy = evaluation.evaluate(pd.concat(frames), SPACE, resamples=100)
    below = number(tidy, method="moe_same_experts", metric="value_accuracy_below_red")
    assert below["value"] == 0
    assert below["high"] == -below["low"] > 0


def test_mcnemar_takes_one_row_a_structure(predictions, tidy):
    rows = predictions.query("split == 'structure' and part == 'test' and seed == 0").sort_values("row")
    first = rows.drop_duplicates(["method", "structure"]).assign(hit=lambda f: f["predicted_value"] == f["value"])
    wide = first.pivot(index="structure", columns="method", values="hit")
    only_red = (wide["red"] & ~wide["global_head"]).sum()
    only_head = (~wide["red"] & wide["global_head"]).sum()
    test = number(tidy, method="global_head", metric="mcnemar_p_red", seed="0")
    assert test["n"] == 15
    assert test["value"] == pytest.approx(scipy.stats.binomtest(only_red, only_red + only_head).pvalue)
    assert number(tidy, method="global_head", metric="mcnemar_only_red", seed="0")["value"] == only_red


def test_memorisation_gap_is_text_minus_structure(tidy):
    gap = number(tidy, method="red", metric="value_accuracy_gap", split="text-structure")
    text = number(tidy, method="red", metric="value_accuracy", split="text")
    assert gap["value"] == pytest.approx(text["value"] - number(tidy, method="red", metric="value_accuracy")["value"])
    assert gap["low"] < gap["value"] < gap["high"]


def test_the_same_predictions_in_any_order_give_the_same_table(predictions, tidy):
    again = evaluation.evaluate(predictions.sample(frac=1, random_state=1), SPACE, resamples=200, run="r1")
    pd.testing.assert_frame_equal(again, tidy)


def test_bias_by_value_worked_by_hand():
    frame = predict("red", 0, lambda values: np.where(values == 4, 5, values))
    bias = evaluation.bias_by_value(frame, SPACE).set_index(["true_value", "metric"])
    assert bias.loc[(4, "signed_error"), "value"] == 1
    assert bias.loc[(4, "same_range"), "value"] == 0
    assert bias.loc[(5, "signed_error"), "value"] == 0
    assert bias.loc[(4, "predicted_q50"), "value"] == 5
    assert bias.loc[(5, "predicted_share"), "value"] == pytest.approx((9 + 12) / 75)
    assert bias.loc[(5, "true_share"), "value"] == pytest.approx(12 / 75)
    assert (4, "predicted_share") not in bias.index
    assert bias.loc[(4, "signed_error"), ["group", "n"]].tolist() == ["R1", 9]


def test_range_confusion_rows_sum_to_one():
    frame = predict("red", 0, lambda values: np.where(values == 4, 5, values), lambda ranges: ranges)
    confusion = evaluation.range_confusion(frame, SPACE)
    shares = confusion.pivot_table(index=["metric", "group"], columns="predicted_range", values="value")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares.loc[("range_share", "R1"), "R2"] == pytest.approx(9 / 18)
    assert shares.loc[("router_share", "R1"), "R1"] == 1


def test_operand_map_covers_each_pair_once_with_its_error_rate():
    frame = predict("red", 0, lambda values: np.where(np.arange(len(values)) < 25, 2, values))
    pairs = evaluation.operand_map(frame, pool(), SPACE, ["red"])
    errors = pairs[pairs["metric"] == "value_error"].set_index(["first", "second"])
    assert len(errors) == 25
    assert errors.index.is_unique
    assert errors.loc[(1, 1), "value"] == 0
    assert errors.loc[(3, 5), ["value", "n", "group"]].tolist() == [pytest.approx(1 / 3), 3, "R3"]


@pytest.mark.parametrize(
    ("value", "metric", "expected"),
    [
        (0.80, "value_accuracy", "high"),
        (0.7999, "value_accuracy", "moderate"),
        (0.5499, "range_accuracy", "low"),
        (0.16, "macro_f1_99", "high"),
        (0.0799, "macro_f1_99", "low"),
    ],
)
def test_levels_follow_the_sources_thresholds(value, metric, expected):
    assert evaluation.level(value, metric) == expected


def test_a_level_is_sure_when_the_interval_stays_inside_it(tidy):
    wide = pd.DataFrame({"metric": ["value_accuracy"] * 2, "value": [0.7, 0.7], "low": [0.6, 0.6], "high": [0.75, 0.9]})
    assert evaluation.levels(wide, "value_accuracy")[["level", "sure"]].to_numpy().tolist() == [
        ["moderate", True],
        ["moderate", False],
    ]
    with pytest.raises(LookupError, match="no row with metric 'range_accuracy'; present: value_accuracy"):
        evaluation.levels(wide, "range_accuracy")
    with pytest.raises(ValueError, match="no levels for metric 'macro_f1'"):
        evaluation.level(0.5, "macro_f1")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f.drop(columns="structure"), "lack the columns structure"),
        (lambda f: f.iloc[:0], "hold no row"),
        (lambda f: f.assign(predicted_value=99), "predicted_value 99 is outside 2..10"),
        (lambda f: f.assign(range=0), "not the range of its true value"),
        (lambda f: pd.concat([f, f.iloc[:1]]), "row 0 of red and seed 0 twice"),
        (lambda f: pd.concat([f, f.iloc[:9].assign(method="top1")]), "'top1' predicts 9 of the 75 items of seed 0"),
    ],
)
def test_a_frame_of_predictions_that_cannot_be_evaluated_is_refused(spoil, message):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(spoil(predict("red", 0, noisy(0.5, 0))), SPACE, resamples=10)


def test_maps_name_what_they_lack():
    frame = predict("red", 0, noisy(0.5, 0))
    with pytest.raises(ValueError, match="no predictions of method mixture; present: red"):
        evaluation.range_confusion(frame, SPACE, ["mixture"])
    with pytest.raises(ValueError, match="row 0 is predicted but is not in the pool"):
        evaluation.operand_map(frame, pool().iloc[1:], SPACE)
    chain = pool().assign(expression="1 + 1 + 1")
    with pytest.raises(ValueError, match="needs two operands"):
        evaluation.operand_map(frame, chain, SPACE)


def test_values_beside_a_boundary_stand_apart_from_the_rest(predictions):
    test = predictions[predictions["part"] == "test"]
    places = evaluation.near_boundaries(evaluation.bias_by_value(test, SPACE), SPACE)  # boundaries 4/5 and 7/8
    red = test[(test["method"] == "red") & (test["split"] == "structure")]
    at_edge = red[red["value"].isin([4, 5, 7, 8])]
    row = places.set_index(["method", "split", "place"]).loc[("red", "structure", "boundary")]
    assert row["n"] == len(at_edge)
    assert row["same_range"] == pytest.approx((at_edge["predicted_range"] == at_edge["range"]).mean())
    assert row["signed_error"] == pytest.approx((at_edge["predicted_value"] - at_edge["value"]).mean())
    assert places.groupby(["split", "method"])["n"].sum()["structure", "red"] == len(red)
    exact = places[places["method"] == "symbolic"]
    assert (exact["same_range"] == 1).all()
    assert (exact["signed_error"] == 0).all()


def test_one_range_has_no_boundary(predictions):
    with pytest.raises(ValueError, match="one range has no boundary"):
        evaluation.near_boundaries(pd.DataFrame(), LabelSpace(2, 10, ()))
