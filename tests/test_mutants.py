"""The list of deliberate mistakes fits the sources; `bench/mutants.py` makes them, and takes an hour."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MUTANTS = tomllib.loads((TESTS / "mutants.toml").read_text("utf-8"))["mutant"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["mistake"])
def test_the_place_of_a_mistake_is_there_and_so_is_the_test_that_catches_it(mutant):
    source = (TESTS.parent / "src" / "fedslim" / mutant["file"]).read_text("utf-8")
    assert source.count(mutant["old"]) == 1
    assert mutant["new"] != mutant["old"]
    file, _, name = mutant.get("caught", "").partition("::")
    assert bool(file) != bool(mutant.get("because"))
    if file:
        name = name.rpartition("::")[2].partition("[")[0]
        assert not name or f"def {name}(" in (TESTS / file).read_text("utf-8")
