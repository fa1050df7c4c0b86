"""Serve a live page on the loopback address, for the people at this computer who know its secret.

The server runs in a thread of its own with an event loop, so that neither a busy run nor a slow viewer holds up the
other. It answers only requests that name its address as host, come from its own page or from the address bar, and know
the secret. A request has no body and is small, a connection serves one request, and there are few connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import threading
import time
from asyncio import StreamReader, StreamWriter
from typing import Self

from fedslim import __version__
from fedslim.errors import ParameterError
from fedslim.format import as_html
from fedslim.report.feed import Feed
from fedslim.report.page import assembled

HOST = "127.0.0.1"
MAX_CONNECTIONS, MAX_HEAD = 32, 8192
BACKLOG = 1024
"""Connections that wait to be accepted, so that a viewer gets through a flood of them, which are closed at once."""

AT_ONCE = 16
"""Connections to accept before any is closed: asyncio would accept all that wait, and each takes a file descriptor."""

WITHIN = 5.0  # seconds to send a request, and to take a response or an event
PAUSE, BEAT = 0.4, 15.0  # seconds between two events at least, and at most
FAREWELL = 5.0  # seconds that viewers have to fetch the report
SCRIPTS = ("base.js", "kinds.js", "chart.js", "live.js")
HEADERS = (
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Resource-Policy: same-origin",
    "Cross-Origin-Opener-Policy: same-origin",
    "Connection: close",
)


class LivePage:
    """Serves the page of one feed until the `with` block ends, on a port of this computer; 0 is any free one."""

    def __init__(self, feed: Feed, port: int = 0) -> None:
        try:
            self._socket = socket.create_server((HOST, port))
        except OSError as error:
            msg = f"--live {port}: the port cannot be opened ({error.strerror}); name another one, or none"
            raise ParameterError(msg) from error
        self._feed = feed
        self._secret = secrets.token_urlsafe(24)
        self._host = f"{HOST}:{self._socket.getsockname()[1]}"
        self.address = f"http://{self._host}/{self._secret}/"
        view = feed.view
        parts = {"title": as_html(view.title), "subtitle": as_html(view.subtitle), "version": as_html(__version__)}
        page, self._policy = assembled("live.html", SCRIPTS, parts, more="; connect-src 'self'")
        self._page = page.encode()
        self._open: set[StreamWriter] = set()
        self._viewers = 0  # open streams of events, and pages that were told to fetch the report
        self.was_opened = False  # by anybody, so far
        self._closing = False
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fedslim live page", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: object) -> None:
        if not self._feed.over:
            self._feed.end(
                failure="" if error is None else f"The run failed: {error}" if str(error) else "Interrupted."
            )
        until = time.monotonic() + FAREWELL
        while self._viewers and time.monotonic() < until:
            time.sleep(PAUSE / 10)
        self._listening.wait(WITHIN)  # a run may end before its page has begun
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WITHIN)

    # -- in the thread ------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        loop = self._loop
        server = loop.run_until_complete(self._listen())
        self._listening.set()
        loop.run_forever()
        server.close()
        self._closing = True  # tasks end by themselves: asyncio would print a traceback for each that is cancelled
        for writer in self._open:
            writer.transport.abort()
        if tasks := asyncio.all_tasks(loop):
            loop.run_until_complete(asyncio.wait(tasks))
        loop.close()

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._answer, sock=self._socket, limit=MAX_HEAD, backlog=AT_ONCE)
        self._socket.listen(BACKLOG)
        return server

    async def _answer(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._closing or len(self._open) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            async with asyncio.timeout(WITHIN):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._respond(head, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass
        except asyncio.LimitOverrunError:
            with contextlib.suppress(OSError, TimeoutError):
                await _send(writer, _response("431 Request Header Fields Too Large"))
        finally:
            self._open.discard(writer)
            writer.close()

    async def _respond(self, head: bytes, writer: StreamWriter) -> None:
        method, path, fields = _parsed(head)
        refusal = self._refusal(method, path, fields)
        if refusal:
            await _send(writer, _response(refusal))
        elif path.endswith("/events"):
            await self._stream(writer)
        elif path.endswith("/stop"):
            await _send(writer, _response("204 No Content" if self._feed.ask_stop() else "409 Conflict"))
        elif self._feed.report is not None:
            # The report has a policy of its own in the page.
            await _send(writer, _response("200 OK", self._feed.report, "frame-ancestors 'none'"))
            self._viewers -= self._viewers > 0
        else:
            await _send(writer, _response("200 OK", self._page, f"{self._policy}; frame-ancestors 'none'"))

    def _refusal(self, method: str, path: str, fields: dict[str, str]) -> str:
        """Return the status with which to refuse a request, or nothing."""
        own = f"http://{self._host}"
        if fields.get("host") != self._host:
            return "421 Misdirected Request"
        # A browser sends one of these with every request of another site's page.
        foreign = fields.get("sec-fetch-site", "none") not in ("same-origin", "none")
        if foreign or fields.get("origin", "" if method == "POST" else own) != own:
            return "403 Forbidden"
        _, secret, name = (*path.split("/", 2), "", "")[:3]
        if not hmac.compare_digest(secret.encode(), self._secret.encode()) or name not in ("", "events", "stop"):
            return "404 Not Found"
        if method != ("POST" if name == "stop" else "GET"):
            return "405 Method Not Allowed"
        if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
            return "413 Content Too Large"
        return ""

    async def _stream(self, writer: StreamWriter) -> None:
        """Send the snapshot whenever it has changed, but not too often, until the run has ended."""
        self._viewers += 1
        self.was_opened = True
        told = False
        try:
            await _send(writer, _head("200 OK", "text/event-stream") + b"retry: 1000\n\n")
            shown, since = -1, time.monotonic()
            while not told and not self._closing:
                if self._feed.version != shown:
                    shown, data = self._feed.snapshot()
                    told, since = self._feed.over, time.monotonic()
                    await _send(writer, b"data: " + data + b"\n\n")
                elif time.monotonic() - since > BEAT:  # finds out whether there still is a viewer
                    since = time.monotonic()
                    await _send(writer, b":\n\n")
                await asyncio.sleep(0 if told else PAUSE)
        finally:
            if not told or self._feed.report is None:  # otherwise it is one less when the report is fetched
                self._viewers -= 1


def _parsed(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Return the method, path and fields of a request; empty ones if it is malformed, which are then refused."""
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name.lower() in fields:
            return "", "", {}
        fields[name.lower()] = value.strip()
    return (words[0], words[1], fields) if len(words) == 3 else ("", "", {})  # noqa: PLR2004  # method, path, version


def _head(status: str, kind: str, *more: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Type: {kind}; charset=utf-8", *HEADERS, *more, "", ""]).encode()


def _response(status: str, body: bytes | None = None, policy: str = "default-src 'none'") -> bytes:
    kind, body = ("text/plain", b"") if body is None else ("text/html", body)
    return _head(status, kind, f"Content-Length: {len(body)}", f"Content-Security-Policy: {policy}") + body


async def _send(writer: StreamWriter, data: bytes) -> None:
    async with asyncio.timeout(WITHIN):
        writer.write(data)
        await writer.drain()
