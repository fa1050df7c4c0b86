"""One member's own code table, as in the paper's variants SA and SO.

Every member covers its own transactions with its own table CT_i. It proposes the unions of elements that it uses
together, and inserts only itemsets that it has proposed. Nothing here knows about other members: elements are numbered
by the member's own slots, and every slot is used only once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedslim.algorithm1.kernels import pairs as pair_kernels
from fedslim.algorithm1.kernels.pairs import Reports
from fedslim.algorithm1.pairs import PairCounts, PairLedger, lengthened
from fedslim.data import TransactionDatabase
from fedslim.errors import ProtocolError
from fedslim.mdl.cover_state import NOTHING, CoverState
from fedslim.mdl.itemsets import Itemset
from fedslim.mdl.kernels.arrays import lengthen, zeros
from fedslim.mdl.questions import Change
from fedslim.protocol.wire_types import refused

Pair = tuple[int, int]
Trial = tuple[int, Itemset, int, Change]  # slot, items and usage at entry of an itemset, and what it would change


class LocalTable:
    """The covers of one member under its own table, and the pairs of elements it uses together.

    Memory is linear in the data and in the pairs.
    """

    def __init__(self, database: TransactionDatabase) -> None:
        self.state = CoverState(database, reuse_slots=False)
        self._trial: Trial | None = None
        self.next_slot = database.n_items  # of the next itemset, on trial or permanently
        self._pairs = PairLedger(self.state.table.capacity)
        self._reports: Reports = zeros(Reports, len(self._pairs.arrays.count), n_queue=1)
        self._recount(np.arange(database.n_items, dtype=np.int32))

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots of the itemsets, without singletons, in the member's cover order."""
        return tuple(self.state.table)

    def together(self, x: ArrayLike, y: ArrayLike) -> NDArray[np.int64]:
        """Return the co-usage of each pair; 0 also if one of the two is not an element (such as slot -1)."""
        return self._pairs.look_up(np.asarray(x, np.int32), np.asarray(y, np.int32))

    def news(self) -> PairCounts:
        """Return the pairs whose co-usage has changed since the last call, with the new co-usages; at first, all."""
        waiting = int(self._reports.n_queue[0])
        x, y, counts = np.empty(waiting, np.int32), np.empty(waiting, np.int32), np.empty(waiting, np.int64)
        n = pair_kernels.tell(self._pairs.arrays, self._reports, x, y, counts)
        return PairCounts(x[:n], y[:n], counts[:n])

    # -- trials and moves ---------------------------------------------------------------------------------------

    def try_pairs(self, pairs: Iterable[Pair], entry: int | None = None) -> Change:
        """Return what would change if the union of these pairs, the same for all of them, entered the table.

        Its usage at entry is the member's own co-usage of the pairs, unless `entry` is given. A member that uses none
        of the pairs has not proposed the union and does not insert it: then nothing changes.
        """
        trial = self._try(pairs, entry)
        return NOTHING if trial is None else trial[-1]

    def accept(self, pairs: Iterable[Pair], entry: int | None = None) -> tuple[int, ...] | None:
        """Insert the union of these pairs, and drop the itemsets that lose all usage; return the slots of these.

        Return None if the member uses none of the pairs. The change is that of `try_pairs`.
        """
        trial = self._try(pairs, entry)
        if trial is None:
            return None
        self._trial = None
        self.next_slot += 1
        state, changed = self.state, trial[-1].slots
        state.insert(*trial[:3])
        self._recount(changed)
        unused = changed[(state.usages[changed] == 0) & (changed >= state.table.n_items)].tolist()
        for slot in sorted(unused):
            state.remove(slot)
        return tuple(sorted(unused))

    def _try(self, pairs: Iterable[Pair], entry: int | None) -> Trial | None:
        pairs = tuple(pairs)
        own = self.together([x for x, _ in pairs], [y for _, y in pairs]).tolist()
        used = [pair for pair, count in zip(pairs, own, strict=True) if count]
        if not used:
            return None
        items_of = self.state.table.items_of
        itemset, *others = {tuple(sorted(items_of(x) + items_of(y))) for x, y in used}
        if others:
            raise refused("the server joined pairs that do not have one union")
        wanted = (self.next_slot, itemset, sum(own) if entry is None else entry)
        if self._trial is None or self._trial[:3] != wanted:
            self._trial = (*wanted, self.state.try_insert(*wanted))
        return self._trial

    def _recount(self, slots: NDArray[np.int32]) -> None:
        covers, work, capacity, done = self.state.covers, self.state.work, self.state.table.capacity, 0
        self._pairs.need_elements(capacity)
        while (done := pair_kernels.recount(slots, done, covers, work, self._pairs.arrays, self._reports)) < len(slots):
            self._reports = lengthened(self._reports, self._pairs.need_room(capacity), ("told", "waiting", "queue"))


# -- slots and numbers ------------------------------------------------------------------------------------------------

NOWHERE = -1


class Numbering:
    """Maps one member's slots to global numbers: each member has one in SA, the server has one per member in SO.

    Slots are assigned in ascending order; an itemset that comes back to a member gets a new slot.
    """

    def __init__(self, n_items: int) -> None:
        self._numbers = np.arange(n_items, dtype=np.int32)  # slot -> number
        self._slots = np.arange(n_items, dtype=np.int32)  # number -> the last slot it had here

    @property
    def next_slot(self) -> int:
        """The slot of the next itemset."""
        return len(self._numbers)

    def numbers_of(self, slots: NDArray[Any], *, new: int | None = None) -> NDArray[np.int32]:
        """Return the global numbers of slots; `new` is that of the itemset on trial in the next slot."""
        known = self._numbers if new is None else np.append(self._numbers, np.int32(new))
        if len(slots) and not 0 <= int(slots.max()) < len(known):
            raise ProtocolError(f"slot {int(slots.max())} was named, but there are only {len(known)} slots")
        numbers: NDArray[np.int32] = known[slots]
        return numbers

    def slots_of(self, numbers: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the slots of global numbers, NOWHERE for elements that this member never had."""
        known = numbers < len(self._slots)
        return np.where(known, self._slots[np.where(known, numbers, 0)], NOWHERE).astype(np.int32)

    def pairs_of(self, pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Convert pairs of global numbers to pairs of slots, without pairs that this member never had."""
        slots = self.slots_of(np.array(pairs, np.int32)).tolist()
        return [(x, y) for x, y in slots if x >= 0 and y >= 0]

    def change_of(self, change: Change, *, new: int) -> Change:
        """Convert a change by slots to one by global numbers."""
        return Change(self.numbers_of(change.slots, new=new), change.lost, change.won)

    def enter(self, number: int) -> None:
        """Assign the next slot to the element with this number."""
        if number >= len(self._slots):
            self._slots = lengthen(self._slots, 2 * number, NOWHERE)
        self._slots[number] = len(self._numbers)
        self._numbers = np.append(self._numbers, np.int32(number))
