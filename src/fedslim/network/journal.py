"""A journal: the messages that a session received, in order; replaying them restores the session's state.

Each record has a MAC over its content and the previous MAC, with a key of the party (`Identity.derived_key`); the first
record contains the header and a random id. docs/reference/files.md says what this prevents and which journals are
refused. A journal is cut off at the first record that does not authenticate: a kill or a power cut leaves the end torn,
filled with zeros, or garbled. The run then goes back to where the journal ends (`protocol/server.py`).

Records reach the operating system at once, so a killed process loses none, and the disk within a second (`SYNC_EVERY`).
"""

from __future__ import annotations

import hmac
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from fedslim.data.atomic import creating
from fedslim.errors import JournalError, ParameterError, WriteError
from fedslim.network.traffic import Messages  # msgspec needs it at run time
from fedslim.protocol import messages as m
from fedslim.protocol.outcome import Ending  # msgspec needs it at run time
from fedslim.protocol.positions import ServerRecords

if TYPE_CHECKING:
    from fedslim.protocol.variant import Replies

KIND = b"fedslim journal "
MAGIC = KIND + b"3\n"
"""Includes the version of the format. 3: records are authenticated."""
KEY_BYTES = MAC_BYTES = 32
NO_MAC = bytes(MAC_BYTES)
ID_BYTES = 16
LENGTH_BYTES = 4
HEAD_BYTES = LENGTH_BYTES + MAC_BYTES
MAX_RECORD = 1 << 27
SYNC_EVERY = 1.0
"""Seconds after which written records are forced to the disk; only a crash of the machine can lose them before."""


class Reopened(NamedTuple):
    """A reopened journal and its content."""

    journal: Journal
    header: dict[str, Any]
    records: list[bytes]
    cut: int  # damaged bytes that were cut off


class Journal:
    """A journal that is open for appending."""

    def __init__(self, path: Path, file: IO[bytes], key: bytes, last: bytes) -> None:
        self.path = path
        self._file = file
        self._key = key
        self._last = last  # the MAC of the last record, which covers all records in their order
        self._failure: str | None = None  # why writing has stopped
        self._synced = time.monotonic()

    @classmethod
    def create(cls, path: str | Path, header: Mapping[str, Any], *, key: bytes) -> Journal:
        """Create a journal; an existing file is never overwritten, because it may be needed."""
        path = Path(path)
        check_folder(path)
        if os.path.lexists(path):
            msg = f"{path}: this journal of another run is in the way; continue that run with --resume, or move it away"
            raise JournalError(msg)
        first = os.urandom(ID_BYTES) + json.dumps(header, sort_keys=True).encode()
        mac = _mac(key, NO_MAC, first)
        with creating(path) as stream:
            stream.write(MAGIC + _pack(mac, first))
        file = path.open("r+b", buffering=0)
        file.seek(0, os.SEEK_END)
        return cls(path, file, key, mac)

    @classmethod
    def read(cls, path: str | Path, *, key: bytes) -> list[bytes]:
        """Return the records of a journal that is being written."""
        with Path(path).open("rb") as file:
            found = _read(Path(path), file, key)
        return [] if found is None else found[1]

    @classmethod
    def reopen(cls, path: str | Path, *, key: bytes) -> Reopened | None:
        """Open an existing journal, read its records and cut off a damaged end.

        Return None if not even its header is complete, so nothing was recorded; it is then renamed to `….old`. A file
        that is refused is not changed.
        """
        path = Path(path)
        try:
            file = path.open("r+b", buffering=0)
        except OSError as error:
            raise JournalError(f"{path}: the journal cannot be opened: {error.strerror}") from error
        try:
            check_owner(path, file)
            check_folder(path)
            found = _read(path, file, key)
            if found is None:
                file.close()
                path.replace(path.with_name(path.name + ".old"))
                return None
            header, records, end, last = found
            cut = file.seek(0, os.SEEK_END) - end
            file.truncate(end)
            file.seek(end)
        except BaseException:
            file.close()
            raise
        return Reopened(cls(path, file, key, last), header, records, cut)

    def append(self, record: bytes) -> None:
        """Write a record; once this returns, it survives the end of the process.

        After a `WriteError`, earlier records stay valid; later ones are not written, even if they would fit, because
        this one would be missing before them.
        """
        if self._failure is not None:
            raise WriteError(self._failure)
        mac = _mac(self._key, self._last, record)
        at, rest = self._file.tell(), memoryview(_pack(mac, record))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            why = f"the journal cannot be written: {error.strerror}; the run can be resumed from it later"
            self._failure = f"{self.path}: {why}"
            with suppress(OSError):  # reading would cut off a partial record as well
                self._file.truncate(at)
                self._file.seek(at)
            raise WriteError(self._failure) from error
        self._last = mac
        if time.monotonic() - self._synced >= SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Force the records to the disk; once this returns, they survive a power cut."""
        self._synced = time.monotonic()
        try:
            _to_disk(self._file.fileno())
        except OSError as error:
            self._failure = f"{self.path}: the journal cannot be forced to the disk: {error.strerror}"
            raise WriteError(self._failure) from error

    def close(self) -> None:
        """Force everything to the disk and close."""
        if not self._file.closed:
            with suppress(OSError):  # callers that must know use `sync`
                _to_disk(self._file.fileno())
            self._file.close()


def _mac(key: bytes, last: bytes, record: bytes) -> bytes:
    """Return the MAC of the record that follows one with the MAC `last`."""
    if len(key) != KEY_BYTES:
        msg = f"key has {len(key)} bytes; a journal needs {KEY_BYTES}, derived from the party's private key"
        raise ParameterError(msg)
    digest = blake2b(last, key=key, digest_size=MAC_BYTES, person=b"fedslim journal3")
    digest.update(record)
    return digest.digest()


def _pack(mac: bytes, record: bytes) -> bytes:
    return len(record).to_bytes(LENGTH_BYTES, "big") + mac + record


def _to_disk(descriptor: int) -> None:
    force = getattr(os, "fdatasync", os.fsync)  # not every system has fdatasync
    force(descriptor)


# -- permissions ----------------------------------------------------------------------------------------------------


def check_folder(path: Path) -> None:
    """Check that others cannot replace a journal in its folder."""
    folder = Path(os.path.realpath(path)).parent
    try:
        mode = stat.S_IMODE(folder.stat().st_mode)
    except OSError:
        return  # opening the file will report it
    if os.name == "posix" and mode & 0o022 and not mode & stat.S_ISVTX:
        raise JournalError(
            f"{path}: others may replace files in its folder (permissions {mode:03o}), so it is not safe there; "
            f"run `chmod go-w {folder}`, or choose another folder with --out"
        )


def check_owner(path: Path, file: IO[bytes]) -> None:
    """Check that an open file belongs to this user and that others may not write it."""
    if os.name != "posix":
        return
    found = os.fstat(file.fileno())
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid():
        raise JournalError(
            f"{path}: this file belongs to user {found.st_uid}, not to you (user {os.geteuid()}), so it is not "
            "used; run fedslim as that user, or move it away"
        )
    if mode & 0o022:
        raise JournalError(
            f"{path}: others may change this file (permissions {mode:03o}), so it is not used; if you trust its "
            f"content, run `chmod 600 {path}`, otherwise move it away"
        )


# -- reading --------------------------------------------------------------------------------------------------------


def _read(path: Path, file: IO[bytes], key: bytes) -> tuple[dict[str, Any], list[bytes], int, bytes] | None:
    """Return the header, the records, where the last valid one ends, and its MAC; None without a header."""
    if not _has_begun(path, file):
        return None
    records: list[bytes] = []
    end, last = len(MAGIC), NO_MAC
    while (found := _next(file)) is not None and hmac.compare_digest(found[0], _mac(key, last, found[1])):
        last, record = found
        records.append(record)
        end += HEAD_BYTES + len(record)
    if not records:
        if found is None:
            return None
        raise JournalError(
            f"{path}: this journal was altered, or was not written by this party with its present key; "
            "it cannot be resumed: move it away"
        )
    header: dict[str, Any] = json.loads(records[0][ID_BYTES:])  # trusted: it is authenticated
    return header, records[1:], end, last


def _has_begun(path: Path, file: IO[bytes]) -> bool:
    """Tell whether the file has a complete magic; False if it is torn, or zeros that never reached the disk."""
    found = file.read(len(MAGIC))
    if found == MAGIC:
        return True
    if not any(found) or MAGIC.startswith(found):
        return False
    msg = f"{path}: this is not a journal of fedslim, so it cannot be resumed; move it away"
    if found.startswith(KIND):
        theirs, ours = (text[len(KIND) :].decode("ascii", "replace").strip() for text in (found, MAGIC))
        msg = (
            f"{path}: this journal has format {theirs}, and this fedslim uses format {ours}; continue the run with "
            "the version of fedslim that began it, or move the journal away"
        )
    raise JournalError(msg)


def _next(file: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Return the MAC and the content of the next record, not yet verified; None if it is incomplete."""
    head = file.read(HEAD_BYTES)
    length = int.from_bytes(head[:LENGTH_BYTES], "big")
    if len(head) < HEAD_BYTES or not any(head) or length > MAX_RECORD:
        return None
    record = file.read(length)
    return (head[LENGTH_BYTES:], record) if len(record) == length else None


# -- records: the server keeps its rounds, a member the messages that it received ------------------------------------


class RoundRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="round"):
    """The replies of one round, the time in seconds at which it ended, and why the search was to stop then, if so.

    `seconds` and `traffic` are the costs of the run so far, including those before a restart.
    """

    number: int
    elapsed: float
    replies: Mapping[str, m.FromMember]
    ending: Ending | None = None
    seconds: float = 0.0
    traffic: Messages = {}


class HeardRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="heard"):
    """A member has acknowledged the end of the run."""

    member: str


class EpochRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="epoch"):
    """A roster of a new epoch is about to be sent; `furthest` is the last round that any member had reached."""

    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
    furthest: Annotated[int, msgspec.Meta(ge=0)] = 0


class BackRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="back"):
    """All members go back to this round: it and the later ones are repeated."""

    number: Annotated[int, msgspec.Meta(ge=0)]


_kept = msgspec.msgpack.Decoder(RoundRecord | HeardRecord | EpochRecord | BackRecord)
_told = msgspec.msgpack.Decoder(m.FromServer)


def encode_record(record: Any) -> bytes:
    """Encode a record of the server, or a message that a member received.

    Of masked answers the server keeps only the sum, which is all it can read anyway: in a replay, one member answers
    with the sum and the others with zeros.
    """
    masked: Mapping[str, Any] = record.replies if isinstance(record, RoundRecord) else {}
    if masked and all(isinstance(reply, m.Masked) for reply in masked.values()):
        from fedslim.protocol.sums import add_up  # noqa: PLC0415  # reports read folders of runs without the engine

        data, kept = add_up(masked, next(iter(masked.values())).words.length).astype("<u8").tobytes(), {}
        for name, one in masked.items():
            kept[name] = msgspec.structs.replace(one, words=msgspec.structs.replace(one.words, data=data))
            data = b""  # read as zeros
        record = msgspec.structs.replace(record, replies=kept)
    return msgspec.msgpack.encode(record)


def read_server_records(records: Iterable[bytes], name: str) -> ServerRecords:
    """Read a server's journal, whose rounds are `RoundRecord`s; errors name it."""
    found = ServerRecords()
    rounds = found.rounds
    for number, record in enumerate(records):
        match _decode(_kept, "round", record, number, name):
            case EpochRecord(epoch, furthest):
                found.epoch, found.furthest = max(found.epoch, epoch), max(found.furthest, furthest)
            case BackRecord(back_to):
                found.retreats += 1
                del rounds[back_to:]
            case HeardRecord(member):
                found.heard.add(member)
            case RoundRecord() as kept:
                if kept.number != len(rounds) or found.heard:
                    expected = "the end" if found.heard else f"round {len(rounds)}"
                    msg = f"{name}: expected {expected}, found round {kept.number}; the journal cannot be resumed"
                    raise JournalError(msg)
                replies: Replies = {who: _whole(reply) for who, reply in kept.replies.items()}
                rounds.append(msgspec.structs.replace(kept, replies=replies))
                if kept.ending is not None:
                    found.endings[kept.number] = kept.ending
    return found


def _decode(decoder: msgspec.msgpack.Decoder[Any], what: str, record: bytes, number: int, name: str) -> Any:
    try:
        return decoder.decode(record)
    except (ValueError, msgspec.MsgspecError) as error:
        msg = f"{name}: record {number} is not a {what} of this version: {error}; the journal cannot be resumed"
        raise JournalError(msg) from error


def _whole(reply: m.FromMember) -> m.FromMember:
    if isinstance(reply, m.Masked) and reply.words.length and not reply.words.data:
        words = msgspec.structs.replace(reply.words, data=bytes(8 * reply.words.length))
        return msgspec.structs.replace(reply, words=words)
    return reply


def messages_in(records: Iterable[bytes], name: str) -> Iterator[m.FromServer]:
    """Yield the messages that a member received, in order."""
    for number, record in enumerate(records):
        yield _decode(_told, "message", record, number, name)
