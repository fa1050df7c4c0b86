"""What the tests of whole federations share."""

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
    """What they find together."""
    return simulate(databases)
