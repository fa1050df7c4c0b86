"""A member's connection at the server: what waits to be sent on it, and how often the member makes new ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedslim.errors import LineError, UntrustedError
from fedslim.network.timeouts import HANDSHAKE
from fedslim.protocol import framing
from fedslim.protocol import messages as m

if TYPE_CHECKING:
    from fedslim.network.connection import Connection

logger = logging.getLogger(__name__)

MAX_WAITING = 16
"""Frames that wait to be sent to one member. Nobody is asked two things at once: more means that it does not read."""

SUSPICIOUS = 2
"""New connections of a member whose old one had not ended, after which there may be two of it."""

MAX_RETURNS, RETURNS_WITHIN = 20, 10.0
"""So many connections of one member are taken in so many seconds; what comes on top is closed, and may try again."""


@dataclass(slots=True)
class MemberConnection:
    """A member's connection, with what is still to be sent on it."""

    name: str
    connection: Connection
    outbox: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))

    async def send_all(self) -> None:
        """Send whatever is put into the outbox, until the connection breaks or the task is cancelled."""
        with contextlib.suppress(LineError, UntrustedError, asyncio.CancelledError):
            while True:
                await self.connection.send(await self.outbox.get())
        self.connection.abort()

    async def refuse(self, reason: str) -> None:
        """Say why, so that whoever runs the member knows; a member that misbehaves may not even listen."""
        with contextlib.suppress(LineError, UntrustedError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE):
                await self.connection.send(framing.to_bytes(m.Abort(reason[:2000])).data)


class Returns:
    """Limits how often a member may connect: each connection costs everybody a new roster."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, deque[float]] = {}  # when each member made its last connections
        self._in_round: Counter[str] = Counter()  # how often it did since the last round ended
        self._replaced: Counter[str] = Counter()  # how often it had a new one before the old one had ended

    def admit(self, name: str) -> bool:
        """Whether a member may have a new connection now; if so, it is counted."""
        now = time.monotonic()
        times = self._times.setdefault(name, deque(maxlen=self._most))
        if len(times) == self._most and now - times[0] < RETURNS_WITHIN:
            return False
        times.append(now)
        self._in_round[name] += 1
        return True

    def replace(self, name: str) -> None:
        """A member has a new connection, and the old one had not ended."""
        self._replaced[name] += 1
        times = self._replaced[name]
        if times.bit_count() == 1:  # once, twice, four times …: two processes would fill the log
            hint = "" if times <= SUSPICIOUS else "; do two processes use its certificate?"
            told = "a new connection" if times == 1 else f"a new connection ({times} times now)"
            logger.warning("%s has %s, and the old one had not ended%s", name, told, hint)

    def end_round(self) -> None:
        """Count from here on."""
        self._in_round.clear()

    def most_frequent(self) -> tuple[str, int] | None:
        """The member that returned most often since the last round ended, and how often it did."""
        return next(iter(self._in_round.most_common(1)), None)
