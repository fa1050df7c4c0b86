"""The ledger of a member: for each version of its data, which sets of members it took part with, and when.

Two results with almost the same members differ by the counts of the few who took part in only one of them. So a member
answers a second set of members on the same data only if it is the same set, or if at least two members differ on each
side on which any do. An operator can allow another set; the ledger records that with the reason.
Sums and differences of several results must not single a member out either: see `singled_out`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from hashlib import blake2b, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from fedslim.data import TransactionDatabase
from fedslim.data.atomic import make_folder_for, write_whole
from fedslim.data.documents import Format
from fedslim.errors import LedgerError, WriteError
from fedslim.protocol.wire_types import MAX_MEMBERS
from fedslim.schema import Conformed
from fedslim.trust.certificates import format_time, whole
from fedslim.trust.keys import alone_with, read_trusted

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

FORMAT, VERSION = "fedslim-member-ledger", 1
MAX_BYTES = 1 << 24
MAX_ENTRIES = 10_000
MAX_REASON = 500
FEWEST_APART = 2  # fewest members by which two sets may differ, on each side on which they differ at all
_MAX_NAMED = 10
MAX_PREPARATIONS = 3  # preparations on the same data: in each, a lying server could choose other values to count
_SNAPSHOT, _TABLE, _LABEL = b"fedslim data 1", b"fedslim table 1", b"fedslim label 1"

Time = Annotated[datetime, Meta(tz=True)]
Member = Annotated[str, Meta(max_length=63)]
Members = Annotated[list[Member], Meta(min_length=1, max_length=MAX_MEMBERS)]
Name = Annotated[str, Meta(max_length=100)]
Hex = Annotated[str, Meta(pattern="^([0-9a-f]{2}){0,32}$")]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a member's data: equal for the same transactions in any order."""

    digest: str
    transactions: int

    @classmethod
    def of(cls, database: TransactionDatabase | Conformed) -> Snapshot:
        """Return the snapshot of a database. Items are identified by their labels.

        That of a table in terms of a schema has its values: it must not depend on cuts, which a server could change.
        """
        if isinstance(database, Conformed):
            rows = np.sort(database.hashes())
            return cls(sha256(_TABLE + rows.astype("<u8").tobytes()).hexdigest(), database.rows)
        hashed = b"".join(
            blake2b(label.encode("utf-8", "surrogatepass"), digest_size=8, person=_LABEL).digest()
            for label in database.vocabulary
        )
        of_item = np.frombuffer(hashed, "<u8")
        with np.errstate(over="ignore"):  # sums modulo 2^64 do not depend on the order of items
            ends = np.concatenate((np.zeros(1, "<u8"), np.cumsum(of_item[database.items], dtype="<u8")))
            rows = np.sort(ends[database.offsets[1:]] - ends[database.offsets[:-1]])
        return cls(sha256(_SNAPSHOT + rows.astype("<u8").tobytes()).hexdigest(), len(database))


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of members with which this member answered, on a version of its data."""

    snapshot: Hex
    transactions: Annotated[int, Meta(ge=0)]
    federation: Name
    federation_id: Hex
    members: Members
    first: Time
    last: Time
    runs: Annotated[int, Meta(ge=1)]
    run: Hex  # the last run, so that it is not counted again when the member resumes it
    preparations: Annotated[int, Meta(ge=0)] = 0  # how many of the runs were preparations

    @property
    def about(self) -> tuple[str, str, list[str]]:
        """What there is one entry for: the data, the federation and the members."""
        return self.snapshot, self.federation_id, self.members


class Permission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A set of members that an operator has allowed."""

    members: Members
    federation: Name
    federation_id: Hex
    time: Time
    reason: Annotated[str, Meta(max_length=MAX_REASON)]


class Entries(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the file, oldest entries first."""

    format: str = FORMAT
    version: int = VERSION
    answers: Annotated[list[Answer], Meta(max_length=MAX_ENTRIES)] = []
    allowed: Annotated[list[Permission], Meta(max_length=MAX_ENTRIES)] = []


_BAD = (
    "{path}: this member's ledger is damaged or from another version of fedslim ({why}), so this member does not "
    "answer; restore it from a backup"
)
FILES = Format(FORMAT, VERSION, LedgerError, _BAD)


class AnswerLedger:
    """The ledger in a file. It is read anew each time, because several processes of a member may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> Entries:
        """Read the entries; there are none if there is no file yet."""
        if not os.path.lexists(self.path):
            return Entries()
        return FILES.decode(read_trusted(self.path, "this member's ledger", MAX_BYTES), self.path, Entries)

    def check_place(self) -> None:
        """Check that the ledger can be written, before everybody waits for the first answer."""
        make_folder_for(self.path)
        if not os.access(self.path.parent, os.W_OK | os.X_OK):
            raise WriteError(
                f"{self.path}: this member's ledger cannot be written, so this member could not answer; name another "
                "file under [ledger] in its policy"
            )

    def check(
        self,
        file: FederationFile,
        snapshot: Snapshot,
        *,
        prepared: frozenset[str] = frozenset(),
        preparing: bool = False,
    ) -> list[str]:
        """Check that this set of members may be answered. Return warnings about other versions of the data.

        If some left after a preparation, `prepared` are all members of it: that difference was agreed on. A search that
        all of them answered is another matter. `preparing` says that a new preparation would begin; their number is
        limited.
        """
        entries, members = self.entries(), frozenset(file.federation.members)
        if not any(sorted(each.members) == sorted(members) for each in entries.allowed):
            before = [
                each
                for each in entries.answers
                if each.snapshot == snapshot.digest
                and (each.runs > each.preparations or frozenset(each.members) != prepared)
            ]
            for each in before:
                if (why := describe_difference(each.members, members)) is not None:
                    raise self._refusal(file, each, why)
            known = [frozenset(each.members) for each in before]
            if alone := singled_out([*known, members]) - singled_out(known):
                why = f"the counts of {member_list(sorted(alone))} alone, together with earlier results"
                raise self._refusal(file, before[-1], why)
        if preparing:
            for each in entries.answers:
                if each.about == (snapshot.digest, file.federation.id, sorted(members)):
                    self._check_preparations(each, entries)
        return _warnings(entries, file, snapshot)

    def record(  # noqa: PLR0913  # keyword-only
        self,
        file: FederationFile,
        snapshot: Snapshot,
        run: bytes,
        *,
        now: datetime,
        preparing: bool = False,
        resumed: bool = False,
        prepared: frozenset[str] = frozenset(),
    ) -> None:
        """Record that this set of members is answered, before the first answer.

        A preparation and its search are one entry, with two runs: they answer the same members on the same data.
        A run that this member has `resumed` counts once. Its journal tells, not the id of the run: a server chooses
        that, and may use one twice.
        """
        with alone_with(self.path):
            self.check(file, snapshot, prepared=prepared)
            entries, moment = self.entries(), whole(now)
            agreed, members = file.federation, sorted(file.federation.members)
            new = Answer(
                snapshot.digest, snapshot.transactions, agreed.name, agreed.id, members, moment, moment, 1, run.hex()
            )
            answers = []
            for each in entries.answers:
                if each.about != new.about:
                    answers.append(each)
                elif resumed and each.run == new.run:
                    return
                else:
                    new = replace(new, first=each.first, runs=each.runs + 1, preparations=each.preparations)
            if preparing:
                self._check_preparations(new, entries)
                new = replace(new, preparations=new.preparations + 1)
            self._write(replace(entries, answers=[*answers, new]))

    def _check_preparations(self, answer: Answer, entries: Entries) -> None:
        allowed = sum(sorted(each.members) == answer.members for each in entries.allowed)
        if answer.preparations >= MAX_PREPARATIONS * (1 + allowed):
            raise LedgerError(
                f"{self.path}: this member has prepared {answer.preparations} runs with {member_list(answer.members)} "
                "on the same data, and each time the server could count other values; start from a kept preparation "
                "(--preparation), or allow more with `fedslim ledger allow`"
            )

    def allow(self, file: FederationFile, reason: str, *, now: datetime) -> None:
        """Allow this set of members from now on, whichever sets were answered before."""
        if len(reason) > MAX_REASON or not reason.isprintable():
            msg = f"the reason is too long or not printable; write one line of at most {MAX_REASON} characters"
            raise LedgerError(msg)
        agreed = file.federation
        new = Permission(sorted(agreed.members), agreed.name, agreed.id, whole(now), reason)
        with alone_with(self.path):
            entries = self.entries()
            self._write(replace(entries, allowed=[*entries.allowed, new]))

    def _write(self, entries: Entries) -> None:
        data = msgspec.json.format(msgspec.json.encode(entries), indent=2) + b"\n"
        if max(len(entries.answers), len(entries.allowed)) > MAX_ENTRIES or len(data) > MAX_BYTES:
            raise LedgerError(
                f"{self.path}: this member's ledger is full, so this member does not answer; make a backup, and remove "
                "the oldest entries, on data of which nobody has a result any more"
            )
        write_whole(self.path, data, private=True)

    def _refusal(self, file: FederationFile, before: Answer, why: str) -> LedgerError:
        allow = f"fedslim ledger allow {file.path}"
        if self.path.parent != file.server.certificates:
            allow += f" --identity {self.path.parent}"
        return LedgerError(
            f"{self.path}: this member answered {member_list(before.members)} on the same data on "
            f"{format_time(before.last)}, and {file.path} has {member_list(file.federation.members)}: "
            f"adding and subtracting the results would reveal {why}, so this member does not take part; if everybody "
            f"agrees to that, allow it with `{allow}`"
        )


def describe_difference(before: list[str] | frozenset[str], now: frozenset[str]) -> str | None:
    """Describe whose counts the difference of two results reveals; None if enough members differ."""
    new, left = sorted(now - frozenset(before)), sorted(frozenset(before) - now)
    if not any(0 < len(side) < FEWEST_APART for side in (new, left)):
        return None
    if not new or not left:
        return f"the counts of {member_list(new or left)} alone"
    return f"the counts of {member_list(new)} minus those of {member_list(left)}"


def singled_out(sets: Sequence[frozenset[str]]) -> set[str]:
    """Return the members whose own counts follow from sums and differences of the results for these sets.

    Each set is a row of zeros and ones. A member can be singled out if the reduced row echelon form has a row with a
    one for that member and zeros otherwise. Fractions keep this exact.
    """
    reduced: dict[str, dict[str, Fraction]] = {}  # by pivot; zeros are left out
    for members in set(sets):
        row = dict.fromkeys(members, Fraction(1))
        for pivot, other in reduced.items():
            if pivot in row:
                _subtract(row, other, row[pivot])
        if row:
            pivot = min(row)
            row = {member: value / row[pivot] for member, value in row.items()}
            for other in reduced.values():
                if pivot in other:
                    _subtract(other, row, other[pivot])
            reduced[pivot] = row
    return {pivot for pivot, row in reduced.items() if len(row) == 1}


def _subtract(row: dict[str, Fraction], other: dict[str, Fraction], times: Fraction) -> None:
    for member, value in other.items():
        row[member] = row.get(member, Fraction(0)) - times * value
        if not row[member]:
            del row[member]


def member_list(members: list[str] | tuple[str, ...]) -> str:
    """Format members for a sentence, leaving some out if there are many."""
    listed = sorted(members)
    more = f" and {len(listed) - _MAX_NAMED} others" if len(listed) > _MAX_NAMED else ""
    return ", ".join(map(repr, listed[:_MAX_NAMED])) + more


def _warnings(entries: Entries, file: FederationFile, snapshot: Snapshot) -> list[str]:
    """Describe what results on other versions of the data would reveal together with a new one."""
    members = frozenset(file.federation.members)
    others = sorted((each for each in entries.answers if each.snapshot != snapshot.digest), key=lambda each: each.last)
    same = [each for each in others if each.federation_id == file.federation.id or frozenset(each.members) == members]
    similar = [(each, why) for each in others if (why := describe_difference(each.members, members)) is not None]
    return [
        f"this member answered {last.federation!r} on other data before ({last.transactions:,} transactions on "
        f"{format_time(last.last)}, {snapshot.transactions:,} now): subtracting the two results reveals the counts of "
        "the transactions that changed in between"
        for last in same[-1:]
    ] + [
        f"this member answered {member_list(last.members)} on other data on {format_time(last.last)}: the difference "
        f"to a new result would reveal {why}, apart from what changed in between"
        for last, why in similar[-1:]
    ]
