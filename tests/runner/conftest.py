"""A runner of throw-away notebooks, and the three notebooks."""

import pytest
from three_notebooks import DRAW, THREE, numbers

from redlib.study.runner import Runner


@pytest.fixture
def runner(own_cache, tmp_path, monkeypatch):
    monkeypatch.setattr(Runner, "_library", "as it is")  # the sources may be edited while the tests run

    def make(overrides=None, profile="smoke"):
        return Runner(profile, overrides or {}, folder=tmp_path / "notebooks", tables={"numbers": numbers})

    return make


@pytest.fixture
def three(write_notebook):
    write_notebook("00_a", DRAW, "print(profile, overrides)")
    write_notebook("01_b", "import os\nprint(os.getcwd())")
    write_notebook("02_c", "1 + 1")
    return THREE
