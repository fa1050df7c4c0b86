"""The covers of one database or several under one code table, counted apart: entry p of a count is that of database p.

Memory is linear in the data: about 16 bytes per item occurrence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.data import TransactionDatabase
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels import array_table, counting
from fedslim.mdl.kernels.array_table import ArrayTable
from fedslim.mdl.kernels.arrays import Covers, KeptArrays, Lists, empty_lists, empty_work, enlarge, lengthen
from fedslim.mdl.kernels.counting import SupportIndex
from fedslim.mdl.questions import Changes, flatten, join_changes
from fedslim.mdl.table import WorkingTable

ROOM_FOR_ROWS = 1 << 16  # entries of rows that one kernel call counts

ROOM_FOR_TRIALS = 1 << 12  # touched slots of trial removals that one kernel call counts

MANY_HITS = 32  # the order of fewer transactions does not matter for speed

NO_PAIRS = np.zeros((0, 0), np.int32)

NO_CHANGES = flatten(())


def lists_for(lists: Lists, table: WorkingTable) -> Lists:
    """Return lists with room for the current elements of the table: the same ones if they have it."""
    if table.item_count <= len(lists.slots):
        return lists
    by_occurrence = ("slots", "key_slots", "keys")
    return lists._replace(**{f: lengthen(getattr(lists, f), table.item_count * 2) for f in by_occurrence})


def _joined(databases: Sequence[TransactionDatabase]) -> TransactionDatabase:
    """Return the transactions of all databases; they may have different labels for the items."""
    lengths = np.concatenate([database.lengths for database in databases])
    items = np.concatenate([database.items for database in databases])
    return TransactionDatabase(np.concatenate([[0], np.cumsum(lengths)]), items, databases[0].vocabulary)


class PartedCovers:
    """Keeps the cover of every transaction of some databases up to date while itemsets enter and leave the table.

    The transactions of all databases are covered together, since a change that several have in common is found once.
    """

    def __init__(self, databases: Sequence[TransactionDatabase], *, reuse_slots: bool = True) -> None:
        self.table = WorkingTable(databases[0].n_items, reuse_slots=reuse_slots)
        self._begin(databases)

    def _begin(self, databases: Iterable[TransactionDatabase]) -> None:
        """Cover every transaction by single items."""
        self.databases = tuple(databases)
        self._marked = KeptArrays()  # of the state that is remembered
        self._commits = 0
        # The last trial: a move has nearly always just been tried. And the reverse of the last insertion, in case
        # it does not stay after all.
        self._trial: tuple[tuple[object, ...], Changes] = ((), NO_CHANGES)
        self._inserted: tuple[tuple[object, ...], Changes] = ((), NO_CHANGES)
        parts, capacity = len(self.databases), self.table.capacity
        pool = self.databases[0] if parts == 1 else _joined(self.databases)
        self._index = SupportIndex(pool)
        self._indexes = [self._index] if parts == 1 else []
        self._usages_apart = np.zeros((capacity, parts if parts > 1 else 0), np.int64)
        self._usages_apart[: pool.n_items] = self.all_supports().T[:, : self._usages_apart.shape[1]]
        self._arrays = ArrayTable(
            self.table.elements,
            empty_lists(pool.n_items, pool.supports),
            self._single_items(pool),
            self._index.vertical,
            empty_work(capacity, pool, parts),
        )
        self._room_for_trials = NO_CHANGES
        self._room_for_rows = (np.empty(64, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

    def _single_items(self, pool: TransactionDatabase) -> Covers:
        """Return the covers by single items."""
        n, n_items, occurrences, parts = pool.transactions, pool.n_items, pool.occurrences, len(self.databases)
        tid_start, usage = np.zeros((2, self.table.capacity), np.int64)
        np.cumsum(pool.supports[:-1], out=tid_start[1:n_items])
        usage[:n_items] = pool.supports
        tids = np.empty(occurrences + occurrences // 2 + 1024, np.int32)
        counting.singleton_tids(pool.offsets, pool.items, tid_start.copy(), tids)
        # The length of each cover is stored in front of it, so that one memory access gets both.
        start = pool.offsets[:-1] + np.arange(n)
        slots = np.empty(occurrences + n, np.int32)
        is_item = np.ones(occurrences + n, bool)
        is_item[start] = False
        slots[start] = pool.lengths
        slots[is_item] = pool.items
        return Covers(
            start,
            slots,
            tids,
            tid_start,
            usage,
            usage.copy(),
            np.zeros(n, np.int32),
            np.repeat(np.arange(parts, dtype=np.int32), [d.transactions if parts > 1 else 0 for d in self.databases]),
            np.array([occurrences]),
            NO_PAIRS,
            np.zeros(n, np.int32),
            np.zeros(n, np.int64),
            np.zeros(1, np.int64),
        )

    # -- counts -------------------------------------------------------------------------------------------------

    def all_supports(self) -> NDArray[np.int64]:
        """Return the support of each item in each database."""
        return np.array([database.supports for database in self.databases])

    def _index_of_each(self) -> list[SupportIndex]:
        self._indexes = self._indexes or [SupportIndex(database) for database in self.databases]
        return self._indexes

    def support_in_each(self, itemset: Itemset) -> list[int]:
        """Return the support of an itemset in each database."""
        return [index.support(itemset) for index in self._index_of_each()]

    def supports_of(self, slots: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the supports of some elements in each database."""
        return np.array([index.supports(slots, self.table.elements) for index in self._index_of_each()])

    @property
    def all_usages(self) -> NDArray[np.int64]:
        """The usage of each slot in each database."""
        return self._usages_apart.T if len(self.databases) > 1 else self._arrays.covers.usage[None]

    def rows(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """Return (ends, others, counts): the row of slots[r] in database p of n ends at ends[r * n + p].

        Return only as many rows as there is room for, and at least one; call again for the others. The views are valid
        until the next call.
        """
        room, n = self._room_for_rows, len(self.databases)
        if len(room[0]) < n * len(slots):
            room = (np.empty(2 * n * len(slots), np.int64), *room[1:])
        if len(room[1]) < (n + 1) * self.table.capacity:
            size = ROOM_FOR_ROWS + 2 * n * self.table.capacity  # no less than there is scratch memory
            room = (room[0], np.empty(size, np.int32), np.empty(size, np.int64))
        self._room_for_rows = ends, others, counts = room
        found = array_table.co_usages(self._ready(), slots, ends, others, counts)
        return ends[: found * n], others, counts

    def entries(
        self, slots: NDArray[np.int64], ends: NDArray[np.int64], others: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the co-usages of slots[r] with the others before ends[r]: a row for each database."""
        found = np.empty((len(self.databases), len(others)), np.int64)
        array_table.entries(self._ready(), slots, ends, others, found)
        return found

    def trial_insertion(self, slot: int, itemset: Itemset, entry: int) -> Changes:
        """Return what would change in each database if the itemset entered the table."""
        self.table.stage(slot, itemset, entry)
        array_table.try_insert(self._ready(), slot, self._make_room(1))
        changes = self._counted(1)
        self._trial = (("insert", slot, itemset, entry), changes)
        return changes

    def trial_removals(self, slots: Sequence[int]) -> Changes:
        """Return what would change if each of these elements alone left the table.

        What changes in database p of n if slots[r] leaves is entry r * n + p.
        """
        if not slots:
            return NO_CHANGES
        self.table.unstage()
        table, room, todo, parts = self._ready(), self._make_room(len(slots)), np.array(slots, np.int64), []
        while len(todo):
            tried = array_table.try_removals(table, todo, room)
            parts.append(self._counted(tried))
            todo = todo[tried:]
        changes = join_changes(parts)
        self._trial = (("remove", slots[-1]), changes.last(len(self.databases)))
        return changes

    def _make_room(self, trials: int) -> Changes:
        """Return room for what at least one trial changes, of so many that are wanted."""
        room, n = self._room_for_trials, len(self.databases)
        size = ROOM_FOR_TRIALS + (n + 1) * self.table.capacity
        if len(room.slots) < size:
            room = Changes(room.ends, np.empty(size, np.int32), *np.empty((2, size), np.int64))
        if len(room.ends) < n * trials:
            room = room._replace(ends=np.empty(2 * n * trials, np.int64))
        self._room_for_trials = room
        return room

    def _counted(self, trials: int) -> Changes:
        ends, slots, lost, won = self._room_for_trials
        ends = ends[: trials * len(self.databases)].copy()
        end = int(ends[-1])
        return Changes(ends, slots[:end].copy(), lost[:end].copy(), won[:end].copy())

    # -- moves --------------------------------------------------------------------------------------------------

    def drop(self, items: tuple[int, ...]) -> None:
        """Forget that these items occur; called before the table has any itemset."""
        self._begin([database.without(items) for database in self.databases])

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """Insert an itemset; its trial told what changes."""
        if self._trial[0] != ("insert", slot, itemset, entry):
            self.trial_insertion(slot, itemset, entry)
        self._commits += 1
        covers = self._arrays.covers
        if covers.n_hits[0] > MANY_HITS:
            # Traversing a list in memory order is faster, and lists are traversed many times.
            covers.hits[: covers.n_hits[0]].sort()
        change = self._carry_out(array_table.insert, slot)
        self._inserted = (("remove", slot), Changes(change.ends, change.slots, change.won, change.lost))
        self.table.place(slot)
        arrays = self._arrays
        lists = lists_for(arrays.lists, self.table)
        if lists is not arrays.lists:
            arrays.use(lists)
        array_table.add_to_lists(arrays.rows, slot)

    def remove(self, slot: int) -> None:
        """Remove an element; its trial told what changes. An element without usage needs no trial."""
        if self._arrays.covers.usage[slot]:
            # Without usage it is in no cover, and only the table changes.
            if self._inserted[0] == ("remove", slot):
                self._trial = self._inserted
            elif self._trial[0] != ("remove", slot):
                self.trial_removals((slot,))
            self._commits += 1
            self._carry_out(array_table.remove, slot)
        array_table.take_from_lists(self._ready(), slot)
        self.table.drop(slot)
        self._arrays.covers.room[slot] = 0
        # Even if no cover changed: the removed element may be one that the last insertion broke.
        self._trial = self._inserted = ((), NO_CHANGES)

    def mark(self) -> None:
        """Remember this state, and forget the one remembered before."""
        self.table.mark()
        self._ready()
        pool_end = int(self._arrays.covers.pool_end[0])
        self._marked.keep(self._state(pool_end, self.table.item_count, len(self.table)))

    def go_back(self) -> None:
        """Return to the remembered state, which stays remembered."""
        self.table.go_back()
        self._ready()
        covers, lists = self._arrays.covers, self._arrays.lists
        # Slots that were added since have no uses, and no room for any.
        covers.usage[:] = covers.room[:] = self._usages_apart[:] = 0
        self._marked.put_back(self._state(len(covers.tids), len(lists.slots), len(lists.key_slots)))
        self._trial = self._inserted = ((), NO_CHANGES)

    def restart(self) -> None:
        """Return to the table without itemsets, and forget the remembered state."""
        self.table = WorkingTable(self.table.n_items)
        self._begin(self.databases)

    def _state(self, pool_end: int, occurrences: int, elements: int) -> tuple[NDArray[Any], ...]:
        """Return what a mark copies. `changed` is not part of it, because commits are never counted back."""
        covers, lists = self._arrays.covers, self._arrays.lists
        by_item = (lists.start, lists.slots[:occurrences], lists.key_start, lists.key_slots[:elements])
        by_slot = (covers.tid_start, covers.usage, covers.room, self._usages_apart)
        return covers.slots, covers.tids[:pool_end], *by_slot, covers.pool_end, *by_item

    def _carry_out(self, move: Any, slot: int) -> Changes:
        """Carry out the last trial, after making room for it; return what it changed."""
        _, slots, _, won = change = self._trial[1]
        if not move(self._ready(), slot, self._commits, change, self._usages_apart):
            wanted = self._arrays.covers.usage + np.bincount(slots, won, self.table.capacity).astype(np.int64)
            self.compact(int((wanted + wanted // 4 + 8)[slots].sum()))
            move(self._ready(), slot, self._commits, change, self._usages_apart)
        self._trial = self._inserted = ((), NO_CHANGES)
        return change

    def cover(self, t: int) -> list[int]:
        """Return the slots in the cover of transaction `t`, in cover order; the databases come one after the other."""
        covers = self._arrays.covers
        begin = covers.start[t]
        slots = covers.slots[begin + 1 : begin + 1 + covers.slots[begin]].tolist()
        rank = self.table.elements.rank
        return sorted(slots, key=lambda s: int(rank[s]))

    # -- memory -------------------------------------------------------------------------------------------------

    def _ready(self) -> NDArray[np.int64]:
        """Return the array table, updated to the current code table."""
        arrays, capacity = self._arrays, self.table.capacity
        if self.table.elements is not arrays.elements:
            arrays.use(self.table.elements)
            if capacity > len(arrays.covers.usage):
                by_slot = {f: lengthen(getattr(arrays.covers, f), capacity) for f in ("tid_start", "usage", "room")}
                arrays.use(arrays.covers._replace(**by_slot))
                arrays.use(enlarge(arrays.work, capacity))
                self._usages_apart = lengthen(self._usages_apart, capacity)
        return arrays.rows

    def compact(self, extra: int = 0) -> None:
        """Move all lists together, to reuse the gaps between them."""
        covers = self._arrays.covers
        starts = np.zeros_like(covers.tid_start)
        np.cumsum(covers.room[:-1], out=starts[1:])
        end = int(covers.room.sum())
        tids = np.empty(max(len(covers.tids), end + extra + (end + extra) // 4), np.int32)
        counting.move_lists(covers.tid_start, covers.usage, starts, covers.tids, tids)
        covers.tid_start[:] = starts
        self._arrays.use(covers._replace(tids=tids, pool_end=np.array([end])))
