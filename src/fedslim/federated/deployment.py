"""Run a federation over a network, from its federation file to its results, as the server or as a member.

Both keep a journal in their run folder, and continue from its end after a kill.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fedslim import __version__
from fedslim.data.database import TransactionDatabase
from fedslim.data.vocabulary import ItemSecret, Vocabulary
from fedslim.errors import JournalError, RunError
from fedslim.federated.accounting import Account, Served, served_by
from fedslim.federated.folder import PREPARATION, PREPARATION_JOURNAL, keep_preparation
from fedslim.federated.sessions import KeyTrust, MemberTrust, make_member_session, make_server_session, patience
from fedslim.format import count, size
from fedslim.network.journal import Journal, Reopened, check_folder, messages_in, read_server_records
from fedslim.network.member import NetworkMember
from fedslim.network.server import NetworkServer
from fedslim.network.status import ASKING, TAKING_PART, serve_status
from fedslim.protocol import messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.framing import Frame
from fedslim.protocol.member import MemberSession
from fedslim.protocol.outcome import Outcome
from fedslim.protocol.preparation import Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.server import ServerSession
from fedslim.safeguards.audit import AuditLog
from fedslim.safeguards.guard import Guard
from fedslim.settings.federation_file import FederationFile
from fedslim.trust.identity import Identity
from fedslim.trust.tls import RevocationWatch, client_context, peer_name, server_context

logger = logging.getLogger(__name__)

SAY_EVERY = 5.0  # seconds between two progress lines

SERVER_JOURNAL, MEMBER_JOURNAL = "server.journal", "member.journal"


class DeployedServer:
    """Serves one run of a federation."""

    def __init__(self, file: FederationFile, identity: Identity, out: Path, kept: Preparation | None = None) -> None:
        self._file, self._identity, self._out, self._kept = file, identity, out, kept
        self.run_id = ""
        self.session: ServerSession | None = None
        self.network: NetworkServer | None = None
        self.account: Account | None = None

    @property
    def journal(self) -> Path:
        """The path of the journal; the file exists only while it is needed."""
        return self._out / (PREPARATION_JOURNAL if self._preparing else SERVER_JOURNAL)

    @property
    def _preparing(self) -> bool:
        return self._file.prepares and self._kept is None

    async def run(
        self,
        *,
        resume: bool = False,
        host: str | None = None,
        port: int | None = None,
        on_round: Callable[[], None] | None = None,
    ) -> Served:
        """Serve the preparation, if the federation needs one, and the search, until the run is over.

        Raises:
            RunError: The run could not be finished; the message names the member. The journal stays, for `resume`.
            JournalError: There is a journal of another run, or one that cannot be resumed.
        """
        check_folder(self.journal)
        if self._preparing:
            outcome, _, _ = await self._serve(resume=resume, host=host, port=port, on_round=on_round)
            self._kept = outcome.preparation
            assert self._kept is not None  # noqa: S101  # the session was a preparation
            logger.info("the preparation is complete: %s items", len(self._kept.ids))
        if self._kept is not None:
            keep_preparation(self._kept, self._file, self._out)
            self._file = self._file.without(self._kept.left)
        outcome, account, lost = await self._serve(resume=resume, host=host, port=port, on_round=on_round)
        assert self.session is not None  # noqa: S101  # it has just ended
        assert self.network is not None  # noqa: S101
        return served_by(self.session, outcome, account, lost, self.network.untold())

    async def _serve(
        self, *, resume: bool, host: str | None, port: int | None, on_round: Callable[[], None] | None
    ) -> tuple[Outcome, Account, RunError | None]:
        """Serve one session; return its outcome, its costs, and why it ended early, if it did."""
        path = self.journal
        reopened = None
        if resume:
            wanted = {"digest": self._file.digest().hex(), "protocol": m.PROTOCOL, "prepared": self._prepared}
            reopened = _reopen(path, self._key, wanted)
            if reopened is None:
                logger.info("%s: no journal to resume; starting a new run", path)
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
            keys=KeyTrust.of(file, lambda: listed.trust),
            history=lambda: read_server_records(Journal.read(path, key=self._key), str(path)).rounds,
            prepared=self._kept,
        )
        self.account = account = Account(session, on_round)
        kept = read_server_records(records, str(path))
        if journal is not None:
            rounds = kept.rounds
            if header.get("ids"):
                session.gathering.name_items(bytes.fromhex(header["ids"]), header.get("labels", ()))
            began = time.monotonic() - (rounds[-1].elapsed if rounds else 0.0)
            session.replay(kept, int(header["items"]), began, lambda number: account.passed_before(rounds[number]))
            logger.info("resumed after %s rounds", len(rounds))
        self.network = NetworkServer(
            session,
            context,
            peer_name,
            patience=patience(file),
            journal=journal,
            begin_journal=partial(self._begin_journal, session, run, path),
            trace=account,
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
            if self.network.journal is not None:
                self.network.journal.close()
        return outcome, account, lost

    def forget(self) -> None:
        """Remove the journal, once the results are saved."""
        self.journal.unlink(missing_ok=True)

    @property
    def _prepared(self) -> str:
        return "" if self._kept is None else self._kept.digest().hex()

    @property
    def _key(self) -> bytes:
        return self._identity.derived_key(SERVER_JOURNAL)

    def _begin_journal(self, session: ServerSession, run: bytes, path: Path, n_items: int) -> Journal:
        header = {"run": run.hex(), "items": n_items, "version": __version__, "protocol": m.PROTOCOL}
        header |= {"ids": b"".join(session.gathering.ids).hex(), "labels": list(session.gathering.labels)}
        header |= {"digest": self._file.digest().hex(), "prepared": self._prepared}
        return Journal.create(path, header, key=self._key)


def _reopen(path: Path, key: bytes, wanted: Mapping[str, Any]) -> Reopened | None:
    """Reopen the journal at a path, if there is one, of the run that is wanted, and log whether it was damaged."""
    if not path.exists():
        return None
    found = Journal.reopen(path, key=key)
    if found is None:
        logger.warning("%s: the journal is damaged from the start; renamed it to %s.old", path, path.name)
        return None
    if found.cut:
        cut = "%s: cut off %s damaged bytes at its end; all members go back to where the journal ends now"
        logger.warning(cut, path, found.cut)
    if other := [name for name in wanted if found.header.get(name) != wanted[name]]:
        found.journal.close()
        msg = f"{path}: the journal is of another federation, member or version ({other[0]} differs); move it away"
        raise JournalError(msg)
    return found


class DeployedMember:
    """Takes part in one run of a federation."""

    def __init__(  # noqa: PLR0913, PLR0917  # its parts
        self,
        file: FederationFile,
        identity: Identity,
        data: TransactionDatabase | Site,
        secret: ItemSecret,
        vocabulary: Vocabulary | None,
        out: Path,
        *,
        audit: AuditLog | None,
        guard: Guard | None = None,  # without it (in tests) there is no ledger
        kept: Preparation | None = None,
    ) -> None:
        self._file, self._identity, self._out, self._audit, self._guard = file, identity, out, audit, guard
        self._kept, self.site = kept, data if isinstance(data, Site) else None
        self._secret, self._vocabulary = secret, vocabulary
        self.network: NetworkMember | None = None
        file.check_member(identity.name)
        file.check_items(secret, vocabulary)
        file.check_schema(None if self.site is None else self.site.schema)
        self._data = data  # of the session
        if self.site is not None and kept is not None:
            self._data = self._start_from(kept, self.site)
        self.session = self._begin()

    @property
    def database(self) -> TransactionDatabase | None:
        """The data of the search; None in a preparation."""
        return None if isinstance(self._data, Site) else self._data

    @property
    def transactions(self) -> int:
        """The number of transactions of this member."""
        return self._data.conformed.rows if isinstance(self._data, Site) else len(self._data)

    def _begin(self) -> MemberSession:
        """Check the ledger, and return the session of the preparation or of the search."""
        preparing, site = isinstance(self._data, Site), self.site
        if self._guard is not None:
            data: Any = self._data if site is None else site.conformed
            if site is not None and site.searched is not None and not preparing:
                data = site.conformed.take(site.searched)
            anew = preparing and not self.journal.exists()  # otherwise it is in the ledger already
            for warning in self._guard.admit(data, preparing=anew):
                logger.warning("warning: %s", warning)
        return make_member_session(
            self._file,
            self._identity.name,
            self._data,
            secret=self._secret,
            vocabulary=self._vocabulary,
            trust=MemberTrust.of_identity(self._file, self._identity),
            prepared=b"" if self._kept is None else self._kept.digest(),
        )

    def _start_from(self, kept: Preparation, site: Site) -> TransactionDatabase:
        """Go on from a preparation to the search; members that left are not in it."""
        name = self._identity.name
        if name in kept.left:
            raise RunError(
                "this member left after the preparation: it shares too little with the others (min_overlap in its "
                "policy); compare the spellings and units of its data with theirs, and start again in a new run folder"
            )
        before, self._file = self._file, self._file.without(kept.left)
        if kept.left and self._guard is not None:
            left = ", ".join(kept.left)
            logger.warning("%s left after the preparation; the search goes on without", left)
            self._guard = self._guard.without(self._file)
        given = not (self._out / PREPARATION).exists()  # by the operator, for other data; not found by this run
        database = kept.database(site.schema, site.conformed, self._secret, strict=given)
        if site.searched is not None:
            database = database.take(site.searched)
        self._vocabulary = kept.vocabulary(self._secret.fingerprint)
        self._kept = kept
        logger.info("starting from a preparation of %s items (%s)", len(kept.ids), before.federation.name)
        return database

    async def _prepare(self, site: Site, host: str | None, port: int | None) -> None:
        """Take part in the preparation, and go on to the search."""
        received = await self._take_part(host, port)
        kept = received.preparation
        if kept is None:
            raise RunError(f"the preparation ended early ({received.ending})")
        logger.info("%s", received.overlap)
        keep_preparation(kept, self._file, self._out)
        if self._identity.name in kept.left and self._guard is not None:
            self._guard.refused()  # the server learnt that this member shares too little; it must not ask often
        self._data = self._start_from(kept, site)
        self.session = self._begin()

    async def run(self, *, host: str | None = None, port: int | None = None) -> Received:
        """Take part in the preparation, if there is one, and in the search, until the run is over.

        Raises:
            RunError: The server could not be reached, ended the run, or asked for what this member does not give; or
                this member left after the preparation.
            LedgerError: The ledger does not allow the first answer.
        """
        if isinstance(self._data, Site):
            await self._prepare(self._data, host, port)
        elif self._kept is not None:
            self._kept.write(self._out / PREPARATION)
        return await self._take_part(host, port)

    @property
    def journal(self) -> Path:
        """The path of the journal of this session."""
        return self._out / (PREPARATION_JOURNAL if self.database is None else MEMBER_JOURNAL)

    async def _take_part(self, host: str | None, port: int | None) -> Received:
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
        path = self.journal
        ended_by_server = received.ending.startswith("ended by the server")
        if self._guard is not None and received.preparation is None:  # after a preparation the search decides
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
        self.journal.unlink(missing_ok=True)

    def _journal(self) -> Journal:
        """Reopen and replay the journal of an interrupted run, or create a new one."""
        path = self.journal
        header = {"digest": self._file.digest().hex(), "member": self.session.name, "protocol": m.PROTOCOL}
        key = self._identity.derived_key(MEMBER_JOURNAL)
        reopened = _reopen(path, key, header)
        if reopened is None:
            return Journal.create(path, header, key=key)
        journal, _, records, _ = reopened
        if records:
            logger.info("rejoining the run: replaying %s messages of its journal", len(records))
        self.session.replay(messages_in(records, str(path)))
        if self.session.received is not None:
            logger.info("the run had already ended; the result is in the journal")
        return journal

    def _recorder(self, peer: str) -> Callable[[m.FromMember, Frame], None]:
        last, sent, resumed = time.monotonic(), 0, self.session.has_answered

        def record(message: m.FromMember, frame: Frame) -> None:
            nonlocal last, sent
            run, preparing = self.session.run or None, self.database is None
            if self._guard is not None and self.session.has_answered:
                self._guard.answering(self.session.run, preparing=preparing, resumed=resumed)
            sent += len(frame.data)
            if time.monotonic() - last > SAY_EVERY:
                last = time.monotonic()
                logger.info("answered %s, sent %s", count(self.session.position, "round"), size(sent))
            if self._audit is not None:
                self._audit.record(message, frame, now=datetime.now(UTC), run=run, peer=peer, preparing=preparing)

        return record
