"""Fixtures of the data tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Keep tests away from the user's cache and data folders."""
    monkeypatch.delenv("FEDSLIM_DATA", raising=False)
    monkeypatch.setenv("FEDSLIM_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def write(tmp_path):
    """A function that writes a file with the given name and returns its path."""

    def writer(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer
