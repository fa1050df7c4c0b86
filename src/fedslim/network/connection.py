"""Frames on an asyncio stream, each limited in size and time, with keepalives between them.

Each side sends an empty frame every `beat` seconds. A side that receives nothing for a few beats gives the connection
up, whatever TCP says: see docs/explanation/decisions/faults.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from asyncio import StreamReader, StreamWriter
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeGuard

from fedslim.errors import FrameError, LineError, UntrustedError
from fedslim.protocol import framing, messages as m
from fedslim.trust.tls import explain

logger = logging.getLogger(__name__)

BEAT = bytes(framing.PREFIX_BYTES)  # an empty frame

MISSED_BEATS = 3  # beats without received data after which a connection counts as dead

PIECE = BUFFER = 1 << 16

HANDSHAKE = 10.0  # seconds for a handshake


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server or member waits, in seconds."""

    answer: float = 3600.0  # for the answer of a connected member
    grace: float = 600.0  # for a disconnected member, or for the server
    frame: float = 60.0  # for the rest of a frame that has begun
    farewell: float = 5.0  # after the end, for all members to acknowledge the result
    connect: float = HANDSHAKE  # for each attempt to connect
    keepalive: float = 10.0  # between two keepalives
    handshake: float = HANDSHAKE  # for a new peer to show its certificate


class Reader(asyncio.StreamReader):
    """A stream that counts the bytes that arrive: those of a long frame are signs of life too."""

    arrived = 0

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # typeshed takes any iterable
        """See `asyncio.StreamReader`."""
        self.arrived += len(data)
        super().feed_data(data)

    @property
    def has_more(self) -> bool:
        """Whether there are unread data; while the buffer is full of them, no more can arrive."""
        return bool(self._buffer)  # type: ignore[attr-defined]  # typeshed does not have it


async def connect(host: str, port: int, context: ssl.SSLContext) -> tuple[Reader, StreamWriter]:
    """Connect as `asyncio.open_connection` does, with a `Reader`."""
    loop = asyncio.get_running_loop()
    reader = Reader(limit=BUFFER)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=context)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class Connection:
    """Sends and receives frames, and keepalives between them."""

    def __init__(self, reader: Reader, writer: StreamWriter, *, frame: float, beat: float) -> None:
        self.writer = writer
        self._reader, self._within, self._beat = reader, frame, beat
        self._sending = asyncio.Lock()
        sock: socket.socket | None = writer.get_extra_info("socket")
        if sock is not None:
            # Send small frames at once and, where the system can, limit the time without acknowledgements.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if (number := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, number, max(1000, round(1000 * MISSED_BEATS * beat)))
        self._heart = asyncio.create_task(self._show_life())

    async def receive(self, most: Callable[[], int] | None = None) -> bytes:
        """Return the next frame: see `read_frame`."""
        return await read_frame(self._reader, within=self._within, most=most)

    async def send(self, data: bytes) -> None:
        """Send a frame after those being sent: see `write_frame`."""
        async with self._sending:
            await write_frame(self.writer, data, within=self._within)

    def abort(self) -> None:
        """Drop the connection without a TLS shutdown."""
        self._heart.cancel()
        self.writer.transport.abort()

    async def close(self) -> None:
        """Close the connection, whatever its state."""
        self._heart.cancel()
        await hang_up(self.writer)

    async def _show_life(self) -> None:
        # Counts beats, not seconds: a process that was suspended or busy could not receive meanwhile.
        missed, arrived = 0, -1
        while missed < MISSED_BEATS:
            await asyncio.sleep(self._beat)
            silent = self._reader.arrived == arrived and not self._reader.has_more
            missed = missed + 1 if silent else 0
            arrived = self._reader.arrived
            if not self._sending.locked() and not self.writer.is_closing():
                self.writer.write(BEAT)
        # Otherwise the connection would only look closed to those who read and write.
        self._reader.set_exception(LineError(f"nothing was received for {MISSED_BEATS * self._beat:g} s"))
        self.writer.transport.abort()


async def read_frame(reader: StreamReader, *, within: float, most: Callable[[], int] | None = None) -> bytes:
    """Return the next frame with its prefix. Once a frame has begun, it must end within `within` seconds.

    Empty frames, the keepalives, are skipped. `most` is called when a frame begins and returns its maximum length; of a
    longer one nothing is read.
    """
    try:
        while True:
            first = await reader.readexactly(1)
            async with asyncio.timeout(within):
                prefix = first + await reader.readexactly(framing.PREFIX_BYTES - 1)
                if prefix == BEAT:
                    await asyncio.sleep(0)  # a flood of empty frames must not block other tasks
                    continue
                length = framing.length_of(prefix)
                if most is not None and length > (allowed := most()):
                    raise FrameError(f"a frame announces {length} bytes; at most {allowed} are allowed here")
                return prefix + await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError) as error:
        raise _lost(error, f"a message did not end within {within:g} s") from error


def _lost(error: asyncio.IncompleteReadError | OSError, too_slow: str) -> LineError | UntrustedError:
    """Say what happened to a connection, so that an operator knows where to look."""
    if is_refusal(error):
        return explain(error, "the peer")
    if isinstance(error, asyncio.IncompleteReadError):
        where = " in the middle of a message" if error.partial else ""
        return LineError(f"the connection was closed by the other side{where}")
    if isinstance(error, ConnectionResetError):
        return LineError("the connection was reset")
    if isinstance(error, TimeoutError):  # only the system's has an errno
        return LineError(too_slow if error.errno is None else "the other side no longer acknowledges what is sent")
    return LineError(f"the connection broke ({error.strerror or error})")


async def write_frame(writer: StreamWriter, data: bytes, *, within: float) -> None:
    """Send one frame; raise `LineError` if the peer does not take it in time."""
    try:
        async with asyncio.timeout(within):
            # In pieces: asyncio encrypts and buffers each write as a whole.
            for at in range(0, len(data), PIECE):
                writer.write(data if len(data) <= PIECE else memoryview(data)[at : at + PIECE])
                await writer.drain()
    except OSError as error:
        raise _lost(error, f"a message of {len(data)} bytes could not be sent within {within:g} s") from error


def is_refusal(error: BaseException) -> TypeGuard[ssl.SSLError]:
    """Tell whether TLS refused the peer, rather than lost the connection: then retrying does not help.

    With TLS 1.3 a server refuses a client's certificate only after the client's handshake is done.
    """
    gone = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    ended = "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"
    return isinstance(error, ssl.SSLError) and not isinstance(error, gone) and error.reason != ended


async def hang_up(writer: StreamWriter, last: bytes = b"") -> None:
    """Close a connection, whatever its state; before that, send a last frame if there is one."""
    with contextlib.suppress(LineError, UntrustedError):
        await write_frame(writer, last, within=HANDSHAKE)
    writer.close()
    try:
        async with asyncio.timeout(2):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        writer.transport.abort()


def unreached_because(error: OSError, within: float) -> str:
    """Say why a connection attempt of at most `within` seconds failed, and what to check."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing is listening there; check that the server is running and has finished starting"
    if isinstance(error, TimeoutError):
        return f"no answer within {within:g} s; check the address, and that no firewall blocks the connection"
    # asyncio's error has no text if the other side closes the connection during the handshake.
    return error.strerror or str(error) or "the other side closed the connection before it was set up"


# -- members' connections at the server -------------------------------------------------------------------------------

MAX_WAITING = 16
"""Frames that may wait to be sent to a member. It is never asked two questions at once: more means it does not read."""

SUSPICIOUS = 2  # connections replaced while still open, after which two processes may be using one member's certificate

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
        self.in_round: Counter[str] = Counter()  # how often since the last round ended
        self._replaced: Counter[str] = Counter()  # how often while its old connection was still open

    def admit(self, name: str) -> bool:
        """Tell whether a member may connect now; if so, count the connection."""
        now = time.monotonic()
        times = self._times.setdefault(name, deque(maxlen=self._most))
        if len(times) == self._most and now - times[0] < RETURNS_WITHIN:
            return False
        times.append(now)
        self.in_round[name] += 1
        return True

    def replace(self, name: str) -> None:
        """Count and log that a member connected while its old connection was still open."""
        self._replaced[name] += 1
        times = self._replaced[name]
        if times.bit_count() == 1:  # 1, 2, 4 … times: two processes would fill the log
            hint = "" if times <= SUSPICIOUS else "; check whether two processes use its certificate"
            so_far = "" if times == 1 else f" ({times} times so far)"
            logger.warning("%s connected again while its old connection was open%s%s", name, so_far, hint)
