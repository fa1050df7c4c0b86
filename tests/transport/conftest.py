"""Fixtures of the tests of trust, and of those with real processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from processes import MEMBERS, Federation

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.simulation import prepare, simulate
from fedslim.transport.trust import (
    Authority,
    make_trial,
)

sys.path.insert(0, str(Path(__file__).parent))
from trusting import NOW


@pytest.fixture
def trial(tmp_path):
    """A federation of two members and a server."""
    return make_trial(tmp_path / "try", ["north", "south"], now=NOW)


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca", "Heart Study CA", now=NOW)


# -- real processes -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def sites():
    database = load("encounters").take(range(900))
    return dict(zip(MEMBERS, iid(database, len(MEMBERS), seed=0).parts, strict=True))


@pytest.fixture(scope="session")
def calm(sites):
    """What the same sites find in one process."""
    found = {}
    for variant in ("x", "sa", "so"):
        prepare(variant)
        found[variant] = simulate(sites, variant=variant)
    return found


@pytest.fixture
def federate(tmp_path, sites):
    made = []

    def make(**how):
        made.append(Federation(tmp_path, sites, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()
