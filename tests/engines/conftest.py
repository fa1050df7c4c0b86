from __future__ import annotations

import pytest

from fedslim.data import builtin_members
from fedslim.federated import simulate
from fedslim.federated.simulation import prepare
from fedslim.protocol.variant import VARIANTS

MEMBERS = ("north", "south", "west")


@pytest.fixture(scope="session", autouse=True)
def compiled():
    for variant in VARIANTS:
        prepare(variant)


@pytest.fixture(scope="session")
def hospitals():
    """Three of the built-in hospitals, over one vocabulary."""
    return {name: database for name, (_, database) in zip(MEMBERS, builtin_members("encounters"), strict=False)}


@pytest.fixture(scope="session")
def native(hospitals):
    """The results over fedslim's own transport, by variant."""
    return {variant: simulate(hospitals, variant=variant) for variant in VARIANTS}
