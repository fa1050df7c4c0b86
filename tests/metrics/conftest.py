"""Fixtures of the metrics tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedslim.metrics.reference import ReferenceItemset, ReferenceTable

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"


@pytest.fixture
def reference_folder() -> Path:
    """The tables of other programs; skips the test if they are missing."""
    if not (REFERENCE / "chess.slim-cpp-2014.json").is_file():
        pytest.skip("the reference tables of other programs are not beside the checkout (../shared/reference)")
    return REFERENCE


@pytest.fixture(scope="session")
def table():
    """A function that builds a table from usages by itemset; each letter is an item."""

    def make(usages):
        rows = tuple(ReferenceItemset(tuple(letters), usage) for letters, usage in usages.items())
        return ReferenceTable("letters", "by hand", rows)

    return make
