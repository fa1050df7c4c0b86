from __future__ import annotations

import pytest

from fedslim.federated.simulation import prepare
from fedslim.protocol.variant import VARIANTS


@pytest.fixture(scope="session", autouse=True)
def compiled():
    """Memory is measured in some tests: not that of compiling or loading kernels."""
    for variant in VARIANTS:
        prepare(variant)
