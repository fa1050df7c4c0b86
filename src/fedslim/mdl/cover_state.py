"""The covers of one database under a code table: a source that answers at memory speed.

Memory is linear in the data: that of the covers, and as much again for pairs where they are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels import counting
from fedslim.mdl.kernels.arrays import Covers, Work
from fedslim.mdl.parted_covers import NO_PAIRS, PartedCovers
from fedslim.mdl.questions import Change, SlotCounts

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

PAIRS_FOR_EACH_OCCURRENCE = 4
MANY_PAIRS = 1 << 16
"""The pairs that are kept are no more than this many, or those for each item occurrence: linear in the data."""

NOTHING = Change(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))


class CoverState(PartedCovers):
    """Implements `questions.Source` for one database.

    With `keep_pairs` it keeps the co-usages of all pairs of elements up to date instead of counting rows when asked, as
    long as there are not too many for the data; see docs/explanation/decisions/kept-pairs.md.
    """

    def __init__(self, database: TransactionDatabase, *, reuse_slots: bool = True, keep_pairs: bool = False) -> None:
        self._keep_pairs = keep_pairs
        super().__init__([database], reuse_slots=reuse_slots)

    # -- questions ----------------------------------------------------------------------------------------------

    def supports(self) -> NDArray[np.int64]:
        """See `Source`."""
        return self.databases[0].supports

    def support(self, itemset: Itemset) -> int:
        """See `Source`."""
        return self._index.support(itemset)

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """See `Source`."""
        pairs = self.kept_rows(slots)
        if pairs is not None:
            return sparse_rows(pairs)
        rows: list[SlotCounts] = []
        while len(rows) < len(slots):
            ends, others, counts = self.rows(np.array(slots[len(rows) :], np.int64))
            begin, last = 0, int(ends[-1])
            others, counts = others[:last].copy(), counts[:last].copy()
            for end in ends.tolist():
                rows.append(SlotCounts(others[begin:end], counts[begin:end]))
                begin = end
        return tuple(rows)

    def kept_rows(self, slots: tuple[int, ...]) -> NDArray[np.int32] | None:
        """Return the co-usages of these elements with each slot; None if they are not kept."""
        if self._keep_pairs and len(self.covers.pairs) == 0:
            self._resize_pairs(max((self.table.n_items, *self.table.itemsets)))
            if self._keep_pairs:
                counting.count_pairs(self.covers.start, self.covers.slots, self.covers.pairs)
        if not self._keep_pairs:
            return None
        found: NDArray[np.int32] = self.covers.pairs[list(slots)]
        found[np.arange(len(slots)), list(slots)] = self.usages[list(slots)]
        return found

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """See `Source`."""
        return self.trial_insertion(slot, itemset, entry).each()[0]

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """See `Source`."""
        return self.trial_removals(slots).each()

    # -- moves --------------------------------------------------------------------------------------------------

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """See `Source`."""
        if 0 < len(self.covers.pairs) <= slot:
            self._resize_pairs(slot)
        super().insert(slot, itemset, entry)

    def mark(self) -> None:
        """See `Source`."""
        self._drop_pairs()
        super().mark()

    # -- access -------------------------------------------------------------------------------------------------

    @property
    def covers(self) -> Covers:
        """The covers, for other kernels."""
        return self._arrays.covers

    @property
    def work(self) -> Work:
        """Scratch memory that fits the table, for other kernels."""
        return self._arrays.work

    @property
    def usages(self) -> NDArray[np.int64]:
        """The usage of each slot in this database."""
        return self._arrays.covers.usage

    # -- memory -------------------------------------------------------------------------------------------------

    def _resize_pairs(self, slot: int) -> None:
        """Make room for the pairs of a slot, or keep none any more."""
        pairs, size = self.covers.pairs, slot + slot // 4 + 1
        if size * size > max(MANY_PAIRS, PAIRS_FOR_EACH_OCCURRENCE * self.databases[0].occurrences):
            self._drop_pairs()
            return
        larger = np.zeros((size, size), np.int32)
        larger[: len(pairs), : len(pairs)] = pairs
        self._arrays.use(self.covers._replace(pairs=larger))

    def _drop_pairs(self) -> None:
        self._keep_pairs = False
        self._arrays.use(self.covers._replace(pairs=NO_PAIRS))


def sparse_rows(pairs: NDArray[np.integer]) -> tuple[SlotCounts, ...]:
    """Return the nonzero counts of each row."""
    row, column = np.nonzero(pairs)
    slots, counts = column.astype(np.int32), pairs[row, column].astype(np.int64)
    ends = np.searchsorted(row, np.arange(len(pairs)), side="right").tolist()
    return tuple([SlotCounts(slots[a:b], counts[a:b]) for a, b in zip([0, *ends], ends, strict=False)])
