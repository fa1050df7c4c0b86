"""The registry of public data sets: their shape, source, licence and checksum, from `public_sets.toml`.

No data are shipped, and no file is trusted: its uncompressed content must match the checksum recorded here.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fedslim.data.textstream import open_bytes, told_as_data_errors
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

UNPACKED_LIMIT = 2**30
"""Maximum uncompressed bytes; every public set is smaller."""

_CHUNK = 2**20

_CLOSE = 0.75
"""Similarity of names that counts as a typo, for `difflib`."""


@dataclass(frozen=True, slots=True)
class PublicSet:
    """The record of a public data set. At least one of the two checksums is given."""

    name: str
    title: str
    transactions: int
    items: int
    length: str
    source: str
    licence: str
    citation: str
    sha256: str | None = None  # of the uncompressed file
    git_blob: str | None = None  # `git hash-object` of the uncompressed file
    url: str | None = None
    by_hand: str = ""  # how to get it if there is no URL
    partial: bool = False

    @property
    def file_names(self) -> tuple[str, ...]:
        """The possible file names, in search order."""
        return (f"{self.name}.dat", f"{self.name}.dat.gz", f"{self.name}.txt", f"{self.name}.txt.gz")

    @property
    def how_to_get(self) -> str:
        """How to get the file by hand: the last part of error messages."""
        origin = f"download it by hand from {self.url}" if self.url else self.by_hand
        return f"{origin}, and pass --from FOLDER or set FEDSLIM_DATA to its folder"


class _Registry(msgspec.Struct, frozen=True):
    set: tuple[PublicSet, ...]


_SETS = msgspec.toml.decode(Path(__file__).with_name("public_sets.toml").read_bytes(), type=_Registry).set


def public_sets() -> tuple[PublicSet, ...]:
    """Return every public data set in the registry."""
    return _SETS


def public_set(name: str) -> PublicSet:
    """Return the record of a public data set.

    Raises:
        DataError: The name is unknown; the message suggests similar ones.
    """
    records = {record.name: record for record in public_sets()}
    if name in records:
        return records[name]
    raise DataError(_no_download(name) or f"there is no public data set {name!r}{did_you_mean(name, list(records))}")


def _no_download(name: str) -> str | None:
    """Return the message for built-in and generated data, which have no file."""
    from fedslim.data.builtin import BUILTIN_NAMES  # noqa: PLC0415  # they import did_you_mean
    from fedslim.data.generators import KINDS  # noqa: PLC0415  # as above

    if name in BUILTIN_NAMES:
        return f"{name} is built in and needs no download; use it by name, as in: fedslim mine {name}"
    if name.partition(":")[0] in KINDS:
        return f"{name} is generated and needs no download; use it by name, as in: fedslim mine {name}"
    return None


def did_you_mean(name: str, known: list[str]) -> str:
    """Return the end of a message about an unknown name: similar names, or all names."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=_CLOSE)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; the names are {', '.join(known)}"


def verify(record: PublicSet, path: Path) -> None:
    """Check the uncompressed content of `path` against the checksum of the set."""
    if record.sha256 is not None:  # one checksum is enough
        kind, wanted, digest = "sha256", record.sha256, hashlib.sha256()
    else:
        kind, wanted = "git blob id", record.git_blob or ""
        # Git hashes the size first, so the content is read twice.
        digest = hashlib.sha1(b"blob %d\0" % sum(map(len, _unpack(path))), usedforsecurity=False)
    for chunk in _unpack(path):
        digest.update(chunk)
    if (found := digest.hexdigest()) != wanted:
        msg = (
            f"{path}: this is not the public set {record.name} (its {kind} is {found}, expected {wanted}); "
            f"remove it, then {record.how_to_get}"
        )
        raise DataError(msg)


def _unpack(path: Path) -> Iterator[bytes]:
    size = 0
    with open_bytes(path) as stream:
        while True:
            with told_as_data_errors(path):
                chunk = stream.read(_CHUNK)
            if not chunk:
                return
            size += len(chunk)
            if size > UNPACKED_LIMIT:
                raise DataError(f"{path}: larger than {UNPACKED_LIMIT:,} bytes, unlike any public set; check the file")
            yield chunk
