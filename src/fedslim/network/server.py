"""The server on a network: it passes frames between members' connections and a session, and writes the journal.

It makes no decisions about the run: the session decides which messages are allowed, the certificates who a peer is.
Everything is bounded: the number of strangers, the size and duration of a frame, the wait for a member.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from asyncio import StreamWriter
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import Any

from fedslim.errors import FedslimError, LineError, ProtocolError, RunError, UntrustedError
from fedslim.network import status
from fedslim.network.connection import MAX_RETURNS, Connection, MemberConnection, Patience, Reader, Returns, hang_up
from fedslim.network.in_process import FrameSent, Trace
from fedslim.network.journal import BackRecord, EpochRecord, HeardRecord, Journal, RoundRecord, encode_record
from fedslim.network.listener import MAX_STRANGERS, Door, RefusedConnections
from fedslim.network.traffic import Communication
from fedslim.protocol import events, framing, messages as m
from fedslim.protocol.outcome import Outcome
from fedslim.protocol.server import ServerSession
from fedslim.protocol.state import MemberState
from fedslim.trust.tls import RevocationWatch

logger = logging.getLogger(__name__)

PARTING = 30.0
"""Maximum seconds to wait for members to disconnect if there is no result; with a result the server waits longer."""

SAY_AFTER = 2.0  # seconds after which the log names the members whose acknowledgement is missing


@dataclass(eq=False)
class NetworkServer:
    """Runs a session over TLS; `trace` adds to `communication`, if that is given."""

    session: ServerSession
    context: ssl.SSLContext
    name_of: Callable[[Any], str]
    _: KW_ONLY
    patience: Patience = field(default_factory=Patience)
    journal: Journal | None = None
    begin_journal: Callable[[int], Journal] | None = None
    trace: Callable[[Trace], None] = lambda _event: None
    strangers: int = MAX_STRANGERS
    returns: InitVar[int] = MAX_RETURNS
    communication: Communication = field(default_factory=Communication)
    seconds: InitVar[float] = 0.0  # that the run took before a restart
    heard: Iterable[str] = ()  # members that acknowledged the result
    listed: RevocationWatch | None = None

    def __post_init__(self, returns: int, seconds: float) -> None:
        self._refusals = RefusedConnections()
        self._connections: dict[str, MemberConnection] = {}
        self._contacts: dict[str, float] = {}  # when each member sent its last message
        self._began = time.monotonic() - seconds
        self._since = time.monotonic()  # of the session's last progress
        self._round_since: float | None = None  # when the last round ended, or the first one began
        self._returns = Returns(returns)
        self._list = 0 if self.listed is None else self.listed.trust.number
        self._door: Door  # set when it runs, as is …
        self._over: asyncio.Future[Outcome]  # … the end of the run
        self._stopping = self._hurry = False  # whether to end the run, and whether to stop waiting for members
        self._broken = False  # whether the run was broken off: nothing is sent or handled any more
        self._told: set[str] = set()  # members to which the end was sent
        self._heard = set(self.heard)
        self.port = 0
        self.listening = asyncio.Event()

    async def run(self, host: str, port: int) -> Outcome:
        """Serve until the run is over.

        `RunError` means that a member could not continue or stayed away; `session.best()` has the best result so far.
        """
        self._over = asyncio.get_running_loop().create_future()
        if self.session.gathered:
            self._round_since = time.monotonic()
        look, handshake = None if self.listed is None else self.listed.look, self.patience.handshake
        refused = self._refusals.add
        self._door = Door(host, port, self.context, self._accept, refused, look, handshake, self.strangers)
        watch = asyncio.create_task(self._watch())
        if self.session.outcome is not None:  # it was killed before all members had the result
            self._over.set_result(self.session.outcome)
        try:
            async with self._door:
                self.port = self._door.port
                self.listening.set()
                members = ", ".join(self.session.members)
                logger.info("listening on %s:%s; waiting for %s", host, self.port, members)
                await asyncio.wait([self._over])  # if cancelled, members are not told: the run can be resumed
                if not self._broken:
                    await self._say_farewell()
                return self._over.result()
        finally:
            watch.cancel()
            self._refusals.finish()

    def status(self) -> dict[str, Any]:
        """Return the status of the run for the operator; members get `status.for_members` of it."""
        session, now = self.session, time.monotonic()
        return {
            **status.of_session(session),
            "members": {
                name: {"here": name in self._connections, "state": session.state_of(name).value}
                for name in session.members
            },
            "contacts": {name: now - then for name, then in self._contacts.items()},
            "members_here": len(self._connections),
            "members_awaited": len(session.waiting_for()),
            "bytes_up": self.communication.bytes_up,
            "bytes_down": self.communication.bytes_down,
            "seconds": now - self._began,
        }

    def untold(self) -> tuple[str, ...]:
        """Return the members that have not acknowledged the result, or were not told that there is none."""
        knows = self._told if self.session.outcome is None else self._heard
        return tuple(name for name in self.session.members if name not in knows)

    # -- connections --------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the run before the next round with the best result so far; at once if no further round can begin."""
        again, self._stopping = self._stopping, True
        self._hurry = again or self.session.over
        self.session.stop()
        missing = [name for name in self.session.members if name not in self._connections]
        if missing:
            self._act(self.session.lose(missing[0], f"stopped while waiting for {', '.join(map(repr, missing))}"))
        elif again:
            self._break_off(RunError("stopped at once"))

    async def _accept(self, reader: Reader, writer: StreamWriter) -> None:
        try:
            name = self.name_of(writer.get_extra_info("ssl_object"))
        except FedslimError as error:
            self._refusals.add(str(error))
            await hang_up(writer)
            return
        if name not in self.session.members:
            self._refusals.add(f"{name!r} has a valid certificate, but is not a member of this federation")
            await hang_up(writer, framing.to_bytes(m.Abort(f"{name!r} is not a member of this federation")).data)
            return
        if writer.get_extra_info("ssl_object").selected_alpn_protocol() == status.ASKING:
            await hang_up(writer, status.to_frame(self.status()))
            return
        if not self._returns.admit(name):
            self._refusals.add(f"{name!r} reconnects too often")
            await hang_up(writer)
            return
        self._door.introduce()
        patience = self.patience
        member = MemberConnection(name, Connection(reader, writer, frame=patience.frame, beat=patience.keepalive))
        self._replace(self._connections.get(name), member)
        sender = asyncio.create_task(member.send_all())
        why = "its connection ended"
        try:
            why = await self._listen(member)
        finally:
            sender.cancel()
            self._drop(member, why)
            await member.connection.close()

    def _replace(self, old: MemberConnection | None, new: MemberConnection) -> None:
        """Use a member's new connection; the end of its old one may not have been noticed yet."""
        self._connections[new.name] = new
        if old is None:
            logger.info("%s connected", new.name)
            return
        self._returns.replace(new.name)
        self._disconnect(new.name)
        old.connection.abort()

    async def _listen(self, member: MemberConnection) -> str:
        """Handle a member's messages as long as this is its connection; return why it no longer is."""
        name = member.name
        while self._connections.get(name) is member:
            try:
                data = await member.connection.receive(lambda: framing.packed_at_most(self.session.max_bytes(name)))
                if self._connections.get(name) is not member:
                    break  # it uses a newer connection
                self._contacts[name] = time.monotonic()
                message = framing.from_member(memoryview(data)[framing.PREFIX_BYTES :], self.session.max_bytes(name))
                self.trace(FrameSent.of(message, "up", name, framing.Frame(data, len(data))))
                self._act(self.session.receive(name, message, time.monotonic()))
                if isinstance(message, m.Heard):
                    self._note(name)
            except (LineError, UntrustedError) as error:
                return str(error)
            except ProtocolError as error:
                # Close this connection; the member may reconnect and behave.
                logger.warning("%s: %s", name, error)
                await member.refuse(str(error))
                return "it violated the protocol"
            except FedslimError as error:
                # For example, the journal cannot be written: what was kept so far can be resumed.
                self._break_off(error)
                return "the server is stopping"
            except Exception as error:
                # The session may be inconsistent now: better an end than a run that hangs.
                self._break_off(RunError(f"a message of member {name!r} could not be handled: {error!r}"))
                raise
        return "it uses another connection"

    def _break_off(self, error: FedslimError) -> None:
        """End as if killed: members may only reconnect to a resumed server, not to one that writes no journal."""
        if not self._over.done():
            self._broken = True
            self._over.set_exception(error)

    def _drop(self, member: MemberConnection, why: str) -> None:
        if self._connections.get(member.name) is member:
            del self._connections[member.name]
            if not self.session.over:
                logger.warning("%s disconnected: %s", member.name, why)
            self._disconnect(member.name)

    def _disconnect(self, name: str) -> None:
        if self.session.disconnect(name):
            self._since = time.monotonic()

    # -- outputs of the session ---------------------------------------------------------------------------------

    def _act(self, outputs: list[events.ServerOutput]) -> None:  # noqa: C901  # a case for each kind of output
        if self._broken:
            return
        for output in outputs:
            match output:
                case events.NewEpoch(number):
                    # A resumed server must know how far members had been.
                    self._keep(EpochRecord(number, self.session.positions.furthest))
                case events.RoundEnded():
                    self._end_round(output)
                case events.WentBack(number, member):
                    lost = "%s has lost its last journal records; all members go back to round %s"
                    logger.warning(lost, member, number)
                    self._keep(BackRecord(number))
                case events.Send(to, message):
                    self._send(to, message)
                case events.Began(_, items):
                    logger.info("all members are connected")
                    if self.begin_journal is not None:
                        self.journal = self.begin_journal(items)
                        epoch, furthest = self.session.gathering.epoch, self.session.positions.furthest
                        self._keep(EpochRecord(epoch, furthest))
                case events.Resumed(number):
                    logger.info("all members are connected again; repeating round %s", number)
                case events.Ended(outcome) if not self._over.done():
                    self._over.set_result(outcome)
                case events.Failed(reason) if not self._over.done():
                    self._over.set_exception(RunError(reason))

    def _note(self, name: str) -> None:
        """Note that a member has the result: the server does not wait for it, not even after a restart."""
        if self.session.outcome is not None and name not in self._heard:
            self._heard.add(name)
            self._keep(HeardRecord(name), sync=False)

    def _keep(self, record: RoundRecord | HeardRecord | EpochRecord | BackRecord, *, sync: bool = True) -> None:
        """Write to the journal, before the server acts on it; if it is forced to the disk, it survives a power cut."""
        if self.journal is not None:
            self.journal.append(encode_record(record))
            if sync:
                self.journal.sync()

    def _end_round(self, ended: events.RoundEnded) -> None:
        now = self._round_since = time.monotonic()
        self._returns.in_round.clear()
        costs = now - self._began, self.communication.traffic
        record = RoundRecord(ended.number, self.session.elapsed(now), ended.replies, ended.ending, *costs)
        # Members keep the last question on disk, and may have ended by the time the server resumes.
        self._keep(record, sync=ended.ending is not None or self.session.outcome is not None)
        self.trace(ended)

    def _send(self, to: tuple[str, ...], message: m.FromServer) -> None:
        self._since = time.monotonic()
        if self._round_since is None:
            self._round_since = self._since
        frame = framing.to_bytes(message)
        for name in to:
            if (member := self._connections.get(name)) is not None:
                if member.outbox.full():
                    member.connection.abort()  # it does not read; `_listen` will notice
                    continue
                if isinstance(message, (m.Finish, m.Abort)):
                    self._told.add(name)
                member.outbox.put_nowait(frame.data)
                self.trace(FrameSent.of(message, "down", name, frame))

    # -- time ---------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """End the run if a member stays away, does not answer, or keeps a round from ending by reconnecting."""
        pause = min(1.0, max(0.05, self.patience.grace / 4))
        while True:
            before = time.monotonic()
            await asyncio.sleep(pause)
            self._leave_out(time.monotonic() - before - pause)
            self._cut_revoked()
            self._refusals.summarise()
            waiting = self.session.waiting_for()
            now = time.monotonic()
            passed, stalled = now - self._since, now - (self._round_since or now)
            often = self._returns.in_round.most_common(1)
            # A member that is connected but does not join counts as away.
            away = [n for n in waiting if n not in self._connections or self.session.state_of(n) is MemberState.AWAY]
            if often and stalled > self.patience.answer + self.patience.grace:
                name, times = often[0]
                reason = f"no round has ended for {stalled:.0f} s, while member {name!r} reconnected {times} times"
                self._act(self.session.lose(name, reason))
            elif self.session.gathered and away and passed > self.patience.grace:
                self._act(self.session.lose(away[0], f"member {away[0]!r} stayed away for {passed:.0f} s"))
            elif self.session.gathered and waiting and not away and passed > self.patience.answer:
                silent = waiting[0]
                self._act(self.session.lose(silent, f"member {silent!r} has not answered for {passed:.0f} s"))

    def _leave_out(self, seconds: float) -> None:
        """Do not count time in which this process was suspended or too busy to hear members."""
        if seconds > 0:
            now = time.monotonic()
            self._since = min(now, self._since + seconds)
            if self._round_since is not None:
                self._round_since = min(now, self._round_since + seconds)

    def _cut_revoked(self) -> None:
        """Disconnect members whose certificates a new list revokes: open connections get no exemption."""
        if self.listed is None:
            return
        self.listed.look()
        if self.listed.trust.number == self._list:
            return
        self._list = self.listed.trust.number
        for member in list(self._connections.values()):
            try:
                self.listed.check(member.connection.writer.get_extra_info("ssl_object"))
            except UntrustedError as error:
                logger.warning("refused %r: %s", member.name, error)
                self._drop(member, "its certificate is no longer accepted")
                member.connection.abort()

    async def _say_farewell(self) -> None:
        """Wait until all members have the result: one that is killed now may reconnect for it, as at any other time."""
        result = self.session.outcome is not None
        began = time.monotonic()
        patience = self.patience.farewell if result else min(self.patience.farewell, PARTING)
        logged = False
        while (passed := time.monotonic() - began) < patience and not self._hurry:
            # Disconnected members come back for a result; without one, there is nothing to tell them.
            if not self.untold() if result else not self._connections:
                return
            if result and passed > SAY_AFTER and not logged:
                logged = True
                names = ", ".join(self.untold())
                logger.info("waiting up to %g s for %s to acknowledge the end of the run", patience, names)
            await asyncio.sleep(0.02)
        if result and (untold := self.untold()):
            missing = ", ".join(untold)
            logger.warning("no acknowledgement from %s: they may not know that the run has ended", missing)
