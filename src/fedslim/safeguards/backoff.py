"""Count how often a member and a server refused each other, and make the member wait longer each time.

    refusals = Refusals(path, federation_id)
    refusals.add(now)                   # before the server is told of the refusal
    seconds = refusals.wait(now)        # until the member may connect again

A server could vary its questions and learn from each refusal, whenever the member's process is restarted. So the count
is kept in a file beside the member's ledger, which outlives the process. A successful run removes the entry.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fedslim.data.atomic import make_folder_for, write_whole
from fedslim.data.documents import Format
from fedslim.errors import LedgerError
from fedslim.trust.keys import read_trusted
from fedslim.trust.register import alone_with

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

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


def _bad(path: str | Path, why: str) -> LedgerError:
    return LedgerError(
        f"{path}: this file is damaged or from another version of fedslim ({why}); remove it to reconnect now"
    )


FILES = Format(FORMAT, VERSION, _bad)


class Refusals:
    """The refusals of one federation, in a file that all federations of a member share."""

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
        left = found.last + timedelta(seconds=pause) - now
        return max(left.total_seconds(), 0.0)

    @property
    def count(self) -> int:
        """The number of refusals."""
        found = self._read().get(self._federation)
        return 0 if found is None else found.count

    def add(self, now: datetime) -> None:
        """Count a refusal.

        Raises:
            WriteError: The file cannot be written.
        """
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
        make_folder_for(self.path)
        with alone_with(self.path):
            kept = dict(self._read())
            new = change(kept.pop(self._federation, None))
            if new is not None:
                kept[self._federation] = new
            while len(kept) > MAX_ENTRIES:  # drop the oldest, whose wait is over
                del kept[min(kept, key=lambda federation: kept[federation].last)]
            data = msgspec.json.format(msgspec.json.encode(_BackoffFile(federations=kept)), indent=2) + b"\n"
            write_whole(self.path, data, private=True)
