"""The audit log of a member: one line for every message that leaves it, for the people responsible for the data.

The file has JSON lines. A line has the time, the kind, the size, the number of statistics, whether they were masked,
and the receiver, but never content: no counts, labels or ids of items, nor the reason in an Abort. The log is
append-only.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

import msgspec
from msgspec import Meta

from fedslim.data.atomic import PRIVATE, make_folder_for
from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import DataError, ParameterError, WriteError
from fedslim.protocol import messages as m
from fedslim.protocol.wire_types import ID_BYTES

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from fedslim.protocol.framing import Frame
    from fedslim.settings.federation_file import FederationFile

VERSION = 1
MAX_LINE = 4096
"""In bytes. A line that fedslim writes has a few hundred."""

KINDS = tuple(kind.__name__ for kind in get_args(m.FromMember))
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Size = Annotated[int, Meta(ge=0, le=1 << 53)]


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The first line: which member and federation the log belongs to."""

    format: Literal["fedslim-audit"]
    version: int
    member: Name
    federation: Name
    federation_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]


class AuditEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A message that left the member."""

    time: Annotated[str, Meta(pattern=rf"^{TIME}\Z")]  # UTC
    kind: Literal[KINDS]  # type: ignore[valid-type]  # the messages of a member, which mypy cannot see here
    bytes: Size  # as sent, before TLS
    bytes_before_compression: Size
    statistics: Size  # number of counts, pairs or ids: see `statistics_in`
    labels: Size  # number of item labels that the server can read
    masked: bool  # whether masks hide the statistics
    variant: Literal["prepare", "x", "sa", "so"]
    round: Annotated[int, Meta(ge=0, lt=1 << 47)] | None  # None outside of rounds
    run: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")] | None  # None until the server has sent it
    peer: Name
    sealed: Size = 0  # bytes of labels that only the other members can read, however many there are; left out if 0


TORN = b'{"torn":true}'  # marks a line that a crash or a full disk cut off, so that it is not taken for damage later
_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(Header)
_line_decoder = msgspec.json.Decoder(AuditEntry)
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)


def statistics_in(message: m.FromMember) -> int:  # noqa: PLR0911  # one for each kind
    """Return the number of statistics in a message."""
    match message:
        case m.Join():
            return len(message.ids) // ID_BYTES  # ids of items
        case m.Masked():
            return message.words.length  # each of one or more counts
        case m.Usages() | m.Candidates() | m.SupportCounts():
            return message.counts.length
        case m.Evaluated():
            return message.lost.length + message.won.length  # two counts for each element
        case m.Structure():
            return message.x.length  # pairs, unmasked and without counts
        case m.Ready():
            return 1  # whether the member stays
        case m.Confirm() | m.Labels() | m.Heard() | m.Abort():
            return 0


class AuditLog:
    """A member's audit log, opened for appending and locked by one process at a time.

    A new file is readable by its owner only; an existing one keeps its permissions. The log of another member or
    federation is refused. `masks` says whether `Masked` messages have masks in this run: they have none in a federation
    of one, or if masks are switched off for measurements.
    """

    def __init__(  # noqa: PLR0913  # the fields of the header and of every line
        self,
        path: str | os.PathLike[str],
        variant: str,
        *,
        member: str,
        federation: str,
        federation_id: str,
        masks: bool,
    ) -> None:
        self.path, self._variant = real_path(path), variant
        self._masks = masks and variant != "so"
        self._failed = False
        self.on_entry: Callable[[AuditEntry], None] | None = None  # is told of each line written
        self._header = Header(
            format="fedslim-audit", version=VERSION, member=member, federation=federation, federation_id=federation_id
        )
        _check(self._header, _header_decoder)
        make_folder_for(self.path)
        self._file: int | None = _open(self.path)
        try:
            _lock(self._file, self.path)
            self._begin(self._file)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of(cls, path: str | os.PathLike[str], file: FederationFile, member: str) -> Self:
        """Open the log of a member of a federation."""
        file.check_member(member)
        who = {"member": member, "federation": file.federation.name, "federation_id": file.federation.id}
        return cls(path, file.federation.variant, **who, masks=file.masked)

    def _begin(self, file: int) -> None:
        """Write the first line of a new log; of an existing one, check it and mark an incomplete last line."""
        with told_as_data_errors(self.path):
            size = os.fstat(file).st_size
            start = os.read(file, MAX_LINE)
            os.lseek(file, max(0, size - MAX_LINE), os.SEEK_SET)
            tail = os.read(file, MAX_LINE)
        if not size:
            try:
                self._write(_encoder.encode(self._header) + b"\n")
            except WriteError:
                os.ftruncate(file, 0)  # an incomplete header would make the log unusable
                raise
            return
        found = read_header(start.partition(b"\n")[0], self.path)
        if found != self._header:
            raise DataError(
                f"{self.path}: this is the audit log of {found.member!r} in the federation {found.federation!r} "
                f"({found.federation_id}), not of {self._header.member!r} in {self._header.federation!r} "
                f"({self._header.federation_id}); name another file"
            )
        rest = tail.rpartition(b"\n")[2]
        if len(rest) > MAX_LINE // 2:
            msg = f"{self.path}: the last line is not an audit log entry; keep the file as it is and name another"
            raise DataError(msg)
        if rest:
            # A complete line, the header or an entry, may lack only its newline.
            whole = b"\n" not in start or read_entry(rest) is not None
            self._write(b"\n" if whole else TORN + b"\n")

    def record(  # noqa: PLR0913  # keyword-only
        self,
        message: m.FromMember,
        frame: Frame,
        *,
        now: datetime,
        run: bytes | None,
        peer: str,
        preparing: bool = False,
    ) -> None:
        """Record a message that is about to leave. Send it only after this has returned.

        By then the operating system has the line, and it outlives this process. So the log may have a message that was
        never sent, but never lacks one that was. (A power cut may lose what the system has not yet written to disk.)
        If this raises, send nothing more, not even an Abort: close the connection.

        There is no `run` before the server has sent its id. In a preparation, counts are masked in all variants.
        """
        if now.tzinfo is None:
            raise ParameterError("now: the time has no time zone; give one that has, such as datetime.now(UTC)")
        line = AuditEntry(
            time=now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            kind=type(message).__name__,
            bytes=len(frame.data),
            bytes_before_compression=frame.plain,
            statistics=statistics_in(message),
            labels=len(message.labels) if isinstance(message, m.Join) else 0,
            masked=(self._masks or preparing) and isinstance(message, m.Masked),
            variant="prepare" if preparing else self._variant,  # type: ignore[arg-type]  # checked just below
            round=getattr(message, "round", None),
            run=None if run is None else run.hex(),
            peer=peer,
            sealed=len(message.sealed) if isinstance(message, m.Labels) else 0,
        )
        self._write(_check(line, _line_decoder) + b"\n")
        if self.on_entry is not None:
            self.on_entry(line)

    def _write(self, data: bytes) -> None:
        if self._file is None or self._failed:
            msg = f"{self.path}: the audit log {'has failed' if self._failed else 'is closed'}, so nothing may be sent"
            raise WriteError(msg)
        try:
            while data:  # a write may be partial; the next one then reports why
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._failed = True
            raise WriteError(
                f"{self.path}: the audit log cannot be written ({error.strerror or error}), so nothing more leaves "
                "this member; free space on the disk or name another file, and start again"
            ) from None

    def close(self) -> None:
        """Flush the log to disk and release it."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                os.fsync(file)
            except OSError:  # a pipe or a broken disk; the system has every line already
                pass
            finally:
                os.close(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(line: msgspec.Struct, decoder: Any) -> bytes:
    """Encode a line and check that it can be read back."""
    try:
        data = _encoder.encode(line)
        decoder.decode(data)
    except _UNREADABLE as error:
        raise ParameterError(f"the audit log cannot hold this line: {error}") from None
    return data


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        file = os.open(path, flags, PRIVATE)
    except IsADirectoryError:
        raise DataError(f"{path}: this is a folder; name a file in it for the audit log") from None
    except OSError as error:
        raise WriteError(
            f"{path}: the audit log cannot be opened ({error.strerror or error}); check the folder and its permissions"
        ) from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise DataError(f"{path}: this is not a regular file; name another one for the audit log")
    return file


def _lock(file: int, path: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError(f"{path}: another process is writing this audit log; stop it, or name another file") from None
    except OSError:  # some file systems have no locks
        return


def read_header(line: bytes, path: Path) -> Header:
    """Decode the first line of a log."""
    try:
        header = _header_decoder.decode(line)
    except _UNREADABLE:
        raise DataError(f"{path}: line 1 is not the header of an audit log; name the audit.jsonl of a member") from None
    if header.version != VERSION:
        raise DataError(
            f"{path}: this audit log has version {header.version}, and this fedslim reads version {VERSION}; use a "
            "newer fedslim"
        )
    return header


def read_entry(line: bytes) -> AuditEntry | None:
    """Decode a line after the first; None if it is not an entry."""
    try:
        return _line_decoder.decode(line)
    except _UNREADABLE:
        return None


# -- a summary of a log, in memory that does not grow with it ----------------------------------------------------------

MAX_PEERS = 20
MAX_RUNS = 20  # a summary names at most this many, so that it fits into memory however long the log is


@dataclass(slots=True)
class Amount:
    """Totals of a group of messages. `labels` are those that the server can read, `sealed` the bytes of sealed ones."""

    messages: int = 0
    bytes: int = 0
    bytes_before_compression: int = 0
    statistics: int = 0
    statistics_masked: int = 0
    labels: int = 0
    sealed: int = 0

    def add(self, line: AuditEntry) -> None:
        """Add a message."""
        self.messages += 1
        self.statistics_masked += line.statistics if line.masked else 0
        for name in ("bytes", "bytes_before_compression", "statistics", "labels", "sealed"):
            setattr(self, name, getattr(self, name) + getattr(line, name))


@dataclass(slots=True)
class RunAmount(Amount):
    """Totals of the messages of a run."""

    run: str = ""
    variant: str = ""
    first: str = ""
    last: str = ""


@dataclass(slots=True)
class Summary:
    """The totals of an audit log."""

    member: str
    federation: str
    federation_id: str
    first: str | None = None
    last: str | None = None
    total: Amount = field(default_factory=Amount)
    by_kind: dict[str, Amount] = field(default_factory=dict)
    by_variant: dict[str, Amount] = field(default_factory=dict)
    peers: list[str] = field(default_factory=list)
    more_peers: bool = False
    runs: int = 0
    latest_runs: deque[RunAmount] = field(default_factory=lambda: deque(maxlen=MAX_RUNS))
    torn_lines: int = 0
    torn_end: bool = False

    def add(self, line: AuditEntry) -> None:
        """Add a message."""
        self.first, self.last = min(self.first or line.time, line.time), max(self.last or line.time, line.time)
        self.total.add(line)
        self.by_kind.setdefault(line.kind, Amount()).add(line)
        self.by_variant.setdefault(line.variant, Amount()).add(line)
        if line.peer not in self.peers:
            if len(self.peers) < MAX_PEERS:
                self.peers.append(line.peer)
            else:
                self.more_peers = True
        if line.run is None:
            return
        # Runs follow each other, so one that is not among the latest is new.
        found = next((one for one in self.latest_runs if one.run == line.run), None)
        if found is None:
            self.runs += 1
            found = RunAmount(run=line.run, variant=line.variant, first=line.time)
            self.latest_runs.append(found)
        found.last = line.time
        found.add(line)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return {**asdict(self), "latest_runs": [asdict(run) for run in self.latest_runs]}


def summarise(path: str | os.PathLike[str], peer: str | None = None) -> Summary:
    """Summarise a log, or its messages to one peer. It is read line by line, so it may have any length and be in use.

    An incomplete last line is not counted and sets `torn_end`; incomplete lines that were marked when the log was
    reopened are counted in `torn_lines`.
    """
    path = real_path(path)
    with told_as_data_errors(path), path.open("rb") as stream:
        header = read_header(stream.readline(MAX_LINE + 1).removesuffix(b"\n"), path)
        made = Summary(header.member, header.federation, header.federation_id)
        # A line that is too long is cut, and then is no valid entry.
        for number, data in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), 2):
            if (entry := read_entry(data)) is not None:
                if peer in {None, entry.peer}:
                    made.add(entry)
            elif data.endswith(TORN + b"\n"):
                made.torn_lines += 1
            elif data.endswith(b"\n") or len(data) > MAX_LINE:
                raise DataError(
                    f"{path}: line {number} is not an audit log entry, so this log was changed or damaged; "
                    "compare the line with a backup"
                )
            else:
                made.torn_end = True
    return made
