"""The records of a search: its tally, trials, moves that may be undone, and its result."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from operator import add
from typing import TYPE_CHECKING

from fedslim.mdl.itemsets import Itemset, order_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedslim.mdl.objective import Bits
    from fedslim.mdl.questions import Change, Insert, Remove, Restore
    from fedslim.mdl.ranking import Candidate

LATEST = 12  # itemsets in a progress report


@dataclass(slots=True)
class Tally:
    """How many candidates were tried and accepted, itemsets pruned, and rows asked for."""

    candidates: int = 0
    accepted: int = 0
    pruned: int = 0
    rows: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An element of a search result: items, usage, and the usage (or support) with which it entered."""

    items: Itemset
    usage: int
    entry: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A code table in cover order (itemsets, then singletons in use), and how well it compresses."""

    entries: tuple[TableEntry, ...]
    bits: Bits
    bits_standard: Bits
    tally: Tally = field(compare=False)
    converged: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A candidate, the move that inserts it, what that changes, and by how many bits."""

    candidate: Candidate
    move: Insert
    change: Change
    bits: float


@dataclass(frozen=True, slots=True)
class Moved:
    """What undoes one move."""

    undo: Remove | Restore
    birth: int
    change: Change | None = None  # None if no cover changed


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table as it was: itemsets and entries by slot, and of each slot its usage and its length L(X | ST)."""

    itemsets: dict[int, Itemset]
    entries: dict[int, int]
    usage: NDArray[np.int64]
    standard: NDArray[np.float64]

    def elements(self, n_items: int) -> tuple[TableEntry, ...]:
        """Return the elements in use: itemsets in cover order, then singletons."""
        usage = self.usage.tolist()
        order = sorted(self.itemsets, key=lambda s: order_key(self.itemsets[s], self.entries[s]))
        itemsets = [TableEntry(self.itemsets[s], usage[s], self.entries[s]) for s in order if usage[s]]
        return (*itemsets, *[TableEntry((i,), usage[i], 0) for i in range(n_items) if usage[i]])


@dataclass(slots=True)
class Undoable:
    """Moves that may have to be undone, and what the search knew before the first of them."""

    before: Snapshot
    bits: float
    accepted: int
    pruned: int
    touched: set[int]
    shrunk: set[int]
    later: set[int]
    moves: list[Moved] = field(default_factory=list)
    forced: bool = False  # whether an itemset had to be removed although that may cost bits
