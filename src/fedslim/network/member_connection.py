"""A member's connection at the server: its outbox, and a limit on how often the member reconnects."""

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
"""Frames that may wait to be sent to a member. It is never asked two questions at once: more means it does not read."""

SUSPICIOUS = 2
"""Connections replaced while still open, after which two processes may be using one member's certificate."""

MAX_RETURNS, RETURNS_WITHIN = 20, 10.0
"""A member may connect `MAX_RETURNS` times in `RETURNS_WITHIN` seconds; further connections are closed."""


@dataclass(slots=True)
class MemberConnection:
    """A member's connection and the frames that wait to be sent on it."""

    name: str
    connection: Connection
    outbox: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(MAX_WAITING))

    async def send_all(self) -> None:
        """Send the frames of the outbox until the connection breaks or the task is cancelled."""
        with contextlib.suppress(LineError, UntrustedError, asyncio.CancelledError):
            while True:
                await self.connection.send(await self.outbox.get())
        self.connection.abort()

    async def refuse(self, reason: str) -> None:
        """Send the reason for a refusal, for the member's operator; a misbehaving member may not even read it."""
        with contextlib.suppress(LineError, UntrustedError, TimeoutError):
            async with asyncio.timeout(HANDSHAKE):
                await self.connection.send(framing.to_bytes(m.Abort(reason[:2000])).data)


class Returns:
    """Limits how often a member may connect: each new connection costs all members a new roster."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: dict[str, deque[float]] = {}  # when each member last connected
        self._in_round: Counter[str] = Counter()  # how often since the last round ended
        self._replaced: Counter[str] = Counter()  # how often while its old connection was still open

    def admit(self, name: str) -> bool:
        """Tell whether a member may connect now; if so, count the connection."""
        now = time.monotonic()
        times = self._times.setdefault(name, deque(maxlen=self._most))
        if len(times) == self._most and now - times[0] < RETURNS_WITHIN:
            return False
        times.append(now)
        self._in_round[name] += 1
        return True

    def replace(self, name: str) -> None:
        """Count and log that a member connected while its old connection was still open."""
        self._replaced[name] += 1
        times = self._replaced[name]
        if times.bit_count() == 1:  # 1, 2, 4 … times: two processes would fill the log
            hint = "" if times <= SUSPICIOUS else "; check whether two processes use its certificate"
            so_far = "" if times == 1 else f" ({times} times so far)"
            logger.warning("%s connected again while its old connection was open%s%s", name, so_far, hint)

    def end_round(self) -> None:
        """Count the connections of the next round."""
        self._in_round.clear()

    def most_frequent(self) -> tuple[str, int] | None:
        """Return the member that connected most often since the last round ended, and how often."""
        return next(iter(self._in_round.most_common(1)), None)
