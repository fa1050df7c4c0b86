"""Covering transactions, seen or unseen, with a finished code table."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError
from fedslim.mdl.cover_state import empty_lists, empty_work, lists_for
from fedslim.mdl.kernels import counting
from fedslim.mdl.objective import code_length
from fedslim.mdl.table import WorkingTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.mdl.codetable import CodeTable
    from fedslim.mdl.itemsets import Itemset


class Covering:
    """A code table prepared for covering. Element `k` is itemset k in cover order; then come all single items."""

    def __init__(self, table: CodeTable) -> None:
        self.table = table
        self._working = WorkingTable(len(table.vocabulary))
        for items, _, _, entry in table.found:
            slot = self._working.next_slot()
            self._working.stage(slot, items, entry)
            self._working.place(slot)
        supports = np.array(table.supports, np.int64)
        self._lists = lists_for(empty_lists(len(table.vocabulary), supports), self._working)
        counting.fill_lists(self._working.order, self._working.elements, self._lists)

    @property
    def n_elements(self) -> int:
        """The number of itemsets and single items."""
        return len(self.table.found) + len(self.table.vocabulary)

    def items_of(self, element: int) -> Itemset:
        """Return the items of an element."""
        found = self.table.found
        return found[element][0] if element < len(found) else (element - len(found),)

    def known(self, database: TransactionDatabase) -> tuple[TransactionDatabase, NDArray[np.int64]]:
        """Return the transactions over the table's vocabulary, and the number of unknown items in each."""
        if database.vocabulary == self.table.vocabulary:
            return database, np.zeros(len(database), np.int64)
        index = {label: i for i, label in enumerate(self.table.vocabulary)}
        ids = np.array([index.get(label, -1) for label in database.vocabulary], np.int64)[database.items]
        tids = np.repeat(np.arange(len(database), dtype=np.int64), database.lengths)
        strange = np.bincount(tids[ids < 0], minlength=len(database)).astype(np.int64)
        known = TransactionDatabase.from_pairs(
            tids[ids >= 0], ids[ids >= 0], self.table.vocabulary, transactions=len(database), name=database.name
        )
        return known, strange

    def cover(self, database: TransactionDatabase) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(ends, elements): the cover of transaction t is elements[ends[t - 1]:ends[t]], in cover order.

        Unknown items raise `DataError`, unless the table was made without rare items: then they are left out.
        """
        known, strange = self.known(database)
        if strange.any() and self.table.min_count == 1 and not self.table.other:
            t = int(np.flatnonzero(strange)[0])
            label = next(i for i in database.transaction(t) if i not in set(self.table.vocabulary))
            msg = (
                f"transaction {t + 1} has the item {label!r}, which the code table does not know; "
                "remove unknown items, or score the transaction with score_samples"
            )
            raise DataError(msg)
        ends, slots = self._cover(known)
        n_items, n_found = len(self.table.vocabulary), len(self.table.found)
        return ends, np.where(slots < n_items, slots + n_found, slots - n_items)

    def bits(self, database: TransactionDatabase) -> NDArray[np.float64]:
        """Return the encoded length of each transaction, with one usage added to every element and to "other".

        So a transaction with an unknown item, which the table cannot encode, has a large but finite length.
        """
        known, strange = self.known(database)
        ends, elements = self.cover(known)
        # Each transaction is summed separately, so that its bits do not depend on the others.
        tids = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        bits = np.bincount(tids, weights=self.lengths[elements], minlength=len(ends)).astype(np.float64)
        return bits + strange * float(self.lengths[-1])

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """The code length of each element, and last that of an unknown item, with one usage added to every one."""
        used = [usage for _, usage, _, _ in self.table.found]
        usages = [usage + 1 for usage in (*used, *self.table.singleton_usages, self.table.other)]
        total = sum(usages)
        return np.array([code_length(usage, total) for usage in usages])

    def _cover(self, database: TransactionDatabase) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        slots = np.zeros(database.occurrences, np.int64)
        ends = np.zeros(database.transactions, np.int64)
        work = empty_work(self._working.capacity, database)
        counting.cover_all(database.offsets, database.items, self._working.elements, self._lists, work, slots, ends)
        return ends, slots[: int(ends[-1]) if len(ends) else 0]
