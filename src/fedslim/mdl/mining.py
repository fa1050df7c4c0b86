"""Mining one database: search, source and effort make a code table."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import forget_caches, helped_with, wait_for
from fedslim.data import TransactionDatabase
from fedslim.data.encoding import Encoding
from fedslim.errors import ParameterError
from fedslim.mdl.codetable import CodeTable
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.crew import Crew, Watch
from fedslim.mdl.driver import Progress, Search, Stop, Trend, drive
from fedslim.mdl.effort import (
    CHAINS,
    STARTS,
    WIDTHS,
    EffortSearch,
    Plan,
    Task,
    TaskOutcome,
    best_of,
    carry_out,
    parts,
    plan,
)
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels.counting import SupportIndex
from fedslim.mdl.local_search import LocalSearch
from fedslim.mdl.objective import percent_of_standard
from fedslim.mdl.policy import MAX_WIDTH, WIDTH, Order, Policy
from fedslim.mdl.questions import Question, Source, Support, Supports, Together
from fedslim.mdl.release import merge_rare, release, shown_support, spelled_out
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.steps import SearchResult, Tally
from fedslim.mdl.summed import Sharded

Ending = Literal["converged", "out of time", "interrupted"]

PAYS_IN_THREADS = 5_000_000  # from this many item occurrences on, several threads save more than they cost

PAYS_TO_KEEP_PAIRS = 2_000_000
"""From this many on, keeping co-usages up to date takes less time than counting rows again."""


@dataclass(frozen=True, slots=True)
class RowsElsewhere:
    """Data whose rows are on other machines: what is known about them, and what puts questions to them.

    `on_rows(function, …)` calls a function where the rows are, and returns the results of all places. The function is
    given the rows there, their numbers among all rows, and the other arguments.
    """

    ask: Callable[[Question], Any]
    vocabulary: tuple[str, ...]
    transactions: int
    encoding: Encoding | None = None
    on_rows: Callable[..., list[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Mined:
    """The result of mining: the table, and how the search went."""

    table: CodeTable
    tally: Tally
    seconds: float
    ending: Ending

    @property
    def converged(self) -> bool:
        """Whether the search ended by itself."""
        return self.ending == "converged"


def mine(
    database: TransactionDatabase | RowsElsewhere,
    *,
    pruning: bool = True,
    order: Order = "usage",
    max_time: float | None = None,
    max_itemset_size: int | None = None,
    min_support: int = 1,
    min_count: int = 1,
    width: int = WIDTH,
    effort: int | None = None,
    threads: int | None = None,
    seed: int = 0,
    stop: Stop | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Mined:
    """Find the code table that compresses the database best.

    An `effort` says how hard to search: 1 is one greedy search, 2 tries several and polishes the best table, and from 3
    on a local search improves it, four times as long with each effort, up to 8. A higher effort is never worse.
    Without an effort, `max_time` is used up; without both, the effort is 1. `seed` is for the local search.

    The result does not depend on `threads`. If the time is up, or a stop is requested, it is the best table so far.
    The time for compiling the kernels does not count if `prepare` is called before `stop` is created.

    Examples:
        >>> from fedslim.data import load
        >>> from fedslim.mdl import mine
        >>> mined = mine(load("encounters"))
        >>> len(mined.table), round(mined.table.compression.L_percent, 2), mined.converged
        (140, 57.42, True)
    """
    _check(**locals())
    check_width(width)
    policy = Policy(pruning, order, max_itemset_size, min_support, min_count, width=width)
    stop = (stop or Stop()).within(max_time)
    todo = plan(effort, limited=stop.deadline < math.inf)
    prepare()
    if isinstance(database, RowsElsewhere):
        return _mine_elsewhere(database, policy, todo, seed, stop, on_progress)
    log = _Log(todo, stop, on_progress)
    best: SearchResult | None = None
    with _workers(database, stop, threads, several=todo.several) as carry_out_all, suppress(StopIteration):
        work = parts(policy, todo, seed)
        tasks = next(work)
        while best is None or not stop.now():
            outcomes = log.of(tasks, carry_out_all(tasks, log.watch))
            best = best_of(outcomes, best)
            tasks = work.send(outcomes)
        log.cut_short = True
    assert best is not None  # noqa: S101  # the first task is carried out in any case
    index = SupportIndex(database)
    table = code_table(lambda found: list(map(index.support, found)), database.supports, database, best, policy)
    return Mined(table, log.tally, stop.seconds, _ending(stop, converged=not log.cut_short))


def _mine_elsewhere(
    rows: RowsElsewhere,
    policy: Policy,
    todo: Plan,
    seed: int,
    stop: Stop,
    on_progress: Callable[[Progress], None] | None,
) -> Mined:
    """Do the same with rows that only a source has: one search after the other, with few questions."""
    n_items = len(rows.vocabulary)
    supports = rows.ask(Supports())  # before rare items are dropped
    search: SlimSearch | EffortSearch
    search = EffortSearch(n_items, policy, todo, seed) if todo.several else SlimSearch(n_items, policy)
    report = None if on_progress is None else reporter(search, 1, 1, stop, on_progress)
    result = drive(search, rows.ask, stop=stop, report=report)

    def count(itemsets: Sequence[Itemset]) -> Sequence[int]:
        found: Sequence[int] = rows.ask(Together(tuple([Support(items, (0, 0)) for items in itemsets])))
        return found

    table = code_table(count, supports, rows, result, policy)
    return Mined(table, result.tally, stop.seconds, _ending(stop, converged=search.converged))


def _ending(stop: Stop, *, converged: bool) -> Ending:
    return "converged" if converged else "interrupted" if stop.asked else "out of time"


@contextmanager
def _workers(
    database: TransactionDatabase, stop: Stop, threads: int | None, *, several: bool
) -> Iterator[Callable[[Sequence[Task], Watch], list[TaskOutcome]]]:
    """Give what carries out tasks: several processes, or for a single task this one with several threads."""
    if several:
        crew = Crew(database, stop, min(os.cpu_count() or 1, CHAINS) if threads is None else threads)
        try:
            yield crew.carry_out
        finally:
            crew.end()
    else:
        with _source(database, threads) as source:
            yield lambda tasks, watch: [carry_out(one, database, stop, source=source, watch=watch) for one in tasks]


class _Log:
    """Adds up what the parts of a run have done, and reports progress."""

    def __init__(self, todo: Plan, stop: Stop, on_progress: Callable[[Progress], None] | None) -> None:
        self.tally = Tally()
        self.cut_short = False
        self._greedy = 1 + len(WIDTHS) * todo.several + STARTS * (todo.rounds != 0)
        self._begun = 0
        self._iterations = 0
        self._shown = 0  # of these, in what was reported last
        self._best = math.inf
        self._stop = stop
        self._on_progress = on_progress

    def of(self, tasks: Sequence[Task], outcomes: list[TaskOutcome]) -> list[TaskOutcome]:
        """Take in the outcomes of tasks, and return them."""
        self.cut_short |= len(outcomes) < len(tasks) or not all(o.result.converged for o in outcomes)
        for outcome in outcomes:
            self.tally += outcome.result.tally
            self._iterations += outcome.iterations
            self._best = min(self._best, outcome.bits)
        return outcomes

    def watch(self, search: SlimSearch) -> Callable[[], None] | None:
        """Return what reports the progress of a search, together with that of those before it."""
        self._begun = min(self._begun + 1, self._greedy)
        on_progress, local = self._on_progress, search if isinstance(search, LocalSearch) else None
        if on_progress is None:
            return None

        def tell(progress: Progress) -> None:
            self._shown = max(self._shown, self._iterations + (0 if local is None else local.iterations))
            bits = search.bits_now if local is None else local.best_bits
            best = percent_of_standard(min(self._best, bits), search.bits_standard.total)
            on_progress(replace(progress, iterations=self._shown, best=best))

        return reporter(search, self._begun, self._greedy, self._stop, tell)


def code_table(
    count: Callable[[Sequence[Itemset]], Sequence[int]],
    supports: NDArray[np.int64],
    data: TransactionDatabase | RowsElsewhere,
    result: SearchResult,
    policy: Policy,
) -> CodeTable:
    """Return the table that a search found; `count` returns the supports of its itemsets."""
    entries = [entry for entry in result.entries if len(entry.items) > 1]
    found = [
        (e.items, e.usage, shown_support(e.usage, support, policy.min_count), e.entry)
        for e, support in zip(entries, count([entry.items for entry in entries]), strict=True)
    ]
    counts = merge_rare(supports, spelled_out(supports, found), policy.min_count)
    table = release(data.vocabulary, data.transactions, counts, found, order=policy.order, min_count=policy.min_count)
    return replace(table, encoding=data.encoding)


@cache
def prepare() -> None:
    """Compile the kernels, or load them from the cache, once: 10 to 20 s the first time, then half a second.

    If they cannot be cached (a full disk, a read-only folder), they are compiled for this process only.
    """
    try:
        with helped_with("removal"):
            _warm_up()
    except OSError:
        forget_caches()
        _warm_up()


def _warm_up() -> None:
    database = TransactionDatabase.from_transactions([[1, 2, 3], [1, 2, 3], [1, 2], [3]] * 3)
    # First without the kernels that a second process may be compiling meanwhile.
    drive(SlimSearch(database.n_items, Policy(pruning=False)), CoverState(database))
    wait_for("removal")
    source, search = CoverState(database, keep_pairs=True), SlimSearch(database.n_items, Policy())
    drive(search, source)
    # Code that only larger data reach.
    search.ranking.warm_up()
    source.compact()
    source.support((0, 1))
    slot = next(iter(source.table))
    source.mark()
    source.try_removals((slot,))
    source.remove(slot)
    source.go_back()


def reporter(
    search: Search, number: int, of: int, stop: Stop, on_progress: Callable[[Progress], None]
) -> Callable[[], None]:
    """Return a function that reports the progress of a search, which runs policy `number` of `of`."""
    trend = Trend()

    def report() -> None:
        seconds = stop.seconds
        ends = (trend.remaining(seconds, search.best_gain), stop.deadline - stop.started - seconds)
        on_progress(
            Progress(
                policy=number,
                policies=of,
                itemsets=search.itemsets,
                accepted=search.tally.accepted,
                candidates=search.tally.candidates,
                percent=percent_of_standard(search.bits_now, search.bits_standard.total),
                best_gain=search.best_gain,
                seconds=seconds,
                remaining=min([end for end in ends if end is not None and end < math.inf], default=None),
                latest=search.latest(),
            )
        )

    return report


def _source(database: TransactionDatabase, threads: int | None) -> AbstractContextManager[Source]:
    """Return one cover state, or one per thread; the search cannot tell the difference."""
    if threads is None:
        threads = min(os.cpu_count() or 1, 4) if database.occurrences >= PAYS_IN_THREADS else 1
    threads = max(1, min(threads, database.transactions))
    keep = database.occurrences >= PAYS_TO_KEEP_PAIRS
    if threads == 1:
        return nullcontext(CoverState(database, keep_pairs=keep))
    return Sharded(database, threads, keep_pairs=keep)


def _check(**given: Any) -> None:
    """Raise `ParameterError` for the first parameter that is not what it must be."""
    positive = "a whole number of at least 1"
    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "pruning": ("True or False", lambda x: isinstance(x, bool)),
        "order": ("'usage' or 'support'", lambda x: x in ("usage", "support")),
        "max_time": ("a positive number of seconds or None", lambda x: x is None or (_is_number(x, Real) and x > 0)),
        "seed": ("a whole number of at least 0", lambda x: _is_number(x) and x >= 0),
        "max_itemset_size": (f"{positive} or None", lambda x: x is None or (_is_number(x) and x >= 1)),
        "min_support": (positive, lambda x: _is_number(x) and x >= 1),
        "min_count": (positive, lambda x: _is_number(x) and x >= 1),
        "threads": (f"{positive} or None", lambda x: x is None or (_is_number(x) and x >= 1)),
    }
    for name, (what, is_right) in rules.items():
        if not is_right(given[name]):
            raise ParameterError(f"{name} must be {what}, not {given[name]!r}")


def check_width(width: Any) -> None:
    """Raise `ParameterError` unless a step can try this many candidates."""
    if not (_is_number(width) and 1 <= width <= MAX_WIDTH):
        msg = f"width must be a whole number from 1 to {MAX_WIDTH}, not {width!r}; 1 is SLIM as published"
        raise ParameterError(msg)


def _is_number(value: Any, kind: type = Integral) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
