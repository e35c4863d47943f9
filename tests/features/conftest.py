"""An empty cache for every test, the tiny backbone and some texts, one of them twice."""

import numpy as np
import pytest
from small_backbones import WORDS, the_tiny


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def tiny():
    return the_tiny()


@pytest.fixture(scope="module")
def texts():
    numbers = np.random.default_rng(0).integers(2, 51, size=(60, 2))
    return [f"{WORDS[i % 3]} {a} plus {b}" for i, (a, b) in enumerate(numbers)] + ["7", "What is 3", "7"]
