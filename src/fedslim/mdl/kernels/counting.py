"""Filling lists, counting co-usages and supports, and covering transactions from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels import cover
from fedslim.mdl.kernels.arrays import WORDS, Covers, Elements, Lists, Vertical, Work
from fedslim.mdl.kernels.cover import EMPTY, NONE, NOT, ONCE, first_at

if TYPE_CHECKING:
    from fedslim.data import TransactionDatabase
    from fedslim.mdl.itemsets import Itemset

COMMON = 32  # an item in at least 1/32 of the transactions gets a bitmap, which is then no larger than a list of int32


@inlined
def _key_of(z: int, elements: Elements, support: np.ndarray) -> int:
    """Return the rarest item of an element."""
    key = np.int64(elements.items[elements.start[z]])
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[j])
        if support[item] < support[key]:
            key = item
    return key


@inlined
def _put_in(z: int, items: np.ndarray, start: np.ndarray, slots: np.ndarray, rank: np.ndarray) -> None:
    """Insert `z` into the lists of these items, in one pass over the entries behind it."""
    end = start[len(start) - 1]
    for j in range(len(items) - 1, -1, -1):
        place = first_at(start, slots, np.int64(items[j]), rank, rank[z])
        for k in range(end - 1, place - 1, -1):
            slots[k + j + 1] = slots[k]
        slots[place + j] = z
        end = place
    _shift_starts(items, ONCE, start)


@inlined
def _take_from(z: int, items: np.ndarray, start: np.ndarray, slots: np.ndarray, rank: np.ndarray) -> None:
    """Remove `z` from the lists of these items."""
    place = write = first_at(start, slots, np.int64(items[0]), rank, rank[z])
    for j in range(len(items)):
        stop = start[len(start) - 1]
        if j + 1 < len(items):
            stop = first_at(start, slots, np.int64(items[j + 1]), rank, rank[z])
        for k in range(place + 1, stop):
            slots[write] = slots[k]
            write += 1
        place = stop
    _shift_starts(items, NOT, start)


@inlined
def _shift_starts(items: np.ndarray, by: int, start: np.ndarray) -> None:
    """Shift the start of each item's list by `by` times the number of these items before it."""
    passed = NONE
    for i in range(np.int64(items[0]), len(start)):
        start[i] += by * passed
        if passed < len(items) and items[passed] == i:
            passed += 1


@inner
def add_to_lists(z: int, elements: Elements, lists: Lists) -> None:
    """Insert an element, which already has its rank, into the lists."""
    items = elements.items[elements.start[z] : elements.start[z] + elements.size[z]]
    lists.keys[0] = _key_of(z, elements, lists.support)
    _put_in(z, items, lists.start, lists.slots, elements.rank)
    _put_in(z, lists.keys[:1], lists.key_start, lists.key_slots, elements.rank)


@inner
def take_from_lists(z: int, elements: Elements, lists: Lists) -> None:
    """Remove an element, which still has its rank, from the lists."""
    items = elements.items[elements.start[z] : elements.start[z] + elements.size[z]]
    lists.keys[0] = _key_of(z, elements, lists.support)
    _take_from(z, items, lists.start, lists.slots, elements.rank)
    _take_from(z, lists.keys[:1], lists.key_start, lists.key_slots, elements.rank)


@njit
def fill_lists(order: np.ndarray, elements: Elements, lists: Lists) -> None:
    """Fill `lists`, which are empty, from the slots in cover order."""
    for k in range(len(order)):
        add_to_lists(np.int64(order[k]), elements, lists)


@njit
def move_up(order: np.ndarray, rank: np.ndarray, position: int, n: int, slot: int) -> None:
    """Insert a slot into the cover order of `n` slots, and move up the ranks from its position on."""
    for k in range(n, position, -1):
        order[k] = order[k - 1]
        rank[order[k]] = k
    order[position] = slot
    rank[slot] = position


@njit
def move_down(order: np.ndarray, rank: np.ndarray, position: int, n: int) -> None:
    """Remove the slot at a position from the cover order of `n` slots."""
    for k in range(position, n - 1):
        order[k] = order[k + 1]
        rank[order[k]] = k


@njit
def singleton_tids(offsets: np.ndarray, items: np.ndarray, position: np.ndarray, tids: np.ndarray) -> None:
    """Fill the transaction lists of singletons; position[i] is the start of item i's list, and becomes its end."""
    for t in range(len(offsets) - 1):
        for j in range(offsets[t], offsets[t + 1]):
            item = np.int64(items[j])
            tids[position[item]] = t
            position[item] += 1


@inner
def co_usage(x: int, covers: Covers, work: Work) -> int:
    """Count the co-usages of `x` with each element (x itself included) into `won`; return how many are `touched`."""
    n_touched = NONE
    for q in range(covers.tid_start[x], covers.tid_start[x] + covers.usage[x]):
        t = np.int64(covers.tids[q])
        base, at = covers.start[t], cover.counts_of(t, covers)
        for k in range(base + 1, base + 1 + covers.slots[base]):
            s = at + np.int64(covers.slots[k])
            if work.won[s] == 0:
                work.touched[n_touched] = s
                n_touched += 1
            work.won[s] += 1
    return n_touched


@njit
def count_pairs(start: np.ndarray, slots: np.ndarray, pairs: np.ndarray) -> None:
    """Count the co-usages of all pairs of elements into `pairs`, which is zero."""
    for t in range(len(start)):
        found = slots[start[t] + 1 : start[t] + 1 + slots[start[t]]]
        for k in range(len(found)):
            cover.count_with(np.int64(found[k]), ONCE, found, k, pairs)


@njit
def move_lists(
    tid_start: np.ndarray, usage: np.ndarray, new_start: np.ndarray, old: np.ndarray, new: np.ndarray
) -> None:
    """Copy every transaction list to its place in another pool."""
    for s in range(len(usage)):
        for k in range(usage[s]):
            new[new_start[s] + k] = old[tid_start[s] + k]


@njit
def cover_all(
    offsets: np.ndarray,
    items: np.ndarray,
    elements: Elements,
    lists: Lists,
    work: Work,
    slots: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Cover every transaction from scratch; the slots of transaction t end at ends[t]."""
    end = NONE
    for t in range(len(offsets) - 1):
        n_free = NONE
        for w in range(WORDS):
            work.free_mask[w] = EMPTY
        for j in range(offsets[t], offsets[t + 1]):
            work.free[n_free] = items[j]
            n_free += 1
            for w in range(WORDS):
                work.free_mask[w] |= elements.mask[items[j], w]
        cover.set_available(NONE, elements.mask, work)
        n_fitting = cover.collect(NONE, NONE, n_free, NONE, elements, lists, work)
        for f in range(n_fitting):
            s = np.int64(work.fitting[f])
            if n_free == 0:
                break
            if cover.fits(s, NONE, n_free, elements, work):
                slots[end] = s
                end += 1
                n_free = cover.take_out(s, n_free, elements, work)
        for k in range(n_free):
            slots[end] = work.free[k]
            end += 1
        ends[t] = end


@njit
def fill_vertical(offsets: np.ndarray, items: np.ndarray, position: np.ndarray, vertical: Vertical) -> None:
    """Fill bitmaps and lists; `position` is a copy of vertical.start, which is overwritten."""
    for t in range(len(offsets) - 1):
        word = t >> 6
        bit = np.uint64(1) << np.uint64(t & 63)
        for j in range(offsets[t], offsets[t + 1]):
            item = items[j]
            if vertical.row[item] >= 0:
                vertical.bitmaps[vertical.row[item], word] |= bit
            else:
                vertical.tids[position[item]] = t
                position[item] += 1


@inlined
def _population(x: np.uint64) -> int:
    """Return the number of bits set in a word."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def _in_list(t: int, low: int, high: int, tids: np.ndarray) -> bool:
    end = high
    while low < high:
        middle = (low + high) >> 1
        if tids[middle] < t:
            low = middle + 1
        else:
            high = middle
    return low < end and tids[low] == t


@njit
def count_support(itemset: np.ndarray, vertical: Vertical) -> int:
    """Count the transactions that contain all items of a non-empty itemset."""
    row, bitmaps, start, tids = vertical.row, vertical.bitmaps, vertical.start, vertical.tids
    rarest = -1
    for item in itemset:
        if row[item] < 0 and (rarest < 0 or start[item + 1] - start[item] < start[rarest + 1] - start[rarest]):
            rarest = item
    total = 0
    if rarest < 0:
        for word in range(bitmaps.shape[1]):
            bits = bitmaps[row[itemset[0]], word]
            for item in itemset[1:]:
                bits &= bitmaps[row[item], word]
            total += _population(bits)
        return total
    for k in range(start[rarest], start[rarest + 1]):
        t = tids[k]
        inside = True
        for item in itemset:
            if item == rarest:
                continue
            if row[item] >= 0:
                inside = (bitmaps[row[item], t >> 6] >> np.uint64(t & 63)) & np.uint64(1) != np.uint64(0)
            else:
                inside = _in_list(t, start[item], start[item + 1], tids)
            if not inside:
                break
        total += inside
    return total


@njit
def count_supports(
    slots: np.ndarray, start: np.ndarray, size: np.ndarray, items: np.ndarray, vertical: Vertical, found: np.ndarray
) -> None:
    """Count the supports of some elements."""
    for k in range(len(slots)):
        found[k] = count_support(items[start[slots[k]] : start[slots[k]] + size[slots[k]]], vertical)


class SupportIndex:
    """Which transactions contain an item: bitmaps of common items and lists of rare ones, linear in the data."""

    def __init__(self, database: TransactionDatabase) -> None:
        supports = database.supports
        common = supports * COMMON >= max(database.transactions, 1)
        start = np.zeros(database.n_items + 1, np.int64)
        np.cumsum(np.where(common, 0, supports), out=start[1:])
        self.vertical = Vertical(
            np.where(common, np.cumsum(common) - 1, -1).astype(np.int64),
            np.zeros((int(common.sum()), (database.transactions + 63) // 64), np.uint64),
            start,
            np.zeros(int(start[-1]), np.int32),
        )
        self._transactions = database.transactions
        fill_vertical(database.offsets, database.items, start.copy(), self.vertical)

    def support(self, itemset: Itemset) -> int:
        """Return in how many transactions all items of the itemset occur; the empty itemset is in all of them."""
        if not itemset:
            return self._transactions
        return int(count_support(np.array(itemset, np.int32), self.vertical))

    def supports(self, slots: NDArray[np.int32], elements: Elements) -> NDArray[np.int64]:
        """Return the supports of some elements of a table."""
        found = np.zeros(len(slots), np.int64)
        count_supports(slots, elements.start, elements.size, elements.items, self.vertical, found)
        return found
