"""What a search has done, is doing and comes to: its tally, a step that may be undone, its result."""

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
    from fedslim.mdl.questions import Change, Remove, SlotCounts
    from fedslim.mdl.ranking import Candidate
    from fedslim.mdl.table import WorkingTable


@dataclass(slots=True)
class Tally:
    """What the search has done so far."""

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
    """An element of the table found: items, usage, and the usage (or support) with which it entered."""

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
    """A candidate, the move that would insert it, what the sources say it changes, and by how many bits.

    If the sources have inserted it already, what they said about the table with it.
    """

    candidate: Candidate
    move: Insert
    change: Change
    bits: float
    inserted: bool = False
    removals: dict[int, Change] = field(default_factory=dict)
    rows: dict[int, SlotCounts] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moved:
    """One move of a step, with what it takes to undo it."""

    move: Insert | Remove
    itemset: Itemset
    entry: int
    birth: int
    change: Change | None = None  # None where no cover changed


@dataclass(slots=True)
class Step:
    """What happened since the table was last known to be good: moves, and the figures before the first of them."""

    bits: float
    accepted: int
    pruned: int
    moves: list[Moved] = field(default_factory=list)
    forced: bool = False  # whether an itemset had to go although that cost bits

    def undo(self, table: WorkingTable, usage: NDArray[np.int64]) -> tuple[list[TableEntry], NDArray[np.int64]]:
        """The itemsets of a table and all usages as they were when the step began; neither is changed."""
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
