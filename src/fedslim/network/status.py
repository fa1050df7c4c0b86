"""How a running server is: asked by a member over TLS, or on a local port by whoever watches the machine.

    text = await ask(context, host, port)           # what `fedslim status` shows
    async with watched(host, port, server.status):  # /health, /status and /metrics, for Prometheus

A member asks on a connection of its own, under another name of the application protocol (ALPN), so that it is not taken
for taking part. Nothing but what is in `NetworkServer.status` is told: who is here, how far the run is, what it costs.
`for_members` decides what members get of it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fedslim.errors import LineError, RunError
from fedslim.mdl.objective import percent_of_standard
from fedslim.network.connection import hang_up, unreached_because, write_frame
from fedslim.trust import explain

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable

    from fedslim.protocol.server import ServerSession

    Status = Callable[[], dict[str, Any]]

TAKING_PART, ASKING = "fedslim/1", "fedslim-status/1"
PREFIX_BYTES = 4
MAX_STATUS = 1 << 20
MAX_REQUEST = 4096
WITHIN = 5.0


def of_session(session: ServerSession) -> dict[str, Any]:
    """What any server may tell of a run, whatever carries it."""
    search = None if session.variant is None else session.variant.search
    known = session.variant is not None and session.variant.supports  # before that there is no table
    return {
        "variant": session.settings.variant,
        "waiting_for": list(session.waiting_for()),
        "rounds": session.rounds,
        "itemsets": 0 if search is None else search.itemsets,
        "L_percent": percent_of_standard(search.bits_now, search.bits_standard.total) if search and known else None,
        "over": session.over,
    }


def for_members(status: dict[str, Any]) -> dict[str, Any]:
    """What members may know of a status: L% is a function of sums that only the server has, so it is rounded."""
    percent = status["L_percent"]
    return status | {"L_percent": None if percent is None else round(percent)}


async def tell(writer: StreamWriter, status: dict[str, Any]) -> None:
    """Answer a member that asks."""
    data = json.dumps(for_members(status)).encode()
    await write_frame(writer, len(data).to_bytes(PREFIX_BYTES, "big") + data, within=WITHIN)


async def ask(context: ssl.SSLContext, host: str, port: int) -> dict[str, Any]:
    """Ask a running server how it is.

    Raises:
        RunError: There is none, or it does not answer.
        UntrustedError: It is not who it should be, or does not take our certificate.
    """
    context.set_alpn_protocols([ASKING])
    where = f"the server at {host}:{port}"
    try:
        async with asyncio.timeout(WITHIN):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                length = int.from_bytes(await reader.readexactly(PREFIX_BYTES), "big")
                if length > MAX_STATUS:
                    msg = f"{where} answers with {length} bytes, which is no status"
                    raise RunError(msg)
                status = json.loads(await reader.readexactly(length))
            finally:
                await hang_up(writer)
    except ssl.SSLError as error:
        raise explain(error, where) from error
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        why = unreached_because(error, WITHIN) if isinstance(error, OSError) else f"{error or type(error).__name__}"
        msg = f"{where} does not say how it is: {why}"
        raise RunError(msg) from error
    if not isinstance(status, dict):
        msg = f"{where} says something that is no status"
        raise RunError(msg)
    return status


@asynccontextmanager
async def serve_status(host: str, port: int | None, status: Status) -> AsyncIterator[int]:
    """Answer HTTP on a local port while this lasts; without a port, do nothing."""
    if port is None:
        yield 0
        return

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            async with asyncio.timeout(WITHIN):
                request = await reader.readuntil(b"\r\n")
            writer.write(_response(request, status))
            async with asyncio.timeout(WITHIN):
                await writer.drain()
        except (OSError, TimeoutError, LineError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            await hang_up(writer)

    server = await asyncio.start_server(answer, host, port, limit=MAX_REQUEST)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _response(request: bytes, status: Status) -> bytes:
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0]
    pages: dict[bytes, Callable[[], tuple[str, str]]] = {
        b"/health": lambda: ("text/plain", "ok\n"),
        b"/status": lambda: ("application/json", json.dumps(status()) + "\n"),
        b"/metrics": lambda: ("text/plain; version=0.0.4", prometheus(status())),
    }
    if method != b"GET" or path not in pages:
        body, kind, line = "there are /health, /status and /metrics\n", "text/plain", "404 Not Found"
    else:
        (kind, body), line = pages[path](), "200 OK"
    data = body.encode()
    head = f"HTTP/1.1 {line}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data


def prometheus(status: dict[str, Any]) -> str:
    """The figures of a status in the format that Prometheus reads."""
    figures = {
        "rounds": ("counter", "Rounds that were begun."),
        "itemsets": ("gauge", "Itemsets in the table now."),
        "L_percent": ("gauge", "Compression now, in percent of single items only."),
        "bytes_up": ("counter", "Bytes from members."),
        "bytes_down": ("counter", "Bytes to members."),
        "seconds": ("gauge", "Seconds since the server was started."),
        "members_here": ("gauge", "Members that are connected."),
        "members_awaited": ("gauge", "Members that everybody waits for."),
    }
    lines = []
    for name, (kind, text) in figures.items():
        if (value := status.get(name)) is not None:
            full = f"fedslim_{name.lower()}"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}", f"{full} {value}"]
    return "\n".join(lines) + "\n"
