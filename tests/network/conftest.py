"""Fixtures of the tests with real processes."""

from __future__ import annotations

import pytest
from processes import MEMBERS, Federation

from fedslim.data import load
from fedslim.data.partition import iid
from fedslim.federated.simulation import prepare, simulate


@pytest.fixture(scope="session")
def databases():
    database = load("encounters").take(range(900))
    return dict(zip(MEMBERS, iid(database, len(MEMBERS), seed=0).parts, strict=True))


class Calm(dict):
    """The results of the same members in one process, by variant; each is found when it is first asked for."""

    def __init__(self, databases):
        super().__init__()
        self.databases = databases

    def __missing__(self, variant):
        prepare(variant)
        self[variant] = simulate(self.databases, variant=variant)
        return self[variant]


@pytest.fixture(scope="session")
def calm(databases):
    return Calm(databases)


@pytest.fixture
def federate(tmp_path, databases):
    made = []

    def make(**how):
        made.append(Federation(tmp_path, databases, **how))
        return made[-1]

    yield make
    for each in made:
        each.close()
