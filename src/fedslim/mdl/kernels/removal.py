"""Removing an itemset Z from the covers, on trial or permanently.

Only the transactions that use Z change. Many of them have the same elements after Z, and the change depends only on
these: they form a group, and a trial does the work once for each group, from whatever databases its transactions are.
"""

from __future__ import annotations

import numpy as np

from fedslim._jit import inlined, inner
from fedslim.mdl.kernels import cover
from fedslim.mdl.kernels.arrays import (
    GROUP_PLACES,
    NO_ELEMENT,
    NO_GROUP,
    PLAIN,
    WORDS,
    Covers,
    Elements,
    Lists,
    State,
    Work,
)
from fedslim.mdl.kernels.cover import COMMIT, EMPTY, NONE, NOT, ONCE, TRIAL, UNKNOWN

FEW = 64  # up to this many transactions it is faster to search in each for elements that fit than to preselect them

PATIENCE = 256  # after this many transactions in nearly as many groups, grouping stops


@inlined
def _hash_later(t: int, z: int, elements: Elements, covers: Covers) -> np.uint64:
    """Return a hash of the set of elements in the cover of `t` that come after `z` (without `z`)."""
    h = EMPTY
    base = covers.start[t]
    for k in range(base + 1, base + 1 + covers.slots[base]):
        s = np.int64(covers.slots[k])
        if elements.rank[s] >= elements.rank[z] and s != z:
            x = np.uint64(s + 1) * np.uint64(0x9E3779B97F4A7C15)
            x ^= x >> np.uint64(29)
            x *= np.uint64(0xBF58476D1CE4E5B9)
            h ^= x ^ (x >> np.uint64(32))
    return h


@inlined
def _same_later(t: int, u: int, z: int, elements: Elements, covers: Covers) -> bool:
    """Return whether the covers of two transactions have the same elements after `z`."""
    surplus = NONE
    base = covers.start[u]
    for k in range(base + 1, base + 1 + covers.slots[base]):
        surplus += elements.rank[covers.slots[k]] >= elements.rank[z]
    base = covers.start[t]
    for k in range(base + 1, base + 1 + covers.slots[base]):
        s = np.int64(covers.slots[k])
        if elements.rank[s] < elements.rank[z]:
            continue
        surplus -= 1
        found = False
        other = np.int64(covers.start[u])
        for j in range(other + 1, other + 1 + covers.slots[other]):
            if covers.slots[j] == s:
                found = True
                break
        if not found:
            return False
    return surplus == 0


@inlined
def _group(
    t: int, z: int, n_groups: int, places: int, elements: Elements, covers: Covers, work: Work
) -> tuple[int, int]:
    """Return the place of the group of `t` and the number of groups; a new group has the count 0.

    (Insertions need no groups: z is nearly always a union of elements, and then there is no work to share.)
    """
    h = _hash_later(t, z, elements, covers)
    place = np.int64(h & np.uint64(places - 1))
    while work.group_tid[place] != NO_GROUP:
        if work.group_hash[place] == h and _same_later(t, np.int64(work.group_tid[place]), z, elements, covers):
            return place, n_groups
        place = (place + 1) & (places - 1)
    work.group_hash[place] = h
    work.group_tid[place] = t
    for p in range(work.group_count.shape[1]):
        work.group_count[place, p] = 0
    work.groups[n_groups] = place
    return place, n_groups + 1


@inner
def _sort_out(z: int, elements: Elements, lists: Lists, work: Work) -> int:
    """Preselect the elements that could replace `z`: those that come after it and share an item with it.

    Those within z go to `inside` and always fit. Every other one goes into the bucket of its rarest item outside z,
    and is checked only where that item is available. Return how many are inside.
    """
    rank, start, size, items = elements.rank, elements.start, elements.size, elements.items
    n_inside = NONE
    for i in range(start[z], start[z] + size[z]):
        item = np.int64(items[i])
        for j in range(lists.start[item + 1] - 1, lists.start[item] - 1, -1):
            s = np.int64(lists.slots[j])
            if rank[s] <= rank[z]:
                break
            first = key = NOT
            for q in range(start[s], start[s] + size[s]):
                other = np.int64(items[q])
                if work.marked[other] == 0:
                    if key < 0 or lists.support[other] < lists.support[key]:
                        key = other
                elif first < 0:
                    first = other
            if first != item:
                continue  # already seen in the list of its first item
            if key < 0:
                n_inside = cover.take_in(s, n_inside, rank, work.inside)
            else:
                work.chain[s] = work.bucket[key]
                work.bucket[key] = s
    return n_inside


@inner
def _clear_buckets(z: int, elements: Elements, lists: Lists, work: Work) -> None:
    for i in range(elements.start[z], elements.start[z] + elements.size[z]):
        item = np.int64(elements.items[i])
        for j in range(lists.start[item + 1] - 1, lists.start[item] - 1, -1):
            s = np.int64(lists.slots[j])
            if elements.rank[s] <= elements.rank[z]:
                break
            for q in range(elements.start[s], elements.start[s] + elements.size[s]):
                work.bucket[elements.items[q]] = NO_ELEMENT


@inlined
def _free_items(z: int, elements: Elements, work: Work) -> int:
    """Make the items of `z` the free ones; return their number."""
    for k in range(elements.size[z]):
        work.free[k] = elements.items[elements.start[z] + k]
    for w in range(WORDS):
        work.free_mask[w] = elements.mask[z, w]
    return np.int64(elements.size[z])


@inlined
def _remove_from(t: int, at: int, z: int, times: int, commit: bool, n_inside: int, n_touched: int, state: State) -> int:
    """Cover `t` without `z`, and count from `at` on; return the number of touched slots.

    `n_inside` is UNKNOWN without preselection.

    In a trial, return -1 and do nothing if only elements inside `z` can replace it: that is the same everywhere.
    """
    elements, _, covers, work = state
    rank, start, size, items = elements.rank, elements.start, elements.size, elements.items
    base = covers.start[t]
    n_kept = n_alive = NONE
    for k in range(base + 1, base + 1 + covers.slots[base]):
        s = np.int64(covers.slots[k])
        if rank[s] < rank[z]:
            work.kept[n_kept] = s
            n_kept += 1
        elif s != z:
            work.alive[n_alive] = s
            n_alive += 1
    n_free = _free_items(z, elements, work)
    n_fitting = n_inside
    if n_inside != UNKNOWN:
        for k in range(n_inside):
            work.fitting[k] = work.inside[k]
        cover.set_available(n_alive, elements.mask, work)
        for k in range(n_alive):
            for j in range(start[work.alive[k]], start[work.alive[k]] + size[work.alive[k]]):
                s = np.int64(work.bucket[items[j]])
                while s != NO_ELEMENT:
                    if cover.within_available(s, elements.mask, work):
                        n_fitting = cover.take_in(s, n_fitting, rank, work.fitting)
                    s = np.int64(work.chain[s])
        if n_fitting == n_inside and not commit:
            return NOT
    n_touched = cover.lose(at + z, times, n_touched, work)
    after = np.int64(rank[z]) + 1
    return cover.recover(t, at, after, n_alive, n_free, n_kept, n_fitting, times, commit, n_touched, state)


@inlined
def _to_count(place: int, covers: Covers, work: Work) -> tuple[int, int]:
    """Return where to count a group, and how often: at its only database, or once behind all of them."""
    parts, found = work.group_count.shape[1], NOT
    for p in range(parts):
        if work.group_count[place, p] > 0:
            if found >= 0:
                return parts * len(covers.usage), ONCE
            found = np.int64(p)
    if found < 0:
        return NOT, NONE
    return found * len(covers.usage), work.group_count[place, found]


@inlined
def _share_out(place: int, at: int, begin: int, end: int, covers: Covers, work: Work) -> int:
    """Count what a group changes, once in `touched` from `begin` on, as often as each database has its transactions."""
    parts, capacity, n_touched = work.group_count.shape[1], len(covers.usage), begin
    if at < parts * capacity or parts == 1:
        return end
    for k in range(begin, end):
        work.fitting[k - begin] = work.touched[k] - at
    for k in range(end - begin):
        s = np.int64(work.fitting[k])
        lost, won = work.lost[at + s], work.won[at + s]
        work.lost[at + s] = work.won[at + s] = 0
        for p in range(parts):
            times = work.group_count[place, p]
            if times > 0:
                n_touched = cover.touch(p * capacity + s, n_touched, work)
                work.lost[p * capacity + s] += times * lost
                work.won[p * capacity + s] += times * won
    return n_touched


@inner
def _remove_groups(z: int, n_groups: int, n_inside: int, n_touched: int, state: State) -> int:
    """Try each group; return the number of touched slots. Those where only elements inside `z` replace it are PLAIN."""
    covers, work = state.covers, state.work
    for k in range(n_groups):
        place = np.int64(work.groups[k])
        t = np.int64(work.group_tid[place])
        work.group_tid[place] = NO_GROUP
        at, times = _to_count(place, covers, work)
        after = _remove_from(t, at, z, times, TRIAL, n_inside, n_touched, state)
        if after >= 0:
            n_touched = _share_out(place, at, n_touched, after, covers, work)
            continue
        for p in range(work.group_count.shape[1]):
            work.group_count[PLAIN, p] += work.group_count[place, p]
    return n_touched


@inner
def _replace_plainly(z: int, n_inside: int, n_touched: int, state: State) -> int:
    """Cover `z` by the elements inside it, in all PLAIN transactions; return the number of touched slots."""
    elements, covers, work = state.elements, state.covers, state.work
    at, times = _to_count(np.int64(PLAIN), covers, work)
    if times == 0:
        return n_touched
    n_free = _free_items(z, elements, work)
    for k in range(n_inside):
        work.fitting[k] = work.inside[k]
    cover.set_available(NONE, elements.mask, work)
    begin = n_touched
    n_touched = cover.lose(at + z, times, n_touched, work)
    after = np.int64(elements.rank[z]) + 1
    n_touched = cover.recover(NOT, at, after, NONE, n_free, NONE, n_inside, times, TRIAL, n_touched, state)
    n_touched = _share_out(np.int64(PLAIN), at, begin, n_touched, covers, work)
    for p in range(work.group_count.shape[1]):
        work.group_count[PLAIN, p] = 0
    return n_touched


@inner
def try_remove(z: int, state: State) -> int:
    """Count what removing `z` changes; return the number of touched slots."""
    elements, lists, covers, work = state
    n_touched = NONE
    begin = covers.tid_start[z]
    if covers.usage[z] <= FEW:
        for q in range(begin, begin + covers.usage[z]):
            t = np.int64(covers.tids[q])
            n_touched = _remove_from(t, cover.counts_of(t, covers), z, ONCE, TRIAL, UNKNOWN, n_touched, state)
        return n_touched
    cover.mark(z, ONCE, elements, work)
    n_inside = _sort_out(z, elements, lists, work)
    n_groups = NONE
    # Few transactions need few places, and a small hash table stays in the cache.
    places = np.int64(GROUP_PLACES)
    while places > 64 and places >= 4 * covers.usage[z]:
        places >>= 1
    for q in range(begin, begin + covers.usage[z]):
        t = np.int64(covers.tids[q])
        if q - begin >= PATIENCE and n_groups > 15 * PATIENCE // 16 and n_groups <= PATIENCE:
            # Nearly every transaction is its own group, as with long covers: grouping does not pay.
            after = _remove_from(t, cover.counts_of(t, covers), z, ONCE, TRIAL, n_inside, n_touched, state)
            if after < 0:
                work.group_count[PLAIN, cover.part_of(t, covers)] += 1
            else:
                n_touched = after
            continue
        place, n_groups = _group(t, z, n_groups, places, elements, covers, work)
        work.group_count[place, cover.part_of(t, covers)] += 1
        if n_groups == places // 2:
            n_touched = _remove_groups(z, n_groups, n_inside, n_touched, state)
            n_groups = NONE
    n_touched = _remove_groups(z, n_groups, n_inside, n_touched, state)
    n_touched = _replace_plainly(z, n_inside, n_touched, state)
    _clear_buckets(z, elements, lists, work)
    cover.mark(z, NONE, elements, work)
    return n_touched


@inner
def remove(z: int, stamp: int, state: State) -> int:
    """Carry out the removal of `z`; return the number of touched slots."""
    elements, lists, covers, work = state
    few = covers.usage[z] <= FEW
    n_inside = UNKNOWN
    if not few:
        cover.mark(z, ONCE, elements, work)
        n_inside = _sort_out(z, elements, lists, work)
    n_touched = NONE
    for q in range(covers.tid_start[z], covers.tid_start[z] + covers.usage[z]):
        t = np.int64(covers.tids[q])
        n_before = cover.note_cover(t, covers, work)
        n_touched = _remove_from(t, NONE, z, ONCE, COMMIT, n_inside, n_touched, state)
        cover.update_pairs(t, n_before, covers, work)
        covers.changed[t] = stamp
    if not few:
        _clear_buckets(z, elements, lists, work)
        cover.mark(z, NONE, elements, work)
    cover.forget(z, n_touched, stamp, elements, covers, work)
    return n_touched
