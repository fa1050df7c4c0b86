"""The covers of one database under a code table: a source that answers at memory speed.

Memory is linear in the data: about 16 bytes per item occurrence, and as much again for pairs where they are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels import array_table, counting
from fedslim.mdl.kernels.array_table import ArrayTable
from fedslim.mdl.kernels.arrays import Covers, KeptArrays, Lists, Work, empty_lists, empty_work, lengthen
from fedslim.mdl.kernels.counting import SupportIndex
from fedslim.mdl.questions import Change, Changes, SlotCounts, flatten, join_changes
from fedslim.mdl.table import WorkingTable

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase

ROOM_FOR_ROWS = 1 << 16  # entries of rows that one kernel call counts

PAIRS_FOR_EACH_OCCURRENCE = 4
MANY_PAIRS = 1 << 16
"""The pairs that are kept are no more than this many, or those for each item occurrence: linear in the data."""

ROOM_FOR_TRIALS = 1 << 12  # touched slots of trial removals that one kernel call counts

NO_PAIRS = np.zeros((0, 0), np.int32)

NOTHING = Change(np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
NO_CHANGES = flatten(())


def lists_for(lists: Lists, table: WorkingTable) -> Lists:
    """Return lists with room for the current elements of the table: the same ones if they have it."""
    if table.item_count <= len(lists.slots):
        return lists
    by_occurrence = ("slots", "key_slots", "keys")
    return lists._replace(**{f: lengthen(getattr(lists, f), table.item_count * 2) for f in by_occurrence})


class CoverState:
    """Implements `questions.Source` for one database.

    With `keep_pairs` it keeps the co-usages of all pairs of elements up to date instead of counting rows when asked, as
    long as there are not too many for the data; see docs/explanation/decisions/kept-pairs.md.
    """

    def __init__(self, database: TransactionDatabase, *, reuse_slots: bool = True, keep_pairs: bool = False) -> None:
        self._keep_pairs = keep_pairs
        self.table = WorkingTable(database.n_items, reuse_slots=reuse_slots)
        self._begin(database)

    def _begin(self, database: TransactionDatabase) -> None:
        """Cover every transaction by single items."""
        self.database = database
        self._marked = KeptArrays()  # of the state that is remembered
        self._commits = 0
        # The last trial: a move has nearly always just been tried. And the reverse of the last insertion, in case
        # it does not stay after all.
        self._trial: tuple[tuple[object, ...], Change] = ((), NOTHING)
        self._inserted: tuple[tuple[object, ...], Change] = ((), NOTHING)
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
        # The length of each cover is stored in front of it, so that one memory access gets both.
        start = database.offsets[:-1] + np.arange(n)
        slots = np.empty(occurrences + n, np.int32)
        is_item = np.ones(occurrences + n, bool)
        is_item[start] = False
        slots[start] = database.lengths
        slots[is_item] = database.items
        changed = np.zeros(n, np.int32)
        self._arrays = ArrayTable(
            self.table.elements,
            empty_lists(n_items, supports),
            Covers(start, slots, tids, tid_start, usage, usage.copy(), changed, np.array([occurrences]), NO_PAIRS),
            self._index.vertical,
            empty_work(capacity, database),
        )
        self._room_for_trials = NO_CHANGES
        self._room_for_rows = (np.empty(64, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))

    # -- questions ----------------------------------------------------------------------------------------------

    def supports(self) -> NDArray[np.int64]:
        """See `Source`."""
        return self.database.supports

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

    def rows(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]:
        """Return (ends, others, counts): the row of slots[r] ends at ends[r]. The views are valid until the next call.

        Return only as many rows as there is room for, and at least one; call again for the others.
        """
        room = self._room_for_rows
        if len(room[0]) < len(slots):
            room = (np.empty(2 * len(slots), np.int64), *room[1:])
        if len(room[1]) < self.table.capacity:
            size = max(ROOM_FOR_ROWS, 2 * self.table.capacity)
            room = (room[0], np.empty(size, np.int32), np.empty(size, np.int64))
        self._room_for_rows = ends, others, counts = room
        n = array_table.co_usages(self._ready(), slots, ends, others, counts)
        return ends[:n], others, counts

    def try_insert(self, slot: int, itemset: Itemset, entry: int) -> Change:
        """See `Source`."""
        self.table.stage(slot, itemset, entry)
        n = array_table.try_insert(self._ready(), slot)
        work = self._arrays.work
        change = Change(work.touched[:n].copy(), work.lost_of[:n].copy(), work.won_of[:n].copy())
        self._trial = (("insert", slot, itemset, entry), change)
        return change

    def try_removals(self, slots: tuple[int, ...]) -> tuple[Change, ...]:
        """See `Source`."""
        return self.trial_removals(slots).each()

    def trial_removals(self, slots: Sequence[int]) -> Changes:
        """Return what would change if each of these elements alone left the table."""
        if not slots:
            return NO_CHANGES
        self.table.unstage()
        size = max(ROOM_FOR_TRIALS, self.table.capacity)
        if len(self._room_for_trials.slots) < size:
            both = np.empty((2, size), np.int64)
            self._room_for_trials = Changes(np.empty(len(slots), np.int64), np.empty(size, np.int32), *both)
        if len(self._room_for_trials.ends) < len(slots):
            self._room_for_trials = self._room_for_trials._replace(ends=np.empty(2 * len(slots), np.int64))
        room, todo, parts = self._room_for_trials, np.array(slots, np.int64), []
        while len(todo):
            n = array_table.try_removals(self._ready(), todo, *room)
            end = room.ends[n - 1]
            counted = room.slots[:end].copy(), room.lost[:end].copy(), room.won[:end].copy()
            parts.append(Changes(room.ends[:n].copy(), *counted))
            todo = todo[n:]
        changes = parts[0] if len(parts) == 1 else join_changes(parts)
        self._trial = (("remove", slots[-1]), changes.last())
        return changes

    # -- moves --------------------------------------------------------------------------------------------------

    def drop(self, items: tuple[int, ...]) -> None:
        """See `Source`."""
        self._begin(self.database.without(items))

    def insert(self, slot: int, itemset: Itemset, entry: int) -> None:
        """See `Source`."""
        if self._trial[0] != ("insert", slot, itemset, entry):
            self.try_insert(slot, itemset, entry)
        self._commits += 1
        if 0 < len(self.covers.pairs) <= slot:
            self._resize_pairs(slot)
        work = self._arrays.work
        # Traversing a list in memory order is faster, and lists are traversed many times.
        work.hits[: int(work.n_hits[0])].sort()
        change = self._carry_out(array_table.insert, slot)
        self._inserted = (("remove", slot), Change(change.slots, change.won, change.lost))
        self.table.place(slot)
        arrays = self._arrays
        lists = lists_for(arrays.lists, self.table)
        if lists is not arrays.lists:
            arrays.use(lists)
        array_table.add_to_lists(arrays.rows, slot)

    def remove(self, slot: int) -> None:
        """See `Source`."""
        if self._arrays.covers.usage[slot] > 0:
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
        self._trial = self._inserted = ((), NOTHING)

    def mark(self) -> None:
        """See `Source`."""
        self._drop_pairs()
        self.table.mark()
        self._ready()
        pool_end = int(self._arrays.covers.pool_end[0])
        self._marked.keep(self._state(pool_end, self.table.item_count, len(self.table)))

    def go_back(self) -> None:
        """See `Source`."""
        self.table.go_back()
        self._ready()
        covers, lists = self._arrays.covers, self._arrays.lists
        # Slots that were added since have no uses, and no room for any.
        covers.usage[:] = 0
        covers.room[:] = 0
        self._marked.put_back(self._state(len(covers.tids), len(lists.slots), len(lists.key_slots)))
        self._trial = self._inserted = ((), NOTHING)

    def restart(self) -> None:
        """See `Source`."""
        self.table = WorkingTable(self.database.n_items)
        self._begin(self.database)

    def _state(self, pool_end: int, occurrences: int, elements: int) -> tuple[NDArray[Any], ...]:
        """Return what a mark copies. `changed` is not part of it, because commits are never counted back."""
        c, lists = self._arrays.covers, self._arrays.lists
        by_item = (lists.start, lists.slots[:occurrences], lists.key_start, lists.key_slots[:elements])
        return (c.slots, c.tids[:pool_end], c.tid_start, c.usage, c.room, c.pool_end, *by_item)

    def _carry_out(self, move: Any, slot: int) -> Change:
        """Carry out the last trial, after making room for it; return what it changed."""
        change = self._trial[1]
        if not move(self._ready(), slot, self._commits, change.slots, change.won):
            wanted = self.usages[change.slots] + change.won
            self.compact(int((wanted + wanted // 4 + 8).sum()))
            move(self._ready(), slot, self._commits, change.slots, change.won)
        self._trial = self._inserted = ((), NOTHING)
        return change

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

    def cover(self, t: int) -> list[int]:
        """Return the slots in the cover of transaction `t`, in cover order."""
        covers = self._arrays.covers
        begin = covers.start[t]
        slots = covers.slots[begin + 1 : begin + 1 + covers.slots[begin]].tolist()
        rank = self.table.elements.rank
        return sorted(slots, key=lambda s: int(rank[s]))

    # -- memory -------------------------------------------------------------------------------------------------

    def _ready(self) -> NDArray[np.int64]:
        """Return the array table, updated to the current code table."""
        arrays, table = self._arrays, self.table
        if table.elements is not arrays.elements:
            arrays.use(table.elements)
            if table.capacity > len(arrays.work.lost):
                self._grow(table.capacity)
        return arrays.rows

    def _grow(self, capacity: int) -> None:
        covers, work = self._arrays.covers, self._arrays.work
        by_slot = ("tid_start", "usage", "room")
        self._arrays.use(covers._replace(**{f: lengthen(getattr(covers, f), capacity) for f in by_slot}))
        scratch = ("present", "lost", "won", "touched", "row", "fitting", "inside", "chain", "lost_of", "won_of")
        self._arrays.use(work._replace(**{f: lengthen(getattr(work, f), capacity) for f in scratch}))

    def _resize_pairs(self, slot: int) -> None:
        """Make room for the pairs of a slot, or keep none any more."""
        pairs, size = self.covers.pairs, slot + slot // 4 + 1
        if size * size > max(MANY_PAIRS, PAIRS_FOR_EACH_OCCURRENCE * self.database.occurrences):
            self._drop_pairs()
            return
        larger = np.zeros((size, size), np.int32)
        larger[: len(pairs), : len(pairs)] = pairs
        self._arrays.use(self.covers._replace(pairs=larger))

    def _drop_pairs(self) -> None:
        self._keep_pairs = False
        self._arrays.use(self.covers._replace(pairs=NO_PAIRS))

    def compact(self, extra: int = 0) -> None:
        """Move all lists together, to reuse the gaps between them."""
        covers = self._arrays.covers
        starts = np.zeros_like(covers.tid_start)
        np.cumsum(covers.room[:-1], out=starts[1:])
        end = int(covers.room.sum())
        tids = np.empty(max(len(covers.tids), end + extra + (end + extra) // 4), np.int32)
        counting.move_lists(covers.tid_start, covers.usage, starts, covers.tids, tids)
        self._arrays.use(covers._replace(tids=tids, tid_start=starts, pool_end=np.array([end])))


def sparse_rows(pairs: NDArray[np.integer]) -> tuple[SlotCounts, ...]:
    """Return the nonzero counts of each row."""
    row, column = np.nonzero(pairs)
    slots, counts = column.astype(np.int32), pairs[row, column].astype(np.int64)
    ends = np.searchsorted(row, np.arange(len(pairs)), side="right").tolist()
    return tuple([SlotCounts(slots[a:b], counts[a:b]) for a, b in zip([0, *ends], ends, strict=False)])
