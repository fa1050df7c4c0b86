"""The covers of one database under a code table: a source of evidence that answers at memory speed.

    state = CoverState(db)
    change = state.try_insert(5, (0, 1), entry=7)
    state.insert(5, (0, 1), entry=7)

Memory is linear in the data: about 16 bytes for each item occurrence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedslim.mdl.kernels import counting, insertion, removal
from fedslim.mdl.kernels.arrays import GROUP_PLACES, NO_ELEMENT, NO_GROUP, WORDS, Covers, Lists, Work
from fedslim.mdl.questions import Change, SlotCounts
from fedslim.mdl.support import SupportIndex
from fedslim.mdl.table import WorkingTable, lengthened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fedslim.data import TransactionDatabase
    from fedslim.mdl.table import Itemset

NOTHING = Change(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))


def empty_lists(n_items: int, supports: NDArray[np.int64]) -> Lists:
    """Lists of elements for a table without any."""

    def starts() -> NDArray[np.int64]:
        return np.zeros(n_items + 1, np.int64)

    def slots() -> NDArray[np.int32]:
        return np.zeros(1024, np.int32)

    return Lists(starts(), slots(), starts(), slots(), slots(), supports)


def filled_lists(lists: Lists, table: WorkingTable) -> Lists:
    """The lists of the elements that the table has now."""
    if table.item_count > len(lists.slots):
        room = np.zeros(table.item_count * 2, np.int32)
        lists = lists._replace(slots=room, key_slots=room.copy(), keys=room.copy())
    counting.build_lists(table.order, table.elements, lists)
    return lists


def empty_work(capacity: int, database: TransactionDatabase) -> Work:
    """Scratch memory for a table of so many slots and the transactions of this database."""
    n_items, n = database.n_items, database.transactions
    longest = int(database.lengths.max(initial=0)) + 1
    return Work(
        lost=np.zeros(capacity, np.int64),
        won=np.zeros(capacity, np.int64),
        touched=np.zeros(capacity, np.int32),
        row=np.zeros(capacity, np.int64),
        marked=np.zeros(n_items, np.uint8),
        probes=np.zeros(n_items, np.int64),
        kept=np.zeros(longest, np.int32),
        alive=np.zeros(longest, np.int32),
        broken=np.zeros(longest, np.int64),
        free=np.zeros(longest, np.int32),
        fitting=np.zeros(capacity, np.int32),
        hits=np.zeros(n, np.int32),
        group_hash=np.zeros(GROUP_PLACES, np.uint64),
        group_tid=np.full(GROUP_PLACES, NO_GROUP, np.int32),
        group_count=np.zeros(GROUP_PLACES, np.int64),
        groups=np.zeros(GROUP_PLACES, np.int32),
        inside=np.zeros(capacity, np.int32),
        bucket=np.full(n_items, NO_ELEMENT, np.int32),
        chain=np.zeros(capacity, np.int32),
        free_mask=np.zeros(WORDS, np.uint64),
        available=np.zeros(WORDS, np.uint64),
    )


class CoverState:
    """Implements `questions.Source` for one database."""

    def __init__(self, database: TransactionDatabase, *, reuse_slots: bool = True) -> None:
        self.database = database
        self.table = WorkingTable(database.n_items, reuse_slots=reuse_slots)
        self._commits = 0
        # The last trial: what is carried out has nearly always just been tried.
        self._trial: tuple[tuple[object, ...], Change] = ((), NOTHING)
        self._index = SupportIndex(database)
        capacity = self.table.capacity
        n_items, n, occurrences = database.n_items, database.transactions, database.occurrences
        supports = database.supports
        tid_start = np.zeros(capacity, np.int64)
        np.cumsum(supports[:-1], out=tid_start[1:n_items])
        usage = np.zeros(capacity, np.int64)
        usage[:n_items] = supports
        tids = np.empty(occurrences + occurrences // 2 + 1024, np.int32)
        counting.singleton_tids(database.offsets, database.items, tid_start.copy(), tids)
        # How long each list may get where it stands.
        self._room = usage.copy()
        self._pool_end = occurrences
        # Each transaction keeps its length in front: one look into memory for both.
        start = database.offsets[:-1] + np.arange(n)
        slots = np.empty(occurrences + n, np.int32)
        is_item = np.ones(occurrences + n, bool)
        is_item[start] = False
        slots[start] = database.lengths
        slots[is_item] = database.items
        self._covers = Covers(
            start,
            slots,
            tids,
            tid_start,
            usage,
            np.zeros(n, np.int32),
        )
        self._lists = empty_lists(n_items, supports)
        self._lists_are_old = False
        self._work = empty_work(capacity, database)

    # -- questions ----------------------------------------------------------------------------------------------

    def supports(self) -> NDArray[np.int64]:
        """See `Source`."""
        return self.database.supports

    def support(self, itemset: Itemset) -> int:
        """See `Source`."""
        return self._index.support(itemset)

    def co_usages(self, slots: tuple[int, ...]) -> tuple[SlotCounts, ...]:
        """See `Source`."""
        return tuple(self._co_usage(slot) for slot in slots)

    def _co_usage(self, slot: int) -> SlotCounts:
        n = counting.co_usage(slot, self._covers, self._work)
        return SlotCounts(self._work.touched[:n].copy(), self._work.row[:n].copy())

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """See `Source`."""
        self._stage(slot, itemset, entry)
        n = insertion.try_insert(
            slot, self.table.elements, self._ready_lists(), self._covers, self._index.vertical, self._work
        )
        return self._remember(("insert", slot, itemset, entry), n)

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """See `Source`."""
        return tuple(self._try_remove(slot) for slot in slots)

    def _try_remove(self, slot: int) -> Change:
        self.table.unstage()
        n = removal.try_remove(slot, self.table.elements, self._ready_lists(), self._covers, self._work)
        return self._remember(("remove", slot), n)

    # -- moves --------------------------------------------------------------------------------------------------

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """See `Source`."""
        if self._trial[0] != ("insert", slot, itemset, entry):
            self.try_insert(slot, itemset, entry)
        self._make_room(self._trial[1])
        self._commits += 1
        change = self._trial[1]
        hits = int(change.won[change.slots == slot].sum())
        self._work.hits[:hits].sort()  # a list in the order of memory is walked over faster, many times
        n = insertion.insert(
            slot, hits, self._commits, self.table.elements, self._ready_lists(), self._covers, self._work
        )
        self.table.place(slot)
        self._trial = ((), NOTHING)
        self._lists_are_old = True
        self._change(n)

    def remove(self, slot: int) -> None:
        """See `Source`."""
        if self._covers.usage[slot] == 0:
            # In no cover: nothing changes but the table.
            self._drop(slot)
            return
        if self._trial[0] != ("remove", slot):
            self._try_remove(slot)
        self._make_room(self._trial[1])
        self._commits += 1
        n = removal.remove(slot, self._commits, self.table.elements, self._ready_lists(), self._covers, self._work)
        self._drop(slot)
        self._change(n)

    # -- looking inside -----------------------------------------------------------------------------------------

    @property
    def covers(self) -> Covers:
        """The covers, for kernels that count in them."""
        return self._covers

    @property
    def work(self) -> Work:
        """Scratch memory that fits the table, for the same."""
        return self._work

    @property
    def usages(self) -> NDArray[np.int64]:
        """The usage of each slot in this database."""
        return self._covers.usage

    def cover(self, t: int) -> list[int]:
        """The slots in the cover of transaction `t`, in cover order."""
        begin = self._covers.start[t]
        slots = self._covers.slots[begin + 1 : begin + 1 + self._covers.slots[begin]].tolist()
        rank = self.table.elements.rank
        return sorted(slots, key=lambda s: int(rank[s]))

    # -- keeping house ------------------------------------------------------------------------------------------

    def _stage(self, slot: int, itemset: Itemset, entry: int) -> None:
        self.table.stage(slot, itemset, entry)
        if self.table.capacity > len(self._room):
            self._grow(self.table.capacity)

    def _drop(self, slot: int) -> None:
        self.table.drop(slot)
        self._room[slot] = 0
        self._trial = ((), NOTHING)
        self._lists_are_old = True

    def _remember(self, trial: tuple[object, ...], n: int) -> Change:
        change = self._change(n)
        self._trial = (trial, change)
        return change

    def _change(self, n: int) -> Change:
        change = Change(np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64))
        counting.hand_over(n, self._work, change.slots, change.lost, change.won)
        return change

    def _ready_lists(self) -> Lists:
        """The lists of elements by item, made anew if the table has changed since they were last needed."""
        if self._lists_are_old:
            self._lists = filled_lists(self._lists, self.table)
            self._lists_are_old = False
        return self._lists

    def _grow(self, capacity: int) -> None:
        covers, work = self._covers, self._work
        self._covers = covers._replace(
            tid_start=lengthened(covers.tid_start, capacity), usage=lengthened(covers.usage, capacity)
        )
        self._work = work._replace(
            lost=lengthened(work.lost, capacity),
            won=lengthened(work.won, capacity),
            touched=lengthened(work.touched, capacity),
            row=lengthened(work.row, capacity),
            fitting=lengthened(work.fitting, capacity),
            inside=lengthened(work.inside, capacity),
            chain=lengthened(work.chain, capacity),
        )
        self._room = lengthened(self._room, capacity)

    def _make_room(self, change: Change) -> None:
        """See that every transaction list that will grow has the room to, before anything is written."""
        wanted = self._covers.usage[change.slots] + change.won
        short = wanted > self._room[change.slots]
        if not short.any():
            return
        slots, needed = change.slots[short], wanted[short]
        needed += needed // 4 + 8
        if self._pool_end + int(needed.sum()) > len(self._covers.tids):
            self.compact(int(needed.sum()))
        covers = self._covers
        for slot, room in zip(slots.tolist(), needed.tolist(), strict=True):
            begin, used = int(covers.tid_start[slot]), int(covers.usage[slot])
            covers.tids[self._pool_end : self._pool_end + used] = covers.tids[begin : begin + used]
            covers.tid_start[slot] = self._pool_end
            self._room[slot] = room
            self._pool_end += room

    def compact(self, extra: int = 0) -> None:
        """Move all lists together, so that the holes they left in the pool can be used again."""
        covers = self._covers
        starts = np.zeros_like(covers.tid_start)
        np.cumsum(self._room[:-1], out=starts[1:])
        end = int(self._room.sum())
        tids = np.empty(max(len(covers.tids), end + extra + (end + extra) // 4), np.int32)
        counting.move_lists(covers.tid_start, covers.usage, starts, covers.tids, tids)
        self._covers = covers._replace(tids=tids, tid_start=starts)
        self._pool_end = end
