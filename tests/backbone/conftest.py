"""The tiny and the packaged backbone, a cache without any, and a folder with the tiny one's files."""

import pytest

from redlib import backbone


@pytest.fixture(scope="module")
def tiny():
    return backbone.load("tiny")


@pytest.fixture(scope="session")  # loading takes seconds, and no test changes it
def smollm2():
    return backbone.load("smollm2-135m")


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REDLIB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path, tiny):
    tiny.model.save_pretrained(tmp_path / "model")
    tiny.tokenizer.save_pretrained(tmp_path / "model")
    return tmp_path / "model"
