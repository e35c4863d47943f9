"""The source's claims about Task 2 against made-up results whose verdicts are known."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from redlib import claims, evaluation
from redlib.expressions import LabelSpace

SPACE = LabelSpace(2, 10, (4, 7))
RIGHT = {  # share of right answers by range, R1..R3
    "red": (0.95, 0.95, 0.95),
    "top1": (0.9, 0.9, 0.9),
    "softmax_moe": (0.65, 0.65, 0.65),
    "global_head": (0.6, 0.4, 0.2),
    "red_uniform": (0.1, 0.1, 0.1),
    "uniform_average": (0.0, 0.0, 0.0),
}
OPERATORS = ("addition", "subtraction", "mixed")


@lru_cache
def made_up(lengths=(1, 2), **changes: tuple[float, ...]) -> pd.DataFrame:
    """Task 2's table of predictions in which every method is right as often as RIGHT says, whatever the operators."""
    rows = np.arange(2700)
    items = pd.DataFrame({"row": rows, "value": rows % 9 + 2, "structure": rows.astype(str)})
    items["range"] = [SPACE.range_of(value) for value in items["value"]]
    items["operations"] = np.array(lengths)[rows // 9 % len(lengths)]
    items["pattern"] = np.array(OPERATORS)[rows // 9 % 3]
    turn = (rows // 27) / 100
    frames = []
    for method, shares in (RIGHT | changes).items():
        right = turn < np.array(shares)[items["range"]]
        route = np.where(turn < 0.97, items["range"], 0) if method in ("red", "top1", "softmax_moe") else -1
        guess = np.where(right, items["value"], np.where(items["value"] < 10, items["value"] + 1, 9))
        frames.append(items.assign(method=method, predicted_value=guess, router_range=route))
    about = {"split": "structure", "recipe": "chosen", "part": "test", "seed": 0, "confidence": 0.5}
    frame = pd.concat(frames, ignore_index=True).assign(**about)
    frame["predicted_range"] = [SPACE.range_of(value) for value in frame["predicted_value"]]
    return evaluation.evaluate(frame, SPACE, "task2", "operations", resamples=60)


def verdict_of(found: pd.DataFrame, words: str) -> str:
    return found["verdict"][found["claim"].str.contains(words, regex=False)].item()


def test_claims_about_task2_hold_where_the_numbers_are_as_the_source_says():
    found = claims.task2_verdicts(made_up(), SPACE)
    assert found["section"].is_monotonic_increasing
    assert (found["measured"] != "").all()
    for words in ("best of", "as much as", "collapses", "degrades", "best in every", "router is right", "cooperate"):
        assert verdict_of(found, words) == claims.HOLDS, words
    assert verdict_of(found, "every kind of input") == claims.HOLDS
    assert verdict_of(found, "as far above") == claims.HOLDS


def test_claims_about_task2_fail_where_another_method_wins_in_one_range():
    found = claims.task2_verdicts(made_up(softmax_moe=(0.65, 0.65, 1.0), global_head=(0.2, 0.4, 0.6)), SPACE)
    assert verdict_of(found, "best in every") == claims.FAILS
    assert verdict_of(found, "degrades") == claims.FAILS
    assert verdict_of(found, "best of") == claims.HOLDS


@pytest.mark.parametrize(
    ("right", "verdict"),
    [
        ((1.0, 0.97, 0.97), claims.HOLDS),  # where its routes are wrong, and nowhere else
        ((0.65, 0.65, 0.65), claims.FAILS),
    ],
)
def test_the_mixtures_errors_are_set_beside_its_routes(right, verdict):
    found = claims.task2_verdicts(made_up(softmax_moe=right), SPACE, numbers=True).set_index("claim")
    row = found.loc["the mixture is unstable because its routing is ambiguous"]
    assert row["verdict"] == verdict
    assert row["low"] < row["value"] < row["high"]


def test_the_number_behind_a_conclusion_is_that_of_its_worst_part():
    found = claims.task2_verdicts(made_up(global_head=(0.6, 0.2, 0.4)), SPACE, numbers=True).set_index("claim")
    fall = found.loc["the global head degrades from range to range"]
    assert fall["value"] == pytest.approx(-0.2, abs=0.01)
    assert "smallest fall" in fall["measured"]
    assert list(claims.task2_verdicts(made_up(), SPACE).columns) == ["section", "claim", "test", "measured", "verdict"]


def test_every_stated_level_gets_a_measured_one_and_a_verdict():
    found = claims.kinds(made_up()).set_index(["input", "method"])
    assert len(found) == 12
    assert found.loc[("multi_step", "red"), "group"] == "ops>1"
    for method, level in (("red", "high"), ("softmax_moe", "moderate"), ("global_head", "low")):
        assert found.loc[("addition_only", method), "level"] == level
    assert found.loc[("addition_only", "softmax_moe"), ["stated", "verdict"]].tolist() == ["medium", claims.HOLDS]
    assert found.loc[("addition_only", "global_head"), ["stated", "verdict"]].tolist() == ["medium", claims.FAILS]
    assert found.loc[("subtraction_only", "global_head"), ["stated", "verdict"]].tolist() == [
        "low-medium",
        claims.HOLDS,
    ]
    assert found.loc[("boundary", "red"), ["stated", "verdict"]].tolist() == ["stable", claims.HOLDS]
    assert found.loc[("boundary", "softmax_moe"), ["stated", "verdict"]].tolist() == ["unstable", claims.FAILS]


def test_multi_step_is_every_row_where_all_have_several_operations():
    found = claims.kinds(made_up(lengths=(2, 3))).set_index(["input", "method"])
    assert found.loc[("multi_step", "red"), ["group", "n"]].tolist() == ["all", 2700]


def test_a_level_is_undecided_where_its_interval_reaches_into_another():
    found = claims.kinds(made_up(red=(0.8, 0.8, 0.8))).set_index(["input", "method"])
    assert found.loc[("addition_only", "red"), ["level", "verdict"]].tolist() == ["high ?", claims.OPEN]


def test_router_numbers_stand_beside_their_own_part_and_all_rows():
    test = made_up()
    parts = [test.assign(part=part) for part in ("train", "validation", "test", "all")]
    both = claims.beside(pd.concat(parts), ("4.7.3",))
    assert (
        both.groupby("claim_id")["part"].first().tolist()
        == ["train"] * 2 + ["validation"] * 2 + ["test"] * 2 + ["all"] * 2
    )
    assert set(both["metric"]) == {"router_accuracy", "router_macro_f1"}
    with pytest.raises(LookupError, match="no row with part=all"):
        claims.beside(pd.concat(parts[:3]), ("4.7.3",))
