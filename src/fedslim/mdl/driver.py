"""Puts the questions of a search to a source, watches the clock and the stop signal, and reports progress."""

from __future__ import annotations

import math
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from fedslim.mdl.questions import MOVES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fedslim.mdl.questions import Question, Source
    from fedslim.mdl.search import SlimSearch
    from fedslim.mdl.steps import SearchResult, Tally

REPORT_EVERY = 0.1
"""Seconds between two reports of progress: often enough for a person, rarely enough to cost nothing."""


class Stop:
    """Says when to stop: at a deadline, or when somebody asked for it (Ctrl-C, another thread)."""

    def __init__(self, max_time: float | None = None) -> None:
        self.started = time.monotonic()
        self.deadline = math.inf if max_time is None else self.started + max_time
        self._asked = threading.Event()

    def within(self, max_time: float | None) -> Stop:
        """Stop after so many seconds at the latest."""
        if max_time is not None:
            self.deadline = min(self.deadline, self.started + max_time)
        return self

    def ask(self) -> None:
        """Stop at the next question."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether somebody asked to stop."""
        return self._asked.is_set()

    @property
    def seconds(self) -> float:
        """How long it has been."""
        return time.monotonic() - self.started

    def now(self) -> bool:
        """Whether it is time."""
        return self._asked.is_set() or time.monotonic() >= self.deadline


@contextmanager
def stopping_on_interrupt(stop: Stop) -> Iterator[None]:
    """Make the first Ctrl-C ask for a stop, which keeps the best table so far; the second one interrupts.

    The search must not be interrupted in the middle of a move. Only the main thread may handle signals, and whoever
    chose to ignore them goes on doing so.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as in a background job
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(_signal: int, _frame: object) -> None:
        stop.ask()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands."""

    policy: int
    policies: int
    itemsets: int
    accepted: int
    candidates: int
    percent: float  # L% now
    best_gain: float  # bits that the candidate tried last was estimated to save
    seconds: float
    remaining: float | None  # a guess, in seconds


class WatchedSearch(Protocol):
    """What progress shows of a search, here or at the server of a federation."""

    tally: Tally
    bits_now: float
    best_gain: float

    @property
    def bits_standard(self) -> Any:
        """The description length with singletons only."""

    @property
    def itemsets(self) -> int:
        """How many itemsets there are now."""


class Trend:
    """Guesses how long a search will go on: the best estimated gain falls towards zero, roughly exponentially."""

    FINAL_GAIN = 1.0
    SPAN = 0.5

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []

    def remaining(self, seconds: float, gain: float) -> float | None:
        """The guess after this point; None while there is too little to go by."""
        if not math.isfinite(gain) or gain <= 0:
            return None
        self._points.append((seconds, math.log(gain)))
        # The recent half of the run says more about the rest than its beginning.
        first = next(p for p in self._points if p[0] >= seconds * self.SPAN)
        elapsed, fallen = seconds - first[0], first[1] - math.log(gain)
        if elapsed <= 0 or fallen <= 0:
            return None
        return max(0.0, (math.log(gain) - math.log(self.FINAL_GAIN)) * elapsed / fallen)


def drive(
    search: SlimSearch, source: Source, *, stop: Stop | None = None, report: Callable[[], None] | None = None
) -> SearchResult:
    """Run a search on a source to its end, or until `stop`; the result is the best table so far either way."""
    stop = stop or Stop()
    run = search.run()
    next_report = 0.0
    try:
        # Whatever the clock says: without the supports there is not even the standard code table to come back with.
        question: Question = run.send(next(run).put_to(source))
        while not stop.now():
            answer: Any = question.put_to(source)
            moved = isinstance(question, MOVES)
            question = run.send(answer)
            if report is not None and moved and time.monotonic() >= next_report:
                report()
                next_report = time.monotonic() + REPORT_EVERY
    except StopIteration as end:
        result: SearchResult = end.value
        return result
    return search.result()
