"""A member at a site of an engine, configured by a file at the site, never by the job.

The site has its own copy of the federation file. The session checks the server's settings against it, as over fedslim's
own transport. This module checks what the site allows, before it reads the data or answers anything. So a site need not
trust a job: nothing in it changes what leaves the site.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary, load
from fedslim.data.atomic import PRIVATE
from fedslim.engines.server import AGAIN, JOIN, PATIENCE, WORKING
from fedslim.engines.startup_kit import kit_trust
from fedslim.errors import ConfigurationError, FedslimError, ProtocolError
from fedslim.federated.accounting import save_results
from fedslim.federated.folder import PREPARATION, find_preparation, keep_preparation
from fedslim.federated.own_record import compared_record, member_record
from fedslim.federated.sessions import make_member_session
from fedslim.federated.simulation import prepare
from fedslim.format import printable
from fedslim.protocol import framing, messages as m
from fedslim.protocol.events import Received
from fedslim.protocol.member import MemberSession, farewell
from fedslim.protocol.preparation import Outline, Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import Unsigned
from fedslim.safeguards.audit import AuditLog, summarise
from fedslim.safeguards.guard import Guard
from fedslim.schema import Conformed, Schema, conform_file
from fedslim.settings.federation_file import FederationFile
from fedslim.settings.site_file import SiteFile

logger = logging.getLogger(__name__)

LOG = "fedslim-site.log"
"""A log beside the site's file, for what may name its data. NVFlare's own logs go to the server by default."""


class _Run(NamedTuple):
    """A run that this site takes part in: its files have been read, and allow it."""

    file: FederationFile
    guard: Guard
    session: MemberSession
    data: TransactionDatabase | Site  # a `Site` in a preparation
    secret: ItemSecret
    folder: Path  # of the results


class SiteMember:
    """Answers the server in one run."""

    def __init__(self, folder: Path, name: str, *, kit: Path, job: str, preparation: str = "") -> None:
        self.name = name
        self._folder, self._kit, self._job, self._preparation = folder, kit, job, preparation
        self._peer = f"NVFlare job {job}"
        self._run: _Run | None = None
        self._audit: AuditLog | None = None
        self._preparing = False
        self._turn = threading.Lock()
        self._worker = ThreadPoolExecutor(1)  # one frame at a time, even if the server gave up waiting
        self._latest: Future[bytes] | None = None

    def answer(self, frame: bytes) -> bytes:
        """Return the answer to a frame of the server, empty if none is due, or `WORKING` if it is not ready yet."""
        with self._turn:
            if frame != WORKING or self._latest is None:
                self._latest = self._worker.submit(self._answered, frame)
            latest = self._latest
        try:
            return latest.result(PATIENCE)
        except TimeoutError:
            if latest.done():
                raise  # raised by the answer itself
            return WORKING

    def note(self, text: str) -> None:
        """Log why this site cannot continue, in a file that only the site can read."""
        path, wrong = self._folder / LOG, self._log(text)
        where = f", and {path} cannot be written: {wrong}" if wrong else f"; see {path}"
        logger.warning("this site cannot continue%s", where)

    def _log(self, text: str) -> str | None:
        """Write text that may name data to the site's own log; return what went wrong, if anything."""
        path = self._folder / LOG
        escaped = "\n    ".join(map(printable, text.splitlines()))  # it may quote the server; traces have several lines
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} job {self._job}: {escaped}\n"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE), "ab") as stream:
                stream.write(line.encode("utf-8", "replace"))
        except OSError as error:
            return error.strerror or str(error)
        return None

    def close(self) -> None:
        """Wait for the current answer and close the audit log."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        if self._audit is not None:
            self._audit.close()
            self._audit = None

    # -- what leaves the site -----------------------------------------------------------------------------------

    def _answered(self, frame: bytes) -> bytes:
        try:
            if frame == JOIN:
                self._run = self._run or self._begun()
                message: m.FromMember | None = self._run.session.join(os.urandom(32))
            else:
                message = self._received(frame)
            if self._run is not None and self._run.session.position:  # raises if nothing may be answered
                self._run.guard.answering(self._run.session.run, preparing=self._preparing)
        except FedslimError as error:
            self.note(str(error))
            message = farewell(error)
        if message is None:
            return b""
        reply = framing.to_bytes(message)
        if self._audit is not None:
            run, peer = None if self._run is None else self._run.session.run or None, self._peer
            self._audit.record(message, reply, now=datetime.now(UTC), run=run, peer=peer, preparing=self._preparing)
        else:
            # There is no audit log before the site's files have been read. A refusal contains no data.
            assert isinstance(message, m.Abort)  # noqa: S101  # a session begins only with an audit log
        return reply.data

    def _received(self, frame: bytes) -> m.FromMember | None:
        run = self._run
        try:
            framing.length_of(frame[: framing.PREFIX_BYTES])
            message = framing.from_server(memoryview(frame)[framing.PREFIX_BYTES :])
            if run is None:
                if isinstance(message, m.Abort):
                    return None  # this site took no part, and has said so
                raise m.refused("the server sent a message before it asked this site to join")
            reply = run.session.receive(message)
        except FedslimError:
            if run is not None:
                self._run = None  # to continue, the site must join again, which it does only after a wait
                run.guard.refused()
            raise
        if run.session.received is not None:
            self._keep(run, run.session.received)
        return reply

    def _keep(self, run: _Run, received: Received) -> None:
        session, guard = run.session, run.guard
        if received.preparation is not None:  # for the search, also for a process that takes over
            keep_preparation(received.preparation, run.file, run.folder)
            if self.name in received.preparation.left:
                guard.refused()  # the server learnt that this site shares too little; it must not ask often
                self.note("this site left after the preparation: it shares too little with the others (min_overlap)")
            self._run = None  # the server asks this site to join the search
            return
        logger.info("the run is over: %s", received.ending)
        if received.table is None or not session.position:
            if session.run and not session.position:
                guard.refused()  # all that this server wanted may be to learn that the site was ready
            return
        guard.finished()
        assert isinstance(run.data, TransactionDatabase)  # noqa: S101  # it was a search
        table = guard.kept(received.table, run.data, run.secret)
        if table is None:
            kept_none = "found %s itemsets; this site's policy keeps none (results.table)"
            logger.info(kept_none, len(received.table))
        else:
            assert self._audit is not None  # noqa: S101  # since the run began
            sent = summarise(self._audit.path, self._peer)
            how: dict[str, Any] = {"ending": received.ending, "rounds": session.position, "command": AGAIN}
            record = member_record(run.file, self.name, received.table, table, run.data, sent=sent, **how)
            # Not what this site finds alone: mining would keep the job from ending.
            save_results(table, compared_record(record, received.table, None), run.folder)
            logger.info("saved the code table and the record of the run in %s", run.folder)

    # -- what the site allows -----------------------------------------------------------------------------------

    def _begun(self) -> _Run:
        """Check the federation file against the policy, and only then read the data, and check the ledger.

        The server is told why this site refuses, which is a `ProtocolError`, but nothing about other errors.
        """
        own = SiteFile.find(self._folder, self.name)
        file = FederationFile.read(own.site.federation)
        file.check_member(self.name)
        if own.site.name != self.name:
            msg = f"NVFlare calls this site {self.name!r}, but its own file says {own.site.name!r}; it takes no part"
            raise ProtocolError(msg)
        policy, folder = own.policy(), own.site.results / self._job
        if why := policy.reasons(file):
            raise ProtocolError(f"this site does not take part: {'; '.join(why)}")
        guard = Guard(policy, file)
        if (seconds := guard.wait()) > 0:
            self._log(f"remove {guard.refusals.path} to take part at once")
            raise ProtocolError(guard.why(seconds))
        self._audit = self._audit or AuditLog.of(own.audit.log, file, self.name)
        secret = ItemSecret.read(own.items.secret)
        vocabulary = None if own.items.vocabulary is None else Vocabulary.read(own.items.vocabulary)
        file.check_items(secret, vocabulary)
        schema = None if own.data.schema is None else Schema.read(own.data.schema)
        file.check_schema(schema)
        data: TransactionDatabase | Site
        rows: TransactionDatabase | Conformed
        prepared = None
        if schema is None:
            data = rows = load(own.data.source, **_reading_of(own))
        else:
            data = site = _site(schema, own, secret, policy.policy.min_overlap)
            rows, prepared = site.conformed, self._prepared(file, own.site.results)
        if prepared is not None:
            data = prepared.database(site.schema, site.conformed, secret, strict=bool(self._preparation))
            vocabulary = prepared.vocabulary(secret.fingerprint)
            if prepared.left:
                file = file.without(prepared.left)
                guard = guard.without(file)
                self._log(f"{', '.join(prepared.left)} left after the preparation; the search goes on without")
        self._preparing = isinstance(data, Site)
        for warning in guard.admit(rows, preparing=self._preparing):
            self._log(f"warning: {warning}")
        prepare(file.federation.variant)  # compiles what the session needs
        session = make_member_session(
            file,
            self.name,
            data,
            secret=secret,
            vocabulary=vocabulary,
            trust=Unsigned() if policy.policy.unsigned_keys else kit_trust(self._kit, file, self.name),
            prepared=b"" if prepared is None else prepared.digest(),
        )
        return _Run(file, guard, session, data, secret, folder)

    def _prepared(self, file: FederationFile, results: Path) -> Preparation | None:
        """Return the preparation of this job, or the one that it starts from if this site has taken part in that."""
        if not self._preparation:
            found = find_preparation(None, file, results / self._job)
        else:
            paths, outline = sorted(results.glob(f"*/{PREPARATION}")), Outline.parse(file.schema.outline or "")
            wanted = self._preparation, file.digest()
            kept = (Preparation.read(path, outline) for path in paths)
            found = next((one for one in kept if (one.digest().hex(), one.federation) == wanted), None)
            if found is None:
                msg = "the job starts from a preparation that this site does not have; export the job without it"
                raise ProtocolError(msg)
        if found is not None and self.name in found.left:
            raise ProtocolError("this site left after the preparation")
        return found


def _site(schema: Schema, own: SiteFile, secret: ItemSecret, min_overlap: float) -> Site:
    """Read the data in terms of the schema."""
    if odd := [name for name in _reading_of(own) if name != "format"]:
        msg = f"{own.path}: data.{odd[0]} does not go with data.schema, which says that for all members; leave it out"
        raise ConfigurationError(msg)
    return Site(schema, conform_file(schema, own.data.source, format=own.data.format), secret, min_overlap)


def _reading_of(own: SiteFile) -> dict[str, Any]:
    chosen = {name: getattr(own.data, name) for name in ("format", "bins", "transaction_column", "item_column")}
    return {name: value for name, value in chosen.items() if value is not None}
