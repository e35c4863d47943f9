"""The one dial: profiles and dotted overrides."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redlib import config, nested
from redlib.config.pictures import Arm
from redlib.sparse import designs


def flat(tree, prefix=""):
    """{"task1.rows": 16000, ...} of a nested dict."""
    found = {}
    for name, value in tree.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


@pytest.mark.parametrize("name", config.PROFILES)
def test_every_profile_loads_as_itself(name):
    assert config.load(name) == config.PROFILES[name]


def test_auto_is_smoke_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("REDLIB_PROFILE", raising=False)
    assert config.load("auto").name == "smoke"
    monkeypatch.setenv("REDLIB_PROFILE", "laptop")
    assert config.load("auto").name == "laptop"
    assert config.load("full").name == "full"


def test_an_unknown_profile_is_named_with_the_valid_ones(monkeypatch):
    with pytest.raises(ValueError, match="unknown profile 'lapto'; valid profiles: smoke, laptop, full, paper, record"):
        config.load("lapto")
    monkeypatch.setenv("REDLIB_PROFILE", "lapto")
    with pytest.raises(ValueError, match="unknown profile 'lapto'"):
        config.load("auto")


@given(rows=st.integers(1, 10**6), rate=st.floats(1e-6, 1), layer=st.integers(-1, 30))
def test_overrides_replace_the_named_fields_and_nothing_else(rows, rate, layer):
    given_fields = {"task1.rows": rows, "chosen.base.lr": rate, "source.layer": layer}
    changed = flat(config.load("laptop", given_fields).model_dump())
    assert changed == flat(config.PROFILES["laptop"].model_dump()) | given_fields


def test_an_override_of_a_mapping_and_of_a_tuple():
    changed = config.load("smoke", {"task1.seeds.text": 7, "task1.edges": [30, 60]})
    assert changed.task1.seeds == {"text": 7, "structure": 2, "phrasing": 1}
    assert changed.task1.edges == (30, 60)


def test_overrides_leave_the_profile_itself_alone():
    before = config.PROFILES["smoke"].model_dump()
    config.load("smoke", {"task1.seeds.text": 9, "task1.rows": 5})
    assert config.PROFILES["smoke"].model_dump() == before


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"task1.row": 5}, r"unknown field 'task1.row' \(no 'row'\); valid fields there: .*rows"),
        ({"taskk.rows": 5}, r"unknown field 'taskk.rows' \(no 'taskk'\); valid fields there: .*task1"),
        ({"task1.rows.more": 5}, r"unknown field 'task1.rows.more'"),
        ({"task1.seeds.txt": 5}, r"unknown field 'task1.seeds.txt' \(no 'txt'\); valid fields there: .*text"),
        ({"task1": {"rows": 5}}, r"field 'task1' is a section; override its fields: .*rows"),
        ({"task1.rows": "many"}, r"invalid value 'many' for field 'task1.rows'"),
        ({"task1.rows": 0}, r"invalid value 0 for field 'task1.rows'"),
        ({"task1.rows": 2.5}, r"invalid value 2.5 for field 'task1.rows'"),
        ({"task1.rows": "2000"}, r"invalid value '2000' for field 'task1.rows'"),
        ({"chosen.pooling": "max"}, r"invalid value 'max' for field 'chosen.pooling': .*mean_skip_first"),
        ({"backbone.dtype": "int8"}, r"invalid value 'int8' for field 'backbone.dtype'"),
        ({"task1.rows": object()}, "not plain data"),
        ({"name": "full"}, "field 'name' of a profile cannot be overridden"),
        ({"evidence": True}, "field 'evidence' of a profile cannot be overridden"),
        ([("task1.rows", 5)], "overrides must be a dict of dotted fields, got list"),
        ({"nested.divisors": [0, 1]}, "invalid value 0 for field 'nested.divisors.0'"),
        ({"nested.speed_dims": [0]}, "invalid value 0 for field 'nested.speed_dims.0'"),
    ],
)
def test_a_wrong_override_is_one_sentence_that_names_it(overrides, said):
    with pytest.raises(ValueError, match=said) as caught:
        config.load("smoke", overrides)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"chosen\.base\.lr"):
        config.load("smoke", {"chosen.base.lr": value})


def test_a_profile_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        config.PROFILES["smoke"].bootstrap = 3


def test_an_unknown_recipe_is_named_with_the_valid_ones():
    with pytest.raises(ValueError, match="unknown recipe 'seed'; valid recipes: chosen, source"):
        config.load("smoke").recipe("seed")


def test_only_smoke_is_no_evidence_and_only_record_reads():
    assert [name for name, profile in config.PROFILES.items() if not profile.evidence] == ["smoke"]
    assert not config.load("paper", {"backbone.name": "tiny"}).evidence, "random weights prove machinery alone"
    assert config.load("laptop", {"task1.rows": 500}).evidence
    assert {name: profile.reads for name, profile in config.PROFILES.items() if profile.reads} == {"record": "full"}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("nested.limit", 3, "greater than or equal to 40"),
        ("nested.arms", [], "at least 1 item"),
        ("nested.arms", ["nested", "wide"], "'nested', 'gate', 'random'"),
        ("nested.budgets", [0.5, 2.0], "less than or equal to 1"),
        ("sparse.widths", [13], "multiple of 8"),
        ("modularity.ranges", [0], "greater than 0"),
        ("ablations.base_shares", [0.0], "greater than 0"),
        ("red_plus.parts.readouts", ["cubic"], "'fourier', 'digits' or 'linear'"),
    ],
)
def test_a_list_that_no_run_could_use_is_refused_before_it_starts(field, value, said):
    with pytest.raises(ValueError, match=rf"field '{re.escape(field)}(\.\d)?': .*{re.escape(said)}"):
        config.load("smoke", {field: value})


def test_what_profiles_may_name_is_what_the_rooms_have():
    assert set(get_args(Arm)) == set(nested.ARMS)
    assert 2 * designs.HEADS == 8
