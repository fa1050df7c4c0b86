from __future__ import annotations

import logging
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: the first example of a test may compile kernels. `make test-slow` tries more examples.
settings.register_profile("fedslim", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("thorough", settings.get_profile("fedslim"), max_examples=400)
settings.load_profile(os.environ.get("FEDSLIM_TESTS", "fedslim"))

# A background job of a shell ignores SIGINT, and so do its children; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# fedslim refuses files that others may change, which some umasks would make of every file that tests write.
os.umask(0o022)

BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"
FOLDERS = [*map(Path, filter(None, os.environ.get("FEDSLIM_DATA", "").split(os.pathsep))), BESIDE_THE_CHECKOUT]


WAITING = (
    *("test_processes", "test_hostile", "test_folder", "test_disk", "test_liveness", "test_chaos", "test_running"),
    *("test_03_differencing", "test_network", "test_blocks", "test_deployment", "test_interrupts", "test_simulate"),
)
"""Files whose tests start processes or wait, and leave cores idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files that wait first, so that other tests can run beside them."""
    items.sort(key=lambda item: item.path.stem not in WAITING)


@pytest.fixture(autouse=True)
def _logger_as_before():
    """Leave the package's logger as it was: commands that run in this process set up handlers of their own."""
    logger = logging.getLogger("fedslim")
    handlers, logger_level, propagate = logger.handlers, logger.level, logger.propagate
    yield
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.propagate = handlers, propagate
    logger.setLevel(logger_level)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the package logs during a test, whatever its level."""
    caplog.set_level(logging.DEBUG, "fedslim")
    return caplog


@pytest.fixture(scope="session")
def public_data() -> Path:
    """The folder of the downloaded public data sets; tests that need it are skipped if there is none."""
    found = next((folder for folder in FOLDERS if (folder / "chess.dat.gz").is_file()), None)
    if found is None:
        pytest.skip("the public data sets were not found; set FEDSLIM_DATA to their folder")
    return found
