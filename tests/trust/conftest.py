"""Fixtures for the tests of trust."""

from __future__ import annotations

import pytest
from trusting import NOW

from fedslim.trust.authority import Authority
from fedslim.trust.enrolment import make_demo_ca


@pytest.fixture
def trial(tmp_path):
    """A federation of two members and a server."""
    return make_demo_ca(tmp_path / "try", ["north", "south"], now=NOW)


@pytest.fixture
def authority(tmp_path):
    return Authority.create(tmp_path / "ca", "Heart Study CA", now=NOW)
