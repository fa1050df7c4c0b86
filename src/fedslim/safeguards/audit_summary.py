"""Summarise a member's audit log, in memory that does not grow with the log.

summarise("audit.jsonl").total.messages
"""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import IO, TYPE_CHECKING, Any

from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import DataError
from fedslim.safeguards.audit import MAX_LINE, TORN, read_entry, read_header

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

    from fedslim.safeguards.audit import AuditEntry

MAX_PEERS = 20
MAX_RUNS = 20
"""A summary names at most this many, so that it fits into memory however long the log is."""


@dataclass(slots=True)
class Amount:
    """Totals of a group of messages."""

    messages: int = 0
    bytes: int = 0
    bytes_before_compression: int = 0
    statistics: int = 0
    statistics_masked: int = 0
    labels: int = 0

    def add(self, line: AuditEntry) -> None:
        """Add a message."""
        self.messages += 1
        self.bytes += line.bytes
        self.bytes_before_compression += line.bytes_before_compression
        self.statistics += line.statistics
        self.statistics_masked += line.statistics if line.masked else 0
        self.labels += line.labels


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
        self.first = line.time if self.first is None else min(self.first, line.time)
        self.last = line.time if self.last is None else max(self.last, line.time)
        for amount in (
            self.total,
            self.by_kind.setdefault(line.kind, Amount()),
            self.by_variant.setdefault(line.variant, Amount()),
        ):
            amount.add(line)
        if line.peer not in self.peers:
            if len(self.peers) < MAX_PEERS:
                self.peers.append(line.peer)
            else:
                self.more_peers = True
        if line.run is not None:
            self._add_to_run(line, line.run)

    def _add_to_run(self, line: AuditEntry, run: str) -> None:
        """Add a message to its run; runs follow each other, so one that is not among the latest is new."""
        found = next((one for one in self.latest_runs if one.run == run), None)
        if found is None:
            self.runs += 1
            found = RunAmount(run=run, variant=line.variant, first=line.time)
            self.latest_runs.append(found)
        found.last = line.time
        found.add(line)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return {**asdict(self), "latest_runs": [asdict(run) for run in self.latest_runs]}


def summarise(path: str | os.PathLike[str]) -> Summary:
    """Summarise a log. It is read line by line, so it may have any length and be in use.

    An incomplete last line is not counted and sets `torn_end`; incomplete lines that were marked when the log was
    reopened are counted in `torn_lines`.

    Raises:
        DataError: The file is not an audit log, or a line is invalid; the message gives its number, not its content.
    """
    path = real_path(path)
    with told_as_data_errors(path):
        stream = path.open("rb")
    with stream:
        return _summarise(path, _lines(path, stream))


def _lines(path: Path, stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines with their newlines; one that is too long is cut, and then is no valid entry."""
    while True:
        with told_as_data_errors(path):
            line = stream.readline(MAX_LINE + 1)
        if not line:
            return
        yield line


def _summarise(path: Path, lines: Iterator[bytes]) -> Summary:
    header = read_header(next(lines, b"").removesuffix(b"\n"), path)
    made = Summary(header.member, header.federation, header.federation_id)
    for number, data in enumerate(lines, 2):
        if (entry := read_entry(data)) is not None:
            made.add(entry)
        elif data.endswith(TORN + b"\n"):
            made.torn_lines += 1
        elif data.endswith(b"\n") or len(data) > MAX_LINE:
            msg = (
                f"{path}: line {number} is not an audit log entry, so this log was changed or damaged; "
                "compare the line with a backup"
            )
            raise DataError(msg)
        else:
            made.torn_end = True
    return made
