"""The book of an authority: every certificate it signed, and which of them count no longer.

A certificate that is not in the book could not be revoked, so the book is written before the certificate is given out.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import msgspec

from fedslim.data.atomic import creating, write_whole
from fedslim.errors import CertificateError
from fedslim.trust.certificates import Revocation
from fedslim.trust.keys import MAX_LIST, read_private
from fedslim.trust.names import Role  # noqa: TC001  # msgspec looks at it

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMAT, VERSION = "fedslim-ca-ledger", 1

Time = Annotated[datetime, msgspec.Meta(tz=True)]


class CertificateState(Enum):
    """How things are with a certificate."""

    VALID = "valid"
    EXPIRED = "expired"
    REVOKED = "revoked"
    SUPERSEDED = "superseded"


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A certificate that was signed."""

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
        """How things are at a point in time. One that is yet to begin counts as valid: its day comes."""
        if self.revoked is not None:
            return CertificateState.SUPERSEDED if self.superseded else CertificateState.REVOKED
        return CertificateState.EXPIRED if now > self.end else CertificateState.VALID

    def revocation(self) -> Revocation | None:
        """Its entry in the revocation list."""
        return None if self.revoked is None else Revocation(int(self.serial, 16), self.revoked, self.superseded)


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All records, oldest first, and which revocation list was made last."""

    format: str = FORMAT
    version: int = VERSION
    list_number: Annotated[int, msgspec.Meta(ge=0)] = 0
    listed: Time | None = None
    records: list[Record] = []

    def valid(self, name: str, now: datetime) -> list[Record]:
        """What counts for a name."""
        return [
            record for record in self.records if record.name == name and record.state(now) is CertificateState.VALID
        ]

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """Read what `write` wrote.

        Raises:
            CertificateError: It is something else, or damaged, or others may change it.
        """
        data = read_private(path, "the ledger of this CA", MAX_LIST)
        try:
            ledger = msgspec.json.decode(data, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            msg = f"{path}: the ledger of this CA is damaged ({error}); put it back from your copy"
            raise CertificateError(msg) from None
        if (ledger.format, ledger.version) != (FORMAT, VERSION):
            msg = f"{path}: this is no {FORMAT} of version {VERSION}; use the fedslim that made it, or a newer one"
            raise CertificateError(msg)
        return ledger

    def write_new(self, path: Path) -> None:
        """Begin a book where there is none."""
        with creating(path) as stream:
            stream.write(self._encoded())

    def write(self, path: Path) -> None:
        """Replace the book; it is there whole, old or new, also after a power cut."""
        write_whole(path, self._encoded(), private=True)

    def _encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Keep other processes from writing the book at the same time, which would lose one of the two records."""
    try:
        import fcntl  # noqa: PLC0415  # not on every system
    except ImportError:  # pragma: no cover
        yield
        return
    try:
        descriptor = os.open(path.parent, os.O_RDONLY)
    except OSError:  # told by whoever reads the book
        yield
        return
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
