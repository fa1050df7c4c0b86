"""Frames on an asyncio stream, each within a size and a time, and a heartbeat between them.

    reader, writer = await connect(host, port, context)
    connection = Connection(reader, writer, frame=60.0, beat=10.0)
    await connection.send(data)
    data = await connection.receive()
    await connection.close()

Each side sends an empty frame every `beat` seconds. Whoever hears nothing at all for a few beats takes the connection
for dead, whatever TCP says: a middlebox may acknowledge what it does not pass on, and packets may vanish one way only.
Both sides do this, so a connection that is dead for one of them soon is for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, TypeGuard

from fedslim.errors import FrameError, LineError, UntrustedError
from fedslim.protocol import framing
from fedslim.trust import explain

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable, Iterator

BEAT = bytes(framing.PREFIX_BYTES)
"""A frame with nothing in it."""

MISSED_BEATS = 3
"""Beats in which nothing was heard, after which a connection counts as dead."""

PIECE = BUFFER = 1 << 16


class Reader(asyncio.StreamReader):
    """A stream that counts what arrives: the bytes of a long frame are signs of life as well."""

    arrived = 0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # typeshed takes any iterable
        """See `asyncio.StreamReader`."""
        self.arrived += len(data)
        super().feed_data(data)

    @property
    def has_more(self) -> bool:
        """Whether something has arrived that nobody has read yet; while there is too much of it, nothing can arrive."""
        return bool(self._buffer)  # type: ignore[attr-defined]  # typeshed does not have it


async def connect(host: str, port: int, context: ssl.SSLContext) -> tuple[Reader, StreamWriter]:
    """As `asyncio.open_connection`."""
    loop = asyncio.get_running_loop()
    reader = Reader(limit=BUFFER)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=context)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Connection:
    """Frames both ways between two peers that show each other that they are alive."""

    def __init__(self, reader: Reader, writer: StreamWriter, *, frame: float, beat: float) -> None:
        self.writer = writer
        self._reader, self._within, self._beat = reader, frame, beat
        self._sending = asyncio.Lock()
        self._silent = False
        _set_up(writer, beat)
        self._heart = asyncio.create_task(self._show_life())

    async def receive(self, most: Callable[[], int] | None = None) -> bytes:
        """The next frame: see `read_frame`."""
        with self._explained():
            return await read_frame(self._reader, within=self._within, most=most)

    async def send(self, data: bytes) -> None:
        """Send a frame after those that are on their way: see `write_frame`."""
        async with self._sending:
            with self._explained():
                await write_frame(self.writer, data, within=self._within)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """If it was we who gave the connection up, say why: it only looks closed."""
        try:
            yield
        except LineError as error:
            if self._silent:
                msg = f"nothing was heard for {MISSED_BEATS * self._beat:g} s"
                raise LineError(msg) from error
            raise

    def abort(self) -> None:
        """Give the connection up, without a word."""
        self._heart.cancel()
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close the connection, however it stands."""
        self._heart.cancel()
        await hang_up(self.writer)

    async def _show_life(self) -> None:
        # Beats are counted and not seconds: a process that was stopped or busy for long has not listened meanwhile.
        missed, arrived = 0, -1
        while missed < MISSED_BEATS:
            await asyncio.sleep(self._beat)
            silent = self._reader.arrived == arrived and not self._reader.has_more
            missed = missed + 1 if silent else 0
            arrived = self._reader.arrived
            if not self._sending.locked() and not self.writer.is_closing():
                self.writer.write(BEAT)
        self._silent = True
        self.writer.transport.abort()


async def read_frame(reader: StreamReader, *, within: float, most: Callable[[], int] | None = None) -> bytes:
    """One frame, the prefix included. It may be long in coming; once it has begun it must end `within` seconds.

    Empty ones, which are signs of life, are passed over. `most` says how long it may be at the moment when it begins.

    Raises:
        LineError: The line was closed, or the frame did not end in time.
        FrameError: It says that it is larger than allowed; nothing of it was read.
    """
    try:
        while True:
            first = await reader.readexactly(1)
            async with asyncio.timeout(within):
                prefix = first + await reader.readexactly(framing.PREFIX_BYTES - 1)
                if prefix == BEAT:
                    await asyncio.sleep(0)  # whoever sends nothing else keeps nobody from being heard
                    continue
                length = framing.length_of(prefix)
                if most is not None and length > (allowed := most()):
                    msg = f"a frame says it has {length} bytes; at most {allowed} are allowed here"
                    raise FrameError(msg)
                return prefix + await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise _lost(error, f"a message did not end within {within:g} s") from error


def _lost(error: asyncio.IncompleteReadError | OSError, too_slow: str) -> LineError | UntrustedError:
    """What happened to a connection, in words that say where to look."""
    if is_refusal(error):
        return explain(error, "the peer")
    if isinstance(error, asyncio.IncompleteReadError):
        where = " in the middle of a message" if error.partial else ""
        return LineError(f"the connection was closed by the other side{where}")
    if isinstance(error, ConnectionResetError):
        return LineError("the connection was reset")
    if isinstance(error, TimeoutError):  # ours has no number, the system's has
        return LineError(too_slow if error.errno is None else "the other side no longer acknowledges what is sent")
    return LineError(f"the connection broke ({error.strerror or error})")


async def write_frame(writer: StreamWriter, data: bytes, *, within: float) -> None:
    """Send one frame; a peer that does not take it in time is given up."""
    try:
        async with asyncio.timeout(within):
            # In pieces: asyncio encrypts at once, and keeps, whatever it is given in one.
            for at in range(0, len(data), PIECE):
                writer.write(data if len(data) <= PIECE else memoryview(data)[at : at + PIECE])
                await writer.drain()
    except OSError as error:
        raise _lost(error, f"a message of {len(data)} bytes could not be sent within {within:g} s") from error


def is_refusal(error: BaseException) -> TypeGuard[ssl.SSLError]:
    """Whether TLS says no, rather than that the line is gone: trying again does not help.

    With TLS 1.3 a server says only after the handshake that it does not take our certificate.
    """
    gone = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    ended = "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"
    return isinstance(error, ssl.SSLError) and not isinstance(error, gone) and error.reason != ended


async def hang_up(writer: StreamWriter) -> None:
    """Close a line, however it stands."""
    writer.close()
    try:
        async with asyncio.timeout(2):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        writer.transport.abort()


def _set_up(writer: StreamWriter, beat: float) -> None:
    """Send small frames at once, and have the system notice where nothing is acknowledged, if it can."""
    line: socket.socket | None = writer.get_extra_info("socket")
    if line is None:
        return
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if (number := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:  # not everywhere
        line.setsockopt(socket.IPPROTO_TCP, number, max(1000, round(1000 * MISSED_BEATS * beat)))


def unreached_because(error: OSError, within: float) -> str:
    """Why nobody was reached within so many seconds, in words that say what to look at."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; is the server running, and past its preparations?"
    if isinstance(error, TimeoutError):
        return f"no answer within {within:g} s; is there a firewall between, or another machine at this address?"
    # asyncio's error has no text where the other side hangs up during the handshake.
    return error.strerror or str(error) or "the other side closed the connection before it was set up"
