import numpy as np
import pandas as pd
import pytest

from redlib import claims, evaluation, paths
from redlib.claims import judging
from redlib.expressions import LabelSpace

METHODS = ("global_head", "uniform_average", "red_uniform", "softmax_moe", "red")


def measured() -> pd.DataFrame:
    """A made-up table that has every row that the claims of Task 1 ask for."""
    rows = []
    for split, value in (("text", 0.9), ("structure", 0.6)):
        about = {"task": "task1", "variant": "chosen", "split": split, "seed": "all", "run": "r"}
        about |= {"value": value, "n": 10, "low": value - 0.1, "high": value + 0.1}
        for method in METHODS:
            for group in ("all", "R1", "R2", "R3", "R4", "R5"):
                for metric in ("value_accuracy", "range_accuracy", "macro_f1", "range_macro_f1", "macro_f1_99"):
                    rows.append(about | {"method": method, "group": group, "metric": metric, "part": "test"})
        for part in ("train", "validation", "test"):
            rows.append(about | {"method": "red", "group": "all", "metric": "router_accuracy", "part": part})
    return pd.DataFrame(rows)[list(evaluation.COLUMNS)]


def test_every_number_that_the_source_reports_is_there_once():
    frame = claims.load()
    assert frame["section"].str.startswith("4.").sum() == 162
    assert frame["claim_id"].is_unique
    by_id = frame.set_index("claim_id")
    assert by_id.loc["4.6.1-07", ["method", "metric", "number"]].tolist() == ["red", "accuracy", 0.9725]
    assert by_id.loc["4.7.3-05", "number"] == 0.7583
    assert frame.groupby("section")["claim_id"].size()["4.11"] == 24
    assert set(frame.loc[frame["number"].isna(), "metric"]) == {"level", "parameter_ratio_to_moe"}


def test_the_file_has_unix_line_endings():
    assert b"\r" not in claims.path().read_bytes()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("claim_id,section", "id,section", "must have the columns claim_id, section"),
        ("4.6.1-02", "4.6.1-01", "claim '4.6.1-01' is double"),
        ("accuracy,0.5503", "accuracy,", "claim '4.6.1-01' is double or reports nothing"),
    ],
)
def test_a_damaged_file_of_claims_is_refused(tmp_path, monkeypatch, old, new, message):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "claims.csv").write_text(claims.path().read_text().replace(old, new))
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=message):
        claims.load()


def test_reported_stands_beside_measured_for_value_and_range():
    both = claims.beside(measured())
    red = both[(both["claim_id"] == "4.6.1-07") & (both["split"] == "structure")].set_index("metric")
    assert red["reported"].tolist() == [0.9725, 0.9725]
    assert red.index.tolist() == ["value_accuracy", "range_accuracy"]
    assert red.loc["value_accuracy", ["measured", "low", "high", "n"]].tolist() == [0.6, 0.5, 0.7, 10]
    assert set(both["claim_id"].str[:5]) == {"4.6.1", "4.6.2", "4.6.3", "4.6.4"}
    assert both["claim_id"].nunique() == 8 + 20 + 20 + 3
    assert not both["measured"].isna().any()


def test_all_fixed_is_answered_by_both_ways_of_averaging():
    both = claims.beside(measured())
    assert set(both[both["claim_id"] == "4.6.1-03"]["method"]) == {"uniform_average", "red_uniform"}


def test_router_claims_name_their_part():
    both = claims.beside(measured(), sections=("4.6.4",))
    assert both.groupby("claim_id")["part"].first().tolist() == ["train", "validation", "test"]


def test_a_method_that_was_not_measured_is_named():
    frame = measured()
    with pytest.raises(LookupError, match="no row with method=softmax_moe"):
        claims.beside(frame[frame["method"] != "softmax_moe"])
    with pytest.raises(LookupError, match=r"no claim in section 9\.9"):
        claims.beside(frame, sections=("9.9",))


def test_the_sources_own_level_tables_mislabel_four_cells():
    levels = claims.stated_levels()
    wrong = levels[~levels["agrees"]]
    assert len(levels) == 40
    assert list(
        zip(wrong["section"], wrong["method"], wrong["group"], wrong["stated"], wrong["level"], strict=True)
    ) == [
        ("4.6.3", "global_head", "R1", "moderate", "high"),
        ("4.6.3", "global_head", "R2", "low", "moderate"),
        ("4.6.3", "uniform_average", "R1", "moderate", "high"),
        ("4.6.3", "uniform_average", "R5", "low", "moderate"),
    ]
    assert np.allclose(levels[levels["metric"] == "macro_f1_99"]["reported"].max(), 0.202)


SPACE = LabelSpace(2, 10, (4, 7))
LEVELS = {  # share of right answers by range, R1..R3
    "red": (0.95, 0.95, 0.95),
    "top1": (0.9, 0.9, 0.9),
    "softmax_moe": (0.7, 0.7, 0.7),
    "global_head": (0.5, 0.5, 0.5),
    "red_uniform": (0.5, 0.5, 0.5),
    "uniform_average": (0.9, 0.0, 0.5),
}


def verdict_tables(**changes: tuple[float, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Results and bias of made-up predictions in which every method is right as often as LEVELS says."""
    rows = np.arange(900)
    items = pd.DataFrame({"row": rows, "value": rows % 9 + 2})
    items["structure"] = [f"s{row}" for row in rows]
    items["range"] = [SPACE.range_of(value) for value in items["value"]]
    turn = (rows // 9) / 100  # 100 rows of every value, in a fixed order
    frames = []
    for method, shares in (LEVELS | changes).items():
        right = turn < np.array(shares)[items["range"]]
        wrong = 2 if method == "uniform_average" else (items["value"] + 1).clip(upper=10)
        route = np.where(turn < 0.98, items["range"], 0) if method in ("red", "top1", "softmax_moe") else -1
        guess = np.where(right, items["value"], wrong)
        frames.append(items.assign(method=method, predicted_value=guess, router_range=route))
    about = {"split": "structure", "recipe": "chosen", "part": "test", "seed": 0, "confidence": 0.5}
    frame = pd.concat(frames, ignore_index=True).assign(**about)
    frame["predicted_range"] = [SPACE.range_of(value) for value in frame["predicted_value"]]
    results = evaluation.evaluate(frame, SPACE, resamples=100)
    return results, evaluation.bias_by_value(frame, SPACE)


def verdict_of(found: pd.DataFrame, words: str) -> str:
    return found["verdict"][found["claim"].str.contains(words, regex=False)].item()


def test_a_claim_holds_where_the_numbers_are_as_the_source_says():
    found = claims.verdicts(*verdict_tables(), SPACE)
    assert (found["measured"] != "").all()
    numbered = found["section"].map(lambda section: tuple(int(part) for part in section.split(".")))
    assert numbered.is_monotonic_increasing
    for words in ("best of", "as much as reported", "outer ranges", "value_accuracy", "router is right", "cooperate"):
        assert verdict_of(found, words) == claims.HOLDS
    assert verdict_of(found, "uniform averaging drifts") == claims.HOLDS


def test_a_claim_fails_where_another_method_is_better_or_as_good():
    found = claims.verdicts(*verdict_tables(softmax_moe=(0.99, 0.99, 0.99), uniform_average=(0.9, 0.9, 0.5)), SPACE)
    for words in ("best of", "as much as reported", "outer ranges", "value_accuracy"):
        assert verdict_of(found, words) == claims.FAILS


def test_a_claim_is_undecided_where_the_interval_reaches_over_the_border():
    found = claims.verdicts(*verdict_tables(top1=(0.95, 0.95, 0.95), red=(0.95, 0.81, 0.95)), SPACE)
    assert verdict_of(found, "value_accuracy") == claims.OPEN


def test_near_boundaries_means_of_the_values_beside_one():
    results, bias = verdict_tables()
    frame = bias.set_index(["method", "metric", "true_value"])["value"].copy()
    for value in range(SPACE.lo, SPACE.hi + 1):
        beside = value in (4, 5, 7, 8)
        for method, size in (("red", 0.5), ("global_head", 0.9 + 0.1 * value if beside else 3.0)):
            frame.loc[method, "signed_error", value] = size
        frame.loc["red", "same_range", value] = 0.9
        frame.loc["softmax_moe", "same_range", value] = (0.7 + 0.01 * value) if beside else 0.99
    bias = bias.assign(value=frame.to_numpy())
    found = claims.verdicts(results, bias, SPACE, numbers=True).set_index("claim")
    steady = found.loc["RED is steadier at boundaries than the mixture"]
    assert steady[["value", "verdict"]].tolist() == [pytest.approx(0.14), claims.HOLDS]
    near = found.loc["residual paths correct systematic bias near boundaries"]
    assert near[["value", "verdict"]].tolist() == [pytest.approx(1.0), claims.HOLDS]
    assert found.loc["and near boundaries more than elsewhere", "verdict"] == claims.FAILS
    assert found.loc["residual paths correct systematic bias", "value"] == pytest.approx((4 * 1.0 + 5 * 2.5) / 9)


def test_a_number_a_value_has_students_interval_and_weights_are_rows():
    numbers = pd.Series([1.0, 2.0, 3.0, 6.0])
    plain = judging.over_values(numbers)
    assert plain["value"] == 3
    assert plain["high"] - 3 == pytest.approx(3.182446 * numbers.std(ddof=1) / 2)
    assert plain["low"] + plain["high"] == pytest.approx(6)
    assert judging.over_values(numbers, pd.Series([5.0] * 4)).tolist() == pytest.approx(plain.tolist())
    assert judging.over_values(numbers, pd.Series([3.0, 0.0, 0.0, 1.0]))["value"] == pytest.approx(9 / 4)
    assert judging.over_values(numbers[:0]).isna().sum() == 3
    alone = judging.over_values(numbers[:1])
    assert judging.judge(alone["low"], alone["high"]) == claims.OPEN


def test_differences_without_a_pair_and_alike_accuracies():
    one, two = ({"value": v, "low": v - 0.03, "high": v + 0.04} for v in (0.9, 0.8))
    assert judging.apart(one, two).tolist() == pytest.approx([0.1, 0.03, 0.17])
    assert judging.minus(one, two).tolist() == pytest.approx([0.1, 0.05, 0.15])
    ends = [(-0.01, 0.01, claims.HOLDS), (-0.01, 0.03, claims.OPEN), (0.03, 0.04, claims.FAILS)]
    assert [judging.alike({"low": low, "high": high}, 0.02) for low, high, _ in ends] == [said for *_, said in ends]


def test_a_verdict_names_a_method_that_the_results_lack():
    results, bias = verdict_tables()
    with pytest.raises(LookupError, match="softmax_moe"):
        claims.verdicts(results[results["method"] != "softmax_moe"], bias, SPACE)
