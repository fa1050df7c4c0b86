"""Report the status of a running server: to members over TLS, and on a local HTTP port for monitoring.

A member asks on a separate connection with another ALPN protocol, so that the server does not take it for joining. The
report is `NetworkServer.status`: the connected members, the progress of the run, its costs. `for_members` reduces it to
what members may know.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fedslim.errors import RunError
from fedslim.mdl.objective import percent_of_standard
from fedslim.network.connection import hang_up, unreached_because
from fedslim.trust.tls import explain

if TYPE_CHECKING:
    from fedslim.protocol.server import ServerSession

Status = Callable[[], dict[str, Any]]

TAKING_PART, ASKING = "fedslim/1", "fedslim-status/1"
PREFIX_BYTES = 4
MAX_STATUS = 1 << 20
MAX_REQUEST = 4096
WITHIN = 5.0


def of_session(session: ServerSession) -> dict[str, Any]:
    """Return the part of a status that all servers share, over whichever transport."""
    search = None if session.variant is None else session.variant.search  # None in a preparation
    known = session.variant is not None and session.variant.supports  # before, there is no table
    return {
        "variant": session.settings.variant,
        "waiting_for": list(session.waiting_for()),
        "rounds": session.rounds,
        "itemsets": 0 if search is None else search.itemsets,
        "L_percent": percent_of_standard(search.bits_now, search.bits_standard.total) if search and known else None,
        "over": session.over,
    }


def for_members(status: dict[str, Any]) -> dict[str, Any]:
    """Return what members may know of a status.

    L% is rounded, because it depends on sums that only the server has; how fast members answer tells of their data.
    """
    known = {name: value for name, value in status.items() if name != "contacts"}
    percent = status["L_percent"]
    return known | {"L_percent": None if percent is None else round(percent)}


def to_frame(status: dict[str, Any]) -> bytes:
    """Return the frame for a member that asked for the status."""
    data = json.dumps(for_members(status)).encode()
    return len(data).to_bytes(PREFIX_BYTES, "big") + data


async def ask(context: ssl.SSLContext, host: str, port: int) -> dict[str, Any]:
    """Ask a running server for its status; raise `RunError` or `UntrustedError` if it does not tell it."""
    context.set_alpn_protocols([ASKING])
    where = f"the server at {host}:{port}"
    try:
        async with asyncio.timeout(WITHIN):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                length = int.from_bytes(await reader.readexactly(PREFIX_BYTES), "big")
                if length > MAX_STATUS:
                    raise RunError(f"{where} answered with {length} bytes, which is too long for a status")
                status = json.loads(await reader.readexactly(length))
            finally:
                await hang_up(writer)
    except ssl.SSLError as error:
        raise explain(error, where) from error
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        why = unreached_because(error, WITHIN) if isinstance(error, OSError) else f"{error or type(error).__name__}"
        raise RunError(f"{where} did not report its status: {why}") from error
    if not isinstance(status, dict):
        raise RunError(f"{where} answered with something other than a status")
    return status


@asynccontextmanager
async def serve_status(host: str, port: int | None, status: Status) -> AsyncIterator[int]:
    """Serve /health, /status and /metrics over HTTP inside the `with` block; without a port, do nothing."""
    if port is None:
        yield 0
        return

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            async with asyncio.timeout(WITHIN):
                writer.write(_response(await reader.readuntil(b"\r\n"), status))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
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
        body, kind, line = "not found; try /health, /status or /metrics\n", "text/plain", "404 Not Found"
    else:
        (kind, body), line = pages[path](), "200 OK"
    data = body.encode()
    head = f"HTTP/1.1 {line}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data


def prometheus(status: dict[str, Any]) -> str:
    """Return the figures of a status in Prometheus' text format."""
    figures = {
        "rounds": ("counter", "Rounds started."),
        "itemsets": ("gauge", "Itemsets in the code table."),
        "L_percent": ("gauge", "Description length in percent of that with single items only."),
        "bytes_up": ("counter", "Bytes received from members."),
        "bytes_down": ("counter", "Bytes sent to members."),
        "seconds": ("gauge", "Seconds that the server has run, over all restarts."),
        "members_here": ("gauge", "Connected members."),
        "members_awaited": ("gauge", "Members that the run is waiting for."),
    }
    lines = []
    for name, (kind, text) in figures.items():
        if (value := status.get(name)) is not None:
            full = f"fedslim_{name.lower()}"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}", f"{full} {value}"]
    return "\n".join(lines) + "\n"
