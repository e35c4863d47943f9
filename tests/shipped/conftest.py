"""Modules of a tiny training, written once, and the profile of record that reads them."""

import pytest
from shipped_models import SMALL

from redlib import config, paths
from redlib.study import shipped


@pytest.fixture(scope="module")
def profile(cache):
    return config.load("smoke", SMALL)


@pytest.fixture(scope="module")
def folder(profile, tmp_path_factory):
    """Modules of a tiny training, written once."""
    for item in shipped.PLAN:
        for made in item.stages(profile) if item.seeds(profile) else ():
            made.run(lambda line: None)
    folder = tmp_path_factory.mktemp("project") / "data" / "modules"
    said = []
    shipped.write(profile, folder, said.append)
    assert said[0] == "task2-chosen-text: profile smoke does not train it; none is shipped"
    assert said[-1].startswith("9 models, ")
    return folder


@pytest.fixture
def record(folder, monkeypatch):
    """The profile of record on the tiny backbone, reading these modules."""
    monkeypatch.setattr(paths, "ROOT", folder.parents[1])
    return config.load("smoke", SMALL).model_copy(update={"name": "record", "reads": "full"})
