"""Run a federation over a network, from its federation file to its results, as the server or as a member.

    outcome = await DeployedServer(file, identity, out).run()
    received = await DeployedMember(file, identity, name, member).run()

Both keep a journal in their run folder, and continue from its end after a kill.
"""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fedslim import __version__
from fedslim.errors import JournalError, RunError
from fedslim.federated.accounting import Account, served_by
from fedslim.federated.sessions import make_member_session, make_server_session
from fedslim.network.journal import Journal, check_folder
from fedslim.network.journal_records import NOTHING, messages_in, read_server_records
from fedslim.network.member import NetworkMember
from fedslim.network.server import NetworkServer
from fedslim.network.status import ASKING, TAKING_PART, serve_status
from fedslim.network.timeouts import Patience
from fedslim.protocol import messages as m
from fedslim.trust import RevocationWatch, Statement, client_context, peer_name, server_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fedslim.data import TransactionDatabase
    from fedslim.data.vocabulary import ItemSecret, Vocabulary
    from fedslim.federated.accounting import Served
    from fedslim.network.journal import Reopened
    from fedslim.protocol.events import Received
    from fedslim.protocol.framing import Frame
    from fedslim.protocol.server import ServerSession
    from fedslim.safeguards.audit import AuditLog
    from fedslim.safeguards.guard import Guard
    from fedslim.settings.federation_file import FederationFile
    from fedslim.trust import Identity, TrustStore

logger = logging.getLogger(__name__)

SAY_EVERY = 5.0
"""Seconds between two progress lines."""

MIN_FAREWELL = 5.0
"""Minimum seconds that members have to acknowledge the end of the run, however short the grace is."""
SERVER_JOURNAL, MEMBER_JOURNAL = "server.journal", "member.journal"


def patience(file: FederationFile) -> Patience:
    """Return the timeouts of a federation file."""
    waits = file.timeouts
    return Patience(
        answer=waits.answer,
        grace=waits.grace,
        farewell=max(waits.grace, MIN_FAREWELL),
        connect=waits.connect,
        keepalive=waits.keepalive,
    )


# -- the server -----------------------------------------------------------------------------------------------------


class DeployedServer:
    """Serves one run of a federation."""

    def __init__(self, file: FederationFile, identity: Identity, out: Path) -> None:
        self._file, self._identity, self._out = file, identity, out
        self.run_id = ""
        self.session: ServerSession | None = None
        self.network: NetworkServer | None = None
        self.account: Account | None = None

    @property
    def journal(self) -> Path:
        """The path of the journal; the file exists only while it is needed."""
        return self._out / SERVER_JOURNAL

    async def run(
        self,
        *,
        resume: bool = False,
        host: str | None = None,
        port: int | None = None,
        on_round: Callable[[], None] | None = None,
    ) -> Served:
        """Serve until the run is over.

        Raises:
            RunError: The run could not be finished; the message names the member. The journal stays, for `resume`.
            JournalError: There is a journal of another run, or one that cannot be resumed.
        """
        path = self.journal
        check_folder(path)
        reopened = self._reopen() if resume else None
        if reopened is None and path.exists():
            msg = f"{path}: this journal of another run is in the way; continue that run with --resume, or move it away"
            raise JournalError(msg)
        journal, header, records, _ = reopened or (None, {}, [], 0)
        run = bytes.fromhex(header["run"]) if header else os.urandom(16)
        file = self._file
        context = server_context(self._identity, now=datetime.now(UTC))
        context.set_alpn_protocols([TAKING_PART, ASKING])
        listed = RevocationWatch(self._identity, context)
        self.run_id = run.hex()
        self.session = session = make_server_session(
            file,
            run=run,
            keys=KeyTrust(file, lambda: listed.trust),
            history=lambda: read_server_records(Journal.read(path, key=self._key), str(path)).rounds,
        )
        self.account = account = Account(session, on_round)
        kept = read_server_records(records, str(path))
        if journal is not None:
            rounds = kept.rounds
            session.gathering.name_items(bytes.fromhex(header.get("ids", "")), header.get("labels", ()))
            elapsed = rounds[-1].elapsed if rounds else 0.0
            session.replay(
                rounds,
                int(header["items"]),
                time.monotonic() - elapsed,
                account.passed_before,
                epoch=kept.epoch,
                furthest=kept.furthest,
                endings=kept.endings,
                retreats=kept.retreats,
            )
            logger.info("resumed after %s rounds", len(rounds))
            so_far = rounds[-1].figures if rounds else NOTHING
            account.carry_over(so_far.seconds, so_far.traffic)
        self.network = NetworkServer(
            session,
            context,
            peer_name,
            patience=patience(file),
            journal=journal,
            begin_journal=self._begin_journal(run, path),
            trace=account.follow,
            communication=account.communication,
            seconds=account.seconds,
            heard=kept.heard,
            listed=listed,
        )
        lost: RunError | None = None
        try:
            async with serve_status(file.metrics.host, file.metrics.port, self.network.status):
                outcome = await self.network.run(
                    file.server.host if host is None else host, file.server.port if port is None else port
                )
        except RunError as error:
            best = session.best()
            if best is None or not self.network.listening.is_set():
                raise
            outcome, lost = best, error
        finally:
            self.network.close_journal()
        return served_by(session, outcome, account, lost, self.network.untold())

    def forget(self) -> None:
        """Remove the journal, once the results are saved."""
        self.journal.unlink(missing_ok=True)

    @property
    def _key(self) -> bytes:
        return self._identity.derived_key(SERVER_JOURNAL)

    def _reopen(self) -> Reopened | None:
        """Return the journal to resume; None if there is none, so that a new run begins."""
        path = self.journal
        found = _reopen(path, self._key)
        if found is None:
            logger.info("%s: no journal to resume; starting a new run", path)
            return None
        wanted = {"digest": self._file.digest().hex(), "protocol": m.PROTOCOL}
        for name, value in wanted.items():
            if found.header.get(name) != value:
                found.journal.close()
                msg = f"{path}: the journal is of another federation or version ({name} differs); move it away"
                raise JournalError(msg)
        return found

    def _begin_journal(self, run: bytes, path: Path) -> Callable[[int], Journal]:
        def begin(n_items: int) -> Journal:
            header = {"run": run.hex(), "items": n_items, "version": __version__, "protocol": m.PROTOCOL}
            session = self.session
            assert session is not None  # noqa: S101  # it has just begun
            items = session.gathering
            named = {"ids": b"".join(items.ids).hex(), "labels": list(items.labels)}
            header |= named | {"digest": self._file.digest().hex()}
            return Journal.create(path, header, key=self._key)

        return begin


def _reopen(path: Path, key: bytes) -> Reopened | None:
    """Reopen the journal at a path, if there is one, and log whether it was damaged."""
    if not path.exists():
        return None
    found = Journal.reopen(path, key=key)
    if found is None:
        logger.warning("%s: the journal is damaged from the start; renamed it to %s.old", path, path.name)
    elif found.cut:
        cut = "%s: cut off %s damaged bytes at its end; all members go back to where the journal ends now"
        logger.warning(cut, path, found.cut)
    return found


# -- a member -------------------------------------------------------------------------------------------------------


class KeyTrust:
    """Checks members' agreement keys and roster signatures for one federation, at the server and at each member."""

    def __init__(self, file: FederationFile, trust: Callable[[], TrustStore]) -> None:
        self._trust = trust  # a function, because the revocation list may be replaced
        self._members = file.federation.members
        # Includes the digest: a key signed for another federation file is not accepted.
        self._federation = bytes.fromhex(file.federation.id) + file.digest()

    def check(self, name: str, key: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self._check(Statement.agreement_key(self._federation, name, key), certificate, signature)

    def check_roster(self, name: str, digest: bytes, certificate: bytes, signature: bytes) -> None:
        """See `protocol.roster.KeyCheck`."""
        self._check(Statement.roster(self._federation, name, digest), certificate, signature)

    def _check(self, statement: Statement, certificate: bytes, signature: bytes) -> None:
        self._trust().verify(statement, certificate, signature, members=self._members, now=datetime.now(UTC))


class MemberTrust(KeyTrust):
    """A `KeyTrust` that can also sign, for a member."""

    def __init__(self, file: FederationFile, identity: Identity) -> None:
        super().__init__(file, lambda: identity.trust)
        self._identity = identity

    @property
    def certificate(self) -> bytes:
        """See `protocol.roster.Trust`."""
        return self._identity.certificate_der

    def sign(self, key: bytes) -> bytes:
        """See `protocol.roster.Trust`."""
        return self._identity.sign(Statement.agreement_key(self._federation, self._identity.name, key))

    def sign_roster(self, digest: bytes) -> bytes:
        """See `protocol.roster.Trust`."""
        return self._identity.sign(Statement.roster(self._federation, self._identity.name, digest))


class DeployedMember:
    """Takes part in one run of a federation."""

    def __init__(  # noqa: PLR0913, PLR0917  # its parts
        self,
        file: FederationFile,
        identity: Identity,
        database: TransactionDatabase,
        secret: ItemSecret,
        vocabulary: Vocabulary | None,
        out: Path,
        *,
        audit: AuditLog | None,
        guard: Guard | None = None,  # without it (in tests) there is no ledger
    ) -> None:
        self._file, self._identity, self._out, self._audit, self._guard = file, identity, out, audit, guard
        self.network: NetworkMember | None = None
        file.check_member(identity.name)
        file.check_items(secret, vocabulary)
        if guard is not None:
            for warning in guard.admit(database):
                logger.warning("warning: %s", warning)
        trust = MemberTrust(file, identity)
        self.session = make_member_session(
            file, identity.name, database, secret=secret, vocabulary=vocabulary, trust=trust
        )

    async def run(self, *, host: str | None = None, port: int | None = None) -> Received:
        """Take part until the run is over.

        Raises:
            RunError: The server could not be reached, ended the run, or asked for what this member does not give.
            LedgerError: The ledger does not allow the first answer.
        """
        journal = self._journal()
        file = self._file
        host, port = host or file.server.host, port or file.server.port
        context = client_context(self._identity, now=datetime.now(UTC))
        context.set_alpn_protocols([TAKING_PART])
        self.network = member = NetworkMember(
            self.session,
            context,
            entropy=os.urandom,
            patience=patience(file),
            journal=journal,
            leaving=self._recorder(f"{host}:{port}"),
            refusing=None if self._guard is None else self._guard.refused,
        )
        try:
            if self._guard is not None and self.session.received is None:
                await self._guard.waited()
            received = await member.run(host, port)
        finally:
            journal.close()
            if not self.session.has_answered:
                self.forget()  # nothing was answered, so there is nothing to resume
        path = self._out / MEMBER_JOURNAL
        ended_by_server = received.ending.startswith("ended by the server")
        if self._guard is not None:
            if received.table is not None and self.session.has_answered:
                self._guard.finished()
            elif member.refused or not ended_by_server or not self.session.has_answered:
                self._guard.refused()  # otherwise it can be resumed, which no other run can replace
        if not ended_by_server:
            return received
        msg = f"{received.ending}; if the server resumes the run, run the same command again to rejoin"
        if member.refused:
            # The server is in another run or refuses this member: next time, join without the journal.
            if path.exists():
                path.replace(path.with_name(path.name + ".old"))
            msg = received.ending
        raise RunError(msg)

    def forget(self) -> None:
        """Remove the journal, once the results are saved."""
        (self._out / MEMBER_JOURNAL).unlink(missing_ok=True)

    def _journal(self) -> Journal:
        """Reopen and replay the journal of an interrupted run, or create a new one."""
        path = self._out / MEMBER_JOURNAL
        digest = self._file.digest().hex()
        key = self._identity.derived_key(MEMBER_JOURNAL)
        reopened = _reopen(path, key)
        if reopened is None:
            return Journal.create(
                path, {"digest": digest, "member": self.session.name, "protocol": m.PROTOCOL}, key=key
            )
        journal, header, records, _ = reopened
        found = header.get("digest"), header.get("member"), header.get("protocol")
        if found != (digest, self.session.name, m.PROTOCOL):
            journal.close()
            msg = f"{path}: the journal is of another federation, member or version; move it away"
            raise JournalError(msg)
        if records:
            logger.info("rejoining the run: replaying %s messages of its journal", len(records))
        self.session.replay(messages_in(records, str(path)))
        if self.session.received is not None:
            logger.info("the run had already ended; the result is in the journal")
        return journal

    def _recorder(self, peer: str) -> Callable[[m.FromMember, Frame], None]:
        last, sent = time.monotonic(), 0

        def record(message: m.FromMember, frame: Frame) -> None:
            nonlocal last, sent
            if self._guard is not None and self.session.has_answered:
                self._guard.answering(self.session.run)
            sent += len(frame.data)
            if time.monotonic() - last > SAY_EVERY:
                last = time.monotonic()
                logger.info("answered %s rounds, sent %.1f MB", self.session.position, sent / 1e6)
            if self._audit is not None:
                run = self.session.run or None
                self._audit.record(message, frame, now=datetime.now(UTC), run=run, peer=peer)

        return record
