from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from fedslim.mdl.mining import prepare

collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]  # these need `make test-ray`
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before any cluster starts


@pytest.fixture(scope="session", autouse=True)
def _kernels():
    """Compile the kernels once: all workers at a time would take minutes, and could starve Ray's own processes."""
    prepare()
