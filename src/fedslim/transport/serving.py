"""The server on a network: it moves frames between members' lines and a session, and keeps the session's journal.

It decides nothing about the run: who may say what is the session's business, who somebody is that of the certificates.
Everything is bounded: the lines that are not known yet, the size and the time of a frame, the wait for a member.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedslim.errors import FedslimError, LineError, ProtocolError, RunError, UntrustedError
from fedslim.protocol import framing
from fedslim.protocol import messages as m
from fedslim.protocol.events import Began, Ended, Failed, Resumed, RoundEnded, Send, Waiting
from fedslim.transport.memory import FrameSent, RoundPassed
from fedslim.transport.recording import round_record
from fedslim.transport.trust import explained
from fedslim.transport.wire import hang_up, keep_alive, read_frame, write_frame

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from fedslim.protocol.events import ServerOutput
    from fedslim.protocol.outcome import Outcome
    from fedslim.protocol.server import ServerSession
    from fedslim.transport.journal import Journal
    from fedslim.transport.memory import Trace

HANDSHAKE = 10.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the server waits, in seconds."""

    answer: float = 3600.0  # for an answer of a member that is there
    grace: float = 600.0  # for a member that is away
    frame: float = 60.0  # for a frame that has begun to come, or to go
    farewell: float = 5.0  # after the end, for members that were away to be told


@dataclass(slots=True)
class Line:
    """A member's line, with what is still to be sent on it."""

    name: str
    writer: StreamWriter
    outbox: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)


def _handshake(tell: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Handshakes that tell both sides why they fail: asyncio closes the line before OpenSSL's alert has left."""

    class Handshake(ssl.SSLObject):
        refused: ssl.SSLError | None = None

        def do_handshake(self) -> None:
            if self.refused is not None:
                raise self.refused
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                self.refused = error
                tell(str(explained(error, "somebody")))
                # As if there was more to come: what waits to be sent is sent then, which is the alert.
                raise ssl.SSLWantReadError from error

    return Handshake


class NetworkServer:
    """Runs a session over TLS."""

    def __init__(  # noqa: PLR0913  # what a server is made of
        self,
        session: ServerSession,
        context: ssl.SSLContext,
        name_of: Callable[[Any], str],
        *,
        patience: Patience | None = None,
        journal: Journal | None = None,
        begin_journal: Callable[[int], Journal] | None = None,
        trace: Callable[[Trace], None] | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.session = session
        context.sslobject_class = _handshake(lambda why: self._tell(f"refused a line: {why}"))
        self._context = context
        self._name_of = name_of
        self._patience = patience or Patience()
        self._journal = journal
        self._begin_journal = begin_journal
        self._trace = trace
        self._tell = tell or (lambda _text: None)
        self._lines: dict[str, Line] = {}
        self._began = time.monotonic()
        self._since = time.monotonic()  # when the session last went on
        self._over: asyncio.Future[Outcome] | None = None
        self._stopping = self._hurry = False  # whether to end, and to wait for nobody any more
        self._told: set[str] = set()  # whom the end was sent to
        self.port = 0

    async def run(self, host: str, port: int) -> Outcome:
        """Serve until the run is over.

        Raises:
            RunError: A member could not go on, or stayed away; what had been reached is in `session.best()`.
        """
        self._over = asyncio.get_running_loop().create_future()
        try:
            server = await asyncio.start_server(
                self._accept, host, port, ssl=self._context, ssl_handshake_timeout=HANDSHAKE, limit=1 << 16
            )
        except OSError as error:
            msg = f"nobody can listen at {host}:{port}: {error.strerror or error}; is there another server?"
            raise RunError(msg) from error
        self.port = server.sockets[0].getsockname()[1]
        watch = asyncio.create_task(self._watch())
        if self.session.outcome is not None:  # it was killed when all was said but the end
            self._over.set_result(self.session.outcome)
        try:
            async with server:
                try:
                    return await self._over
                finally:
                    await self._say_farewell()
                    # Before the server is closed, which waits for its lines.
                    for line in list(self._lines.values()):
                        await hang_up(line.writer)
        finally:
            watch.cancel()

    # -- lines --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the run before the next round, with the best so far; at once if there is none to come."""
        again, self._stopping = self._stopping, True
        self._hurry = again or self.session.over
        self.session.stop()
        missing = [name for name in self.session.members if name not in self._lines]
        if missing:
            self._act(self.session.lose(missing[0], f"stopped while {', '.join(map(repr, missing))} was not here"))
        elif again:
            self._break_off(RunError("stopped at once"))

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            name = self._name_of(writer.get_extra_info("ssl_object"))
        except FedslimError as error:
            self._tell(f"refused a line: {error}")
            await hang_up(writer)
            return
        if name not in self.session.members:
            self._tell(f"refused {name!r}: it has a certificate, and is not a member of this federation")
            with contextlib.suppress(LineError, UntrustedError):
                refusal = framing.to_bytes(m.Abort(f"{name!r} is not a member of this federation"))
                await write_frame(writer, refusal.data, within=HANDSHAKE)
            await hang_up(writer)
            return
        keep_alive(writer)
        line = Line(name, writer)
        old = self._lines.get(name)
        if old is not None:
            # It has come back on a new line before the end of the old one was noticed.
            self._drop(old, "it has a new line")
        self._lines[name] = line
        self._tell(f"{name} is here")
        sender = asyncio.create_task(self._send_all(line))
        try:
            await self._listen(line, reader)
        finally:
            sender.cancel()
            self._drop(line, "its line is closed")
            await hang_up(writer)

    async def _listen(self, line: Line, reader: StreamReader) -> None:
        while self._lines.get(line.name) is line:
            try:
                data = await read_frame(reader, within=self._patience.frame)
                message = framing.from_client(data[framing.PREFIX_BYTES :])
                self._account(type(message).__name__, "up", line.name, data)
                self._act(self.session.receive(line.name, message, time.monotonic()))
            except (LineError, UntrustedError):
                return
            except ProtocolError as error:
                # Whoever says what it may not say is not listened to any longer; it may come back and behave.
                self._tell(f"{line.name}: {error}")
                await self._refuse(line, str(error))
                return
            except FedslimError as error:
                # The journal cannot be written, or the like: what was kept so far can be resumed.
                self._break_off(error)
                return

    async def _refuse(self, line: Line, reason: str) -> None:
        """Say why, so that whoever runs the member knows; a member that misbehaves may not even listen."""
        with contextlib.suppress(LineError, UntrustedError):
            await write_frame(line.writer, framing.to_bytes(m.Abort(reason[:2000])).data, within=HANDSHAKE)

    def _break_off(self, error: FedslimError) -> None:
        assert self._over is not None  # noqa: S101
        if not self._over.done():
            self._over.set_exception(error)

    async def _send_all(self, line: Line) -> None:
        with contextlib.suppress(LineError, UntrustedError, asyncio.CancelledError):
            while True:
                await write_frame(line.writer, await line.outbox.get(), within=self._patience.frame)
        line.writer.transport.abort()

    def _drop(self, line: Line, why: str) -> None:
        if self._lines.get(line.name) is line:
            del self._lines[line.name]
            if not self.session.over:
                self._tell(f"{line.name} is away: {why}")
            self._act(self.session.disconnect(line.name))

    # -- what the session says ----------------------------------------------------------------------------------

    def _act(self, outputs: list[ServerOutput]) -> None:
        for output in outputs:
            match output:
                case RoundEnded():
                    self._keep(output)
                case Send(to, message):
                    self._send(to, message)
                case Began(_, items):
                    self._tell("everybody is here")
                    if self._begin_journal is not None:
                        self._journal = self._begin_journal(items)
                case Resumed(number):
                    self._tell(f"everybody is back; round {number} is asked again")
                case Waiting():
                    self._since = time.monotonic()
                case Ended() | Failed():
                    self._end(output)

    def _keep(self, ended: RoundEnded) -> None:
        """Write a round down before anything follows from it."""
        if self._journal is not None:
            self._journal.append(round_record(ended.number, time.monotonic() - self._began, ended.replies))
        if self._trace is not None:
            self._trace(RoundPassed(ended.number, ended.kind))

    def _send(self, to: tuple[str, ...], message: m.FromServer) -> None:
        self._since = time.monotonic()
        frame = framing.to_bytes(message)
        for name in to:
            if (line := self._lines.get(name)) is not None:
                if isinstance(message, (m.Finish, m.Abort)):
                    self._told.add(name)
                line.outbox.put_nowait(frame.data)
                self._account(type(message).__name__, "down", name, frame.data, frame.plain)

    def _end(self, output: Ended | Failed) -> None:
        assert self._over is not None  # noqa: S101
        if isinstance(output, Failed):
            self._break_off(RunError(output.reason))
        elif not self._over.done():
            self._over.set_result(output.outcome)

    def _account(self, kind: str, direction: str, name: str, data: bytes, plain: int | None = None) -> None:
        if self._trace is not None:
            self._trace(FrameSent(kind, direction, name, len(data), len(data) if plain is None else plain, data))  # type: ignore[arg-type]

    def close_journal(self) -> None:
        """Force what was kept to the disk."""
        if self._journal is not None:
            self._journal.close()

    # -- time ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """End the run if a member stays away, or is there and does not answer."""
        while True:
            await asyncio.sleep(min(1.0, max(0.05, self._patience.grace / 4)))
            waiting = self.session.waiting_for()
            passed = time.monotonic() - self._since
            away = [name for name in waiting if name not in self._lines]
            if self.session.rounds and away and passed > self._patience.grace:
                self._act(self.session.lose(away[0], f"member {away[0]!r} stayed away for {passed:.0f} s"))
            elif self.session.rounds and waiting and not away and passed > self._patience.answer:
                silent = waiting[0]
                self._act(self.session.lose(silent, f"member {silent!r} has not answered for {passed:.0f} s"))

    async def _say_farewell(self) -> None:
        """See that everybody hears the end: those that are there at once, those that are away if they come soon."""
        deadline = time.monotonic() + self._patience.farewell
        # Those who are away wait for a result; that there is none they find out themselves.
        expected = set(self.session.members) if self.session.outcome is not None else set()
        while time.monotonic() < deadline and not self._hurry:
            if not self._lines and expected <= self._told:
                return
            await asyncio.sleep(0.02)
