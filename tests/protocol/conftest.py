from __future__ import annotations

import pytest
from weather import Weather

from fedslim.federated.simulation import prepare
from fedslim.protocol.variant import VARIANTS


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """Memory is measured in some tests: not that of compiling or loading kernels."""
    for variant in VARIANTS:
        prepare(variant)


@pytest.fixture(scope="session")
def calm():
    """What runs without faults find."""
    tables = {}
    for variant in VARIANTS:
        federation = Weather(variant)
        federation.run()
        tables[variant] = federation.outcome
    return tables
