"""Covering transactions, seen or unseen, with a finished code table, and what each of its itemsets is worth.

Everything that a table is used for rests on `Covering`: the cover of a row, its bits, and the bits that its items take
on average. It covers one database at a time, and a row's result never depends on the others: large data come in chunks.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from fedslim.data import TransactionDatabase
from fedslim.errors import DataError
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels import counting
from fedslim.mdl.kernels.arrays import empty_lists, empty_work
from fedslim.mdl.kernels.gain import bits_after
from fedslim.mdl.objective import code_length, log2_table, standard_length
from fedslim.mdl.parted_covers import lists_for
from fedslim.mdl.table import WorkingTable

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable

MATRIX = 2  # the number of dimensions of covers


class Covering:
    """A code table prepared for covering. Element `k` is itemset k in cover order; then come all single items."""

    def __init__(self, table: CodeTable) -> None:
        self.table = table
        self._working = WorkingTable(len(table.vocabulary))
        for items, _, _, entry in table.found:
            (slot,) = self._working.free_slots(1)
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

    @cached_property
    def lengths(self) -> NDArray[np.float64]:
        """The code length of each element, then of an unknown item, with one usage added to each.

        So a transaction with an unknown item, which the table cannot encode, has a large but finite length.
        """
        table = self.table
        usages = [*(usage for _, usage, _, _ in table.found), *table.singleton_usages, table.other]
        total = sum(usages) + len(usages)
        return np.array([code_length(usage + 1, total) for usage in usages])

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """The bits that each item takes on average where it occurs, and last those of an unknown item.

        The bits of a code are divided evenly among the items of its element. So the shares of all occurrences of items
        in the mined data add up to the bits of these data.
        """
        table = self.table
        bits = np.zeros(len(table.vocabulary) + 1)
        for k, (items, usage, _, _) in enumerate(table.found):
            bits[list(items)] += usage * self.lengths[k] / len(items)
        bits[:-1] += np.array(table.singleton_usages, np.float64) * self.lengths[len(table.found) : -1]
        counts = np.array([*table.supports, 0], np.float64)
        mean = bits.sum() / max(counts.sum(), 1.0)
        return np.asarray((bits + mean) / (counts + 1.0))  # one average occurrence more, also for items without any

    def known(self, database: TransactionDatabase) -> tuple[TransactionDatabase, NDArray[np.int64]]:
        """Return the transactions over the table's vocabulary, and the number of unknown items in each."""
        if database.vocabulary == self.table.vocabulary:
            return database, np.zeros(len(database), np.int64)
        index = {label: i for i, label in enumerate(self.table.vocabulary)}
        ids = np.array([index.get(label, -1) for label in database.vocabulary], np.int64)[database.items]
        tids = np.repeat(np.arange(len(database), dtype=np.int64), database.lengths)
        strange = np.bincount(tids[ids < 0], minlength=len(database)).astype(np.int64)
        rows = (database.lengths - strange, ids[ids >= 0])
        return TransactionDatabase.from_rows(*rows, self.table.vocabulary, name=database.name), strange

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
                "remove unknown items, or take the bits of the transaction, which code_lengths gives"
            )
            raise DataError(msg)
        return self.elements(known)

    def bits(self, database: TransactionDatabase) -> NDArray[np.float64]:
        """Return the encoded length of each transaction; see `lengths`."""
        known, strange = self.known(database)
        ends, elements = self.elements(known)
        return _sums(ends, self.lengths[elements], strange, self.lengths[-1])

    def expected(self, database: TransactionDatabase) -> NDArray[np.float64]:
        """Return the bits that the items of each transaction take on average; see `shares`."""
        known, strange = self.known(database)
        return _sums(known.offsets[1:], self.shares[known.items], strange, self.shares[-1])

    def spelled(self, database: TransactionDatabase) -> NDArray[np.float64]:
        """Return the bits of each transaction if its items are spelled one by one, one occurrence added to each."""
        counts = [*self.table.supports, self.table.other]
        total = sum(counts) + len(counts)
        lengths = np.array([code_length(count + 1, total) for count in counts])
        known, strange = self.known(database)
        return _sums(known.offsets[1:], lengths[known.items], strange, lengths[-1])

    def matrix(self, database: TransactionDatabase) -> csr_array:
        """Return the covers as a sparse matrix with a row for each transaction and a column for each element."""
        ends, elements = self.cover(database)
        rows = np.concatenate(([0], ends))
        return csr_array((np.ones(len(elements), np.uint8), elements, rows), shape=(len(ends), self.n_elements))

    def reconstruct(self, covers: Any) -> TransactionDatabase:
        """Return exactly the transactions that `matrix` turned into these covers."""
        flags = covers if issparse(covers) else np.asarray(covers)  # a DataFrame, after `set_output`
        if flags.ndim != MATRIX or flags.shape[1] != self.n_elements or flags.dtype.kind not in "biuf":
            msg = (
                f"reconstruct takes what transform returns: a matrix with {self.n_elements} columns, "
                "one for each element of the code table"
            )
            raise DataError(msg)
        rows = csr_array(flags)
        rows.eliminate_zeros()
        sizes = np.array([len(self.items_of(k)) for k in range(self.n_elements)], np.int64)
        tids = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        items = [i for element in rows.indices for i in self.items_of(element)]
        pairs = (np.repeat(tids, sizes[rows.indices]), np.array(items, np.int64))
        return TransactionDatabase.from_pairs(*pairs, self.table.vocabulary, transactions=rows.shape[0])

    def elements(self, database: TransactionDatabase) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `cover`; the transactions are over the table's vocabulary."""
        slots = np.zeros(database.occurrences, np.int64)
        ends = np.zeros(database.transactions, np.int64)
        work = empty_work(self._working.capacity, database)
        counting.cover_all(database.offsets, database.items, self._working.elements, self._lists, work, slots, ends)
        slots = slots[: int(ends[-1]) if len(ends) else 0]
        n_items, n_found = len(self.table.vocabulary), len(self.table.found)
        return ends, np.where(slots < n_items, slots + n_found, slots - n_items)


def _sums(
    ends: NDArray[np.int64], values: NDArray[np.float64], strange: NDArray[np.int64], each: float
) -> NDArray[np.float64]:
    """Add up the values of each transaction, and `each` for its unknown items.

    Each transaction is summed separately, so that its sum does not depend on the others.
    """
    tids = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return np.asarray(np.bincount(tids, weights=values, minlength=len(ends)) + strange * each, np.float64)


def worth(database: TransactionDatabase, table: CodeTable) -> list[float]:
    """Return ΔL of each itemset in cover order: L(D, CT without it) − L(D, CT), with new covers.

    The table must have been mined from this database; otherwise its usages do not match the covers.
    """
    state = CoverState(database)
    slots = []
    for items, _, _, entry in table.found:
        (slot,) = state.table.free_slots(1)
        state.insert(slot, items, entry)
        slots.append(slot)
    standard = np.zeros(state.table.capacity)
    standard[: database.n_items] = table.standard_lengths
    for slot, (items, _, _, _) in zip(slots, table.found, strict=True):
        standard[slot] = standard_length(items, table.standard_lengths)
    usages = state.usages
    total, in_use = int(usages.sum()), int(np.count_nonzero(usages))
    logs = log2_table(total)
    return [bits_after(change, usages, standard, total, in_use, logs) for change in state.try_removals(tuple(slots))]
