"""What `red_plus` was to reach, against made-up results."""

import pandas as pd
import pytest

from redlib import config
from redlib.study.red_plus import goals


def tables(**values: float) -> dict[str, pd.DataFrame]:
    """Every table that goals read; `values` are those of `red_plus` by the words of a goal, 0.5 where none is given."""
    lines: dict[str, list] = {}
    for of_profile in goals.GOALS.values():
        for goal in of_profile:
            for method in goals.METHODS:
                value = values.get(goal.words, 0.5) if method == "red_plus" else 0.4
                about = goals.AT | dict(goal.rows) | {"method": method, "value": value, "n": 100}
                lines.setdefault(goal.table, []).append(about | {"low": value - 0.1, "high": value + 0.1})
    return {name: pd.DataFrame(rows) for name, rows in lines.items()}


def test_a_goal_is_reached_at_its_number_and_else_says_how_far_it_is():
    wanted = goals.GOALS["full"][0]
    found = goals.reached("full", tables(**{wanted.words: wanted.least})).set_index("goal")
    assert found.loc[wanted.words, "reached"] == "yes"
    others = found.drop(index=wanted.words)
    assert set(others["reached"]) == {"no"}
    assert others["short by"].astype(float).tolist() == pytest.approx((others["at least"] - 0.5).tolist())
    assert found["its base alone"].str.startswith("0.400").all()


def test_a_goal_without_rows_is_not_measured_and_a_profile_without_goals_has_none():
    made = tables()
    made["red_plus"] = made["red_plus"][made["red_plus"]["split"] != "phrasing"]
    found = goals.reached("full", made).set_index("goal")
    assert (found["reached"] == "not measured").sum() == 2
    assert found.loc["Task 2, value, unseen wordings", "red_plus"] == "–"
    assert goals.reached("smoke", made).empty


def test_goals_are_of_profiles_and_splits_that_there_are():
    for name, of_profile in goals.GOALS.items():
        p = config.load(name)
        for goal in of_profile:
            form = p.red_plus.steps if goal.table == "red_plus_execution" else getattr(p.red_plus, goal.rows["task"])
            assert form.seeds.get(goal.rows["split"]), goal
