"""How hard the search looks: each effort does what the one below does, and continues from there.

    1  one greedy search
    2  greedy searches of several widths; the best table is polished
    3  greedy searches of random widths, a local search from the best table on, and with each further effort one of
       four times as many iterations

Without an effort, a time limit is used up in the same order. docs/explanation/decisions has the measurements. An effort
consists of tasks, which depend on nothing but the data. In one place several processes carry them out (`crew.py`); in a
federation, which has one table at a time, `EffortSearch` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, cast

from fedslim.errors import ParameterError
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import Stop, drive
from fedslim.mdl.eager_search import EagerSearch
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.local_search import (
    ContinuedSearch,
    Dice,
    EagerContinuedSearch,
    EagerLocalSearch,
    Experience,
    LocalSearch,
    Patch,
    Segment,
    Table,
    itemsets_of,
)
from fedslim.mdl.objective import EXACT, FREE, Bits
from fedslim.mdl.policy import HIGHEST_EFFORT, Policy
from fedslim.mdl.questions import Drop, Insert, Move, Question, Restart, Source, Supports
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.steps import SearchResult, TableEntry, Tally

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

WIDTHS = (1, 4, 6, 8, 10, 12, 16, 32)
"""Widths of the greedy searches, besides the policy's own. Because of 1, no table is worse than SLIM's as published."""

STARTS, MORE_STARTS = 40, 8
"""How many greedy searches with random widths there are before a local search, and each time the chains run: the first
few steps decide what no local search can change later."""

CHAINS = 2
"""How many local searches run side by side. They are part of the result, so this does not depend on the machine."""

ITERATIONS = 400  # after as many iterations the chains meet, and all continue from the best table

FIRST_ROUNDS, MORE_ROUNDS = 1, 4
"""How many times the chains meet at effort 3, and how many times more often with each further effort."""


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy search, from single items or from a table; with a seed, its steps have random widths."""

    policy: Policy
    start: Table = ()
    seed: tuple[int, ...] = ()

    def search(self, n_items: int, *, eager: bool = False) -> SlimSearch:
        """Return a search that does this, with few questions if it is `eager`."""
        kind = EagerContinuedSearch if eager else ContinuedSearch
        return kind(n_items, self.policy, self.start, Dice(*self.seed) if self.seed else None)


@dataclass(frozen=True, slots=True)
class Local:
    """A segment of a local search; the seed is several numbers."""

    policy: Policy
    segment: Segment
    seed: tuple[int, ...]

    def search(self, n_items: int, *, eager: bool = False) -> SlimSearch:
        """Return a search that does this, with few questions if it is `eager`."""
        kind = EagerLocalSearch if eager else LocalSearch
        return kind(n_items, self.policy, self.segment, Dice(*self.seed))


Task = Greedy | Local


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of a task, and what the next segment of a local search needs to know."""

    result: SearchResult
    patches: tuple[Patch, ...] = ()
    experience: Experience = field(default_factory=Experience)
    iterations: int = 0

    @classmethod
    def of(cls, search: SlimSearch) -> TaskOutcome:
        """Return what a search has found so far."""
        if isinstance(search, LocalSearch):
            return cls(search.result(), tuple(search.patches), search.experience, search.iterations)
        return cls(search.result())

    @property
    def bits(self) -> float:
        """L of the table."""
        return self.result.bits.total


def carry_out(
    task: Task,
    database: TransactionDatabase,
    stop: Stop,
    *,
    source: Source | None = None,
    watch: Callable[[SlimSearch], Callable[[], None] | None] = lambda _: None,
) -> TaskOutcome:
    """Carry out a task until it ends or should stop; `watch` returns what to call from time to time."""
    search = task.search(database.n_items)
    drive(search, source or CoverState(database), stop=stop, report=watch(search))
    return TaskOutcome.of(search)


@dataclass(frozen=True, slots=True)
class Plan:
    """What an effort does."""

    several: bool  # whether to try several widths, and to polish the best table
    rounds: int | None = 0  # how many times the chains of a local search run until they meet; None: until stopped

    @property
    def most_tasks(self) -> float:
        """How many tasks it has at most."""
        rounds = math.inf if self.rounds is None else self.rounds
        local = STARTS + (CHAINS + MORE_STARTS) * rounds if rounds else 0
        return 2 + len(WIDTHS) + local if self.several else 1


def plan(effort: int | None, *, limited: bool) -> Plan:
    """Return what an effort does; without one, a limited time is used up, and otherwise the effort is 1."""
    if effort is None:
        return Plan(several=True, rounds=None) if limited else Plan(several=False)
    if isinstance(effort, bool) or effort not in range(1, HIGHEST_EFFORT + 1):
        raise ParameterError(f"effort must be a whole number from 1 to {HIGHEST_EFFORT} or None, not {effort!r}")
    local = effort - 3
    return Plan(several=effort > 1, rounds=FIRST_ROUNDS * MORE_ROUNDS**local if local >= 0 else 0)


def parts(policy: Policy, plan: Plan, seed: int) -> Generator[Sequence[Task], Sequence[TaskOutcome], None]:
    """Yield the tasks of each part of a plan, and expect their outcomes: the tasks of the next part depend on them."""
    best = best_of((yield [Greedy(policy)]))
    if not plan.several:
        return
    best = best_of((yield [Greedy(replace(policy, width=w)) for w in WIDTHS if w != policy.width]), best)
    polish = replace(policy, charges=(EXACT, FREE), sweep=True)
    best = best_of((yield [Greedy(polish, itemsets_of(best))]), best)
    if plan.rounds == 0:
        return
    starts = (Greedy(policy, seed=(seed, k)) for k in count())
    other = best_of((yield [*islice(starts, STARTS)]))
    # One chain starts from each: the better table now may be in a region where nothing better is near.
    tables = [itemsets_of(best), itemsets_of(other)]
    best = min(best, other, key=lambda result: result.bits.total)
    patches: tuple[Patch, ...] = ()
    experience, number = Experience(), 0
    while number != plan.rounds and itemsets_of(best):
        chains = [
            Local(policy, Segment(table, ITERATIONS, patches, experience), (seed, number, chain))
            for chain, table in enumerate(tables)
        ]
        outcomes = yield [*chains, *islice(starts, MORE_STARTS)]
        winner = min(outcomes, key=lambda o: o.bits)
        best = best_of(outcomes, best)
        tables = [itemsets_of(best)] * CHAINS
        # What the others have found may be an improvement of the best table, too.
        patches = tuple([p for o in outcomes if o is not winner for p in o.patches])
        experience = Experience.mean([o.experience for o in outcomes[:CHAINS]])
        number += 1


def best_of(outcomes: Sequence[TaskOutcome], best: SearchResult | None = None) -> SearchResult:
    """Return the best of the results, the one before included; of equal ones the first."""
    before = [] if best is None else [best]
    return min([*before, *[o.result for o in outcomes]], key=lambda result: result.bits.total)


class EffortSearch:
    """All that an effort does as one search: its tasks one after the other, on the same source, with few questions.

    It finds what `mine` finds with the same policy, plan and seed. Between two tasks the table is emptied, and at the
    end the best one is put together again.
    """

    MUST_ANSWER: ClassVar[tuple[type, ...]] = SlimSearch.MUST_ANSWER

    def __init__(self, n_items: int, policy: Policy, plan: Plan, seed: int) -> None:
        self.now = cast("EagerSearch", Greedy(policy).search(n_items, eager=True))  # the search that asks
        self.converged = False
        self._n_items = n_items
        self._parts = parts(policy, plan, seed)
        self._supports: Any = None
        self._before = Tally()  # of the searches that have ended
        self._best: SearchResult | None = None  # of these
        self._several = plan.several

    def run(self) -> Generator[Question, Any, SearchResult]:
        """Carry out all tasks."""
        tasks = next(self._parts)
        with suppress(StopIteration):
            while True:
                outcomes: list[TaskOutcome] = []
                for task in tasks:
                    outcome = yield from self._carry_out(task)
                    outcomes.append(outcome)
                tasks = self._parts.send(outcomes)
        self.converged = True
        return self.result()

    def _carry_out(self, task: Task) -> Generator[Question, Any, TaskOutcome]:
        if self._supports is not None:
            yield Restart()
            self._best = best_of([TaskOutcome.of(self.now)], self._best)
            self._before += self.now.tally
        self.now = cast("EagerSearch", task.search(self._n_items, eager=True))
        run = self.now.run()
        question = next(run)
        with suppress(StopIteration):
            while True:
                if isinstance(question, Supports | Drop) and self._best is not None:
                    answer = self._supports  # sources are asked and told only once
                else:
                    answer = yield question
                if isinstance(question, Supports):
                    self._supports = answer
                question = run.send(answer)
        return TaskOutcome.of(self.now)

    def result(self) -> SearchResult:
        """Return the best table so far."""
        best = best_of([TaskOutcome.of(self.now)], self._best)
        return replace(best, tally=self.tally, converged=self.converged)

    def rewind(self) -> list[Move]:
        """Return the moves with which sources come to the best table."""
        if not self._several:
            return [*self.now.rewind()]
        return [Restart(), *[Insert.again(slot, entry.items, entry.entry) for slot, entry in self.found()]]

    def found(self) -> list[tuple[int, TableEntry]]:
        """Return the itemsets of the best table in cover order, with their slots after `rewind`."""
        if not self._several:
            return self.now.found()
        return list(enumerate([e for e in self.result().entries if len(e.items) > 1], self._n_items))

    usages = property(attrgetter("now.usages"), doc="The current usage of each slot, of the search that asks.")

    # -- for those who watch ------------------------------------------------------------------------------------

    @property
    def tally(self) -> Tally:
        """What all searches have done so far."""
        return self._before + self.now.tally

    @property
    def bits_now(self) -> float:
        """L of the best table so far."""
        now = self.now.best_bits if isinstance(self.now, LocalSearch) else self.now.bits_now
        return min(now, math.inf if self._best is None else self._best.bits.total)

    @property
    def bits_standard(self) -> Bits:
        """L of single items."""
        return self.now.bits_standard if self._best is None else self._best.bits_standard

    best_gain = property(attrgetter("now.best_gain"), doc="The estimated gain of the last candidate tried.")
    itemsets = property(attrgetter("now.itemsets"), doc="The number of itemsets of the search that asks.")

    def latest(self) -> tuple[tuple[Itemset, int], ...]:
        """Return the itemsets found last, with their usages, the newest first."""
        return self.now.latest()
