"""The open port: whoever connects is a stranger until TLS has said who it is, and there is room for so many only.

    # `met` gets the reader and the writer of each connection, `refused` why a handshake failed
    async with Door(host, port, context, met, refused=print) as door:
        print(door.port)

A stranger holds a place of the room until its handshake is done, and no longer than the handshake may take. When the
room is full, whoever has been in it longest has to leave, after a second at least; others wait in the queue of the
kernel. An honest handshake takes milliseconds, so hundreds of silent lines do not keep a member out.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from typing import TYPE_CHECKING

from fedslim.errors import RunError
from fedslim.network.connection import BUFFER, Reader
from fedslim.network.timeouts import HANDSHAKE
from fedslim.trust import explain

if TYPE_CHECKING:
    from asyncio import StreamWriter
    from collections.abc import Awaitable, Callable
    from typing import Self

MAX_STRANGERS = 128
"""Lines whose peer is not known yet. asyncio keeps a buffer of 256 kB for each."""

SWEEP_EVERY = 64
"""Strangers that leave between two collections of garbage. A line that ends is a cycle with its buffer in it, and the
collector counts objects, not bytes: beside a large heap of old objects it would leave a thousand lines lying about."""

MIN_TIME = 1.0
"""Seconds that a stranger has even if others are waiting."""

BACKLOG = 512


def _handshake(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Handshakes that tell both sides why they fail: asyncio closes the socket before OpenSSL's alert has left."""

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
                # As if there was more to come: what waits to be sent is sent then, which is the alert.
                raise ssl.SSLWantReadError from error

    return Handshake


class Door:
    """Takes lines, shakes hands, and hands over those whose certificate is good."""

    def __init__(  # noqa: PLR0913  # what a door is made of
        self,
        host: str,
        port: int,
        context: ssl.SSLContext,
        met: Callable[[Reader, StreamWriter], Awaitable[None]],
        *,
        refused: Callable[[str], None],
        handshake: float = HANDSHAKE,
        strangers: int = MAX_STRANGERS,
        before: Callable[[], None] | None = None,
    ) -> None:
        self._address = (host, port)
        context.sslobject_class = _handshake(refused)
        self._context = context
        self._met = met
        self._handshake = handshake
        self._most = strangers
        self._before = before  # is called before each handshake
        self._strangers: dict[asyncio.Task[None], float] = {}  # since when, the oldest first
        self._known: set[asyncio.Task[None]] = set()
        self._left = 0  # strangers that went since the last collection
        self._sockets: list[socket.socket] = []
        self._doormen: list[asyncio.Task[None]] = []
        self.port = port

    @property
    def strangers(self) -> int:
        """How many lines there are whose peer is not known."""
        return len(self._strangers)

    async def __aenter__(self) -> Self:
        try:
            await self._bind()
        except OSError as error:
            self._close()
            host, port = self._address
            msg = (
                f"the server cannot listen on {host}:{port}: {error.strerror or error}; say where with "
                "--host (an address of this machine, 0.0.0.0 for all) and --port"
            )
            raise RunError(msg) from error
        except BaseException:
            self._close()
            raise
        self._doormen = [asyncio.create_task(self._open(one)) for one in self._sockets]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [*self._doormen, *self._strangers, *self._known]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close()

    async def _bind(self) -> None:
        host, port = self._address
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, address in dict.fromkeys((family, address) for family, _, _, _, address in found):
            # All on one port, also where the system chooses it.
            place = (address[0], self.port or port, *address[2:])
            listening = socket.create_server(place, family=family, backlog=BACKLOG)
            listening.setblocking(False)
            self._sockets.append(listening)
            self.port = listening.getsockname()[1]

    def _close(self) -> None:
        for one in self._sockets:
            one.close()

    async def _open(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                line, _ = await loop.sock_accept(listening)
            except OSError:
                # It has gone again, or there are no more files to be had: then others have to end first.
                await asyncio.sleep(0.05)
                continue
            task = asyncio.create_task(self._greet(line))
            self._strangers[task] = time.monotonic()
            task.add_done_callback(lambda done, line=line: self._forget(done, line))  # type: ignore[misc]

    async def _make_room(self) -> None:
        while len(self._strangers) >= self._most:
            oldest, since = next(iter(self._strangers.items()))
            left = since + MIN_TIME - time.monotonic()
            if left > 0:
                await asyncio.wait(list(self._strangers), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            else:
                oldest.cancel()
                await asyncio.wait([oldest])
            await asyncio.sleep(0)  # for the callbacks that make the room

    def _forget(self, task: asyncio.Task[None], line: socket.socket) -> None:
        was_stranger = self._strangers.pop(task, None) is not None
        self._known.discard(task)
        if not task.cancelled():
            task.exception()  # it has been looked at: what a stranger does is no news
        elif was_stranger:
            line.close()  # the task may not even have begun
        self._left += 1
        if self._left >= SWEEP_EVERY:
            self._left = 0
            asyncio.get_running_loop().call_soon(gc.collect)  # not before asyncio has let go of the line as well

    async def _greet(self, line: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = Reader(limit=BUFFER)
        writers: list[StreamWriter] = []
        protocol = asyncio.StreamReaderProtocol(reader, lambda _, writer: writers.append(writer))
        if self._before is not None:
            self._before()
        try:
            try:
                await loop.connect_accepted_socket(
                    lambda: protocol, line, ssl=self._context, ssl_handshake_timeout=self._handshake
                )
            except (OSError, TimeoutError) as error:  # an SSLError is an OSError
                _forget_trace(error)
                return
            await self._met(reader, writers[0])
        finally:
            # Whoever is cancelled would leave the transport waiting for its peer, on a socket that is closed.
            for writer in writers:
                writer.transport.abort()

    def introduce(self) -> None:
        """The peer of the line that the present task is about is known: it holds no place of the room any more."""
        task = asyncio.current_task()
        if task is not None and self._strangers.pop(task, None) is not None:
            self._known.add(task)


def _forget_trace(error: BaseException | None) -> None:
    """Let go of what the frames hold that an error came through: asyncio's line, in a cycle, with its large buffer.

    The collector of garbage counts objects and not bytes, and would leave hundreds of them lying about.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__
