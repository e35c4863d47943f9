"""What is said of planners' programs: scores, shares of errors and examples of made-up predictions, and the record."""

import dataclasses

import pandas as pd
import pytest

from redlib import config, paths, study
from redlib.decomposer import Plan
from redlib.expressions import Expression
from redlib.programs import Program
from redlib.study import assembly_tables, planner
from redlib.study.planner import tables as planner_tables


def made_up():
    """Four rows of two planners and the symbolic one, in two seeds: which programs are right is known."""
    gold = [Program.from_expression(Expression.read(t)).text for t in ("12 + 5", "9 + 3", "12 + 5 - 4", "20 - 5 - 4")]
    items = pd.DataFrame({"row": range(4), "text": list("abcd"), "structure": list("wxyz"), "program": gold})
    items = items.assign(range=[0, 0, 0, 0], operations=[1, 1, 2, 2])
    said = {
        "planner": [gold[0], "Step 1: 3 + 9 = x1\nAnswer: x1", gold[2], "Step 1: 20 + 5 = x1\nAnswer: x1"],
        "planner_unrestricted": ["nothing", gold[1], gold[2], gold[3]],
        "symbolic": gold,
    }
    frames = []
    for seed in (0, 1):
        for method, written in said.items():
            plans = [Plan("", w, (0.5,) * (w.count("\n") + 1)) for w in (written if seed == 0 else gold)]
            about = {"split": "text", "part": "test", "seed": seed, "method": method}
            frames.append(planner.judged(items, plans).assign(**about))
    return pd.concat(frames, ignore_index=True)


def test_scores_count_exact_programs_and_right_meanings():
    tidy = planner_tables.scores(made_up(), resamples=50).set_index(["method", "group", "seed", "metric"])["value"]
    assert tidy["planner", "all", "0", "program_exact"] == 0.5
    assert tidy["planner", "all", "0", "program_meaning"] == 0.75
    assert tidy["planner", "all", "all", "program_exact"] == 0.75
    assert tidy["planner", "ops=1", "0", "program_exact"] == 0.5
    assert tidy["planner_unrestricted", "ops=2", "0", "program_exact"] == 1
    assert tidy["planner_unrestricted", "all", "all", "program_exact_below_planner"] == pytest.approx(0.75 - 0.875)
    assert tidy["symbolic", "all", "all", "program_exact_below_planner"] == -0.25
    assert ("planner", "all", "all", "program_exact_below_planner") not in tidy.index


def test_shares_of_errors_add_up_to_one_and_rates_to_the_wrong_programs():
    frame = made_up()
    tidy = planner_tables.error_shares(frame, resamples=50).set_index(["method", "metric", "case"])["value"]
    assert tidy["planner", "error_share"].sum() == pytest.approx(1)
    assert tidy["planner", "error_share", "order"] == tidy["planner", "error_share", "length"] == 0.5
    assert tidy["planner", "error_rate"].sum() == pytest.approx(0.25)
    assert tidy["planner_unrestricted", "error_rate", "no_program"] == pytest.approx(1 / 8)
    assert tidy["symbolic", "error_rate"].sum() == 0
    assert ("symbolic", "error_share") not in {key[:2] for key in tidy.index}


def test_examples_hold_every_line_beside_the_right_one():
    lines = planner_tables.examples(made_up().replace({"method": {"planner": planner.METHODS[0]}}))
    assert set(lines["case"]) == {"surest", "wrong"}
    short = lines[(lines["case"] == "wrong") & (lines["text"] == "d")]
    assert short["step"].tolist() == ["Step 1: 20 + 5 = x1", "Answer: x1"]
    assert short["wanted"].tolist() == ["Step 1: 20 - 5 = x1", "Step 2: x1 - 4 = x2"]
    right = lines[lines["case"] == "surest"]
    assert right["text"].unique().tolist() == ["c"], "the longest right ones"
    assert (right["step"] == right["wanted"]).all()


def test_a_record_says_how_many_planners_it_holds_and_not_how_many_its_profile_trains():
    rows = pd.read_csv(paths.results("full") / "planner.csv", dtype={"seed": str})
    held = {split: len(set(of["seed"]) - {"all"}) for split, of in rows.groupby("split")}
    for name in ("planner", "execution"):
        said = study.about(config.load("record"), name).loc["planners by split", ""]
        assert dict(words.split() for words in said.split(", ")) == {split: str(n) for split, n in held.items()}


def test_what_went_wrong_in_a_program_is_said_step_after_step():
    first = {"group": "step=1", "step": "Step 1: 98 + 9 = x1", "wanted": "Step 1: 98 + 8 = x1"}
    first |= {"operator": "+", "first": 98, "second": 9}
    second = {"group": "step=2", "step": "Step 2: x1 - 7 = x2", "wanted": "Step 2: x1 - 7 = x2"}
    second |= {"operator": "-", "first": 90, "second": 7}
    numbers = [(first, "value", 90), (first, "outside", 1), (second, "value", 83), (second, "outside", 0)]
    rows = pd.DataFrame([where | {"metric": metric, "value": value} for where, metric, value in numbers])
    assert assembly_tables.explained(rows) == (
        "the planner wrote `Step 1: 98 + 9 = x1` where the question says `Step 1: 98 + 8 = x1`; "
        "98 + 9 is 107, and the experts say 90; 98 + 9 is outside the experts' domain"
    )
    assert assembly_tables.explained(rows[rows["group"] == "step=2"]) == ""


def test_a_plan_knows_its_program():
    plan = Plan("2 plus 3", "Step 1: 2 + 3 = x1\nAnswer: x1", (0.5, 0.8))
    assert plan.program.execute() == 5
    assert plan.probability == pytest.approx(0.4)
    assert dataclasses.replace(plan, written="2 + 3").program is None
