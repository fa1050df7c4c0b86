from __future__ import annotations

import pytest
from weather import Weather

from fedslim.federated.simulation import prepare
from fedslim.protocol.variant import VARIANTS


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """Compile the kernels first: some tests measure memory."""
    for variant in VARIANTS:
        prepare(variant)


@pytest.fixture(scope="session")
def calm():
    """The results of runs without faults."""
    tables = {}
    for variant in VARIANTS:
        federation = Weather(variant)
        federation.run()
        tables[variant] = federation.outcome
    return tables
