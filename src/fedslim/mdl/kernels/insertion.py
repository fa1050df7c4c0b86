"""Inserting an itemset Z into the covers, on trial or permanently.

Z is used where all its items are covered by elements that come after it in the cover order. Those elements break,
and their other items become free.
"""

from __future__ import annotations

import numpy as np

from fedslim._jit import inlined, inner
from fedslim.mdl.kernels import cover
from fedslim.mdl.kernels.arrays import WORDS, Covers, Elements, Lists, State, Vertical, Work
from fedslim.mdl.kernels.cover import BIT, COMMIT, EMPTY, NONE, NOT, ONCE, TRIAL, UNKNOWN

HALF = np.int64(32)
LOW = np.int64((1 << 32) - 1)
"""Two places in one number."""


@inlined
def _cheapest_item(z: int, elements: Elements, lists: Lists, usage: np.ndarray) -> int:
    """Return the item of `z` that elements after `z` cover in the fewest transactions: where to search for uses."""
    best, best_count = NOT, NONE
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[j])
        count = usage[item]
        first = cover.first_at(lists.start, lists.slots, item, elements.rank, elements.rank[z])
        for k in range(first, lists.start[item + 1]):
            count += usage[lists.slots[k]]
        if best < 0 or count < best_count:
            best, best_count = item, count
    return best


@inlined
def _insert_into(t: int, z: int, commit: bool, n_touched: int, state: State) -> int:
    """Use `z` in the cover of `t`; return the number of touched slots, or -1 if `z` cannot be used there."""
    elements, _, covers, work = state
    rank, size, start, items, mask = elements.rank, elements.size, elements.start, elements.items, elements.mask
    base = covers.start[t]
    end = base + 1 + covers.slots[base]
    at = NONE if commit else cover.counts_of(t, covers)
    n_items = len(work.marked)
    n_broken = broken_items = hits = NONE
    for k in range(base + 1, end):
        s = np.int64(covers.slots[k])
        common = NONE
        if s < n_items:
            # The fast path for single items: early covers are long and consist mostly of them.
            common += work.marked[s]
        elif rank[s] >= rank[z]:
            shared = EMPTY
            for w in range(WORDS):
                shared |= mask[s, w] & mask[z, w]
            if shared != EMPTY:
                for j in range(start[s], start[s] + size[s]):
                    common += work.marked[items[j]]
        if common > 0:
            work.broken[n_broken] = k
            n_broken += 1
            broken_items += size[s]
            hits += common
            if hits == size[z]:
                break
    if hits != size[z]:
        return NOT
    for b in range(n_broken):
        n_touched = cover.lose(at + np.int64(covers.slots[work.broken[b]]), ONCE, n_touched, work)
    n_touched = cover.win(z, at, ONCE, t, commit, n_touched, covers, work)
    if broken_items == size[z]:
        # z is exactly the union of the elements that covered it: no item becomes free, so nothing else changes.
        if commit:
            for b in range(n_broken - 1, -1, -1):
                end -= 1
                covers.slots[work.broken[b]] = covers.slots[end]
            covers.slots[end] = z
            covers.slots[base] = end - base
        elif n_broken == 2:
            covers.pair[t] = ((work.broken[0] - base) << HALF) | (work.broken[1] - base)
        return n_touched
    n_free, n_alive, n_kept = NONE, NONE, ONCE
    work.kept[0] = z
    for w in range(WORDS):
        work.free_mask[w] = EMPTY
    b = NONE
    for k in range(base + 1, end):
        s = np.int64(covers.slots[k])
        if b < n_broken and work.broken[b] == k:
            b += 1
            for j in range(start[s], start[s] + size[s]):
                if work.marked[items[j]] == 0:
                    work.free[n_free] = items[j]
                    n_free += 1
                    for w in range(WORDS):
                        work.free_mask[w] |= mask[items[j], w]
        elif rank[s] < rank[z]:
            work.kept[n_kept] = s
            n_kept += 1
        else:
            work.alive[n_alive] = s
            n_alive += 1
    # From z's own rank on: while z is on trial, the element that z would displace still has that rank.
    return cover.recover(t, at, np.int64(rank[z]), n_alive, n_free, n_kept, UNKNOWN, ONCE, commit, n_touched, state)


@inlined
def _replace_pair(t: int, z: int, n_touched: int, covers: Covers, work: Work) -> int:
    """Use `z` instead of the two elements that the trial has found; return the number of touched slots."""
    base = covers.start[t]
    last = base + covers.slots[base]
    first, second = base + (covers.pair[t] >> HALF), base + (covers.pair[t] & LOW)
    n_touched = cover.lose(np.int64(covers.slots[first]), ONCE, n_touched, work)
    n_touched = cover.lose(np.int64(covers.slots[second]), ONCE, n_touched, work)
    covers.slots[second] = covers.slots[last]
    covers.slots[first] = covers.slots[last - 1]
    covers.slots[last - 1] = z
    covers.slots[base] -= 1
    return cover.win(z, NONE, ONCE, t, COMMIT, n_touched, covers, work)


@inlined
def _gather_probes(z: int, pivot: int, elements: Elements, lists: Lists, vertical: Vertical, work: Work) -> int:
    """Put the bitmap rows of z's other common items into `probes`, rarest first; return their number."""
    probes, support = work.probes, lists.support
    n = NONE
    for j in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[j])
        if item == pivot or vertical.row[item] < 0:
            continue
        k = n
        while k > 0 and support[probes[k - 1]] > support[item]:
            probes[k] = probes[k - 1]
            k -= 1
        probes[k] = item
        n += 1
    for k in range(n):
        probes[k] = vertical.row[probes[k]]
    return n


@inner
def try_insert(z: int, vertical: Vertical, state: State) -> int:
    """Count what inserting `z` changes and put its uses into `hits`; return the number of touched slots.

    `elements` already holds `z` at its rank; `lists` does not.
    """
    elements, lists, covers, work = state
    n_touched = n_hits = NONE
    cover.mark(z, ONCE, elements, work)
    pivot = _cheapest_item(z, elements, lists, covers.usage)
    n_probes = _gather_probes(z, pivot, elements, lists, vertical, work)
    first = cover.first_at(lists.start, lists.slots, pivot, elements.rank, elements.rank[z])
    for k in range(first, lists.start[pivot + 1] + 1):
        s = pivot if k == lists.start[pivot + 1] else np.int64(lists.slots[k])
        for q in range(covers.tid_start[s], covers.tid_start[s] + covers.usage[s]):
            t = np.int64(covers.tids[q])
            # Most transactions here do not even contain z; checking a few bits avoids reading their covers.
            bit = np.uint64(t & 63)
            inside = BIT
            for p in range(n_probes):
                inside = (vertical.bitmaps[work.probes[p], t >> 6] >> bit) & BIT
                if inside == EMPTY:
                    break
            if inside == EMPTY:
                continue
            covers.pair[t] = 0
            after = _insert_into(t, z, TRIAL, n_touched, state)
            if after >= 0:
                n_touched = after
                covers.hits[n_hits] = t
                n_hits += 1
    cover.mark(z, NONE, elements, work)
    covers.n_hits[0] = n_hits
    return n_touched


@inner
def insert(z: int, stamp: int, state: State) -> int:
    """Carry out the last trial; return the number of touched slots."""
    elements, _, covers, work = state
    n_touched = NONE
    cover.mark(z, ONCE, elements, work)
    for k in range(covers.n_hits[0]):
        t = np.int64(covers.hits[k])
        n_before = cover.note_cover(t, covers, work)
        if covers.pair[t] > 0:
            # Searching the cover again would take longer than everything else.
            n_touched = _replace_pair(t, z, n_touched, covers, work)
        else:
            n_touched = _insert_into(t, z, COMMIT, n_touched, state)
        cover.update_pairs(t, n_before, covers, work)
        covers.changed[t] = stamp
    cover.mark(z, NONE, elements, work)
    cover.forget(z, n_touched, stamp, elements, covers, work)
    return n_touched
