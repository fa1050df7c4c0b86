"""A client on a network: it keeps a line to the server, moves frames between it and a session, and keeps the journal.

A line that breaks is made again, with ever longer pauses, for as long as the client is patient. What the server says is
written to the journal before it is answered, and what leaves the site is recorded before it is sent.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from fedslim.errors import FedslimError, LineError, ProtocolError, RunError
from fedslim.protocol import framing
from fedslim.protocol import messages as m
from fedslim.transport.recording import told_record
from fedslim.transport.serving import HANDSHAKE, Patience
from fedslim.transport.trust import explained
from fedslim.transport.wire import hang_up, is_refusal, keep_alive, read_frame, write_frame

if TYPE_CHECKING:
    import ssl
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from fedslim.protocol.client import ClientSession
    from fedslim.protocol.events import Received
    from fedslim.transport.journal import Journal

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


class NetworkClient:
    """Runs a client's session over TLS."""

    def __init__(  # noqa: PLR0913  # what a client is made of
        self,
        session: ClientSession,
        context: ssl.SSLContext,
        *,
        entropy: Callable[[int], bytes],
        patience: Patience | None = None,
        journal: Journal | None = None,
        leaving: Callable[[m.FromClient, framing.Frame], None] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.session = session
        self._context = context
        self._entropy = entropy
        self._patience = patience or Patience()
        self._journal = journal
        self._leaving = leaving or (lambda _message, _frame: None)
        self._tell = tell or (lambda _text: None)

    async def run(self, host: str, port: int) -> Received:
        """Take part until the run is over.

        Raises:
            RunError: The server stayed away, or asked for what this site does not give.
        """
        pause, since = FIRST_PAUSE, time.monotonic()
        while self.session.received is None:
            try:
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=self._context, ssl_handshake_timeout=HANDSHAKE, limit=1 << 16
                )
            except (OSError, TimeoutError) as error:
                if is_refusal(error):
                    # Waiting does not make a certificate better.
                    raise explained(error, f"the server at {host}:{port}") from error
                if time.monotonic() - since > self._patience.grace:
                    msg = f"the server at {host}:{port} cannot be reached: {error}"
                    raise RunError(msg) from error
                # Not all at the same time: the server may have to take many back.
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # it decides nothing
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            keep_alive(writer)
            try:
                if await self._converse(reader, writer):
                    pause, since = FIRST_PAUSE, time.monotonic()
            except LineError as error:
                self._tell(f"the line to the server is gone: {error}")
            finally:
                await hang_up(writer)
            if self.session.received is None:
                if time.monotonic() - since > self._patience.grace:
                    msg = f"the server at {host}:{port} closes the line again and again"
                    raise RunError(msg)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(2 * pause, LONGEST_PAUSE)
        return self.session.received

    async def _converse(self, reader: StreamReader, writer: StreamWriter) -> bool:
        """Talk until the line breaks or the run is over; whether the server said anything."""
        heard = False
        await self._send(writer, self.session.join(self._entropy(32)))
        while self.session.received is None:
            try:
                data = await read_frame(reader, within=self._patience.frame)
            except LineError:
                if heard:
                    return True
                raise
            heard = True
            try:
                message = framing.from_server(data[framing.PREFIX_BYTES :])
                if self._journal is not None and _counts(message, self.session.position):
                    self._journal.append(told_record(message))
                # Counting can take a while, and the line must be looked after meanwhile.
                reply = await asyncio.to_thread(self.session.receive, message)
            except FedslimError as error:
                # A member's own errors may name its data: only what is about the server's messages leaves the site.
                public = isinstance(error, ProtocolError)
                await self._send(writer, m.Abort(str(error)[:2000] if public else "it cannot go on; its log says why"))
                raise
            if reply is not None:
                await self._send(writer, reply)
        return True

    async def _send(self, writer: StreamWriter, message: m.FromClient) -> None:
        frame = framing.to_bytes(message)
        self._leaving(message, frame)
        await write_frame(writer, frame.data, within=self._patience.frame)


def _counts(message: m.FromServer, position: int) -> bool:
    """Whether the message changes what the session knows: questions that come again do not."""
    if isinstance(message, (m.Finish, m.Abort)):
        return False
    return isinstance(message, m.Roster) or message.round >= position
