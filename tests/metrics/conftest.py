"""What the tests of the metrics share."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedslim.metrics import ReferenceItemset, ReferenceTable

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference"


@pytest.fixture
def reference_folder() -> Path:
    """The tables of other programs; tests that need them are skipped where there are none."""
    if not (REFERENCE / "chess.slim-cpp-2014.json").is_file():
        pytest.skip("the reference tables of other programs are not beside the checkout (../shared/reference)")
    return REFERENCE


@pytest.fixture(scope="session")
def table():
    """Makes a table of usages by itemset, each letter an item."""

    def make(usages):
        rows = tuple(ReferenceItemset(tuple(letters), usage) for letters, usage in usages.items())
        return ReferenceTable("letters", "by hand", rows)

    return make
