"""Passes the questions of a search to a source, watches the clock and the stop signal, and reports progress."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from fedslim.mdl.questions import MOVES

if TYPE_CHECKING:
    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.objective import Bits
    from fedslim.mdl.steps import SearchResult, Tally

Y = TypeVar("Y")
S = TypeVar("S")

REPORT_EVERY = 0.1  # seconds between two progress reports: often enough for a person, rare enough to cost nothing


class Stop:
    """Tells a search when to stop: at a deadline, or on request (Ctrl-C, another thread)."""

    def __init__(self, max_time: float | None = None) -> None:
        self.started = time.monotonic()
        self.deadline = math.inf if max_time is None else self.started + max_time
        self._asked = threading.Event()

    def within(self, max_time: float | None) -> Stop:
        """Stop after `max_time` seconds at the latest."""
        if max_time is not None:
            self.deadline = min(self.deadline, self.started + max_time)
        return self

    def ask(self) -> None:
        """Stop at the next question."""
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether a stop was requested."""
        return self._asked.is_set()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def now(self) -> bool:
        """Return whether it is time to stop."""
        return self._asked.is_set() or time.monotonic() >= self.deadline


@contextmanager
def stopping_on_interrupt(stop: Stop) -> Iterator[None]:
    """Make the first Ctrl-C request a stop, which keeps the best table so far; the second one interrupts.

    The search must not be interrupted in the middle of a move. Only the main thread can handle signals, and a process
    that ignores them continues to do so.
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
    """The progress of a run."""

    policy: int  # which of several greedy searches
    policies: int
    itemsets: int
    accepted: int
    candidates: int
    percent: float  # L% now
    best_gain: float  # the estimated gain of the last candidate, in bits
    seconds: float
    remaining: float | None  # estimated, in seconds
    iterations: int = 0  # of a local search
    best: float | None = None  # the best L% so far, of this search and those before it
    latest: tuple[tuple[Itemset, int], ...] = ()  # the itemsets found last, with their usages, the newest first


class Search(Protocol):
    """A search that asks questions, and whose progress can be watched: SLIM's, or Algorithm 1."""

    MUST_ANSWER: ClassVar[tuple[type, ...]]
    converged: bool

    def run(self) -> Generator[Any, Any, SearchResult]:
        """Ask questions until the search ends."""

    def result(self) -> SearchResult:
        """Return the best table so far."""

    @property
    def tally(self) -> Tally:
        """What it has done so far."""

    @property
    def bits_now(self) -> float:
        """The description length of its table."""

    @property
    def best_gain(self) -> float:
        """The estimated gain of the last candidate tried."""

    @property
    def bits_standard(self) -> Bits:
        """The description length with singletons only."""

    @property
    def itemsets(self) -> int:
        """The current number of itemsets."""

    def latest(self) -> tuple[tuple[Itemset, int], ...]:
        """Return the itemsets found last, with their usages, the newest first."""


class Trend:
    """Estimates when the best estimated gain of a search, which falls roughly exponentially, will be 1 bit."""

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []

    def remaining(self, seconds: float, gain: float) -> float | None:
        """Return the estimate after this point; None while there are too few points."""
        if not math.isfinite(gain) or gain <= 0:
            return None
        self._points.append((seconds, math.log(gain)))
        # The second half of the run so far predicts the rest better than the first half.
        first = next(p for p in self._points if p[0] >= seconds / 2)
        elapsed, fallen = seconds - first[0], first[1] - math.log(gain)
        if elapsed <= 0 or fallen <= 0:
            return None
        return max(0.0, math.log(gain) * elapsed / fallen)


def run_search(
    search: Search, answer: Callable[[Any], Generator[Y, S, Any]], should_stop: Callable[[], bool]
) -> Generator[Y, S, None]:
    """Answer the questions of a search until it ends or should stop; `search.converged` tells which.

    `answer` is a generator, because an answer may take rounds. Questions in `MUST_ANSWER` are answered even if the
    search should stop: without supports there is no standard code table, and a move is already decided.
    """
    run = search.run()
    question = next(run)
    with suppress(StopIteration):
        while isinstance(question, search.MUST_ANSWER) or not should_stop():
            question = run.send((yield from answer(question)))


def drive(
    search: Search, source: Any, *, stop: Stop | None = None, report: Callable[[], None] | None = None
) -> SearchResult:
    """Run a search until it ends or `stop`; in both cases return the best table so far.

    Questions are put to the source, or passed to it if it is a function.
    """
    moved, next_report, began = False, 0.0, time.monotonic()

    def answer(question: Any) -> Generator[None, None, Any]:
        nonlocal moved, next_report
        if report is not None and moved and time.monotonic() >= next_report:
            report()
            now = time.monotonic()
            next_report = now + min(REPORT_EVERY, (now - began) / 50)  # more often at first, when most happens
        moved = isinstance(question, MOVES)
        yield from ()  # a source answers at once
        return source(question) if callable(source) else question.put_to(source)

    for _ in run_search(search, answer, (stop or Stop()).now):
        pass
    return search.result()
