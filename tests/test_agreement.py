"""RED's errors beside those of probes: shares by hand, correlations against scikit-learn, the table at smoke size."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import matthews_corrcoef

from redlib import config, results
from redlib.study import agreement_tables, table


def frame(red, probe, seeds=1) -> pd.DataFrame:
    n = len(red)
    about = {"seed": np.arange(n) % seeds, "structure": [f"s{i}" for i in range(n)], "of_range": np.zeros(n, int)}
    return pd.DataFrame(about | {"red_value": red, "red_range": red, "units": probe})


def test_a_method_that_is_right_only_where_the_probe_is_has_the_largest_link():
    red = np.array([True] * 6 + [False] * 4)
    found = agreement_tables.linked(frame(red, red), "units", 20)
    assert found["value_probe_right"].overall().value == 1
    assert found["value_probe_wrong"].overall().value == 0
    assert found["value_link"].overall().value == 1
    assert found["value_phi"].overall().value == pytest.approx(1)


def test_a_probe_that_is_always_right_says_nothing_about_the_errors():
    found = agreement_tables.linked(frame(np.array([True, False] * 5), np.ones(10, bool)), "units", 20)
    assert found["probe_accuracy"].overall().value == 1
    assert found["value_probe_wrong"].overall().n == 0
    assert found["value_phi"].overall().n == 0


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=12, max_size=60))
def test_phi_is_the_correlation_of_being_right(pairs):
    red, probe = np.array(pairs).T
    estimate = agreement_tables.linked(frame(red, probe), "units", 30)["range_phi"].overall()
    if red.all() or probe.all() or not (red.any() and probe.any()):
        assert estimate.n == 0
    else:
        assert estimate.value == pytest.approx(matthews_corrcoef(red, probe), abs=1e-5)
        assert estimate.low <= estimate.high


def test_the_table_compares_red_with_every_probe_on_the_same_rows(cache):
    profile = config.load("smoke", {"task1.rows": 500, "bootstrap": 20})
    made = table(profile, "arithmetic_agreement", say=lambda line: None)
    results.validate(made)
    assert set(made["target"]) == {"first_operand", "second_operand", "value", "range", "tens_digit", "units_digit"}
    assert set(made["part"]) == {"test"}
    wide = made.pivot(index="target", columns="metric", values="value")
    right, share = wide["probe_accuracy"], wide[["range_probe_right", "range_probe_wrong"]].fillna(0)
    overall = share["range_probe_right"] * right + share["range_probe_wrong"] * (1 - right)
    assert np.allclose(overall, overall.iloc[0], atol=1e-4), "RED's own accuracy, whatever splits its rows"
    links = (wide["range_probe_right"] - wide["range_probe_wrong"] - wide["range_link"]).dropna()
    assert np.allclose(links, 0, atol=1e-4)
