"""Fixtures for tests of whole federations."""

from __future__ import annotations

import pytest

from fedslim.data import builtin_members
from fedslim.federated import simulate


@pytest.fixture(scope="session")
def databases():
    """The built-in hospitals."""
    return dict(builtin_members())


@pytest.fixture(scope="session")
def simulation(databases):
    """Their result in a federation."""
    return simulate(databases)
