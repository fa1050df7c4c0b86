"""Listen for TLS connections, with a limit on peers that have not shown a certificate yet ("strangers").

A peer is a stranger until its handshake is done, and for no longer than a handshake may take. When there are too many
strangers, the oldest is dropped, but not within its first second; new connections wait in the kernel's queue. An
honest handshake takes milliseconds, so hundreds of silent connections do not keep a member out.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import socket
import ssl
import time
from asyncio import StreamWriter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self

from fedslim.errors import RunError
from fedslim.format import count
from fedslim.network.connection import BUFFER, HANDSHAKE, Reader
from fedslim.trust.tls import explain

logger = logging.getLogger(__name__)

MAX_STRANGERS = 128  # Connections whose peer is not known yet. asyncio keeps a buffer of 256 kB for each.

SWEEP_EVERY = 64
"""Strangers that leave between two garbage collections. A closed connection is a cycle that includes its buffer, and
the collector counts objects, not bytes: with a large heap it would let a thousand of them pile up."""

MIN_TIME = 1.0  # seconds that a stranger is given even if others are waiting

BACKLOG = 512


def _handshake(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Return a TLS class whose failed handshakes still send the alert: asyncio would close the socket before."""

    class Handshake(ssl.SSLObject):
        failure: ssl.SSLError | None = None

        def do_handshake(self) -> None:
            if self.failure is not None:
                raise self.failure
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self.failure = error
                refused(str(explain(error, "somebody")))
                # Pretend that more data are needed: asyncio then flushes the alert.
                raise ssl.SSLWantReadError from error

    return Handshake


class _Listening(socket.socket):
    """Keeps what it accepted until it is taken: a task that is cancelled just then would leave it open."""

    accepted: socket.socket | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        self.accepted, address = super().accept()
        return self.accepted, address

    def close(self) -> None:
        if self.accepted is not None:
            self.accepted.close()
        super().close()


@dataclass(eq=False)
class Door:
    """Accepts connections, does the handshake, and passes on those with a valid certificate."""

    host: str
    port: int
    context: ssl.SSLContext
    met: Callable[[Reader, StreamWriter], Awaitable[None]]
    refused: Callable[[str], None]  # called with the reason why a handshake failed
    before: Callable[[], None] | None = None  # called before each handshake
    handshake: float = HANDSHAKE  # seconds
    most: int = MAX_STRANGERS

    def __post_init__(self) -> None:
        self.context.sslobject_class = _handshake(self.refused)
        self._strangers: dict[asyncio.Task[None], float] = {}  # with the time of arrival, the oldest first
        self._known: set[asyncio.Task[None]] = set()
        self._left = 0  # connections that ended since the last garbage collection
        self._sockets: list[_Listening] = []
        self._acceptors: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            await self._bind()
        except BaseException as error:
            self._close()
            if not isinstance(error, OSError):
                raise
            raise RunError(
                f"the server cannot listen on {self.host}:{self.port}: {error.strerror or error}; choose another port "
                "with --port, or another address of this machine with --host (0.0.0.0 for all)"
            ) from error
        self._acceptors = [asyncio.create_task(self._open(one)) for one in self._sockets]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._acceptors, *self._strangers, *self._known]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close()

    async def _bind(self) -> None:
        found = await asyncio.get_running_loop().getaddrinfo(
            self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            # The same port for all addresses, even if the system chose it for the first.
            place = (address[0], self.port, *address[2:])
            made = socket.create_server(place, family=family, backlog=BACKLOG)
            listening = _Listening(made.family, made.type, made.proto, made.detach())
            listening.setblocking(False)
            self._sockets.append(listening)
            self.port = listening.getsockname()[1]

    def _close(self) -> None:
        for one in self._sockets:
            one.close()

    async def _open(self, listening: _Listening) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                sock, _ = await loop.sock_accept(listening)
            except OSError:
                # The peer has left already, or no file descriptor is free until another connection ends.
                await asyncio.sleep(0.05)
                continue
            listening.accepted = None
            task = asyncio.create_task(self._greet(sock))
            self._strangers[task] = time.monotonic()
            task.add_done_callback(lambda done, sock=sock: self._forget(done, sock))  # type: ignore[misc]

    async def _make_room(self) -> None:
        while len(self._strangers) >= self.most:
            oldest, since = next(iter(self._strangers.items()))
            left = since + MIN_TIME - time.monotonic()
            if left > 0:
                await asyncio.wait(list(self._strangers), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            else:
                oldest.cancel()
                await asyncio.wait([oldest])
            await asyncio.sleep(0)  # let `_forget` run

    def _forget(self, task: asyncio.Task[None], sock: socket.socket) -> None:
        was_stranger = self._strangers.pop(task, None) is not None
        self._known.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: asyncio would log it
        elif was_stranger:
            sock.close()  # the task may not even have begun
        self._left += 1
        if self._left >= SWEEP_EVERY:
            self._left = 0
            asyncio.get_running_loop().call_soon(gc.collect)  # after asyncio has released the connection

    async def _greet(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = Reader(limit=BUFFER)
        writers: list[StreamWriter] = []
        protocol = asyncio.StreamReaderProtocol(reader, lambda _, writer: writers.append(writer))
        if self.before is not None:
            self.before()
        try:
            try:
                await loop.connect_accepted_socket(
                    lambda: protocol, sock, ssl=self.context, ssl_handshake_timeout=self.handshake
                )
            except (OSError, TimeoutError) as error:  # an SSLError is an OSError
                _forget_trace(error)
                return
            await self.met(reader, writers[0])
        finally:
            # If this task is cancelled, the transport would wait for its peer on a closed socket.
            for writer in writers:
                writer.transport.abort()

    def introduce(self) -> None:
        """Note that the peer of the current task's connection is known: it is no longer a stranger."""
        task = asyncio.current_task()
        if task is not None and self._strangers.pop(task, None) is not None:
            self._known.add(task)


def _forget_trace(error: BaseException | None) -> None:
    """Drop the tracebacks of an error, which keep asyncio's connection and its large buffer alive in a cycle."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


# -- refused connections in the log -----------------------------------------------------------------------------------

SUMMARY_EVERY = 60.0  # minimum seconds between two log records about refused connections


class RefusedConnections:
    """Logs the first refused connection and counts those that follow, so that strangers cannot fill the log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged = -math.inf  # when the last record was logged
        self._count = 0  # connections refused since
        self._latest = ""

    def add(self, why: str) -> None:
        """Log or count a refused connection."""
        if self._count or self._clock() - self._logged < SUMMARY_EVERY:
            self._count, self._latest = self._count + 1, why
        else:
            self._log(f"a connection: {why}")

    def summarise(self) -> None:
        """Log how many connections were refused in the last minute, if a minute has passed."""
        if self._clock() - self._logged >= SUMMARY_EVERY:
            self.finish(" in the last minute")

    def finish(self, when: str = "") -> None:
        """Log the refused connections that were counted but not logged yet."""
        if self._count:
            self._log(f"{count(self._count, 'more connection')}{when}; the latest: {self._latest}")
            self._count = 0

    def _log(self, what: str) -> None:
        self._logged = self._clock()
        logger.warning("refused %s", what)
