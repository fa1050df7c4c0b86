"""Parts of a search that depend on nothing but the data: any process may carry them out, with the same outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedslim.mdl.continued import ContinuedSearch, Table
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.driver import drive
from fedslim.mdl.eager_tasks import EagerContinuedSearch, EagerLocalSearch
from fedslim.mdl.local_search import LocalSearch, Patch, Segment
from fedslim.mdl.ruins import Dice, Experience

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedslim.data import TransactionDatabase
    from fedslim.mdl.driver import Stop
    from fedslim.mdl.eager_search import EagerSearch
    from fedslim.mdl.policy import Policy
    from fedslim.mdl.questions import Source
    from fedslim.mdl.search import SlimSearch
    from fedslim.mdl.steps import SearchResult


@dataclass(frozen=True, slots=True)
class Greedy:
    """A greedy search, from single items or from a table."""

    policy: Policy
    start: Table = ()

    def search(self, n_items: int) -> SlimSearch:
        """Return a search that does this."""
        return ContinuedSearch(n_items, self.policy, self.start)

    def eager_search(self, n_items: int) -> EagerSearch:
        """Return a search that does this with few questions."""
        return EagerContinuedSearch(n_items, self.policy, self.start)


@dataclass(frozen=True, slots=True)
class Local:
    """A segment of a local search; the seed is several numbers."""

    policy: Policy
    segment: Segment
    seed: tuple[int, ...]

    def search(self, n_items: int) -> LocalSearch:
        """Return a search that does this."""
        return LocalSearch(n_items, self.policy, self.segment, Dice(*self.seed))

    def eager_search(self, n_items: int) -> EagerSearch:
        """Return a search that does this with few questions."""
        return EagerLocalSearch(n_items, self.policy, self.segment, Dice(*self.seed))


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
