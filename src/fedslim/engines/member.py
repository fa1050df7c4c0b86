"""A member at a site of an engine: what it brings and what it allows is in a file at the site, never in the job.

    member = SiteMember(local_folder, "north", kit=startup_folder, job="…")
    frame = member.answer(JOIN)
    reply = member.answer(frame)

The site has its own copy of the federation's file. What the server announces is checked against it by the session, as
on our own transport; what the site allows is checked here, before its data are read and anything is answered. Whoever
reviews jobs need not trust them: nothing that a job says changes what leaves the site.
"""

from __future__ import annotations

import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from fedslim.data import ItemSecret, Vocabulary, load
from fedslim.data.atomic import PRIVATE, make_folder_for
from fedslim.engines.exchange import JOIN, PATIENCE, WORKING
from fedslim.engines.startup_kit import KitTrust
from fedslim.errors import FedslimError, FrameError, ProtocolError
from fedslim.federated.sessions import make_member_session
from fedslim.federated.simulation import prepare
from fedslim.format import printable
from fedslim.protocol import framing
from fedslim.protocol import messages as m
from fedslim.protocol.member import farewell
from fedslim.protocol.roster import Unsigned
from fedslim.safeguards.audit import AuditLog
from fedslim.safeguards.guard import Guard
from fedslim.settings.federation_file import FederationFile
from fedslim.settings.site_file import SiteFile

if TYPE_CHECKING:
    from pathlib import Path

    from fedslim.data import TransactionDatabase
    from fedslim.protocol.member import MemberSession
    from fedslim.protocol.roster import RosterSigner

logger = logging.getLogger(__name__)

CODE_TABLE = "codetable.json"
LOG = "fedslim-site.log"
"""Beside the site's file: what may name its data. NVFlare's own logs go to the server by default."""


class Refused(ProtocolError):  # noqa: N818  # what it says, the others may know
    """This site does not allow that."""


class SiteMember:
    """A site's part in one run: it answers the server, and nobody else."""

    def __init__(self, folder: Path, name: str, *, kit: Path, job: str) -> None:
        self.name = name
        self._folder, self._kit, self._job = folder, kit, job
        self._results: Path | None = None
        self._own: tuple[TransactionDatabase, ItemSecret] | None = None
        self._guard: Guard | None = None
        self._session: MemberSession | None = None
        self._audit: AuditLog | None = None
        self._turn = threading.Lock()
        self._worker = ThreadPoolExecutor(1)  # one thing after the other, also if the server has lost patience
        self._latest: Future[bytes] | None = None

    def answer(self, frame: bytes) -> bytes:
        """The frame that answers the server's, empty if none is due; or that this site is still working on it."""
        with self._turn:
            if frame != WORKING or self._latest is None:
                self._latest = self._worker.submit(self._answered, frame)
            latest = self._latest
        try:
            return latest.result(PATIENCE)
        except TimeoutError:
            if latest.done():
                raise  # it is the answer's own
            return WORKING

    def note(self, text: str) -> None:
        """Write down why this site cannot go on, where only the site can read it."""
        path, wrong = self._folder / LOG, self._log(text)
        told = f", and {path} cannot be written: {wrong}" if wrong else f"; {path} says why"
        logger.warning("this site cannot go on%s", told)

    def _log(self, text: str) -> str | None:
        """Write what may name data to the site's own log, NVFlare's may go to the server; what is wrong if it fails."""
        path = self._folder / LOG
        shown = "\n    ".join(map(printable, text.splitlines()))  # it may quote the server; traces have several lines
        line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} job {self._job}: {shown}\n"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE), "ab") as stream:
                stream.write(line.encode("utf-8", "replace"))
        except OSError as error:
            return error.strerror or str(error)
        return None

    def close(self) -> None:
        """Close the audit log."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        if self._audit is not None:
            self._audit.close()
            self._audit = None

    # -- what leaves the site -----------------------------------------------------------------------------------

    def _answered(self, frame: bytes) -> bytes:
        try:
            message = self._joined() if frame == JOIN else self._received(frame)
            if self._session is not None and self._session.position and self._guard is not None:
                self._guard.answering(self._session.run)  # or it raises, and nothing is answered
        except FedslimError as error:
            self.note(str(error))
            message = farewell(error)
        if message is None:
            return b""
        reply = framing.to_bytes(message)
        if self._audit is not None:
            run = None if self._session is None else self._session.run or None
            self._audit.record(message, reply, now=datetime.now(UTC), run=run, peer=f"NVFlare job {self._job}")
        else:
            # There is no log before the site's files are understood. A refusal has nothing of its data in it.
            assert isinstance(message, m.Abort)  # noqa: S101  # a session is begun with a log, and only then
        return reply.data

    def _joined(self) -> m.FromMember:
        if self._session is None:
            self._session = self._begun()
        return self._session.join(os.urandom(32))

    def _received(self, frame: bytes) -> m.FromMember | None:
        session, guard = self._session, self._guard
        if session is None and _is_abort(frame):
            return None  # this site took no part, which it has said
        if session is None or guard is None:
            msg = "the server sent something before it asked this site to join; it is refused"
            raise ProtocolError(msg)
        try:
            framing.length_of(frame[: framing.PREFIX_BYTES])
            reply = session.receive(framing.from_server(memoryview(frame)[framing.PREFIX_BYTES :]))
        except FedslimError:
            self._session = None  # to go on it must join again, which it does only after a wait
            guard.refused()
            raise
        if session.received is not None:
            self._keep(session, guard)
        return reply

    def _keep(self, session: MemberSession, guard: Guard) -> None:
        received, own = session.received, self._own
        assert received is not None  # noqa: S101  # it was just looked at
        assert own is not None  # noqa: S101  # as old as the session
        logger.info("the run is over: %s", received.ending)
        if received.table is None or not session.position:
            if session.run and not session.position:
                guard.refused()  # a server that ends it here may have wanted to know no more than that we were ready
            return
        guard.finished()
        table = guard.kept(received.table, *own)
        if table is None:
            kept_none = "%s itemsets were found; this site's policy keeps none (results.table)"
            logger.info(kept_none, len(received.table))
        elif self._results is not None:
            path = self._results / self._job / CODE_TABLE
            make_folder_for(path)
            table.save(path, private=True)
            logger.info("the table is saved as %s", path)

    # -- what the site allows -----------------------------------------------------------------------------------

    def _begun(self) -> MemberSession:
        """Check what was agreed on against what is allowed, and only then read the data."""
        own = SiteFile.find(self._folder, self.name)
        federation = FederationFile.read(own.site.federation)
        federation.check_member(self.name)
        if own.site.name != self.name:
            msg = f"NVFlare calls this site {self.name!r}, and its own file {own.site.name!r}; it takes no part"
            raise Refused(msg)
        policy = own.policy()
        if why := policy.reasons(federation):
            msg = f"this site does not take part: {'; '.join(why)}"
            raise Refused(msg)
        self._guard = guard = Guard(policy, federation)
        if (seconds := guard.wait()) > 0:
            self._log(f"remove {guard.refusals.path} to take part at once")
            raise Refused(guard.why(seconds))
        self._results = own.site.results
        self._audit = self._audit or AuditLog.of(own.audit.log, federation, self.name)
        secret = ItemSecret.read(own.items.secret)
        vocabulary = None if own.items.vocabulary is None else Vocabulary.read(own.items.vocabulary)
        federation.check_items(secret, vocabulary)
        trust: RosterSigner = Unsigned()
        if not policy.policy.unsigned_keys:
            trust = KitTrust.load(self._kit, federation, self.name)
        database = load(own.data.source, **_reading_of(own))
        for warning in guard.admit(database):
            self._log(f"warning: {warning}")
        prepare(federation.federation.variant)
        self._own = database, secret
        return make_member_session(federation, self.name, database, secret=secret, vocabulary=vocabulary, trust=trust)


def _is_abort(frame: bytes) -> bool:
    try:
        return isinstance(framing.from_server(memoryview(frame)[framing.PREFIX_BYTES :]), m.Abort)
    except FrameError:
        return False


def _reading_of(own: SiteFile) -> dict[str, Any]:
    chosen = {name: getattr(own.data, name) for name in ("format", "bins", "transaction_column", "item_column")}
    return {name: value for name, value in chosen.items() if value is not None}
