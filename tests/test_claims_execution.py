"""The source's claims about modular execution against made-up programs whose verdicts are known, and their figures."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest

from redlib import claims, evaluation, figures
from redlib.execution import as_lines
from redlib.expressions import LabelSpace
from redlib.study import execution_tables

SPACE = LabelSpace(2, 10, (4, 7))
RIGHT = {  # share of right answers by number of operations, 2 to 4
    "red": (0.995, 0.995, 0.995),
    "red_by_range": (0.99, 0.99, 0.99),
    "oracle_operator": (0.995, 0.995, 0.995),
    "softmax_moe": (0.9, 0.8, 0.7),
    "red_uniform": (0.4, 0.3, 0.2),
    "uniform_average": (0.45, 0.35, 0.25),
}


@lru_cache
def answers(program: str, split: str = "text", **changes) -> pd.DataFrame:
    rows = np.arange(3 * 9 * 200)
    items = pd.DataFrame({"row": rows, "value": rows % 9 + 2, "structure": rows.astype(str), "seed": 0})
    items["range"] = [SPACE.range_of(value) for value in items["value"]]
    items["operations"] = 2 + rows // 9 % 3
    items["unseen"] = np.array(["none", "some", "all"])[rows // 27 % 3]
    turn, frames = (rows // 27) / 200, []
    for method, shares in (RIGHT | changes).items():
        right = turn < np.array(shares)[items["operations"] - 2] - (0.1 if program == "predicted" else 0)
        guess = np.where(right, items["value"], np.where(items["value"] < 10, items["value"] + 1, 9))
        kinds = np.where(right, "right", "planner" if program == "predicted" else "inside")
        frames.append(items.assign(method=method, predicted_value=guess, kind=kinds, flagged=~right))
    about = {"split": split, "recipe": f"closed/{program}", "part": "test", "confidence": np.nan, "router_range": -1}
    frame = pd.concat(frames, ignore_index=True).assign(**about)
    return frame.assign(predicted_range=[SPACE.range_of(value) for value in frame["predicted_value"]])


@lru_cache
def scores(**changes) -> pd.DataFrame:
    said = [answers(program, split, **changes) for program in ("gold", "predicted") for split in ("text", "structure")]
    return evaluation.evaluate(pd.concat(said), SPACE, "decomposed", resamples=60, by_range=False)


def assembly(equal: float = 1, cast: float = 0.996, changed: float = 0.001) -> pd.DataFrame:
    lines = [("closed/single", "value_accuracy", 0.997), ("closed/separate", "equal", equal)]
    lines += [("closed/separate/router=bfloat16", "value_accuracy", cast)]
    lines += [("closed/separate/router=bfloat16", "changed", changed)]
    return pd.DataFrame(lines, columns=["variant", "metric", "value"]).assign(group="all", split="text")


def verdict_of(found: pd.DataFrame, words: str) -> str:
    return found["verdict"][found["claim"].str.contains(words, regex=False)].item()


def test_all_claims_hold_where_the_numbers_are_as_the_source_says():
    found = claims.decomposed_verdicts(scores(), assembly())
    assert found["section"].is_monotonic_increasing
    assert (found["measured"] != "").all()
    held = found.set_index("claim")["verdict"]
    assert held.drop("the number of experts does not matter").eq(claims.HOLDS).all(), held


def test_claims_fail_where_the_numbers_say_otherwise():
    weak = claims.decomposed_verdicts(
        scores(red=(0.8, 0.7, 0.6), softmax_moe=(0.95, 0.95, 0.95), red_by_range=(0.95, 0.95, 0.95)),
        assembly(equal=0, cast=0.9),
    )
    for words in ("apart combine", "precisions combine", "nearly perfect", "on depth", "lies between", "two experts"):
        assert verdict_of(weak, words) == claims.FAILS, words
    assert verdict_of(weak, "number of experts") == claims.FAILS
    assert verdict_of(weak, "errors compound") != claims.HOLDS


def test_the_number_behind_execution_at_every_depth_is_that_of_the_worst_one():
    found = claims.decomposed_verdicts(scores(red=(0.995, 0.6, 0.8)), assembly(), numbers=True).set_index("claim")
    depth = found.loc["execution does not depend on depth"]
    assert (depth["value"], depth["low"] < 0.6 < depth["high"]) == (pytest.approx(0.6), True)
    assert depth["measured"].count("[") == 3
    assert found.loc["execution is nearly perfect", "beyond"] == np.False_


@pytest.mark.parametrize(("cast", "equal", "verdict"), [(0.9, 1, "HOLDS"), (0.85, 1, "FAILS"), (0.9, 0, "FAILS")])
def test_the_whole_system_is_judged_where_a_planner_was_trained_apart_and_cast(cast, equal, verdict):
    ends = {"closed/single": 0.9, "closed/separate/router=bfloat16,planner=bfloat16": cast}
    lines = [(variant, "questions", "value_accuracy", value) for variant, value in ends.items()]
    lines.append(("closed/separate", "planner", "equal", equal))
    asked = pd.DataFrame(lines, columns=["variant", "group", "metric", "value"]).assign(split="text", n=200)
    found = claims.decomposed_verdicts(scores(), pd.concat([assembly(), asked]))
    assert verdict_of(found, "planner included") == getattr(claims, verdict)


def test_parts_trained_apart_are_judged_where_they_were_assembled_alone():
    found = claims.decomposed_verdicts(scores(), assembly(), split="structure")
    assert "4.5.5" not in set(found["section"])
    assert {"4.8.3", "4.8.4", "4.8.5", "4.8.6", "4.9.2"} <= set(found["section"])


def test_without_predicted_programs_the_planners_part_is_open():
    gold = scores()[lambda frame: frame["variant"] == "closed/gold"]
    assert verdict_of(claims.decomposed_verdicts(gold, assembly()), "structure is hard") == claims.OPEN


def test_every_reported_number_stands_beside_ours():
    both = claims.executed_beside(scores())
    assert set(both["section"]) == {"4.8.3", "4.8.4", "4.8.5"}
    assert both["claim_id"].nunique() == 24
    assert set(both["group"]) == {"all", "ops=2", "ops=3", "ops=4"}
    red = both[(both["claim_id"] == "4.8.3-03") & (both["variant"] == "closed/gold")]
    assert set(red["metric"]) == {"value_accuracy", "range_accuracy"}
    assert (red["reported"] == 0.9912).all()
    fixed = both[both["claim_id"] == "4.8.4-01"]
    assert set(fixed["method"]) == {"uniform_average", "red_uniform"}
    with pytest.raises(LookupError, match="softmax_moe"):
        claims.executed_beside(scores()[lambda frame: frame["method"] != "softmax_moe"])


# ---- figures -----------------------------------------------------------------------------------------------------


def labels_of(fig) -> str:
    return " ".join(text.get_text() for ax in fig.axes for text in (*ax.get_yticklabels(), *ax.get_xticklabels()))


def test_accuracy_is_drawn_for_every_executor_and_length_with_the_sources_numbers():
    told = claims.executed_beside(scores())
    told = told[(told["metric"] == "value_accuracy") & (told["variant"] == "closed/gold") & (told["split"] == "text")]
    told = told[told["reported_metric"] == "accuracy"].rename(columns={"reported": "value"})
    fig = figures.draw_execution(scores(), "smoke", note="n", reported=told)
    assert len(fig.axes) == 4
    assert all(figures.execution.look(name).label in labels_of(fig) for name in RIGHT)
    fig = figures.draw_unseen_steps(scores(), "smoke", methods=list(RIGHT))
    assert "unseen" in labels_of(fig)
    with pytest.raises(LookupError, match="open/gold"):
        figures.draw_execution(scores(), "smoke", variant="open/gold")


def test_the_budget_is_drawn_for_every_variant_and_its_bars_add_up():
    tidy = pd.concat([execution_tables.budget(answers(p, "structure"), 20) for p in ("gold", "predicted")])
    fig = figures.draw_error_budget(tidy, "smoke", methods=["red", "softmax_moe"])
    assert len(fig.axes) == 4
    for ax in fig.axes:
        heights = pd.Series([bar.get_height() for bar in ax.patches]).groupby([b.get_x() for b in ax.patches]).sum()
        assert heights.to_numpy() == pytest.approx(1)


def test_compounding_maps_and_leavers_are_drawn_from_their_tables():
    lines = [
        (method, f"ops={n}", metric, 0.9**n)
        for method in ("red", "softmax_moe")
        for n in (2, 3, 4)
        for metric in ("compounded", "observed")
    ]
    curve = pd.DataFrame(lines, columns=["method", "group", "metric", "value"])
    curve = curve.assign(seed="all", part="test", variant="closed/gold", split="structure")
    assert len(figures.draw_compounding(curve, "smoke", methods=["red", "softmax_moe"]).axes) == 1
    steps = [(op, a, b) for op in ("addition", "subtraction") for a in range(2, 9) for b in range(2, 5)]
    steps = pd.DataFrame(steps, columns=["operator", "first", "second"])
    maps = pd.concat([steps.assign(method="top1"), steps.assign(method="red")])
    maps = maps.assign(group=np.where(maps["first"] < 5, "inside", "outside"), n=4)
    maps = maps.assign(right=np.where((maps["method"] == "red") | (maps["second"] > 2), 4, 1))
    maps = as_lines(maps, ["method", "operator", "group"])
    maps = maps.assign(metric="value_accuracy", variant="source", split="text", part="all")
    fig = figures.draw_step_maps(maps, "smoke", variant="source")
    assert len(fig.axes) == 3  # a colour bar
    assert all((ax.images[0].get_array() == 1).all() for ax in fig.axes[:2]), "of RED alone"
    fig = figures.draw_executor_maps(maps, "smoke", variant="source", split="text")
    assert [ax.get_title() for ax in fig.axes[:2]] == ["RED\n100.0% right", "RED, top-1 weights\n75.0% right"]
    assert fig.axes[3].images[0].get_array().tolist() == [[0.25] * 7, [1] * 7, [1] * 7]
    assert len(fig.axes) == 5
    leaving = pd.DataFrame({"group": ["ops=2", "ops=3", "all"], "value": [0.2, 0.4, 0.3], "n": 10})
    leaving = leaving.assign(variant="closed/gold/chains=source", metric="programs_outside", part="all", split="pool")
    assert "2 operations" in labels_of(figures.draw_leaving(leaving, "smoke"))
