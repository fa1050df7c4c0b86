"""A journal: what a session received, in order, so that it can be brought back to where it was by receiving it again.

    journal = Journal.create(path, {"run": "…"}, key=key)
    journal.append(data) …                                      # each before anything is done about it
    journal, header, records = Journal.reopen(path, key=key)    # after a fault; goes on where it ended

Sessions do no input or output and make no random choices, so the same messages bring them to the same state: there is
nothing else to save.

The key is the party's own (`Identity.derived_key`). Each record carries its length and a keyed BLAKE2b MAC over the
previous MAC, which stands for everything before it in its order, and its content. The first record has the header and
a random id. So nobody without the key can forge, alter, reorder or drop records, or move one from another journal. Two
things remain possible: to cut records off the end, and to put back a whole older journal of the same party.

At the first record that does not authenticate, the reader follows the declared lengths to the end of the file:

- If no later record authenticates after the MAC stored before it, this is a damaged end, as a kill or a power cut
  leaves it: torn, filled with zeros, or garbled. It is cut off, and the journal goes on after the last good record.
- If one does, there is damage in the middle, or somebody altered a record. The journal is refused by name.

The header must authenticate; otherwise somebody else wrote the journal, and it is refused. It is also refused if
somebody else may write the file, or replace it in its folder.
"""

from __future__ import annotations

import hmac
import json
import os
import stat
import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedslim.data.atomic import PRIVATE
from fedslim.errors import JournalError, ParameterError, WriteError

if TYPE_CHECKING:
    from collections.abc import Mapping

KIND = b"fedslim journal "
MAGIC = KIND + b"3\n"
"""With the version of the format. 3: records are authenticated."""
KEY_BYTES = MAC_BYTES = 32
ID_BYTES = 16
LENGTH_BYTES = 4
HEAD_BYTES = LENGTH_BYTES + MAC_BYTES
MAX_RECORD = 1 << 27
SYNC_EVERY = 1.0
"""Seconds after which what was written is also forced to the disk: only a dead machine can lose more."""


@dataclass(frozen=True, slots=True, repr=False)
class _Chain:
    """Where a journal stands: the MAC of its last record, which covers all of them in their order."""

    key: bytes
    last: bytes = bytes(MAC_BYTES)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            msg = f"key: a journal needs {KEY_BYTES} bytes, not {len(self.key)}; derive them from the private key"
            raise ParameterError(msg)

    def mac(self, record: bytes) -> bytes:
        """The MAC of a record that comes next."""
        digest = blake2b(key=self.key, digest_size=MAC_BYTES, person=b"fedslim journal3")
        digest.update(self.last)
        digest.update(record)
        return digest.digest()

    def after(self, mac: bytes) -> _Chain:
        """The chain with one more record, which has this MAC."""
        return _Chain(self.key, mac)


class Journal:
    """An open journal, to append to."""

    def __init__(self, path: Path, file: IO[bytes], chain: _Chain) -> None:
        self.path = path
        self._file = file
        self._chain = chain
        self._failure: str | None = None  # why nothing more is written
        self._synced = time.monotonic()

    @classmethod
    def create(cls, path: str | Path, header: Mapping[str, Any], *, key: bytes) -> Journal:
        """Begin a journal; one that is there already is not overwritten: it may be needed."""
        path = Path(path)
        chain = _Chain(key)
        check_folder(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        except FileExistsError as error:
            msg = f"{path}: there is a journal of another run; continue it with --resume, or move it away"
            raise JournalError(msg) from error
        except OSError as error:
            msg = f"{path}: the journal cannot be written: {error.strerror}"
            raise WriteError(msg) from error
        journal = cls(path, os.fdopen(descriptor, "wb", buffering=0), chain)
        journal._write(MAGIC)
        journal.append(os.urandom(ID_BYTES) + json.dumps(header, sort_keys=True).encode())
        return journal

    @classmethod
    def reopen(cls, path: str | Path, *, key: bytes) -> tuple[Journal, dict[str, Any], list[bytes]]:
        """The journal, its header and its records; a damaged end is cut off.

        Raises:
            JournalError: It is not there, somebody else wrote it or may write it, it was altered, or it is of another
                version. It is left as it is.
        """
        path = Path(path)
        chain = _Chain(key)
        try:
            file = path.open("r+b", buffering=0)
        except OSError as error:
            msg = f"{path}: there is no journal to continue: {error.strerror}"
            raise JournalError(msg) from error
        try:
            _check_owner(path, file)
            check_folder(path)
            header, records, end, chain = _read(path, file, chain)
            file.truncate(end)
            file.seek(end)
        except BaseException:
            file.close()
            raise
        return cls(path, file, chain), header, records

    def append(self, record: bytes) -> None:
        """Write a record; when this returns, a killed process does not lose it.

        Raises:
            WriteError: The disk is full or gone; what was written before still counts. Nothing is written after that,
                even where it would fit: there would be a record missing before it.
        """
        mac = self._chain.mac(record)
        self._write(len(record).to_bytes(LENGTH_BYTES, "big") + mac + record)
        self._chain = self._chain.after(mac)
        if time.monotonic() - self._synced >= SYNC_EVERY:
            self._synced = time.monotonic()
            os.fdatasync(self._file.fileno())

    def _write(self, data: bytes) -> None:
        if self._failure is not None:
            raise WriteError(self._failure)
        at = self._file.tell()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._file.truncate(at)
            self._file.seek(at)
            self._failure = (
                f"{self.path}: the journal cannot be written: {error.strerror}; what is there can be resumed"
            )
            raise WriteError(self._failure) from error

    def close(self) -> None:
        """Force everything to the disk and close."""
        if not self._file.closed:
            os.fdatasync(self._file.fileno())
            self._file.close()


# -- who may write it -----------------------------------------------------------------------------------------------


def check_folder(path: Path) -> None:
    """Check that nobody else can put another file in the place of a journal.

    Raises:
        JournalError: Others may write to its folder; the message says how to keep them out.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
    except OSError:
        return  # whoever opens the file then says so
    if os.name == "posix" and mode & 0o022 and not mode & stat.S_ISVTX:
        msg = (
            f"{path}: others may replace files in its folder (permissions {mode:03o}), so no journal is kept there; "
            f"run `chmod go-w {folder}`, or name a folder of your own with --out"
        )
        raise JournalError(msg)


def _check_owner(path: Path, file: IO[bytes]) -> None:
    if os.name != "posix":
        return
    found = os.fstat(file.fileno())
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        msg = (
            f"{path}: this journal belongs to user {found.st_uid} and not to you (user {os.geteuid()}), so it is not "
            "continued; run fedslim as that user, or move it away"
        )
        raise JournalError(msg)
    if mode & 0o022:
        msg = (
            f"{path}: others may change this journal (permissions {mode:03o}), so it is not continued; if nobody has, "
            f"run `chmod 600 {path}`, otherwise move it away"
        )
        raise JournalError(msg)


# -- reading --------------------------------------------------------------------------------------------------------


def _read(path: Path, file: IO[bytes], chain: _Chain) -> tuple[dict[str, Any], list[bytes], int, _Chain]:
    """The header, the records, where the last good one ends, and the chain up to it."""
    _check_version(path, file)
    records: list[bytes] = []
    end = len(MAGIC)
    while (found := _next(file)) is not None and _is_genuine(chain, *found):
        chain = chain.after(found[0])
        records.append(found[1])
        end += HEAD_BYTES + len(found[1])
    if not records:
        if found is None:
            msg = f"{path}: the journal ends within its header; there is nothing to continue, remove it"
        else:
            msg = (
                f"{path}: this journal was not written by this party with its present key, or was altered; "
                "it is not continued: move it away"
            )
        raise JournalError(msg)
    if found is not None and _is_in_the_middle(file, chain, found[0]):
        msg = (
            f"{path}: record {len(records)} of the journal was altered or is damaged, and records follow it; "
            "it is not continued: move it away"
        )
        raise JournalError(msg)
    header: dict[str, Any] = json.loads(records[0][ID_BYTES:])  # ours: it is authenticated
    return header, records[1:], end, chain


def _check_version(path: Path, file: IO[bytes]) -> None:
    found = file.read(len(MAGIC))
    if found == MAGIC:
        return
    msg = f"{path}: this is no journal of ours; it is not continued"
    if found.startswith(KIND):
        theirs, ours = (text[len(KIND) :].decode("ascii", "replace").strip() for text in (found, MAGIC))
        msg = (
            f"{path}: this is a journal of version {theirs}, and this fedslim writes {ours}; continue the run with "
            "the fedslim that began it, or move the journal away"
        )
    raise JournalError(msg)


def _next(file: IO[bytes]) -> tuple[bytes, bytes] | None:
    """The MAC and the content of what stands as the next record; None if it is not whole."""
    head = file.read(HEAD_BYTES)
    length = int.from_bytes(head[:LENGTH_BYTES], "big")
    if len(head) < HEAD_BYTES or not any(head) or length > MAX_RECORD:
        return None
    record = file.read(length)
    return (head[LENGTH_BYTES:], record) if len(record) == length else None


def _is_genuine(chain: _Chain, mac: bytes, record: bytes) -> bool:
    return hmac.compare_digest(mac, chain.mac(record))


def _is_in_the_middle(file: IO[bytes], chain: _Chain, stored: bytes) -> bool:
    """Whether something genuine follows a bad record, the MAC of which is given."""
    chain = chain.after(stored)
    while (found := _next(file)) is not None:
        if _is_genuine(chain, *found):
            return True
        chain = chain.after(found[0])
    return False
