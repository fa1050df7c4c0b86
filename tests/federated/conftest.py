"""What the tests of whole federations share."""

from __future__ import annotations

import pytest

from fedslim.data import builtin_sites
from fedslim.federated import simulate


@pytest.fixture(scope="session")
def sites():
    """The built-in hospitals."""
    return dict(builtin_sites())


@pytest.fixture(scope="session")
def simulation(sites):
    """What they find together."""
    return simulate(sites)
