"""The working code table: itemsets in numbered slots, kept in cover order.

    table = WorkingTable(n_items=5)
    table.stage(5, (0, 1), entry=7)     # on trial: it has a rank, the others keep theirs
    table.place(5)                      # in the table
    table.drop(5)

The search and every source have one each and make the same moves, so slots mean the same everywhere.
Cover order: larger itemsets first, then higher usage at entry, then lexicographic; singletons last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedslim.mdl.itemsets import Itemset, OrderKey, order_key
from fedslim.mdl.kernels.arrays import DEAD_RANK, LAST_RANK, WORDS, Elements, KeptArrays, lengthen
from fedslim.mdl.kernels.counting import move_down, move_up

SPARE_SLOTS = 64


class WorkingTable:
    """Slots, ranks and items of a code table during the search.

    With `reuse_slots=False` every slot number is used only once, so that other data can be keyed by slot.
    """

    def __init__(self, n_items: int, *, reuse_slots: bool = True) -> None:
        self.n_items = n_items
        self.itemsets: dict[int, Itemset] = {}  # slot -> items, no singletons
        self.present: set[Itemset] = set()  # the same itemsets, for lookup
        self.entries: dict[int, int] = {}
        self._keys: list[OrderKey] = []  # in cover order
        self._order = np.zeros(SPARE_SLOTS, np.int32)  # the slots in the same order
        self.item_count = 0  # the total number of items in all itemsets (no singletons)
        self._reuse = reuse_slots
        self._freed: list[int] = []  # freed slots that may be used again
        self._fresh = n_items  # the first slot that was never used
        self._staged: tuple[int, OrderKey, int] | None = None
        self._end = n_items  # where the next itemset's items go
        self._marked_arrays = KeptArrays()
        capacity = n_items + SPARE_SLOTS
        rank = np.full(capacity, DEAD_RANK, np.int32)
        rank[:n_items] = LAST_RANK + np.arange(n_items)
        size = np.zeros(capacity, np.int32)
        size[:n_items] = 1
        start = np.zeros(capacity, np.int64)
        start[:n_items] = np.arange(n_items)
        items = np.zeros(max(n_items * 2, 1024), np.int32)
        items[:n_items] = np.arange(n_items)
        mask = np.zeros((capacity, WORDS), np.uint64)
        for item in range(n_items):
            mask[item] = _mask((item,))
        self.elements = Elements(rank, size, start, items, mask, n_items <= 64 * WORDS)

    @property
    def capacity(self) -> int:
        """How many slots the arrays have room for."""
        return len(self.elements.rank)

    @property
    def order(self) -> NDArray[np.int32]:
        """The slots of the itemsets (no singletons) in cover order; a view, do not change or keep it."""
        return self._order[: len(self._keys)]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[int]:
        return iter(self.order.tolist())

    def items_of(self, slot: int) -> Itemset:
        """Return the items in a slot, singletons included."""
        return (slot,) if slot < self.n_items else self.itemsets[slot]

    @property
    def free_slot(self) -> int:
        """The slot for the next itemset: the same in all tables with the same moves."""
        return self._freed[-1] if self._freed else self._fresh

    def free_slots(self, n: int) -> tuple[int, ...]:
        """End any trial, and return the slots of the next `n` itemsets."""
        self.unstage()
        freed = self._freed[::-1][:n]
        return (*freed, *range(self._fresh, self._fresh + n - len(freed)))

    @property
    def fresh_slot(self) -> int:
        """The first slot that was never used."""
        return self._fresh

    def stage(self, slot: int, itemset: Itemset, entry: int) -> None:
        """Put an itemset on trial in a free slot: it gets the rank it would have, the others keep theirs."""
        self.unstage()
        if slot >= self.capacity:
            self._grow(slot + 1)
        end = self._end + len(itemset)
        if end > len(self.elements.items):
            self._compact(end)
        elements = self.elements
        key = order_key(itemset, entry)
        position = bisect_left(self._keys, key)
        elements.items[self._end : self._end + len(itemset)] = itemset
        elements.start[slot] = self._end
        elements.size[slot] = len(itemset)
        elements.mask[slot] = _mask(itemset)
        elements.rank[slot] = position
        self._staged = (slot, key, position)

    def unstage(self) -> None:
        """End the trial, if any, without changing the table."""
        if self._staged is not None:
            self.elements.rank[self._staged[0]] = DEAD_RANK
            self._staged = None

    def place(self, slot: int) -> None:
        """Make the staged itemset an element of the table."""
        if self._staged is None or self._staged[0] != slot:
            raise RuntimeError(f"slot {slot} is not on trial")
        _, key, position = self._staged
        self._staged = None
        if self._freed:
            self._freed.remove(slot)
        self._fresh = max(self._fresh, slot + 1)
        n = len(self._keys)
        if n == len(self._order):
            self._order = lengthen(self._order, 2 * n)
        move_up(self._order, self.elements.rank, position, n, slot)
        self._keys.insert(position, key)
        self.item_count += len(key[2])
        self.itemsets[slot] = key[2]
        self.present.add(key[2])
        self.entries[slot] = -key[1]
        self._end += len(key[2])

    def drop(self, slot: int) -> None:
        """Remove an element from the table; if slots are reused, its slot becomes free."""
        self.unstage()
        position, n = int(self.elements.rank[slot]), len(self._keys)
        move_down(self._order, self.elements.rank, position, n)
        self.item_count -= len(self.itemsets[slot])
        self.present.discard(self.itemsets[slot])
        del self._keys[position], self.itemsets[slot], self.entries[slot]
        self.elements.rank[slot] = DEAD_RANK
        if self._reuse:
            self._freed.append(slot)

    def mark(self) -> None:
        """Remember this state, without a trial, instead of the one remembered before."""
        self.unstage()
        self._marked = (self.itemsets.copy(), self.entries.copy(), self._keys.copy(), self._freed.copy())
        self._marked_numbers = (self.item_count, self._fresh, self._end)
        self._marked_arrays.keep(self._arrays(len(self._keys), self._end))

    def go_back(self) -> None:
        """Return to the remembered state. The arrays stay the same ones, and as long as they are now."""
        self.unstage()
        itemsets, entries, keys, freed = self._marked
        self.itemsets, self.entries = itemsets.copy(), entries.copy()
        self._keys, self._freed = keys.copy(), freed.copy()
        self.present = set(self.itemsets.values())
        self.item_count, self._fresh, self._end = self._marked_numbers
        if self._end > len(self.elements.items):  # `_compact` may have made it shorter
            self.elements = self.elements._replace(items=np.zeros(2 * self._end, np.int32))
        self.elements.rank[:] = DEAD_RANK  # also of the slots that were added since
        self._marked_arrays.put_back(self._arrays(len(self._order), len(self.elements.items)))

    def _arrays(self, n: int, end: int) -> tuple[NDArray[Any], ...]:
        """Return the arrays that make up the state: the first `n` places of the order, and the items up to `end`."""
        e = self.elements
        return (self._order[:n], e.items[:end], e.rank, e.size, e.start, e.mask)

    def _grow(self, least: int) -> None:
        capacity = max(least, self.n_items + 2 * (self.capacity - self.n_items))

        e = self.elements
        self.elements = e._replace(
            rank=lengthen(e.rank, capacity, DEAD_RANK),
            size=lengthen(e.size, capacity),
            start=lengthen(e.start, capacity),
            mask=lengthen(e.mask, capacity),
        )

    def _compact(self, least: int) -> None:
        """Make room for items by discarding those of dropped itemsets."""
        wanted = self.n_items + self.item_count + (least - self._end)
        items = np.zeros(max(wanted * 2, 1024), np.int32)
        items[: self.n_items] = np.arange(self.n_items)
        end = self.n_items
        for slot, itemset in self.itemsets.items():
            items[end : end + len(itemset)] = itemset
            self.elements.start[slot] = end
            end += len(itemset)
        self._end = end
        self.elements = self.elements._replace(items=items)


def _mask(itemset: Itemset) -> list[int]:
    words = [0] * WORDS
    for item in itemset:
        bit = item % (64 * WORDS)
        words[bit >> 6] |= 1 << (bit & 63)
    return words
