"""A verdict follows from what was measured: intervals, readings, conditions, and what a claim waits for."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_claims import SPACE, verdict_tables
from test_claims_execution import assembly, scores
from verdicts import judge, numbers

from redlib import claims, config
from redlib.claims.deciding import CONTRADICTED, EXCEEDED, MISSED, ONLY, REPRODUCED, UNTESTED, Tried, compare, decide
from redlib.claims.judging import FAILS, HOLDS, OPEN
from redlib.study import tables


def one_row(value, low, high) -> pd.DataFrame:
    return pd.DataFrame(
        [{"method": "red", "group": "all", "metric": "m", "value": value, "low": low, "high": high}]
    ).assign(n=9)


@pytest.mark.parametrize(
    ("word", "number", "result", "beyond"),
    [
        ("equal", 0.65, HOLDS, False),
        ("equal", 0.5, HOLDS, True),
        ("equal", 0.9, FAILS, False),
        ("within", 0.65, HOLDS, False),
        ("within", 0.5, FAILS, True),
        ("above", 0.5, HOLDS, False),
        ("above", 0.65, OPEN, False),
        ("above", 0.8, FAILS, False),
        ("below", 0.8, HOLDS, False),
        ("below", 0.65, OPEN, False),
        ("below", 0.5, FAILS, False),
    ],
)
def test_an_interval_against_a_number(word, number, result, beyond):
    tried = compare(one_row(0.65, 0.6, 0.7), {"split": "text"}, word, number)
    assert (tried.result, tried.beyond and word == "equal") == (result, beyond and word == "equal")
    assert (tried.value, tried.low, tried.high, tried.n) == (0.65, 0.6, 0.7, 9)


def test_a_row_without_an_interval_is_a_point_and_an_unknown_rule_is_an_error():
    assert compare(one_row(0.65, np.nan, np.nan), {}, "equal", 0.65).result == HOLDS
    assert compare(one_row(0.65, np.nan, np.nan), {}, "above", 0.66).result == FAILS
    with pytest.raises(ValueError, match="unknown rule 'near'; valid rules: equal, within, above, below"):
        compare(one_row(0.65, 0.6, 0.7), {}, "near", 1)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.floats(0, 1))
def test_above_and_below_are_opposites_and_equal_is_not_below_the_number(ends, number):
    low, value, high = sorted(ends)
    rows_of = one_row(value, low, high)
    opposite = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    assert compare(rows_of, {}, "below", number).result == opposite[compare(rows_of, {}, "above", number).result]
    assert (compare(rows_of, {}, "equal", number).result == HOLDS) == (number <= high + 5e-5)


def test_several_rows_have_to_hold_together_and_the_worst_is_shown():
    both = pd.concat([one_row(0.9, 0.85, 0.95), one_row(0.4, 0.3, 0.5).assign(group="R2")])
    tried = compare(both, {}, "above", 0.8)
    assert (tried.result, tried.value) == (FAILS, 0.4)
    assert tried.shown == "worst of 2: 0.400 [0.300, 0.500], R2"


def test_each_verdict_follows_from_the_readings():
    home, other = {"variant": "chosen", "split": "structure"}, {"variant": "source", "split": "text"}

    def said(first, second, otherwise=MISSED, beyond=False):
        return decide([Tried(home, first, "", beyond), Tried(other, second, "")], otherwise).said

    assert said(HOLDS, FAILS) == REPRODUCED
    assert said(HOLDS, FAILS, beyond=True) == EXCEEDED
    assert said(FAILS, HOLDS) == "holds only under (recipe source with split text)"
    assert said(OPEN, HOLDS).startswith(ONLY)
    assert said(FAILS, OPEN) == MISSED
    assert said(OPEN, FAILS, CONTRADICTED) == MISSED
    assert said(FAILS, FAILS, CONTRADICTED) == CONTRADICTED
    with pytest.raises(ValueError, match="one reading or more"):
        decide([], MISSED)


def test_conditions_that_only_add_to_another_are_left_out_and_many_are_counted():
    home = {"variant": "operations/chosen", "split": "structure"}
    where = [("operations/chosen", "text"), ("single_heavy/chosen", "text"), ("operands/source", "structure")]
    tried = [Tried(home, FAILS, ""), *(Tried({"variant": v, "split": s}, HOLDS, "") for v, s in where)]
    assert decide(tried, MISSED).why == "split text; definition operands with recipe source"
    many = [Tried(home, FAILS, ""), *(Tried({**home, "split": f"s{i}"}, HOLDS, "") for i in range(5))]
    assert decide(many, MISSED).why == "split s0; split s1; split s2; 2 more"


def test_without_tables_every_claim_has_a_verdict_that_names_the_table_it_waits_for(without_tables):
    found = without_tables
    assert tuple(found.columns) == claims.CHECKED
    assert len(found) == len(claims.described())
    assert set(found["verdict"]) == {UNTESTED, REPRODUCED, CONTRADICTED}
    assert found.loc["4.6.1-07", "said"] == "not testable here (not yet on record: task1)"
    assert found.loc["4.8.6-1", "said"] == "not testable here (not yet on record: execution, execution_assembly)"
    assert found.loc["sparse-decision-6", "said"] == "not testable here (needs such a device)"
    assert found.loc["4.6.1-07", "command"] == "python -m redlib tables task1 --profile full"
    assert found.loc["sparse-decision-6", "command"] == "python -m redlib run --profile record --only 25_claims"
    named = {name for names in found["table"] for name in names.split()}
    assert named <= set(tables.TABLES)
    assert len(named) > 20
    assert (found["notebook"] != "").all()
    waiting = claims.waiting(found)
    assert {"08_task1_results", "17_modular_execution"} <= set(waiting["notebook"])
    assert waiting["claims"].sum() == found["why"].str.startswith("not yet on record").sum()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"structure": (0.97, 0.96, 0.98)}, REPRODUCED),
        ({"structure": (0.99, 0.98, 1.0)}, EXCEEDED),
        ({"structure": (0.6, 0.5, 0.7), "text": (0.97, 0.96, 0.98)}, "holds only under (split text)"),
        ({"structure": (0.6, 0.5, 0.7), "text": (0.6, 0.5, 0.7)}, MISSED),
    ],
)
def test_a_number_turns_real_once_its_table_is_there(changes, said):
    found = judge("4.6.1-07", task1=numbers(**changes))
    assert found.loc["4.6.1-07", "said"] == said
    value, low, high = changes["structure"]
    assert found.loc["4.6.1-07", ["measured", "low", "high", "n"]].tolist() == [value, low, high, 10]
    assert found.loc["4.6.1-07", "setting"] == "chosen, structure, value_accuracy"
    assert found.loc["4.6.1-07", "text_measured"] == changes.get("text", (0.9,))[0]
    assert found.loc["4.6.1-07", "as_range"] == "holds only under (split text)"


def test_a_number_that_only_a_system_trained_otherwise_reaches_says_so():
    main = numbers(structure=(0.5, 0.4, 0.6), text=(0.5, 0.4, 0.6))
    one = {"task": "task1", "variant": "chosen", "part": "test", "method": "red", "seed": "all", "group": "all"}
    one |= {"n": 10, "run": "r"}
    bounds = {"steady": (0.98, 0.97, 0.99), "falling": (0.9, 0.8, 0.95), "falling, layer 6": (0.98, 0.97, 0.99)}
    made = [
        {**one, "split": "text", "configuration": name, "metric": metric, "value": value, "low": low, "high": high}
        for name, (value, low, high) in bounds.items()
        for metric in ("value_accuracy", "range_accuracy")
    ]
    found = judge("4.6.1-07", task1=main, schedule=pd.DataFrame(made)).loc["4.6.1-07"]
    assert found["said"] == "holds only under (split text with rate falling, layer 6)"
    assert found["measured"] == pytest.approx(0.5)
    without = judge("4.6.1-07", task1=main, schedule=pd.DataFrame(made[:4])).loc["4.6.1-07"]
    assert without["said"] == MISSED
    other = pd.DataFrame(made).assign(task="task2")
    assert judge("4.6.1-07", task1=main, schedule=other).loc["4.6.1-07"]["said"] == MISSED


def test_a_macro_f1_above_its_ceiling_is_contradicted():
    base = numbers()
    ceiling = base[(base["metric"] == "macro_f1_99") & (base["method"] == "red")]
    ceiling = ceiling.assign(metric="macro_f1_99_ceiling", value=17 / 99)
    found = judge("4.6.3-16", "4.6.3-01", task1=pd.concat([base, ceiling]))
    assert found.loc["4.6.3-16", ["verdict", "why"]].tolist() == [CONTRADICTED, "without a mistake it would be 0.1717"]
    assert found.loc["4.6.3-01", "verdict"] == EXCEEDED


def test_sentences_are_judged_by_the_verdicts_of_their_chapter():
    ids, table = ("4.8.4-a", "4.9.2-b", "4.8.3-01", "4.8.3-a", "4.5.5-1"), scores()
    found = judge(*ids, execution=table, execution_assembly=assembly())
    assert found.loc[["4.8.4-a", "4.9.2-b", "4.5.5-1"], "verdict"].tolist() == [REPRODUCED] * 3
    assert found.loc["4.8.3-01", "verdict"] == EXCEEDED
    assert found.loc["4.8.4-a", "notebook"] == "17_modular_execution"
    worse = table.copy()
    worse.loc[worse["metric"] == "value_accuracy_below_red", ["value", "low", "high"]] = -0.5, -0.6, -0.4
    worse.loc[(worse["metric"] == "value_accuracy") & (worse["method"] == "red"), ["value", "low", "high"]] = (
        0.2,
        0.1,
        0.3,
    )
    bad = judge(*ids, execution=worse, execution_assembly=assembly(equal=0))
    assert bad.loc[["4.8.4-a", "4.5.5-1"], "verdict"].tolist() == [CONTRADICTED] * 2
    assert bad.loc[["4.8.3-01", "4.8.3-a", "4.9.2-b"], "verdict"].tolist() == [MISSED] * 3


@pytest.mark.parametrize(
    ("gap", "said"),
    [((0.64, 0.6, 0.68), EXCEEDED), ((0.12, 0.1, 0.14), REPRODUCED), ((0.05, 0.0, 0.1), MISSED)],
)
def test_a_stated_gain_is_exceeded_where_our_interval_lies_above_it(gap, said):
    scores, bias = verdict_tables()
    mine = (scores["metric"] == "value_accuracy_below_red") & (scores["method"] == "softmax_moe")
    mine &= scores["group"] == "all"
    scores.loc[mine, ["value", "low", "high"]] = gap
    record = claims.Record({"task1": scores, "task1_bias": bias}, config.load("record"), SPACE)
    found = claims.check(record, ["4.6.1-b"]).iloc[0]
    assert found["said"] == said
    assert found[["measured", "low", "high"]].tolist() == list(gap)


def test_a_claim_that_there_is_not_is_refused_by_name():
    with pytest.raises(LookupError, match=r"no row with claim_id=4\.0-99"):
        judge("4.0-99")


def test_what_a_finding_denies_is_contradicted_by_it():
    kept = pd.DataFrame({"claim": ["a"], "measured": ["m"], "verdict": [HOLDS]})
    assert claims.checking._finding(kept, "a", {}, "finding").result == HOLDS
    assert claims.checking._finding(kept, "a", {}, "against").result == FAILS
    with pytest.raises(LookupError, match="no finding 'b'; there are: a"):
        claims.checking._finding(kept, "b", {}, "finding")
    gain = kept.assign(beyond=True)
    assert claims.checking._finding(gain, "a", {}, "finding").beyond
    assert not claims.checking._finding(gain, "a", {}, "against").beyond


def test_of_several_rows_of_a_finding_the_worst_of_those_that_decide_is_measured():
    lines = [("m1", HOLDS, 0.1, 0.01), ("m2", OPEN, 0.4, 0.3), ("m3", OPEN, 0.3, 0.2)]
    rows = pd.DataFrame(lines, columns=["measured", "verdict", "value", "margin"]).assign(claim="a", beyond=False)
    found = claims.checking._finding(rows, "a", {}, "finding")
    assert (found.result, found.value, found.shown, found.beyond) == (OPEN, 0.3, "m1; m2; m3", False)
    assert np.isnan([found.low, found.high]).all()
