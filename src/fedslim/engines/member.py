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
from typing import Any

from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary, load
from fedslim.data.atomic import PRIVATE, make_folder_for
from fedslim.engines.server import AGAIN, JOIN, PATIENCE, WORKING
from fedslim.engines.startup_kit import kit_trust
from fedslim.errors import ConfigurationError, FedslimError, FrameError, ProtocolError
from fedslim.federated.accounting import CODE_TABLE, save_results
from fedslim.federated.folder import PREPARATION, find_preparation, keep_preparation
from fedslim.federated.own_record import compared_record, member_record
from fedslim.federated.sessions import make_member_session
from fedslim.federated.simulation import prepare
from fedslim.format import printable
from fedslim.protocol import framing, messages as m
from fedslim.protocol.member import MemberInput, MemberSession, farewell
from fedslim.protocol.preparation import Outline, Preparation
from fedslim.protocol.prepare import Site
from fedslim.protocol.roster import RosterSigner, Unsigned
from fedslim.safeguards.audit import AuditLog, summarise
from fedslim.safeguards.guard import Guard
from fedslim.schema import Conformed, Schema, conform_file
from fedslim.settings.federation_file import FederationFile
from fedslim.settings.site_file import SiteFile

logger = logging.getLogger(__name__)

LOG = "fedslim-site.log"
"""A log beside the site's file, for what may name its data. NVFlare's own logs go to the server by default."""


class Refused(ProtocolError):  # noqa: N818  # its message may be sent to the server
    """This site refuses to take part."""


class SiteMember:
    """Answers the server in one run."""

    def __init__(self, folder: Path, name: str, *, kit: Path, job: str, preparation: str = "") -> None:
        self.name = name
        self._folder, self._kit, self._job, self._preparation = folder, kit, job, preparation
        self._peer = f"NVFlare job {job}"
        self._results: Path | None = None
        self._own: tuple[TransactionDatabase, ItemSecret] | None = None  # None in a preparation
        self._federation: FederationFile | None = None
        self._guard: Guard | None = None
        self._session: MemberSession | None = None
        self._audit: AuditLog | None = None
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
                self._session = session = self._session or self._begun()
                message: m.FromMember | None = session.join(os.urandom(32))
            else:
                message = self._received(frame)
            if self._session is not None and self._session.position and self._guard is not None:
                preparing = self._own is None
                self._guard.answering(self._session.run, preparing=preparing)  # raises if nothing may be answered
        except FedslimError as error:
            self.note(str(error))
            message = farewell(error)
        if message is None:
            return b""
        reply = framing.to_bytes(message)
        if self._audit is not None:
            run = None if self._session is None else self._session.run or None
            preparing = self._federation is not None and self._own is None
            self._audit.record(message, reply, now=datetime.now(UTC), run=run, peer=self._peer, preparing=preparing)
        else:
            # There is no audit log before the site's files have been read. A refusal contains no data.
            assert isinstance(message, m.Abort)  # noqa: S101  # a session begins only with an audit log
        return reply.data

    def _received(self, frame: bytes) -> m.FromMember | None:
        session, guard = self._session, self._guard
        if session is None and _is_abort(frame):
            return None  # this site took no part, and has said so
        if session is None or guard is None:
            raise ProtocolError("the server sent a message before it asked this site to join; it is refused")
        try:
            framing.length_of(frame[: framing.PREFIX_BYTES])
            reply = session.receive(framing.from_server(memoryview(frame)[framing.PREFIX_BYTES :]))
        except FedslimError:
            self._session = None  # to continue, the site must join again, which it does only after a wait
            guard.refused()
            raise
        if session.received is not None:
            self._keep(session, guard)
        return reply

    def _keep(self, session: MemberSession, guard: Guard) -> None:
        received, own = session.received, self._own
        assert received is not None  # noqa: S101  # checked by the caller
        if received.preparation is not None:
            self._keep_preparation(received.preparation, guard)
            return
        assert own is not None  # noqa: S101  # set with the session
        assert self._federation is not None  # noqa: S101
        assert self._audit is not None  # noqa: S101
        logger.info("the run is over: %s", received.ending)
        if received.table is None or not session.position:
            if session.run and not session.position:
                guard.refused()  # all that this server wanted may be to learn that the site was ready
            return
        guard.finished()
        table = guard.kept(received.table, *own)
        if table is None:
            kept_none = "found %s itemsets; this site's policy keeps none (results.table)"
            logger.info(kept_none, len(received.table))
        else:
            place = self._folder_of_job()
            sent = summarise(self._audit.path, self._peer)
            how: dict[str, Any] = {"ending": received.ending, "rounds": session.position, "command": AGAIN}
            record = member_record(self._federation, self.name, received.table, table, own[0], sent=sent, **how)
            # Not what this site finds alone: mining would keep the job from ending.
            save_results(table, compared_record(record, received.table, None), place)
            logger.info("saved the code table and the record of the run in %s", place)

    def _folder_of_job(self) -> Path:
        """Return the folder of this job, which exists then."""
        assert self._results is not None  # noqa: S101  # set with the session
        make_folder_for(self._results / self._job / CODE_TABLE)
        return self._results / self._job

    def _keep_preparation(self, prepared: Preparation, guard: Guard) -> None:
        """Keep the preparation for the search, also for a process that takes over; or leave, as this site has said."""
        assert self._federation is not None  # noqa: S101  # set with the session
        keep_preparation(prepared, self._federation, self._folder_of_job())
        if self.name in prepared.left:
            guard.refused()  # the server learnt that this site shares too little; it must not ask often
            self.note("this site left after the preparation: it shares too little with the others (min_overlap)")
        self._session = None  # the server asks this site to join the search

    # -- what the site allows -----------------------------------------------------------------------------------

    def _begun(self) -> MemberSession:
        """Check the federation file against the policy, and only then read the data."""
        own = SiteFile.find(self._folder, self.name)
        federation = FederationFile.read(own.site.federation)
        federation.check_member(self.name)
        if own.site.name != self.name:
            msg = f"NVFlare calls this site {self.name!r}, but its own file says {own.site.name!r}; it takes no part"
            raise Refused(msg)
        policy = own.policy()
        if why := policy.reasons(federation):
            raise Refused(f"this site does not take part: {'; '.join(why)}")
        self._guard = guard = Guard(policy, federation)
        if (seconds := guard.wait()) > 0:
            self._log(f"remove {guard.refusals.path} to take part at once")
            raise Refused(guard.why(seconds))
        self._results = own.site.results
        self._audit = self._audit or AuditLog.of(own.audit.log, federation, self.name)
        secret = ItemSecret.read(own.items.secret)
        vocabulary = None if own.items.vocabulary is None else Vocabulary.read(own.items.vocabulary)
        federation.check_items(secret, vocabulary)
        schema = None if own.data.schema is None else Schema.read(own.data.schema)
        federation.check_schema(schema)
        self._federation = federation
        if schema is not None:
            return self._begun_with(_site(schema, own, secret, policy.policy.min_overlap), federation, guard)
        database = load(own.data.source, **_reading_of(own))
        self._own = database, secret
        trust = self._ready(federation, guard, database)
        return make_member_session(federation, self.name, database, secret=secret, vocabulary=vocabulary, trust=trust)

    def _ready(
        self, file: FederationFile, guard: Guard, data: TransactionDatabase | Conformed, *, preparing: bool = False
    ) -> RosterSigner:
        """Check the ledger and compile what the session needs; return what signs for this site."""
        self._guard = guard
        for warning in guard.admit(data, preparing=preparing):
            self._log(f"warning: {warning}")
        prepare(file.federation.variant)
        if guard.policy.policy.unsigned_keys:
            return Unsigned()
        return kit_trust(self._kit, file, self.name)

    def _begun_with(self, site: Site, federation: FederationFile, guard: Guard) -> MemberSession:
        """Begin the preparation, or the search if this site has the preparation."""
        prepared = self._prepared(federation)
        if prepared is None:
            trust = self._ready(federation, guard, site.conformed, preparing=True)
            own = MemberInput.preparing(site, federation.federation.members, federation.preparing(), trust)
            return MemberSession(self.name, own)
        if self.name in prepared.left:
            raise Refused("this site left after the preparation")
        if prepared.left:
            federation = federation.without(prepared.left)
            guard = guard.without(federation)
            self._log(f"{', '.join(prepared.left)} left after the preparation; the search goes on without")
        database = prepared.database(site.schema, site.conformed, site.secret, strict=bool(self._preparation))
        self._own = database, site.secret
        return make_member_session(
            federation,
            self.name,
            database,
            secret=site.secret,
            vocabulary=prepared.vocabulary(site.secret.fingerprint),
            trust=self._ready(federation, guard, site.conformed),
            prepared=prepared.digest(),
        )

    def _prepared(self, federation: FederationFile) -> Preparation | None:
        """Return the preparation of this job, or the one that it starts from if this site has taken part in that."""
        assert self._results is not None  # noqa: S101  # set with the audit log
        if not self._preparation:
            return find_preparation(None, federation, self._results / self._job)
        for path in sorted(self._results.glob(f"*/{PREPARATION}")):
            kept = Preparation.read(path, Outline.parse(federation.schema.outline or ""))
            if (kept.digest().hex(), kept.federation) == (self._preparation, federation.digest()):
                return kept
        raise Refused("the job starts from a preparation that this site does not have; export the job without it")


def _is_abort(frame: bytes) -> bool:
    try:
        return isinstance(framing.from_server(memoryview(frame)[framing.PREFIX_BYTES :]), m.Abort)
    except FrameError:
        return False


def _site(schema: Schema, own: SiteFile, secret: ItemSecret, min_overlap: float) -> Site:
    """Read the data in terms of the schema."""
    if odd := [name for name in _reading_of(own) if name != "format"]:
        msg = f"{own.path}: data.{odd[0]} does not go with data.schema, which says that for all members; leave it out"
        raise ConfigurationError(msg)
    return Site(schema, conform_file(schema, own.data.source, format=own.data.format), secret, min_overlap)


def _reading_of(own: SiteFile) -> dict[str, Any]:
    chosen = {name: getattr(own.data, name) for name in ("format", "bins", "transaction_column", "item_column")}
    return {name: value for name, value in chosen.items() if value is not None}
