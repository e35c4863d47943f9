"""A sweep file that a test writes."""

import pytest


@pytest.fixture
def write(tmp_path):
    def write(text):
        (tmp_path / "runs.toml").write_text(text)
        return str(tmp_path / "runs.toml")

    return write
