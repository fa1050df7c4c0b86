"""What the network tells the operator: sentences with a level of `logging`, and refused connections as a count.

    tell("north is away: its connection is closed", WARNING)
    refusals = RefusedConnections(tell)
    refusals.add("it does not speak TLS at all")      # for each refused connection
    refusals.summarise()                              # from time to time

Sentences may quote what a peer sent. Whoever implements `Tell` escapes them: see `cli/console/logs.py`.
"""

from __future__ import annotations

import time
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Protocol

from fedslim.format import count

if TYPE_CHECKING:
    from collections.abc import Callable

SUMMARY_EVERY = 60.0
"""Seconds between two sentences about refused connections, at least."""


class Tell(Protocol):
    """A function that tells the operator something."""

    def __call__(self, text: str, level: int = INFO, /) -> None:
        """Tell a sentence."""


def tell_nobody(_text: str, _level: int = INFO, /) -> None:
    """For a network without an operator."""


class RefusedConnections:
    """Tells of the first refused connection and counts those that follow: strangers cannot fill a log."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._told: float | None = None  # when the last sentence was told
        self._count = 0  # connections refused since
        self._latest = ""

    def add(self, why: str) -> None:
        """A connection was refused."""
        if self._count or not self._is_due():
            self._count, self._latest = self._count + 1, why
            return
        self._told = self._clock()
        self._tell(f"refused a connection: {why}", WARNING)

    def summarise(self) -> None:
        """Tell how many were refused in the last minute, if it is over."""
        if self._is_due():
            self._tell_count(" in the last minute")

    def finish(self) -> None:
        """Tell how many were refused and not told of yet: nothing more is to come."""
        self._tell_count("")

    def _is_due(self) -> bool:
        return self._told is None or self._clock() - self._told >= SUMMARY_EVERY

    def _tell_count(self, when: str) -> None:
        if self._count:
            refused = count(self._count, "more connection")
            self._told, self._count = self._clock(), 0
            self._tell(f"refused {refused}{when}; the latest: {self._latest}", WARNING)
