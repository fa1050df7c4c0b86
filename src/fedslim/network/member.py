"""A member on a network: it stays connected to the server, passes frames to and from a session, and writes a journal.

A broken connection is made again, with growing pauses, until the grace is over. The member writes each message of the
server to its journal before it answers, and each message of its own to the audit log before it sends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from fedslim.errors import FedslimError, LineError, RunError, WriteError
from fedslim.network.connection import Connection, Patience, connect, is_refusal, unreached_because
from fedslim.network.journal import Journal, encode_record
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.member import MemberSession, farewell
from fedslim.trust.tls import explain

logger = logging.getLogger(__name__)

FIRST_PAUSE, MAX_PAUSE = 0.1, 5.0

QUICK = 0.005
"""Seconds. If the last answer took less, the next one is computed without a thread, which would cost more."""


@dataclass(eq=False)
class NetworkMember:
    """Runs a member's session over TLS."""

    session: MemberSession
    context: ssl.SSLContext
    _: KW_ONLY
    entropy: Callable[[int], bytes]
    patience: Patience = field(default_factory=Patience)
    journal: Journal | None = None
    leaving: Callable[[m.FromMember, framing.Frame], None] = lambda _message, _frame: None
    refusing: Callable[[], None] | None = None
    connected: bool = field(default=False, init=False)
    refused: bool = field(default=False, init=False)
    """Whether the server's first message was an abort: this member is not in the server's run."""
    _took: float = field(default=QUICK, init=False)  # seconds that the last question took
    _heard: bool = field(default=False, init=False)  # whether the server has sent anything on this connection

    async def run(self, host: str, port: int) -> Received:
        """Take part until the run is over; raise `RunError` if the server cannot be reached."""
        pause, since = FIRST_PAUSE, time.monotonic()
        reached = True  # until the log says otherwise
        while self.session.received is None:
            try:
                async with asyncio.timeout(self.patience.connect):
                    reader, writer = await connect(host, port, self.context)
            except (OSError, TimeoutError) as error:
                if is_refusal(error):
                    # A certificate that was refused will be refused again.
                    raise explain(error, f"the server at {host}:{port}") from error
                if time.monotonic() - since > self.patience.grace:
                    why = unreached_because(error, self.patience.connect)
                    raise RunError(f"the server at {host}:{port} cannot be reached: {why}") from error
                if reached:
                    unreached = "the server at %s:%s cannot be reached; retrying for %g s"
                    logger.warning(unreached, host, port, self.patience.grace)
                    reached = False
            else:
                reached = True
                logger.info("connected to the server at %s:%s", host, port)
                line = Connection(reader, writer, frame=self.patience.frame, beat=self.patience.keepalive)
                if (received := await self._stay(line)) is not None:
                    return received
                if self._heard:
                    pause, since = FIRST_PAUSE, time.monotonic()
                if time.monotonic() - since > self.patience.grace:
                    raise RunError(
                        f"the server at {host}:{port} keeps closing the connection; it may not accept this member's "
                        "certificate: ask its operator whether the certificate was revoked or has expired"
                    )
            # Not all at the same time: many members may have to reconnect.
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # nothing secret
            pause = min(2 * pause, MAX_PAUSE)
        return self.session.received

    async def _stay(self, connection: Connection) -> Received | None:
        """Take part as long as the connection lasts; return how the run ended, if it did."""
        self.connected, self._heard = True, False
        try:
            await self._converse(connection)
        except LineError as error:
            logger.warning("disconnected from the server: %s", error)
        finally:
            self.connected = False
            await connection.close()
        return self.session.received

    async def _converse(self, connection: Connection) -> None:
        """Answer the server until the connection breaks or the run is over."""
        await self._send(connection, self.session.join(self.entropy(32)))
        while self.session.received is None:
            data = await connection.receive()
            try:
                message = framing.from_server(data[framing.PREFIX_BYTES :])
                self.refused = isinstance(message, m.Abort) and not self._heard
                self._heard = True
                if self.session.is_too_early(message):
                    logger.info("the server is not ready for the search yet")
                    return  # the caller connects again
                kept = _is_kept(message, self.session.position)
                reply = await self._answer(message)
                # A refused message is not kept, because a replay would accept it. Nothing has been sent yet, so a
                # process that is killed here continues from before the message.
                if kept and self.journal is not None:
                    self.journal.append(encode_record(message))
                    if self.session.is_closing(message):
                        self.journal.sync()  # the server may be gone when the power comes back
            except WriteError:
                raise  # the disk is full: end as if killed, to continue once there is room
            except FedslimError as error:
                if self.refusing is not None:  # first: the refusal may be all that the server wants to learn
                    self.refusing()
                await self._send(connection, farewell(error))
                raise
            if reply is not None:
                await self._send(connection, reply)
            elif isinstance(message, m.Finish):
                with contextlib.suppress(LineError):  # this member has the result, whether the server knows or not
                    await self._send(connection, m.Heard())

    async def _answer(self, message: m.FromServer) -> m.FromMember | None:
        """Return the reply. Counting can take long, and the connection needs its keepalives meanwhile."""
        began = time.monotonic()
        new_roster = isinstance(message, (m.Roster, m.RosterUpdate))  # may go back many rounds
        if self._took < QUICK and not new_roster:
            reply = self.session.receive(message)
        else:
            reply = await asyncio.to_thread(self.session.receive, message)
        self._took = time.monotonic() - began
        return reply

    async def _send(self, connection: Connection, message: m.FromMember) -> None:
        frame = framing.to_bytes(message)
        self.leaving(message, frame)
        await connection.send(frame.data)


def _is_kept(message: m.FromServer, position: int) -> bool:
    """Tell whether a message goes into the journal: all but repeated questions and aborts."""
    if isinstance(message, m.Abort):
        return False
    return isinstance(message, (m.Roster, m.RosterUpdate, m.Confirmed, m.Finish)) or message.round >= position
