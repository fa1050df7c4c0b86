"""Covers kept up to date: what changes when an itemset is inserted or removed, and who is covered together.

The cover of a transaction depends on nothing but the transaction and the table. Inserting Z at its place in the
cover order leaves everything earlier as it was; Z is used where all its items are covered by *later* elements.
Those elements break, their other items become free, and an element can be used anew only if it contains a free
item: that is what keeps a change local.
"""

from __future__ import annotations

import numpy as np

from fedslim.mdl.kernels._jit import njit
from fedslim.mdl.kernels.arrays import FREE, LAST_RANK, NOBODY, Covers, Elements, Lists, Work

ONE = np.uint64(1)
ZERO = np.uint64(0)
SIGNATURE_MASK = 63


@njit
def build_lists(order: np.ndarray, count: int, elements: Elements, lists: Lists) -> None:
    """Fill `lists` from the slots in cover order (`order[:count]`)."""
    start = lists.start
    start[:] = 0
    for k in range(count):
        s = order[k]
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            start[elements.items[j] + 1] += 1
    for i in range(1, len(start)):
        start[i] += start[i - 1]
    # start[i] is now where item i begins; use it as the write position, then shift it back.
    for k in range(count):
        s = order[k]
        for j in range(elements.start[s], elements.start[s] + elements.size[s]):
            item = elements.items[j]
            lists.slots[start[item]] = s
            start[item] += 1
    for i in range(len(start) - 1, 0, -1):
        start[i] = start[i - 1]
    start[0] = 0


@njit
def singleton_tids(offsets: np.ndarray, items: np.ndarray, tid_start: np.ndarray, tids: np.ndarray) -> None:
    """Fill the transaction lists of the singletons: item i's list is tids[tid_start[i]:tid_start[i + 1]]."""
    position = tid_start.copy()
    for t in range(len(offsets) - 1):
        for j in range(offsets[t], offsets[t + 1]):
            item = items[j]
            tids[position[item]] = t
            position[item] += 1


@njit
def _touch(s: int, n_touched: int, work: Work) -> int:
    if work.lost[s] == 0 and work.won[s] == 0:
        work.touched[n_touched] = s
        return n_touched + 1
    return n_touched


@njit
def _lose(s: int, n_touched: int, work: Work) -> int:
    n = _touch(s, n_touched, work)
    work.lost[s] += 1
    return n


@njit
def _win(s: int, t: int, commit: bool, n_touched: int, covers: Covers, work: Work) -> int:
    n = _touch(s, n_touched, work)
    work.won[s] += 1
    if commit:
        # The list has room: the caller made it from the trial's counts.
        covers.tids[covers.tid_start[s] + covers.usage[s]] = t
        covers.usage[s] += 1
    return n


@njit
def _first_at(lists: Lists, item: int, rank: np.ndarray, from_rank: int) -> int:
    """The first position in the list of `item` whose element has at least the rank `from_rank`."""
    low = lists.start[item]
    high = lists.start[item + 1]
    while low < high:
        middle = (low + high) >> 1
        if rank[lists.slots[middle]] < from_rank:
            low = middle + 1
        else:
            high = middle
    return low


@njit
def _fits(s: int, elements: Elements, owner: np.ndarray) -> bool:
    """Whether every item of `s` is free, or covered by something that comes after `s` in the order."""
    r = elements.rank[s]
    for j in range(elements.start[s], elements.start[s] + elements.size[s]):
        o = owner[elements.items[j]]
        if o == NOBODY or (o != FREE and elements.rank[o] <= r):
            return False
    return True


@njit
def _recover(
    t: int,
    from_rank: int,
    n_alive: int,
    n_free: int,
    n_kept: int,
    commit: bool,
    n_touched: int,
    elements: Elements,
    lists: Lists,
    covers: Covers,
    work: Work,
) -> int:
    """Cover the free items of `t` with elements of rank `from_rank` on, and write the cover if `commit`.

    On entry `owner` says FREE for the `n_free` items in `free`, and the slot for items of the `n_alive` elements
    in `alive`, which a newly used element of smaller rank may break. On exit `owner` is clean again.
    """
    rank, signature, size, start, items = (
        elements.rank,
        elements.signature,
        elements.size,
        elements.start,
        elements.items,
    )
    owner, alive, free, kept = work.owner, work.alive, work.free, work.kept
    while n_free > 0:
        available = ZERO
        for k in range(n_alive):
            available |= signature[alive[k]]
        for k in range(n_free):
            available |= ONE << np.uint64(free[k] & SIGNATURE_MASK)
        missing = ~available
        best = -1
        best_rank = LAST_RANK
        for k in range(n_free):
            item = free[k]
            for j in range(_first_at(lists, item, rank, from_rank), lists.start[item + 1]):
                s = lists.slots[j]
                if rank[s] >= best_rank:
                    break
                if (signature[s] & missing) == ZERO and _fits(s, elements, owner):
                    best = s
                    best_rank = rank[s]
                    break
        if best < 0:
            break
        n_touched = _win(best, t, commit, n_touched, covers, work)
        kept[n_kept] = best
        n_kept += 1
        for j in range(start[best], start[best] + size[best]):
            o = owner[items[j]]
            if o >= 0:
                n_touched = _lose(o, n_touched, work)
                for q in range(start[o], start[o] + size[o]):
                    owner[items[q]] = FREE
                    free[n_free] = items[q]
                    n_free += 1
                for k in range(n_alive):
                    if alive[k] == o:
                        n_alive -= 1
                        alive[k] = alive[n_alive]
                        break
        for j in range(start[best], start[best] + size[best]):
            owner[items[j]] = NOBODY
        still = 0
        for k in range(n_free):
            if owner[free[k]] == FREE:
                free[still] = free[k]
                still += 1
        n_free = still
        from_rank = best_rank + 1
    for k in range(n_free):
        item = free[k]
        owner[item] = NOBODY
        n_touched = _win(item, t, commit, n_touched, covers, work)
        kept[n_kept] = item
        n_kept += 1
    for k in range(n_alive):
        s = alive[k]
        for j in range(start[s], start[s] + size[s]):
            owner[items[j]] = NOBODY
    if commit:
        base = covers.offsets[t]
        for k in range(n_kept):
            covers.slots[base + k] = kept[k]
        for k in range(n_alive):
            covers.slots[base + n_kept + k] = alive[k]
        covers.length[t] = n_kept + n_alive
    return n_touched


@njit
def _cheapest_item(z: int, elements: Elements, lists: Lists, usage: np.ndarray) -> int:
    """The item of `z` that elements after `z` cover in the fewest transactions: where to look for uses of `z`."""
    best = -1
    best_count = np.int64(0)
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = elements.items[j]
        count = usage[item]
        for k in range(_first_at(lists, item, elements.rank, elements.rank[z]), lists.start[item + 1]):
            count += usage[lists.slots[k]]
        if best < 0 or count < best_count:
            best = item
            best_count = count
    return best


@njit
def _insert_into(
    t: int,
    z: int,
    commit: bool,
    n_touched: int,
    elements: Elements,
    lists: Lists,
    covers: Covers,
    work: Work,
) -> int:
    """Use `z` in the cover of `t` if it can be; the number of touched slots so far comes in and goes out."""
    rank, signature, size, start, items = (
        elements.rank,
        elements.signature,
        elements.size,
        elements.start,
        elements.items,
    )
    z_rank = rank[z]
    z_size = size[z]
    z_signature = signature[z]
    base = covers.offsets[t]
    n_cover = covers.length[t]
    hits = 0
    n_broken = 0
    broken_items = 0
    for k in range(n_cover):
        s = covers.slots[base + k]
        if rank[s] < z_rank or (signature[s] & z_signature) == ZERO:
            continue
        common = 0
        for j in range(start[s], start[s] + size[s]):
            common += work.marked[items[j]]
        if common > 0:
            hits += common
            broken_items += size[s]
            work.broken[n_broken] = s
            n_broken += 1
            if hits == z_size:
                break
    if hits != z_size:
        return n_touched
    for k in range(n_broken):
        n_touched = _lose(work.broken[k], n_touched, work)
    n_touched = _win(z, t, commit, n_touched, covers, work)
    if broken_items == z_size:
        # Z is exactly a union of what covered it: nothing is freed, so nothing else can change.
        if commit:
            n = 0
            for k in range(n_cover):
                s = covers.slots[base + k]
                is_broken = False
                for b in range(n_broken):
                    if work.broken[b] == s:
                        is_broken = True
                        break
                if not is_broken:
                    covers.slots[base + n] = s
                    n += 1
            covers.slots[base + n] = z
            covers.length[t] = n + 1
        return n_touched
    n_free = 0
    for b in range(n_broken):
        s = work.broken[b]
        for j in range(start[s], start[s] + size[s]):
            if work.marked[items[j]] == 0:
                work.owner[items[j]] = FREE
                work.free[n_free] = items[j]
                n_free += 1
    n_alive = 0
    n_kept = 1
    work.kept[0] = z
    for k in range(n_cover):
        s = covers.slots[base + k]
        if rank[s] < z_rank:
            work.kept[n_kept] = s
            n_kept += 1
            continue
        is_broken = False
        for b in range(n_broken):
            if work.broken[b] == s:
                is_broken = True
                break
        if not is_broken:
            for j in range(start[s], start[s] + size[s]):
                work.owner[items[j]] = s
            work.alive[n_alive] = s
            n_alive += 1
    # From z's own rank on: while z is on trial, the element that z would push back still has that rank.
    return _recover(t, z_rank, n_alive, n_free, n_kept, commit, n_touched, elements, lists, covers, work)


@njit
def insert(
    z: int, commit: bool, stamp: int, elements: Elements, lists: Lists, covers: Covers, work: Work
) -> int:
    """Count (and with `commit` carry out) what inserting `z` changes; returns the number of touched slots.

    `elements` already holds `z` at its rank; `lists` does not.
    """
    n_touched = 0
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        work.marked[elements.items[j]] = 1
    pivot = _cheapest_item(z, elements, lists, covers.usage)
    # Nobody who holds the pivot and comes after z can win a transaction here (z takes the pivot in all that
    # change), so the lists walked over do not grow under our feet.
    first = _first_at(lists, pivot, elements.rank, elements.rank[z])
    for k in range(first, lists.start[pivot + 1] + 1):
        s = pivot if k == lists.start[pivot + 1] else lists.slots[k]
        for q in range(covers.tid_start[s], covers.tid_start[s] + covers.usage[s]):
            t = covers.tids[q]
            before = work.won[z]
            n_touched = _insert_into(t, z, commit, n_touched, elements, lists, covers, work)
            if commit and work.won[z] != before:
                covers.changed[t] = stamp
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        work.marked[elements.items[j]] = 0
    if commit:
        _forget(n_touched, stamp, covers, work)
    return n_touched


@njit
def remove(
    z: int, commit: bool, stamp: int, elements: Elements, lists: Lists, covers: Covers, work: Work
) -> int:
    """Count (and with `commit` carry out) what removing `z` changes; returns the number of touched slots."""
    rank, size, start, items = elements.rank, elements.size, elements.start, elements.items
    z_rank = rank[z]
    n_touched = 0
    for q in range(covers.tid_start[z], covers.tid_start[z] + covers.usage[z]):
        t = covers.tids[q]
        base = covers.offsets[t]
        n_kept = 0
        n_alive = 0
        for k in range(covers.length[t]):
            s = covers.slots[base + k]
            if s == z:
                continue
            if rank[s] < z_rank:
                work.kept[n_kept] = s
                n_kept += 1
            else:
                for j in range(start[s], start[s] + size[s]):
                    work.owner[items[j]] = s
                work.alive[n_alive] = s
                n_alive += 1
        n_free = 0
        for j in range(start[z], start[z] + size[z]):
            work.owner[items[j]] = FREE
            work.free[n_free] = items[j]
            n_free += 1
        n_touched = _lose(z, n_touched, work)
        n_touched = _recover(t, z_rank + 1, n_alive, n_free, n_kept, commit, n_touched, elements, lists, covers, work)
        if commit:
            covers.changed[t] = stamp
    if commit:
        _forget(n_touched, stamp, covers, work)
    return n_touched


@njit
def _forget(n_touched: int, stamp: int, covers: Covers, work: Work) -> None:
    """Strike the transactions that lost an element from that element's list."""
    for k in range(n_touched):
        s = work.touched[k]
        if work.lost[s] == 0:
            continue
        begin = covers.tid_start[s]
        n = 0
        for q in range(begin, begin + covers.usage[s]):
            t = covers.tids[q]
            keep = True
            if covers.changed[t] == stamp:
                keep = False
                base = covers.offsets[t]
                for j in range(base, base + covers.length[t]):
                    if covers.slots[j] == s:
                        keep = True
                        break
            if keep:
                covers.tids[begin + n] = t
                n += 1
        covers.usage[s] = n


@njit
def reset(n_touched: int, work: Work) -> None:
    """Clean up after `insert`, `remove` or `co_usage`."""
    for k in range(n_touched):
        s = work.touched[k]
        work.lost[s] = 0
        work.won[s] = 0


@njit
def co_usage(x: int, covers: Covers, work: Work) -> int:
    """Count into `won` how often each element is in a cover together with `x` (x itself included)."""
    n_touched = 0
    for q in range(covers.tid_start[x], covers.tid_start[x] + covers.usage[x]):
        t = covers.tids[q]
        base = covers.offsets[t]
        for k in range(base, base + covers.length[t]):
            s = covers.slots[k]
            if work.won[s] == 0:
                work.touched[n_touched] = s
                n_touched += 1
            work.won[s] += 1
    return n_touched


@njit
def move_lists(tid_start: np.ndarray, usage: np.ndarray, new_start: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
    """Copy every transaction list to its new place in another pool."""
    for s in range(len(usage)):
        for k in range(usage[s]):
            new[new_start[s] + k] = old[tid_start[s] + k]
