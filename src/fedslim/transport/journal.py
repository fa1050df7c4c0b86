"""A journal: what a session received, in order, so that it can be brought back to where it was by receiving it again.

    journal = Journal.create(path, {"run": "…"})
    journal.append(data) …                              # each before anything is done about it
    journal, header, records = Journal.reopen(path)     # after a fault; goes on where it ended

Sessions do no input or output and make no random choices, so the same messages bring them to the same state: there is
nothing else to save. A record is written whole or it does not count: one that was torn when the process was killed is
cut off; anything else that is wrong is refused by name.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fedslim.errors import JournalError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIND = b"fedslim journal "
MAGIC = KIND + b"2\n"
"""With the version of what is in the records. 2: rounds have their ending and the run's figures."""
HEAD_BYTES = 8
MOST_RECORD = 1 << 27
SYNC_EVERY = 1.0
"""Seconds after which what was written is also forced to the disk: only a dead machine can lose more."""


class Journal:
    """An open journal, to append to."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._failure: str | None = None  # why nothing more is written
        self._synced = time.monotonic()

    @classmethod
    def create(cls, path: str | Path, header: Mapping[str, Any]) -> Journal:
        """Begin a journal; one that is there already is not overwritten: it may be needed."""
        path = Path(path)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            msg = f"{path}: there is a journal of another run; continue it with --resume, or move it away"
            raise JournalError(msg) from error
        except OSError as error:
            msg = f"{path}: the journal cannot be written: {error.strerror}"
            raise WriteError(msg) from error
        journal = cls(path, os.fdopen(descriptor, "wb", buffering=0))
        journal._write(MAGIC)
        journal.append(json.dumps(header, sort_keys=True).encode())
        return journal

    @classmethod
    def reopen(cls, path: str | Path) -> tuple[Journal, dict[str, Any], list[bytes]]:
        """The journal, its header and its records; a torn last record is cut off."""
        path = Path(path)
        try:
            file = path.open("r+b", buffering=0)
        except OSError as error:
            msg = f"{path}: there is no journal to continue: {error.strerror}"
            raise JournalError(msg) from error
        try:
            header, records, end = _read(path, file)
            file.truncate(end)
            file.seek(end)
        except BaseException:
            file.close()
            raise
        return cls(path, file), header, records

    def append(self, record: bytes) -> None:
        """Write a record; when this returns, a killed process does not lose it.

        Raises:
            WriteError: The disk is full or gone; what was written before still counts. Nothing is written after that,
                even where it would fit: there would be a record missing before it.
        """
        self._write(len(record).to_bytes(4, "big") + zlib.crc32(record).to_bytes(4, "big") + record)
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


def _read(path: Path, file: IO[bytes]) -> tuple[dict[str, Any], list[bytes], int]:
    """The header, the records, and where the last whole one ends."""
    if (found := file.read(len(MAGIC))) != MAGIC:
        msg = f"{path}: this is no journal of ours; it is not continued"
        if found.startswith(KIND):
            theirs, ours = (text[len(KIND) :].decode("ascii", "replace").strip() for text in (found, MAGIC))
            msg = (
                f"{path}: this is a journal of version {theirs}, and this fedslim writes {ours}; continue the run with "
                "the fedslim that began it, or move the journal away"
            )
        raise JournalError(msg)
    records: list[bytes] = []
    end = len(MAGIC)
    for whole, record, size in _records(file):
        if not whole:
            # Torn at the end is what a kill leaves; in the middle it is damage.
            if file.read(1):
                msg = f"{path}: record {len(records)} of the journal is damaged; it is not continued"
                raise JournalError(msg)
            break
        records.append(record)
        end += size
    if not records:
        msg = f"{path}: the journal ends within its header; there is nothing to continue, remove it"
        raise JournalError(msg)
    try:
        header = json.loads(records[0])
    except ValueError:
        header = None
    if not isinstance(header, dict):
        msg = f"{path}: the header of the journal is damaged; it is not continued"
        raise JournalError(msg)
    return header, records[1:], end


def _records(file: IO[bytes]) -> Iterator[tuple[bool, bytes, int]]:
    while head := file.read(HEAD_BYTES):
        length = int.from_bytes(head[:4], "big")
        if len(head) < HEAD_BYTES or length > MOST_RECORD:
            yield False, b"", 0
            return
        record = file.read(length)
        whole = len(record) == length and zlib.crc32(record).to_bytes(4, "big") == head[4:]
        yield whole, record, HEAD_BYTES + length
        if not whole:
            return
