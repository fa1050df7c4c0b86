"""How often a member and a server refused each other, so that the member comes back later and later.

    refusals = Refusals(path, federation_id)
    refusals.add(now)                   # before the server hears that it was refused
    seconds = refusals.wait(now)        # until the member may connect again

A server that varies what it asks for could learn from each refusal, as often as a member's process is started again.
So this is in a file beside the member's ledger, which outlives the process. A run that ends well takes the entry out.
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
"""Seconds. The first wait doubles with each refusal, up to the longest."""

MAX_BYTES = 1 << 20
MAX_ENTRIES = 1000
_MAX_DOUBLINGS = 30


class RefusalCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The refusals of one federation since its last run that ended well."""

    count: Annotated[int, Meta(ge=1)]
    last: Annotated[datetime, Meta(tz=True)]


class _BackoffFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str = FORMAT
    version: int = VERSION
    federations: dict[str, RefusalCount] = {}


def _bad(path: str | Path, why: str) -> LedgerError:
    return LedgerError(f"{path}: this file is damaged or of another fedslim ({why}); remove it to come back at once")


FILES = Format(FORMAT, VERSION, _bad)


class Refusals:
    """The refusals of one federation, in a file that all federations of a member share."""

    def __init__(self, path: Path, federation: str, *, first: float = FIRST_WAIT) -> None:
        self.path = path
        self._federation, self._first = federation, first

    def wait(self, now: datetime) -> float:
        """Seconds until the member may connect again; 0 if it may."""
        found = self._read().get(self._federation)
        if found is None:
            return 0.0
        if found.last > now:  # the clock was put back: nobody waits for longer than a pause
            found = RefusalCount(found.count, now)
            self._change(lambda _found: found)
        pause = min(self._first * 2.0 ** min(found.count - 1, _MAX_DOUBLINGS), MAX_WAIT)
        left = found.last + timedelta(seconds=pause) - now
        return max(left.total_seconds(), 0.0)

    @property
    def count(self) -> int:
        """How many there were."""
        found = self._read().get(self._federation)
        return 0 if found is None else found.count

    def add(self, now: datetime) -> None:
        """Count a refusal.

        Raises:
            WriteError: It cannot be written.
        """
        self._change(lambda found: RefusalCount(1 if found is None else found.count + 1, now))

    def reset(self) -> None:
        """Forget them: a run has ended well."""
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
            while len(kept) > MAX_ENTRIES:  # the one that was refused longest ago has waited
                del kept[min(kept, key=lambda each: kept[each].last)]
            data = msgspec.json.format(msgspec.json.encode(_BackoffFile(federations=kept)), indent=2) + b"\n"
            write_whole(self.path, data, private=True)
