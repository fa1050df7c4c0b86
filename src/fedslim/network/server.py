"""The server on a network: it moves frames between members' lines and a session, and keeps the session's journal.

It decides nothing about the run: who may say what is the session's business, who somebody is that of the certificates.
Everything is bounded: the lines that are not known yet, the size and the time of a frame, the wait for a member.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

from fedslim.errors import FedslimError, LineError, ProtocolError, RunError, UntrustedError
from fedslim.network import status
from fedslim.network.connection import Connection, hang_up, write_frame
from fedslim.network.in_process import FrameSent, RoundPassed
from fedslim.network.journal_records import back_record, epoch_record, figures_of, heard_record, round_record
from fedslim.network.listener import MAX_STRANGERS, Door
from fedslim.network.member_connection import MAX_RETURNS, MemberConnection, Returns
from fedslim.network.refused import RefusedConnections
from fedslim.network.timeouts import HANDSHAKE, Patience
from fedslim.network.traffic import Communication
from fedslim.protocol import framing
from fedslim.protocol import messages as m
from fedslim.protocol.events import Began, Ended, Failed, NewEpoch, Resumed, RoundEnded, Send, Waiting, WentBack
from fedslim.protocol.state import MemberState

if TYPE_CHECKING:
    import ssl
    from asyncio import StreamWriter
    from collections.abc import Callable, Iterable

    from fedslim.network.connection import Reader
    from fedslim.network.in_process import Trace
    from fedslim.network.journal import Journal
    from fedslim.network.traffic import Direction
    from fedslim.protocol.events import ServerOutput
    from fedslim.protocol.outcome import Outcome
    from fedslim.protocol.server import ServerSession
    from fedslim.trust import RevocationWatch

logger = logging.getLogger(__name__)

PARTING = 30.0
"""Seconds at most for members to take leave of a run that has no result; one that has is waited with for longer."""

SAY_AFTER = 2.0
"""Seconds after which it is said for whom the end waits."""


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
        strangers: int = MAX_STRANGERS,
        returns: int = MAX_RETURNS,
        communication: Communication | None = None,
        seconds: float = 0.0,
        heard: Iterable[str] = (),
        listed: RevocationWatch | None = None,
    ) -> None:
        self.session = session
        self._context = context
        self._name_of = name_of
        self._patience = patience or Patience()
        self._journal = journal
        self._begin_journal = begin_journal
        self._trace = trace
        self._refusals = RefusedConnections()
        self._lines: dict[str, MemberConnection] = {}
        self.communication = communication or Communication()
        self._began = time.monotonic() - seconds  # with those of earlier lives
        self._since = time.monotonic()  # when the session last went on
        self._round_since: float | None = None  # when the last round ended, or there was something to begin with
        self._returns = Returns(returns)
        self._max_strangers = strangers
        self._listed, self._list = listed, 0 if listed is None else listed.trust.number
        self._door: Door | None = None
        self._over: asyncio.Future[Outcome] | None = None
        self._stopping = self._hurry = False  # whether to end, and to wait for nobody any more
        self._broken = False  # whether the run was broken off: nothing is said or heard any more
        self._told: set[str] = set()  # whom the end was sent to
        self._heard = set(heard)  # who has said that it was told the result
        self.port = 0
        self.listening = asyncio.Event()

    async def run(self, host: str, port: int) -> Outcome:
        """Serve until the run is over.

        Raises:
            RunError: A member could not go on, or stayed away; what had been reached is in `session.best()`.
        """
        self._over = asyncio.get_running_loop().create_future()
        if self.session.gathered:
            self._round_since = time.monotonic()
        self._door = Door(
            host,
            port,
            self._context,
            self._accept,
            refused=self._refusals.add,
            handshake=self._patience.handshake,
            strangers=self._max_strangers,
            before=None if self._listed is None else self._listed.look,
        )
        watch = asyncio.create_task(self._watch())
        if self.session.outcome is not None:  # it was killed when all was said but the end
            self._over.set_result(self.session.outcome)
        try:
            async with self._door:
                self.port = self._door.port
                self.listening.set()
                members = ", ".join(self.session.members)
                logger.info("listening on %s:%s; waiting for %s", host, self.port, members)
                await asyncio.wait([self._over])  # whoever is cancelled here says no farewell: it can be resumed
                if not self._broken:
                    await self._say_farewell()
                return self._over.result()
        finally:
            watch.cancel()
            self._refusals.finish()

    def status(self) -> dict[str, Any]:
        """How the run is, for the operator; members get what `status.for_members` leaves of it."""
        session = self.session
        return {
            **status.of_session(session),
            "members": {
                name: {"here": name in self._lines, "state": session.state_of(name).value} for name in session.members
            },
            "members_here": len(self._lines),
            "members_awaited": len(session.waiting_for()),
            "bytes_up": self.communication.bytes_up,
            "bytes_down": self.communication.bytes_down,
            "seconds": time.monotonic() - self._began,
        }

    def untold(self) -> tuple[str, ...]:
        """Who has not said that it heard the result, or was not even told that there is none."""
        knows = self._told if self.session.outcome is None else self._heard
        return tuple(name for name in self.session.members if name not in knows)

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

    async def _accept(self, reader: Reader, writer: StreamWriter) -> None:
        try:
            name = self._name_of(writer.get_extra_info("ssl_object"))
        except FedslimError as error:
            self._refusals.add(str(error))
            await hang_up(writer)
            return
        if name not in self.session.members:
            self._refusals.add(f"{name!r} has a certificate, and is not a member of this federation")
            with contextlib.suppress(LineError, UntrustedError):
                refusal = framing.to_bytes(m.Abort(f"{name!r} is not a member of this federation"))
                await write_frame(writer, refusal.data, within=HANDSHAKE)
            await hang_up(writer)
            return
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() == status.ASKING:
            with contextlib.suppress(LineError):
                await status.tell(writer, self.status())
            await hang_up(writer)
            return
        if not self._returns.admit(name):
            self._refusals.add(f"{name!r} comes back too often")
            await hang_up(writer)
            return
        assert self._door is not None  # noqa: S101
        self._door.introduce()
        patience = self._patience
        line = MemberConnection(name, Connection(reader, writer, frame=patience.frame, beat=patience.keepalive))
        self._replace(self._lines.get(name), line)
        sender = asyncio.create_task(line.send_all())
        why = "its connection ended"
        try:
            why = await self._listen(line)
        finally:
            sender.cancel()
            self._drop(line, why)
            await line.connection.close()

    def _replace(self, old: MemberConnection | None, new: MemberConnection) -> None:
        """A member is here; perhaps before the end of its old connection was noticed."""
        name = new.name
        if old is None:
            self._lines[name] = new
            logger.info("%s is here", name)
            return
        self._returns.replace(name)
        self._lines[name] = new
        self._act(self.session.disconnect(name))
        old.connection.abort()

    async def _listen(self, line: MemberConnection) -> str:
        """Take in what a member says, for as long as this is its line; why it is not any more."""

        def most() -> int:
            return framing.packed_at_most(self.session.max_bytes(line.name))

        while self._lines.get(line.name) is line:
            try:
                data = await line.connection.receive(most)
                if self._lines.get(line.name) is not line:
                    break  # it has a new line, and speaks there
                message = framing.from_member(
                    memoryview(data)[framing.PREFIX_BYTES :], self.session.max_bytes(line.name)
                )
                self._account(type(message).__name__, "up", line.name, data)
                self._act(self.session.receive(line.name, message, time.monotonic()))
                if isinstance(message, m.Heard):
                    self._note(line.name)
            except (LineError, UntrustedError) as error:
                return str(error)
            except ProtocolError as error:
                # Whoever says what it may not say is not listened to any longer; it may come back and behave.
                logger.warning("%s: %s", line.name, error)
                await line.refuse(str(error))
                return "it said what it may not say"
            except FedslimError as error:
                # The journal cannot be written, or the like: what was kept so far can be resumed.
                self._break_off(error)
                return "the server stops"
            except Exception as error:
                # Nobody can say what the session is worth now: better an end than a run that hangs.
                self._break_off(RunError(f"what member {line.name!r} sent could not be dealt with: {error!r}"))
                raise
        return "it has another connection"

    def _break_off(self, error: FedslimError) -> None:
        """End here, as if killed. Who comes back meets a server that resumes, never one whose journal stands still."""
        assert self._over is not None  # noqa: S101
        if not self._over.done():
            self._broken = True
            self._over.set_exception(error)

    def _drop(self, line: MemberConnection, why: str) -> None:
        if self._lines.get(line.name) is line:
            del self._lines[line.name]
            if not self.session.over:
                logger.warning("%s is away: %s", line.name, why)
            self._act(self.session.disconnect(line.name))

    # -- what the session says ----------------------------------------------------------------------------------

    def _act(self, outputs: list[ServerOutput]) -> None:
        if self._broken:
            return
        for output in outputs:
            match output:
                case NewEpoch() | RoundEnded() | WentBack():
                    self._keep(output)
                case Send(to, message):
                    self._send(to, message)
                case Began(_, items):
                    logger.info("everybody is here")
                    if self._begin_journal is not None:
                        self._journal = self._begin_journal(items)
                        self._keep(NewEpoch(self.session.gathering.epoch))
                case Resumed(number):
                    logger.info("everybody is back; round %s is asked again", number)
                case Waiting():
                    self._since = time.monotonic()
                case Ended() | Failed():
                    self._end(output)

    def _note(self, name: str) -> None:
        """A member has the result: it is not waited for, not even by a server that was killed meanwhile."""
        if self.session.outcome is not None and name not in self._heard:
            self._heard.add(name)
            if self._journal is not None:
                self._journal.append(heard_record(name))

    def _keep(self, ended: NewEpoch | RoundEnded | WentBack) -> None:
        """Write a round, that a new epoch begins or that all go back down, before anything follows from it."""
        if isinstance(ended, WentBack):
            logger.warning("%s has lost its last records: everybody goes back to round %s", ended.member, ended.number)
        if not isinstance(ended, RoundEnded):
            if self._journal is not None:
                went_back = isinstance(ended, WentBack)
                number = ended.number
                record = back_record(number) if went_back else epoch_record(number, self.session.positions.furthest)
                self._journal.append(record)
                self._journal.sync()  # whoever comes back must know how far members had been
            return
        self._round_since = time.monotonic()
        self._returns.end_round()
        if self._journal is not None:
            now = time.monotonic()
            figures = figures_of(now - self._began, self.communication)
            elapsed = self.session.elapsed(now)
            self._journal.append(round_record(ended.number, elapsed, ended.replies, ended.ending, figures))
            if ended.ending is not None or self.session.outcome is not None:
                # Members remember what they were asked at the end, and may be gone after it.
                self._journal.sync()
        self.communication.end_round()
        if self._trace is not None:
            self._trace(RoundPassed(ended.number, ended.kind))

    def _send(self, to: tuple[str, ...], message: m.FromServer) -> None:
        self._since = time.monotonic()
        if self._round_since is None:
            self._round_since = self._since
        frame = framing.to_bytes(message)
        for name in to:
            if (line := self._lines.get(name)) is not None:
                if line.outbox.full():
                    line.connection.abort()  # it does not read; it is away as soon as that is noticed
                    continue
                if isinstance(message, (m.Finish, m.Abort)):
                    self._told.add(name)
                line.outbox.put_nowait(frame.data)
                self._account(type(message).__name__, "down", name, frame.data, frame.plain)

    def _end(self, output: Ended | Failed) -> None:
        assert self._over is not None  # noqa: S101
        if self._over.done():
            return
        if isinstance(output, Failed):
            self._over.set_exception(RunError(output.reason))
        else:
            self._over.set_result(output.outcome)

    def _account(self, kind: str, direction: Direction, name: str, data: bytes, plain: int | None = None) -> None:
        sent, plain = len(data), len(data) if plain is None else plain
        self.communication.add(kind, direction, plain=plain, sent=sent)
        if self._trace is not None:
            self._trace(FrameSent(kind, direction, name, sent, plain, data))

    def close_journal(self) -> None:
        """Force what was kept to the disk."""
        if self._journal is not None:
            self._journal.close()

    # -- time ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """End the run if a member stays away, or is there and does not answer."""
        pause = min(1.0, max(0.05, self._patience.grace / 4))
        while True:
            before = time.monotonic()
            await asyncio.sleep(pause)
            self._leave_out(time.monotonic() - before - pause)
            self._cut_revoked()
            self._refusals.summarise()
            waiting = self.session.waiting_for()
            passed = time.monotonic() - self._since
            # Whoever has a line and does not join is away like one who has none.
            away = [n for n in waiting if n not in self._lines or self.session.state_of(n) is MemberState.AWAY]
            if self._round_since is not None and self._fruitless():
                continue
            if self.session.gathered and away and passed > self._patience.grace:
                self._act(self.session.lose(away[0], f"member {away[0]!r} stayed away for {passed:.0f} s"))
            elif self.session.gathered and waiting and not away and passed > self._patience.answer:
                silent = waiting[0]
                self._act(self.session.lose(silent, f"member {silent!r} has not answered for {passed:.0f} s"))

    def _leave_out(self, seconds: float) -> None:
        """Wait for nobody while this process was stopped, or too busy to listen: whoever came then was not heard."""
        if seconds > 0:
            now = time.monotonic()
            self._since = min(now, self._since + seconds)
            if self._round_since is not None:
                self._round_since = min(now, self._round_since + seconds)

    def _cut_revoked(self) -> None:
        """Hang up on members whose certificates a new list has: a line that is there is no better than a new one."""
        if self._listed is None:
            return
        self._listed.look()
        if self._listed.trust.number == self._list:
            return
        self._list = self._listed.trust.number
        for line in list(self._lines.values()):
            try:
                self._listed.check(line.connection.writer.get_extra_info("ssl_object"))
            except UntrustedError as error:
                logger.warning("refused %r: %s", line.name, error)
                self._drop(line, "its line was cut")
                line.connection.abort()

    def _fruitless(self) -> bool:
        """End the run if a member that comes and goes keeps a round from ending."""
        assert self._round_since is not None  # noqa: S101
        passed = time.monotonic() - self._round_since
        often = self._returns.most_frequent()
        if self.session.over or often is None or passed <= self._patience.answer + self._patience.grace:
            return False
        name, times = often
        reason = f"no round has ended for {passed:.0f} s; member {name!r} came back {times} times meanwhile"
        self._act(self.session.lose(name, reason))
        return True

    async def _say_farewell(self) -> None:
        """See that everybody hears the result: whoever is killed just then may come back for it, as at any time."""
        result = self.session.outcome is not None
        began = time.monotonic()
        patience = self._patience.farewell if result else min(self._patience.farewell, PARTING)
        said = False
        while (passed := time.monotonic() - began) < patience and not self._hurry:
            # Those who are away wait for a result; that there is none they find out themselves.
            if not self.untold() if result else not self._lines:
                return
            if result and passed > SAY_AFTER and not said:
                said = True
                names = ", ".join(self.untold())
                logger.info("waiting for %s to hear the end, for %g s at most", names, patience)
            await asyncio.sleep(0.02)
        if result and (untold := self.untold()):
            logger.warning("%s may not know that the run has ended: nothing was heard of it", ", ".join(untold))
