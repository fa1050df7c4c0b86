"""The records of a search: its tally, trials, moves that may be undone, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fedslim.mdl.itemsets import order_key
from fedslim.mdl.questions import Insert

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedslim.mdl.itemsets import Itemset
    from fedslim.mdl.objective import Bits
    from fedslim.mdl.questions import Change, Remove
    from fedslim.mdl.ranking import Candidate
    from fedslim.mdl.table import WorkingTable

LATEST = 12
"""Itemsets in a progress report."""


@dataclass(slots=True)
class Tally:
    """How many candidates were tried and accepted, itemsets pruned, and rows asked for."""

    candidates: int = 0
    accepted: int = 0
    pruned: int = 0
    rows: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.candidates + other.candidates,
            self.accepted + other.accepted,
            self.pruned + other.pruned,
            self.rows + other.rows,
        )


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
    """One move, with what is needed to undo it."""

    move: Insert | Remove
    itemset: Itemset
    entry: int
    birth: int
    change: Change | None = None  # None if no cover changed


@dataclass(slots=True)
class Undoable:
    """Moves that may have to be undone, and what the search knew before the first of them."""

    bits: float
    accepted: int
    pruned: int
    touched: set[int]
    shrunk: set[int]
    later: set[int]
    moves: list[Moved] = field(default_factory=list)
    forced: bool = False  # whether an itemset had to be removed although that may cost bits

    def undo(self, table: WorkingTable, usage: NDArray[np.int64]) -> tuple[list[TableEntry], NDArray[np.int64]]:
        """Return the itemsets and all usages as they were before the first move; the arguments stay unchanged."""
        usage = usage.copy()
        found = {s: (table.itemsets[s], table.entries[s]) for s in table}
        for moved in reversed(self.moves):
            slot = moved.move.slot
            if isinstance(moved.move, Insert):
                del found[slot]
            else:
                found[slot] = (moved.itemset, moved.entry)
            if moved.change is not None:
                usage[moved.change.slots] += moved.change.lost - moved.change.won
        ordered = sorted(found, key=lambda s: order_key(*found[s]))
        return [TableEntry(found[s][0], int(usage[s]), found[s][1]) for s in ordered], usage
