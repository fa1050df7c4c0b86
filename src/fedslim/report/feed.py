"""What a live page shows of a run: a snapshot that the run updates and viewers read, of bounded size.

The run never waits for a viewer: it replaces parts of the snapshot, and viewers fetch all of it from time to time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from fedslim.format import printable
from fedslim.report.captions import Fact  # msgspec reads field types at run time
from fedslim.safeguards.audit import Amount

MAX_POINTS = 400  # maximum points of a curve; a chart has too few pixels for more
MAX_CURVES, MAX_WARNINGS, MAX_MEMBERS, MAX_ITEMS = 4, 20, 200, 40
"""What a snapshot has at most: the latest curves and warnings, members, and items of an itemset."""

MAX_TEXT = 300  # maximum characters of a label, name or warning


class LiveCurve(msgspec.Struct):
    """The compression over time. Of many points, some are dropped: always the newer one of two that are close."""

    name: str
    seconds: list[float] = []
    itemsets: list[int] = []
    percent: list[float] = []
    gap: float = 0.0

    def add(self, seconds: float, itemsets: int, percent: float) -> None:
        """Add a point; the last one is always the newest."""
        lists: tuple[list[Any], ...] = (self.seconds, self.itemsets, self.percent)
        if len(self.seconds) > 1 and self.seconds[-1] - self.seconds[-2] < self.gap:
            for each in lists:
                each.pop()
        for each, value in zip(lists, (seconds, itemsets, percent), strict=True):
            each.append(value)
        if len(self.seconds) > MAX_POINTS:
            self.gap = 2 * seconds / MAX_POINTS
            for each in lists:
                del each[1:-1:2]


class LiveMember(msgspec.Struct, frozen=True):
    """A member: whether it is connected, None in a simulation, and the seconds since its last message."""

    name: str
    here: bool | None
    state: str
    contact: float | None = None


class LiveView(msgspec.Struct):
    """Everything that a page shows."""

    title: str
    subtitle: str
    doing: str = ""
    stoppable: bool = False
    stopping: bool = False
    curves: list[LiveCurve] = []
    facts: list[Fact] = []
    latest: list[tuple[list[str], int]] | None = None  # itemsets found lately, with their usages
    members: list[LiveMember] | None = None
    more_members: int = 0
    sent: list[tuple[str, Amount]] | None = None  # what has left this member, by the kind of the messages
    warnings: list[str] = []
    ended: str = ""  # "report": fetch it; any other text says how the run failed


class Feed(logging.Handler):
    """Holds the snapshot of a run. It takes warnings as a logging handler; all methods can be called by any thread."""

    def __init__(self, title: str, subtitle: str) -> None:
        super().__init__(logging.WARNING)
        self.view = LiveView(_short(title), _short(subtitle))
        self._guard = threading.Lock()
        self._stop: Callable[[], object] | None = None
        self._encoded = -1, b""
        self.version = 0
        self.report: bytes | None = None

    @property
    def over(self) -> bool:
        """Whether the run has ended."""
        return bool(self.view.ended)

    @contextmanager
    def _changing(self) -> Iterator[LiveView]:
        with self._guard:
            yield self.view
            self.version += 1

    def begin(self, doing: str, stop: Callable[[], object] | None = None, *, curve: str = "") -> None:
        """Say what the run does now, how to stop it, and begin a curve if it has a name."""
        with self._changing() as now:
            now.doing, now.stoppable, now.stopping, self._stop = _short(doing), stop is not None, False, stop
            if curve:
                now.curves = [*now.curves, LiveCurve(_short(curve))][-MAX_CURVES:]

    def reach(self, seconds: float, itemsets: int, percent: float) -> None:
        """Add a point to the latest curve."""
        with self._changing() as now:
            now.curves[-1].add(seconds, itemsets, percent)

    def show(
        self,
        *,
        doing: str | None = None,
        facts: list[Fact] | None = None,
        latest: Iterable[tuple[Iterable[str], int]] | None = None,
        members: list[LiveMember] | None = None,
        sent: list[tuple[str, Amount]] | None = None,
    ) -> None:
        """Replace what is given."""
        with self._changing() as now:
            now.doing = now.doing if doing is None else _short(doing)
            now.facts = now.facts if facts is None else facts
            now.sent = now.sent if sent is None else sent
            if latest is not None:
                now.latest = [([_short(i) for i in items][:MAX_ITEMS], usage) for items, usage in latest]
            if members is not None:
                now.members, now.more_members = members[:MAX_MEMBERS], max(0, len(members) - MAX_MEMBERS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        self.warn(record.getMessage())

    def warn(self, text: str) -> None:
        """Keep a warning; the oldest ones are dropped."""
        with self._changing() as now:
            now.warnings = [*now.warnings, _short(text)][-MAX_WARNINGS:]

    def ask_stop(self) -> bool:
        """Ask the run to stop with the best so far; return whether it can."""
        with self._changing() as now:
            stop, self._stop = self._stop, None
            now.stoppable, now.stopping = False, stop is not None
        if stop is not None:
            stop()
        return stop is not None

    def end(self, *, report: bytes | None = None, failure: str = "") -> None:
        """Say that the run has ended, with a report or how it failed."""
        with self._changing() as now:
            self.report, self._stop = report, None
            now.ended = "report" if report is not None else _short(failure) or "The run has ended."
            now.stoppable = now.stopping = False

    def snapshot(self) -> tuple[int, bytes]:
        """Return the version of the snapshot, and the snapshot as JSON."""
        with self._guard:
            if self._encoded[0] != self.version:
                self._encoded = self.version, msgspec.json.encode(self.view)
            return self._encoded


def _short(text: str) -> str:
    text = printable(text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
