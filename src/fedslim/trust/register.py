"""The ledger of a CA: every certificate it signed, and which of them are revoked.

A certificate that is not in the ledger could not be revoked, so the ledger is written before a certificate is handed
out.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import msgspec

from fedslim.data.atomic import creating, write_whole
from fedslim.data.documents import Format
from fedslim.errors import CertificateError
from fedslim.trust.keys import MAX_LIST, read_private
from fedslim.trust.names import Role  # noqa: TC001  # msgspec looks at it

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT, VERSION = "fedslim-ca-ledger", 1

Time = Annotated[datetime, msgspec.Meta(tz=True)]


def _bad(path: str | Path, why: str) -> CertificateError:
    return CertificateError(
        f"{path}: the ledger of this CA is damaged, or of another version ({why}); restore it from your backup, or use "
        "a newer fedslim"
    )


FILES = Format(FORMAT, VERSION, _bad)


class CertificateState(Enum):
    """The state of a certificate."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"
    SUPERSEDED = "superseded"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A signed certificate."""

    serial: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,40}$")]
    name: Annotated[str, msgspec.Meta(max_length=63)]
    role: Role
    hosts: list[str]
    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    """The fingerprint of the holder's key."""
    start: Time
    end: Time
    revoked: Time | None = None
    superseded: bool = False

    def state(self, now: datetime) -> CertificateState:
        """Return the state at a point in time. A certificate that is not valid yet counts as valid."""
        if self.revoked is not None:
            return CertificateState.SUPERSEDED if self.superseded else CertificateState.REVOKED
        return CertificateState.EXPIRED if now > self.end else CertificateState.VALID


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All records, oldest first, and the number and start of the latest revocation list."""

    format: str = FORMAT
    version: int = VERSION
    list_number: Annotated[int, msgspec.Meta(ge=0)] = 0
    listed: Time | None = None
    records: list[Record] = []

    def revoked(self) -> list[tuple[int, datetime, bool]]:
        """Return the entries of a revocation list."""
        return [(int(each.serial, 16), each.revoked, each.superseded) for each in self.records if each.revoked]

    def valid(self, name: str, now: datetime) -> list[Record]:
        """Return the valid certificates of a name."""
        return [
            record for record in self.records if record.name == name and record.state(now) is CertificateState.VALID
        ]

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read a ledger.

        Raises:
            CertificateError: It is damaged or not a ledger, or other users may read or change it.
        """
        return FILES.decode(read_private(path, "the ledger of this CA", MAX_LIST), path, cls)

    def write_new(self, path: Path) -> None:
        """Write a new ledger; the file must not exist yet."""
        with creating(path) as stream:
            stream.write(self._encoded())

    def write(self, path: Path) -> None:
        """Replace the ledger atomically: after a power failure the file is complete, old or new."""
        write_whole(path, self._encoded(), private=True)

    def _encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Keep other processes from writing the ledger at the same time, which would lose one of two records."""
    try:
        import fcntl  # noqa: PLC0415  # not on every system
    except ImportError:  # pragma: no cover
        yield
        return
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError:  # reading the ledger raises the error
        yield
        return
    try:
        with suppress(OSError):  # some network file systems do not support locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
