"""What the tests of the data room share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """No test sees the user's cache or data folders, or writes to them."""
    monkeypatch.delenv("FEDSLIM_DATA", raising=False)
    monkeypatch.setenv("FEDSLIM_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def write(tmp_path):
    """Writes a file of a given name and gives back its path."""

    def writer(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer
