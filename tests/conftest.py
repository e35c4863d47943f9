"""Shared fixtures. Tests write their caches and runs to a folder of their own and use a fixed number of threads."""

import nbformat
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(2)  # the numbers depend on it
settings.register_profile("untimed", deadline=None)  # no test fails because a machine is busy
settings.load_profile("untimed")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache and an empty folder of runs for one test."""
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REDLIB_RUNS", str(tmp_path / "runs"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for the tests of a module: its stages are made once and read many times."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REDLIB_CACHE", str(folder))
        yield folder


PARAMETERS = 'profile: str = "auto"\noverrides: dict = {}'


@pytest.fixture
def write_notebook(tmp_path):
    """write(name, *sources, parameters=...) puts a small notebook into a folder of throw-away notebooks."""

    def write(name, *sources, parameters=PARAMETERS):
        cells = [nbformat.v4.new_markdown_cell(f"# {name}")]
        if parameters is not None:
            cells.append(nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
        cells += [nbformat.v4.new_code_cell(source) for source in sources]
        metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        metadata["language_info"] = {"name": "python"}
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=metadata)))
        return path

    return write
