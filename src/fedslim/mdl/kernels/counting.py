"""Filling lists, counting co-usages, and covering transactions from scratch."""

from __future__ import annotations

import numpy as np

from fedslim._jit import inlined, inner, njit
from fedslim.mdl.kernels import cover
from fedslim.mdl.kernels.arrays import WORDS, Covers, Elements, Lists, Work
from fedslim.mdl.kernels.cover import EMPTY, NONE, NOT, ONCE, first_at


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
    """Fill `lists` from the slots in cover order."""
    start, key_start, support = lists.start, lists.key_start, lists.support
    start[:] = 0
    key_start[:] = 0
    keys = lists.keys
    for k in range(len(order)):
        s = np.int64(order[k])
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            start[np.int64(elements.items[j]) + 1] += 1
        key = _key_of(s, elements, support)
        keys[k] = key
        key_start[key + 1] += 1
    for i in range(1, len(start)):
        start[i] += start[i - 1]
        key_start[i] += key_start[i - 1]
    # start[i] is now where item i begins; use it as the write position, then shift it back.
    for k in range(len(order)):
        s = np.int64(order[k])
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            item = np.int64(elements.items[j])
            lists.slots[start[item]] = s
            start[item] += 1
        lists.key_slots[key_start[keys[k]]] = s
        key_start[keys[k]] += 1
    for i in range(len(start) - 1, 0, -1):
        start[i] = start[i - 1]
        key_start[i] = key_start[i - 1]
    start[0] = 0
    key_start[0] = 0


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
    """Count the co-usages of `x` with each element (x itself included) into `touched` and `row`."""
    n_touched = NONE
    for q in range(covers.tid_start[x], covers.tid_start[x] + covers.usage[x]):
        base = covers.start[covers.tids[q]]
        for k in range(base + 1, base + 1 + covers.slots[base]):
            s = np.int64(covers.slots[k])
            if work.won[s] == 0:
                work.touched[n_touched] = s
                n_touched += 1
            work.won[s] += 1
    for k in range(n_touched):
        s = np.int64(work.touched[k])
        work.row[k] = work.won[s]
        work.won[s] = 0
    return n_touched


@njit
def count_pairs(start: np.ndarray, slots: np.ndarray, pairs: np.ndarray) -> None:
    """Count the co-usages of all pairs of elements into `pairs`, which is zero."""
    for t in range(len(start)):
        found = slots[start[t] + 1 : start[t] + 1 + slots[start[t]]]
        for k in range(len(found)):
            cover.count_with(np.int64(found[k]), ONCE, found, k, pairs)


@njit
def pick_entries(
    row: int,
    row_ends: np.ndarray,
    slots: np.ndarray,
    counts: np.ndarray,
    ends: np.ndarray,
    others: np.ndarray,
    scratch: np.ndarray,
    found: np.ndarray,
) -> int:
    """Copy some entries of rows, the first of which is number `row`, to `found`; return the number after the last.

    `scratch` is zero for each slot.
    """
    begin = np.int64(0)
    for r in range(len(row_ends)):
        for k in range(begin, row_ends[r]):
            scratch[slots[k]] = counts[k]
        for k in range(ends[row - 1] if row > 0 else 0, ends[row]):
            found[k] = scratch[others[k]]
        for k in range(begin, row_ends[r]):
            scratch[slots[k]] = 0
        begin = row_ends[r]
        row += 1
    return row


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
