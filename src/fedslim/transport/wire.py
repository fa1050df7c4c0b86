"""Frames on an asyncio stream, each within a size and a time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, TypeGuard

from fedslim.errors import FrameError, LineError
from fedslim.protocol import framing
from fedslim.transport.trust import explained

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

KEEPALIVE_TRIES = 3
"""How many signs of life may fail before a line counts as broken."""

PIECE = 1 << 16


async def read_frame(reader: StreamReader, *, within: float, most: Callable[[], int] | None = None) -> bytes:
    """One frame, the prefix included. It may be long in coming; once it has begun it must end `within` seconds.

    `most` says how long it may be at the moment when it begins.

    Raises:
        LineError: The line was closed, or the frame did not end in time.
        FrameError: It says that it is larger than allowed; nothing of it was read.
    """
    try:
        first = await reader.readexactly(1)
        async with asyncio.timeout(within):
            prefix = first + await reader.readexactly(framing.PREFIX_BYTES - 1)
            length = framing.length_of(prefix)
            if most is not None and length > (allowed := most()):
                msg = f"a frame says it has {length} bytes; at most {allowed} are allowed here"
                raise FrameError(msg)
            return prefix + await reader.readexactly(length)
    except TimeoutError as error:
        msg = f"a frame did not end within {within:g} s"
        raise LineError(msg) from error
    except (asyncio.IncompleteReadError, OSError) as error:
        if is_refusal(error):
            raise explained(error, "the peer") from error
        msg = "the line was closed"
        raise LineError(msg) from error


async def write_frame(writer: StreamWriter, data: bytes, *, within: float) -> None:
    """Send one frame; a peer that does not take it in time is given up."""
    try:
        async with asyncio.timeout(within):
            # In pieces: asyncio encrypts at once, and keeps, whatever it is given in one.
            for at in range(0, len(data), PIECE):
                writer.write(data if len(data) <= PIECE else memoryview(data)[at : at + PIECE])
                await writer.drain()
    except (TimeoutError, OSError) as error:
        if is_refusal(error):
            raise explained(error, "the peer") from error
        msg = f"a frame of {len(data)} bytes could not be sent within {within:g} s"
        raise LineError(msg) from error


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


def keep_alive(writer: StreamWriter, every: float) -> None:
    """Notice a machine that is gone without a word, by a sign of life so often; send small frames at once."""
    line: socket.socket | None = writer.get_extra_info("socket")
    if line is None:
        return
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", max(1, round(every))),
        ("TCP_KEEPINTVL", max(1, round(every / 2))),
        ("TCP_KEEPCNT", KEEPALIVE_TRIES),
    ):
        if (number := getattr(socket, option, None)) is not None:  # not everywhere
            line.setsockopt(socket.IPPROTO_TCP, number, value)


def unreached_because(error: OSError) -> str:
    """Why nobody was reached, in words that say what to look at."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there; is the server running, and past its preparations?"
    if isinstance(error, TimeoutError):
        return "no answer; is there a firewall between, or another machine at this address?"
    return error.strerror or str(error)
