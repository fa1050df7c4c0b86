"""What the tests of the data room share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[3] / "shared" / "data"
FOLDERS = [*map(Path, filter(None, os.environ.get("FEDSLIM_DATA", "").split(os.pathsep))), BESIDE_THE_CHECKOUT]


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder of already downloaded public sets; tests that need it are skipped where there is none."""
    found = next((folder for folder in FOLDERS if (folder / "chess.dat.gz").is_file()), None)
    if found is None:
        pytest.skip("the public data sets are not here; set FEDSLIM_DATA to their folder")
    return found


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
