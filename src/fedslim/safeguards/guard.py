"""Decide whether a member takes part: by its policy, its ledger, and a wait after a refusal.

    guard = Guard(policy, file)                  # before anything is read or connected
    for warning in guard.admit(database): ...    # before connecting
    await guard.waited()
    guard.answering(session.run)                 # before the first answer leaves
    guard.refused() or guard.finished()

Members use it on fedslim's own network and on NVFlare alike. Nothing in it comes from the server.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fedslim.format import count, duration
from fedslim.safeguards.backoff import FILE, FIRST_WAIT, Refusals
from fedslim.safeguards.ledger import AnswerLedger, Snapshot
from fedslim.schema import Conformed

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedslim.data import TransactionDatabase
    from fedslim.data.vocabulary import ItemSecret
    from fedslim.mdl.codetable import CodeTable
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

logger = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class Guard:
    """A member's policy, ledger and refusals, for one run of one federation."""

    def __init__(
        self,
        policy: MemberPolicy,
        file: FederationFile,
        *,
        now: Callable[[], datetime] = _now,
        first_wait: float = FIRST_WAIT,
    ) -> None:
        policy.check(file)
        self.policy, self._file, self._now = policy, file, now
        self.ledger = AnswerLedger(policy.ledger.file)
        self.refusals = Refusals(policy.ledger.file.with_name(FILE), file.federation.id, first=first_wait)
        self._snapshot: Snapshot | None = None
        self._recorded = b""

    # -- before a run -------------------------------------------------------------------------------------------

    def admit(self, database: TransactionDatabase | Conformed) -> list[str]:
        """Check that this federation may be answered on these data. Return warnings about what a second result reveals.

        The warnings contain figures about the member's data. NVFlare's logs go to the server, so the caller decides
        where to show them.

        Raises:
            PolicyError: There are too few transactions.
            LedgerError: The ledger does not allow it.
            WriteError: The ledger cannot be written.
        """
        self.policy.check_transactions(database.rows if isinstance(database, Conformed) else len(database))
        self.ledger.check_place()
        self._snapshot = Snapshot.of(database)
        return self.ledger.check(self._file, self._snapshot)

    def without(self, file: FederationFile, reason: str) -> Guard:
        """Return the guard of a search without members that left after the preparation.

        The federation file says that the others go on, so the ledger allows the smaller set, and has the reason.

        Raises:
            PolicyError: The policy does not allow a federation of those that stay.
        """
        guard = Guard(self.policy, file, now=self._now)
        if not guard.ledger.is_allowed(file):
            guard.ledger.allow(file, reason, now=self._now())
        return guard

    def wait(self) -> float:
        """Return the seconds until this member may connect again."""
        return self.refusals.wait(self._now())

    def why(self, seconds: float) -> str:
        """Return a message that explains a wait."""
        return (
            f"this member and the server refused each other ({count(self.refusals.count, 'time')}); the member "
            f"reconnects in {duration(seconds)}"
        )

    async def waited(self) -> None:
        """Wait until this member may connect again, and log it."""
        while (seconds := self.wait()) > 0:
            advice = "%s; once the cause is fixed, remove %s to reconnect now"
            logger.warning(advice, self.why(seconds), self.refusals.path)
            await asyncio.sleep(seconds)

    # -- during a run -------------------------------------------------------------------------------------------

    def answering(self, run: bytes, *, preparing: bool = False) -> None:
        """Record in the ledger that this run is answered. Call this before each answer; only the first call writes.

        Raises:
            LedgerError: The ledger does not allow it.
            WriteError: The ledger cannot be written, so nothing may leave.
        """
        if self._recorded == run:
            return
        assert self._snapshot is not None  # noqa: S101  # `admit` comes first
        self.ledger.record(self._file, self._snapshot, run, now=self._now(), preparing=preparing)
        self._recorded = run

    def refused(self) -> None:
        """Record that this member refused the server, or was refused by it."""
        self.refusals.add(self._now())

    # -- after a run --------------------------------------------------------------------------------------------

    def finished(self) -> None:
        """Forget the refusals, after a successful run."""
        self.refusals.reset()

    def kept(self, table: CodeTable, database: TransactionDatabase, secret: ItemSecret) -> CodeTable | None:
        """Return the part of a received table that this member may save; None if nothing."""
        if self.policy.results.table == "none":
            return None
        if self.policy.results.table == "labels":
            return table
        own = set(database.vocabulary)  # items of other members have ids instead of labels already
        labels = (f"#{secret.id_of(label).hex()}" if label in own else label for label in table.vocabulary)
        return replace(table, vocabulary=tuple(labels))
