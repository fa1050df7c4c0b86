"""All that an effort does as one search: its tasks one after the other, on the same source, with few questions.

In one place, tasks are carried out by several processes (`crew.py`). A federation has one table at a time, so between
two tasks the table is emptied, and at the end the best one is put together again.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from fedslim.mdl.effort import best_of, parts
from fedslim.mdl.local_search import LocalSearch
from fedslim.mdl.questions import Drop, Insert, Restart, Supports
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.steps import Tally
from fedslim.mdl.tasks import Greedy, TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Generator

    import numpy as np
    from numpy.typing import NDArray

    from fedslim.mdl.eager_search import EagerSearch
    from fedslim.mdl.effort import Plan
    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.objective import Bits
    from fedslim.mdl.policy import Policy
    from fedslim.mdl.questions import Move, Question
    from fedslim.mdl.steps import SearchResult, TableEntry
    from fedslim.mdl.tasks import Task


class EffortSearch:
    """Finds what `mine` finds with the same policy, plan and seed."""

    MUST_ANSWER: ClassVar[tuple[type, ...]] = SlimSearch.MUST_ANSWER

    def __init__(self, n_items: int, policy: Policy, plan: Plan, seed: int) -> None:
        self.now: EagerSearch = Greedy(policy).eager_search(n_items)  # the search that asks
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
        self.now = task.eager_search(self._n_items)
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

    @property
    def usages(self) -> NDArray[np.int64]:
        """The current usage of each slot, of the search that asks."""
        return self.now.usages

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

    @property
    def best_gain(self) -> float:
        """The estimated gain of the last candidate tried."""
        return self.now.best_gain

    @property
    def itemsets(self) -> int:
        """The number of itemsets of the search that asks."""
        return self.now.itemsets

    def latest(self) -> tuple[tuple[Itemset, int], ...]:
        """Return the itemsets found last, with their usages, the newest first."""
        return self.now.latest()
