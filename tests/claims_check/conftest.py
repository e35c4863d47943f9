"""Every claim judged where no table is there yet."""

import pytest
from verdicts import judge


@pytest.fixture(scope="module")
def without_tables():
    return judge()
