"""Decide whether a member takes part: by its policy, its ledger, and a wait after a refusal.

Members use it on fedslim's own network and on NVFlare alike. Nothing in it comes from the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fedslim.data import TransactionDatabase
from fedslim.data.documents import Format
from fedslim.data.vocabulary import ItemSecret
from fedslim.errors import LedgerError
from fedslim.format import count, duration
from fedslim.safeguards.ledger import AnswerLedger, Snapshot
from fedslim.schema import Conformed
from fedslim.trust.keys import alone_with, read_trusted

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable
    from fedslim.settings.federation_file import FederationFile
    from fedslim.settings.policy import MemberPolicy

logger = logging.getLogger(__name__)

FILE = "refusals.json"
FORMAT, VERSION = "fedslim-refusals", 1
FIRST_WAIT, MAX_WAIT = 30.0, 3600.0
"""In seconds. The wait doubles with each refusal, up to the maximum."""

MAX_BYTES = 1 << 20
MAX_ENTRIES = 1000
_MAX_DOUBLINGS = 30


class RefusalCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The refusals of one federation since its last successful run."""

    count: Annotated[int, Meta(ge=1)]
    last: Annotated[datetime, Meta(tz=True)]


class _BackoffFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str = FORMAT
    version: int = VERSION
    federations: dict[str, RefusalCount] = {}


_BAD = "{path}: this file is damaged or from another version of fedslim ({why}); remove it to reconnect now"
FILES = Format(FORMAT, VERSION, LedgerError, _BAD)


class Refusals:
    """How often a member and the server of a federation refused each other: the member waits longer each time.

    A server could vary its questions and learn from each refusal, whenever the member's process is restarted. So the
    count is in a file, which all federations of a member share. A successful run removes the entry.
    """

    def __init__(self, path: Path, federation: str, *, first: float = FIRST_WAIT) -> None:
        self.path = path
        self._federation, self._first = federation, first

    def wait(self, now: datetime) -> float:
        """Return the seconds until the member may connect again; 0 if it may now."""
        found = self._read().get(self._federation)
        if found is None:
            return 0.0
        if found.last > now:  # the clock was set back: the wait must not grow
            found = RefusalCount(found.count, now)
            self._change(lambda _found: found)
        pause = min(self._first * 2.0 ** min(found.count - 1, _MAX_DOUBLINGS), MAX_WAIT)
        return max((found.last + timedelta(seconds=pause) - now).total_seconds(), 0.0)

    @property
    def count(self) -> int:
        """The number of refusals."""
        found = self._read().get(self._federation)
        return 0 if found is None else found.count

    def add(self, now: datetime) -> None:
        """Count a refusal."""
        self._change(lambda found: RefusalCount(1 if found is None else found.count + 1, now))

    def reset(self) -> None:
        """Forget all refusals, after a successful run."""
        if self._federation in self._read():
            self._change(lambda _found: None)

    def _read(self) -> Mapping[str, RefusalCount]:
        if not os.path.lexists(self.path):
            return {}
        data = read_trusted(self.path, "when this member comes back", MAX_BYTES)
        return FILES.decode(data, self.path, _BackoffFile).federations

    def _change(self, change: Callable[[RefusalCount | None], RefusalCount | None]) -> None:
        with alone_with(self.path):
            kept = dict(self._read())
            new = change(kept.pop(self._federation, None))
            if new is not None:
                kept[self._federation] = new
            while len(kept) > MAX_ENTRIES:  # drop the oldest, whose wait is over
                del kept[min(kept, key=lambda federation: kept[federation].last)]
            FILES.write(self.path, _BackoffFile(federations=kept))


class Guard:
    """A member's policy, ledger and refusals, for one run of one federation."""

    def __init__(
        self,
        policy: MemberPolicy,
        file: FederationFile,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        first_wait: float = FIRST_WAIT,
    ) -> None:
        policy.check(file)
        self.policy, self._file, self._now = policy, file, now
        self.ledger = AnswerLedger(policy.ledger.file)
        self.refusals = Refusals(policy.ledger.file.with_name(FILE), file.federation.id, first=first_wait)
        self._snapshot: Snapshot  # set by `admit`
        self._recorded: tuple[bytes, bool] | None = None
        self._prepared: frozenset[str] = frozenset()  # the members of the preparation, if some left after it

    # -- before a run -------------------------------------------------------------------------------------------

    def admit(self, database: TransactionDatabase | Conformed, *, preparing: bool = False) -> list[str]:
        """Check that this federation may be answered on these data. Return warnings about what a second result reveals.

        The warnings contain figures about the member's data. NVFlare's logs go to the server, so the caller decides
        where to show them. `preparing` says whether a new preparation would begin.
        """
        self.policy.check_transactions(database.rows if isinstance(database, Conformed) else len(database))
        self.ledger.check_place()
        self._snapshot = Snapshot.of(database)
        return self.ledger.check(self._file, self._snapshot, prepared=self._prepared, preparing=preparing)

    def without(self, file: FederationFile) -> Guard:
        """Return the guard of a search without members that left after the preparation.

        The federation file says that the others go on, so the ledger allows what the preparation and the search reveal
        together, but not what the search and an earlier one would.
        """
        guard = Guard(self.policy, file, now=self._now)
        guard._prepared = frozenset(self._file.federation.members)
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

    def answering(self, run: bytes, *, preparing: bool = False, resumed: bool = False) -> None:
        """Record in the ledger that this run is answered. Call this before each answer; only the first call writes.

        `resumed` says that this member has answered in this run before, as its journal shows.
        """
        if self._recorded == (run, preparing):
            return
        how = {"preparing": preparing, "resumed": resumed}
        self.ledger.record(self._file, self._snapshot, run, now=self._now(), prepared=self._prepared, **how)
        self._recorded = run, preparing

    def refused(self) -> None:
        """Record that this member refused the server, or was refused by it."""
        self.refusals.add(self._now())

    # -- after a run --------------------------------------------------------------------------------------------

    def finished(self) -> None:
        """Forget the refusals, after a successful run; not after a preparation, which a server can have alone."""
        self.refusals.reset()

    def kept(self, table: CodeTable, database: TransactionDatabase, secret: ItemSecret) -> CodeTable | None:
        """Return the part of a received table that this member may save; None if nothing."""
        if self.policy.results.table == "none":
            return None
        if self.policy.results.table == "labels":
            return table
        own, an_id = set(database.vocabulary), re.compile(r"#[0-9a-f]{32}")
        named = (label for label in table.vocabulary if label in own or not an_id.fullmatch(label))
        return table.renamed({label: f"#{secret.id_of(label).hex()}" for label in named})
