"""Log refused connections as counts, so that strangers cannot fill the log.

refused = RefusedConnections()
refused.add("it does not speak TLS at all")      # for each refused connection
refused.summarise()                              # from time to time
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from fedslim.format import count

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

SUMMARY_EVERY = 60.0
"""Minimum seconds between two log records about refused connections."""


class RefusedConnections:
    """Logs the first refused connection and counts those that follow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: float | None = None  # when the last record was logged
        self._count = 0  # connections refused since
        self._latest = ""

    def add(self, why: str) -> None:
        """Log or count a refused connection."""
        if self._count or not self._is_due():
            self._count, self._latest = self._count + 1, why
            return
        self._logged = self._clock()
        logger.warning("refused a connection: %s", why)

    def summarise(self) -> None:
        """Log how many connections were refused in the last minute, if a minute has passed."""
        if self._is_due():
            self._log_count(" in the last minute")

    def finish(self) -> None:
        """Log the refused connections that were counted but not logged yet."""
        self._log_count("")

    def _is_due(self) -> bool:
        return self._logged is None or self._clock() - self._logged >= SUMMARY_EVERY

    def _log_count(self, when: str) -> None:
        if self._count:
            refused = count(self._count, "more connection")
            self._logged, self._count = self._clock(), 0
            logger.warning("refused %s%s; the latest: %s", refused, when, self._latest)
