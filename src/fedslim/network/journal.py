"""A journal: what a session received, in order, so that it can be brought back to where it was by receiving it again.

    journal = Journal.create(path, {"run": "…"}, key=key)
    journal.append(data) …                                      # each before anything is done about it
    reopened = Journal.reopen(path, key=key)                    # after a fault; goes on where it ended

Sessions do no input or output and make no random choices, so the same messages bring them to the same state: there is
nothing else to save.

The key is the party's own (`Identity.derived_key`). Each record carries its length and a keyed BLAKE2b MAC over the
previous MAC, which stands for everything before it in its order, and its content. The first record has the header and
a random id. So nobody without the key can forge, alter, reorder or drop records, or move one from another journal. Two
things remain possible: to cut records off the end, and to put back a whole older journal of the same party.

From the first record that does not authenticate, the journal is cut off: a kill or a power cut leaves the end torn,
filled with zeros, or garbled. The run then goes back to where the journal ends (`protocol/server.py`), so nothing but
time is lost. Whoever alters a record gains no more than by cutting the file there.

The header must authenticate; otherwise somebody else wrote the journal, and it is refused. It is also refused if
somebody else may write the file, or replace it in its folder. A journal appears with its header, which is on the disk
by then; one that is shorter is of no use, and is moved out of the way.

Records reach the system at once, so that a killed process loses none, and the disk within a second (`SYNC_EVERY`).
What must not be lost even with the power is forced to the disk (`sync`).
"""

from __future__ import annotations

import hmac
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from fedslim.data.atomic import creating
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


class Reopened(NamedTuple):
    """A journal that goes on, and what was in it."""

    journal: Journal
    header: dict[str, Any]
    records: list[bytes]
    cut: int  # bytes that were damaged, and are gone


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
        if os.path.lexists(path):
            msg = f"{path}: there is a journal of another run; continue it with --resume, or move it away"
            raise JournalError(msg)
        first = os.urandom(ID_BYTES) + json.dumps(header, sort_keys=True).encode()
        mac = chain.mac(first)
        with creating(path) as stream:
            stream.write(MAGIC + _pack(mac, first))
        file = path.open("r+b", buffering=0)
        file.seek(0, os.SEEK_END)
        return cls(path, file, chain.after(mac))

    @classmethod
    def read(cls, path: str | Path, *, key: bytes) -> list[bytes]:
        """The records of a journal that somebody is writing."""
        with Path(path).open("rb") as file:
            found = _read(Path(path), file, _Chain(key))
        return [] if found is None else found[1]

    @classmethod
    def reopen(cls, path: str | Path, *, key: bytes) -> Reopened | None:
        """The journal, its header and its records; a damaged end is cut off.

        None if it has not even a header, and nothing happened after it was begun: it is moved away, as `….old`.

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
            check_owner(path, file)
            check_folder(path)
            found = _read(path, file, chain)
            if found is None:
                file.close()
                path.replace(path.with_name(path.name + ".old"))
                return None
            header, records, end, chain = found
            cut = file.seek(0, os.SEEK_END) - end
            file.truncate(end)
            file.seek(end)
        except BaseException:
            file.close()
            raise
        return Reopened(cls(path, file, chain), header, records, cut)

    def append(self, record: bytes) -> None:
        """Write a record; when this returns, a killed process does not lose it.

        Raises:
            WriteError: The disk is full or gone; what was written before still counts. Nothing is written after that,
                even where it would fit: there would be a record missing before it.
        """
        mac = self._chain.mac(record)
        self._write(_pack(mac, record))
        self._chain = self._chain.after(mac)
        if time.monotonic() - self._synced >= SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Force what was written to the disk: when this returns, a power cut does not lose it.

        Raises:
            WriteError: The disk says that it did not work.
        """
        self._synced = time.monotonic()
        try:
            _to_disk(self._file.fileno())
        except OSError as error:
            self._failure = f"{self.path}: the journal does not reach the disk: {error.strerror}"
            raise WriteError(self._failure) from error

    def _write(self, data: bytes) -> None:
        if self._failure is not None:
            raise WriteError(self._failure)
        at = self._file.tell()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failure = (
                f"{self.path}: the journal cannot be written: {error.strerror}; what is there can be resumed"
            )
            with suppress(OSError):  # a part of a record is cut off when the journal is read, too
                self._file.truncate(at)
                self._file.seek(at)
            raise WriteError(self._failure) from error

    def close(self) -> None:
        """Force everything to the disk and close."""
        if not self._file.closed:
            with suppress(OSError):  # whoever must know has called `sync`
                _to_disk(self._file.fileno())
            self._file.close()


def _pack(mac: bytes, record: bytes) -> bytes:
    return len(record).to_bytes(LENGTH_BYTES, "big") + mac + record


def _to_disk(descriptor: int) -> None:
    force = getattr(os, "fdatasync", os.fsync)  # not every system has the former
    force(descriptor)


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


def check_owner(path: Path, file: IO[bytes]) -> None:
    """Check that nobody else wrote an open file, or may write it.

    Raises:
        JournalError: Somebody may; the message says how to keep them out.
    """
    if os.name != "posix":
        return
    found = os.fstat(file.fileno())
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        msg = (
            f"{path}: it belongs to user {found.st_uid} and not to you (user {os.geteuid()}), so it is not "
            "continued; run fedslim as that user, or move it away"
        )
        raise JournalError(msg)
    if mode & 0o022:
        msg = (
            f"{path}: others may change it (permissions {mode:03o}), so it is not continued; if nobody has, "
            f"run `chmod 600 {path}`, otherwise move it away"
        )
        raise JournalError(msg)


# -- reading --------------------------------------------------------------------------------------------------------


def _read(path: Path, file: IO[bytes], chain: _Chain) -> tuple[dict[str, Any], list[bytes], int, _Chain] | None:
    """The header, the records, where the last good one ends, and the chain up to it; None if there is no header."""
    if not _has_begun(path, file):
        return None
    records: list[bytes] = []
    end = len(MAGIC)
    while (found := _next(file)) is not None and _is_genuine(chain, *found):
        chain = chain.after(found[0])
        records.append(found[1])
        end += HEAD_BYTES + len(found[1])
    if not records:
        if found is None:
            return None
        msg = (
            f"{path}: this journal was not written by this party with its present key, or was altered; "
            "it is not continued: move it away"
        )
        raise JournalError(msg)
    header: dict[str, Any] = json.loads(records[0][ID_BYTES:])  # ours: it is authenticated
    return header, records[1:], end, chain


def _has_begun(path: Path, file: IO[bytes]) -> bool:
    """Whether there is more than the torn beginning of a journal, or the zeros of a file that never was on the disk."""
    found = file.read(len(MAGIC))
    if found == MAGIC:
        return True
    if not any(found) or MAGIC.startswith(found):
        return False
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
